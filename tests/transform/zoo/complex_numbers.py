"""Models that compute with complex numbers in each row."""

import torch
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused, transformed
from .propagation import normed


def _case(body):
    layers = {"fc": nn.Linear(IN, HID), "out": nn.Linear(HID, OUT)}
    return Case(Function(body, **layers))


@transformed("x", "S x", exact=False)
def parts_of_complex_numbers():
    def body(self, g, x):
        h = torch.view_as_complex(self.fc(x).view(-1, HID // 2, 2))
        return self.out(torch.cat([normed(g, h.real), h.imag], dim=1))

    return _case(body)


@transformed("S x", exact=True)
def complex_numbers_of_given_features():
    def body(self, g, x):
        weight = torch.complex(self.weight, 2 * self.weight)
        h = torch.complex(x, x) @ weight * (1 - 2j)
        return normed(g, h.conj().imag)

    return Case(Function(body, weight=nn.Parameter(torch.randn(IN, OUT))))


@transformed("S² x")
def magnitudes_and_phases():
    def body(self, g, x):
        h = normed(g, self.fc(x))
        h = torch.polar(torch.sigmoid(h), h)
        h = torch.complex(torch.relu(h.real), torch.relu(h.imag))
        return self.out(normed(g, h.abs()))

    return _case(body)


@transformed("S² x")
def fourier_transform_of_columns():
    def body(self, g, x):
        h = torch.fft.rfft(normed(g, self.fc(x)))
        h = torch.fft.irfft(h.conj() * 0.5, n=HID)
        return self.out(normed(g, torch.relu(h)))

    return _case(body)


@refused("fft_fft", "mixes nodes", "LC029")
def fourier_transform_over_nodes():
    def body(self, g, x):
        return self.out(normed(g, torch.fft.fft(self.fc(x), dim=0).real))

    return _case(body)


@refused("mul", "is made of complex numbers", "LC030")
def aggregated_complex_features():
    def body(self, g, x):
        rotated = torch.exp(1j * x) * 2j
        h = rotated @ self.fc.weight.T.to(rotated.dtype)
        return self.out(normed(g, h.real))

    return _case(body)
