"""Torch functions that a tracer could record wrongly."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transform.zoo import (
    HID,
    OUT,
    features,
    model_of,
    random_graph,
    transform_body,
    weighted_graph,
)

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def test_gradients_stop_where_the_model_stops_them():
    def body(self, g, x):
        with torch.no_grad():
            h = self.fc(x)
        return self.conv(g, h)

    model = model_of(body)
    g, x = random_graph(), features()
    lc = lc_transform(model, g, x)
    lc.module(*lc.precompute(g, x)).sum().backward()
    assert model.fc.weight.grad is None
    assert model.conv.weight.grad is not None


def test_squeeze_of_a_single_row():
    def body(self, g, x):
        return self.conv(g, F.relu(self.fc(x)).unsqueeze(1).squeeze())

    lc = transform_body(body)
    inputs = lc.precompute(random_graph(), features())
    one = lc.module(*lc.rows(inputs, torch.tensor([3])))
    assert one.shape == (1, OUT)


def test_dropout_does_not_change_its_argument():
    """In evaluation dropout gives back the tensor it was given."""

    def body(self, g, x):
        h = self.fc(x)
        return self.conv(g, h + 2 * self.drop(h))

    model = model_of(body, drop=nn.Dropout(0.5))
    g, x = random_graph(), features()
    lc = lc_transform(model, g, x)
    calls = [n for n in lc.module.graph.nodes if n.target == "drop"]
    assert len(calls) == 1
    (rows,) = calls[0].args
    assert len(rows.users) == 2


def test_a_flag_that_is_not_the_training_flag():
    def body(self, g, x):
        h = F.dropout(self.fc(x), 0.5, training=not self.training)
        return self.conv(g, h)

    with pytest.raises(LCError):
        transform_body(body)


def test_state_that_forward_changes_is_refused():
    def body(self, g, x):
        h = self.fc(x)
        self.mean.mul_(0.9).add_(h.detach().mean(0))
        return self.conv(g, h - self.mean)

    model = model_of(body)
    model.register_buffer("mean", torch.zeros(HID))
    with pytest.raises(LCError, match="in place"):
        lc_transform(model, random_graph(), features())


def test_parameters_swapped_for_a_call():
    def body(self, g, x):
        doubled = {k: 2 * p for k, p in self.fc.named_parameters()}
        h = torch.func.functional_call(self.fc, doubled, (x,))
        return dgl.ops.u_mul_e_sum(g, F.relu(h), g.edata["w"])

    model = model_of(body)
    g, x = weighted_graph(), features()
    try:
        lc = lc_transform(model, g, x)
    except LCError:
        return
    bare = lc.module(*(torch.zeros_like(rows) for rows in lc.precompute(g, x)))
    twice = F.relu(2 * model.fc.bias).expand_as(bare)
    torch.testing.assert_close(bare, twice)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, d):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return d * (s + x * s * (1 - s))


def test_a_gradient_of_ones_own():
    with pytest.raises(LCError, match="custom autograd function"):
        transform_body(lambda self, g, x: self.conv(g, Swish.apply(self.fc(x))))


def test_hooks_on_tensors():
    def body(self, g, x):
        h = self.fc(x)
        if h.requires_grad:
            h.register_hook(lambda d: 0 * d)
        return self.conv(g, h)

    with pytest.raises(LCError, match="register_hook"):
        transform_body(body)


def test_the_real_part_has_a_gradient():
    lc = transform_body(lambda self, g, x: self.conv(g, self.fc(x).real))
    lc.module(*lc.precompute(random_graph(), features())).sum().backward()
    assert lc.module.fc.weight.grad.abs().sum() > 0


def test_dropout_by_position():
    lc = transform_body(
        lambda self, g, x: self.conv(
            g, torch.dropout(self.fc(x), 0.5, self.training)
        )
    )
    inputs = lc.precompute(random_graph(), features())
    lc.module.train()
    assert not torch.equal(lc.module(*inputs), lc.module(*inputs))
    lc.module.eval()
    assert torch.equal(lc.module(*inputs), lc.module(*inputs))


@pytest.mark.parametrize("cut", [
    lambda h: torch.cat([F.relu(part) for part in h.split(1000)]),
    lambda h: torch.cat(torch.chunk(h, 1)), lambda h: h[:1000],
    lambda h: h[0:, :2], lambda h: h.narrow(0, 0, 41),
])  # fmt: skip
def test_pieces_of_the_nodes(cut):
    g = dgl.add_self_loop(random_graph())
    for body in (
        lambda self, g, x: cut(self.conv(g, self.fc(x))),
        lambda self, g, x: self.conv(g, self.fc(cut(x))),
    ):
        with pytest.raises(LCError, match="takes some of the rows"):
            lc_transform(model_of(body), g, features())


def test_pieces_of_the_columns():
    transform_body(
        lambda self, g, x: torch.cat(
            [self.conv(g, self.fc(x))[:, :2], *self.fc(x).split(2, dim=1)],
            dim=1,
        )
    )


def test_a_state_carried_from_layer_to_layer():
    def body(self, g, x):
        x, state = self.fc(x), None
        for _ in range(2):
            h = torch.tanh(dgl.ops.copy_u_sum(g, x)).unsqueeze(0)
            x, state = self.lstm(h, state)
            x = x[0]
        return x

    assert len(transform_body(body, lstm=nn.LSTM(HID, HID)).inputs) == 2
