"""Complex numbers in each row are taken as pairs of real ones."""

import pytest
import torch
from torch import nn
from transform.zoo import IN, OUT, Function, random_graph
from transform.zoo.propagation import mean_over_edges

from dgl_lc import lc_transform
from dgl_lc.training import load_model, save_model
from dgl_lc.transform.linearity import LINEAR, NONLINEAR, linearity


@pytest.mark.filterwarnings("ignore:Casting complex values:UserWarning")
@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (torch.conj, LINEAR),
        (lambda z: z.imag, LINEAR),
        (lambda z: z * (2 - 1j), LINEAR),
        (lambda z: torch.complex(z.real, z.imag.relu()), NONLINEAR),
        (torch.abs, NONLINEAR),
    ],
)
def test_both_parts_are_tested_for_being_linear(function, kind):
    example = torch.zeros(11, 3, dtype=torch.complex128)

    def outputs(rows, change):
        return [function(change(example[rows]))]

    assert linearity(outputs, torch.Generator().manual_seed(0)) == kind


def rotated(self, g, x):
    h = torch.view_as_complex(self.fc(x).view(len(x), OUT, 2))
    h = torch.complex(torch.relu(h.real), torch.relu(h.imag)) @ self.turn
    return torch.complex(mean_over_edges(g, h.real), mean_over_edges(g, h.imag))


def test_complex_outputs_have_a_drift_and_are_saved(tmp_path):
    torch.manual_seed(0)
    g, x = random_graph(), torch.randn(60, IN)
    turn = nn.Parameter(torch.randn(OUT, OUT, dtype=torch.complex64))
    model = Function(rotated, fc=nn.Linear(IN, 2 * OUT), turn=turn).eval()
    lc = lc_transform(model, g, x)
    inputs = lc.precompute(g, x)
    found, expected = lc.module(*inputs), model(g, x)
    apart = (found - expected).norm() / expected.norm()
    assert 0.01 < lc.report.drift.relative == pytest.approx(apart.item())
    save_model(lc.module, tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")(*inputs)
    torch.testing.assert_close(again, found)


def test_complex_features_are_taken_apart():
    torch.manual_seed(0)
    g, x = random_graph(), torch.randn(60, IN, dtype=torch.complex64)

    def body(self, g, x):
        return self.fc(mean_over_edges(g, x.real)) + self.fc(x.imag)

    model = Function(body, fc=nn.Linear(IN, OUT))
    lc = lc_transform(model, g, x)
    assert lc.report.exact
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))
