"""Writes into tensors and their views, recorded as functions."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transform.zoo import HID, IN, OUT, Function, features, transform_body

from dgl_lc import LCError, lc_transform
from dgl_lc.transform.tracing import call_spelling, views

pytestmark = pytest.mark.usefixtures("double_precision")


def sparse_graph():
    """A graph with nodes that have no edges in, and some with many."""
    generator = torch.Generator().manual_seed(4)
    u = torch.randint(0, 60, (90,), generator=generator)
    v = torch.randint(0, 40, (90,), generator=generator)
    return dgl.graph((u, v), num_nodes=60)


def model_with(change):
    """A linear model whose filter is scaled by changed in-degrees."""

    def body(self, g, x):
        n = change(g.in_degrees().to(x)).view(-1, 1)
        return self.out(dgl.ops.copy_u_sum(g, self.fc(x) * n) * n)

    torch.manual_seed(0)
    return Function(
        body,
        fc=nn.Linear(IN, HID, bias=False),
        out=nn.Linear(HID, OUT, bias=False),
    ).double()


def check_same(change):
    """The LC version is the model, on a graph that was not traced."""
    model, g, x = model_with(change), sparse_graph(), features()
    lc = lc_transform(model, g, x)
    assert lc.report.exact
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))
    return lc


def _isinf(n):
    n = n**-0.5
    n[torch.isinf(n)] = 0
    return n


def _comparison(n):
    n[n == 0] = 1
    return n


def _other_mask(n):
    norm = n.pow(-0.5)
    norm[n == 0] = 0
    return norm


def _through_a_flat_view(n):
    n = n.unsqueeze(1)
    n.view(-1)[n.view(-1) > 2] = 7
    return n


def _a_view_before_the_write(n):
    before = n.unsqueeze(1)
    n[n > 2] = 7
    return n + 3 * before.squeeze(1)


def _a_copy_before_the_write(n):
    before = n.clone()
    n[n > 2] = 7
    return n + 3 * before


def _two_views(n):
    one, other = n.view(-1, 1), n.view(1, -1)
    one.mul_(2)
    other[:, other[0] > 2] = 5
    return n + one[:, 0]


def _a_view_of_a_view(n):
    wide = torch.stack([n, n + 1, n + 2], dim=1)
    wide.t()[1:][1].mul_(3)
    return wide.sum(1)


def _an_alias(n):
    same = n.view(n.shape)
    same[same > 1] = 1
    return n + 1


def _detached(n):
    n.detach()[n > 1] = 1
    n.data.add_(1)
    return n


def _turned(n):
    n = n.unsqueeze(1)
    before = n[:, 0]
    n.t_()
    n[0, before > 2] = 9
    return n[0] + before


def _swapped_in_place(n):
    wide = torch.stack([n, n + 1], dim=1)
    wide.transpose_(0, 1)
    wide[1].zero_()
    wide.unsqueeze_(0).squeeze_()
    return wide.sum(0)


def _other_type(n):
    half = n.float()
    half.mul_(torch.full_like(n, 1 / 3))
    return half.to(n)


@pytest.mark.parametrize(
    "change",
    [
        _isinf, _comparison, _other_mask, _through_a_flat_view,
        _a_view_before_the_write, _a_copy_before_the_write, _two_views,
        _a_view_of_a_view, _an_alias, _detached, _turned, _swapped_in_place,
        _other_type,
        lambda n: n.clamp_(min=1).pow_(-0.5),
        lambda n: n.masked_fill_(n == 0, 2),
        lambda n: n.reciprocal_().nan_to_num_(posinf=0),
        lambda n: n.copy_(n.clamp(max=2)),
        lambda n: n.clone().zero_().add_(n),
        lambda n: n.clone().fill_(3) * n,
    ],
)  # fmt: skip
def test_writes_into_static_values(change):
    check_same(change)


def test_writes_into_weights_of_edges():
    def body(self, g, x):
        w = g.edata["w"] * 2
        w[w < 0.5] = 0
        w.view(-1, 1)[:, 0].clamp_(max=1)
        return self.out(dgl.ops.u_mul_e_sum(g, self.fc(x), w))

    model = model_with(lambda n: n)
    model.body = body
    g, x = sparse_graph(), features()
    g.edata["w"] = torch.linspace(0, 1, g.num_edges()).double()
    lc = lc_transform(model, g, x)
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))


def _one_column(h):
    h[:, 0] = 0
    return h


def _columns_of_a_view(h):
    h.view(-1, 2, HID // 2)[:, 1].mul_(2)
    return h


def _from_other_columns(h):
    h[:, :2] = h[:, 2:4]
    return h


def _by_rows_of_the_transpose(h):
    h.t()[0] = 1
    return h


@pytest.mark.parametrize(
    "change",
    [_one_column, _columns_of_a_view, _from_other_columns,
     _by_rows_of_the_transpose],
)  # fmt: skip
def test_writes_into_columns_of_learned_values(change):
    """All after the aggregation, so that the LC version is the model."""

    def body(self, g, x):
        return self.out(change(dgl.ops.copy_u_mean(g, self.fc(x))))

    model, g, x = model_with(lambda n: n), sparse_graph(), features()
    model.body = body
    lc = lc_transform(model, g, x)
    assert lc.report.exact
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))


def _first_rows(h):
    h[:10] = 0
    return h


def _one_number(h):
    h[0, 0] = 0
    return h


def _unseen_by_gradients(h):
    h.data[:, 0] = 0
    return h


def _without_grad(h):
    with torch.no_grad():
        h[:, 0] = 0
    return h


def _result_of_dropout(h):
    """In evaluation this writes into h as well, in training it does not."""
    F.dropout(h, 0.5, False).mul_(2)
    return h


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_first_rows, "a write into some of the rows"),
        (_one_number, "a write into some of the rows"),
        (_unseen_by_gradients, "hides the change from gradients"),
        (_without_grad, "hides the change from gradients"),
        (_result_of_dropout, "through another view"),
    ],
)
def test_writes_that_are_refused(change, words):
    with pytest.raises(LCError, match=words):
        transform_body(
            lambda self, g, x: self.conv(g, change(F.relu(self.fc(x))))
        )


@pytest.mark.parametrize("late", [False, True])
def test_a_parameter_that_forward_changes(late):
    def body(self, g, x):
        if late:
            h = self.fc(x)
        self.fc.weight.data.clamp_(min=0)
        return self.conv(g, h if late else self.fc(x))

    with pytest.raises(LCError, match=r"change.* a parameter|the parameter"):
        transform_body(body)


def test_gradients_stop_at_detach_in_place():
    lc = transform_body(
        lambda self, g, x: self.conv(g, F.relu(self.fc(x)).detach_())
    )
    lc.module(*lc.precompute(sparse_graph(), features())).sum().backward()
    assert lc.module.fc.weight.grad is None


# Rules that are wrong are noticed


def test_a_write_that_is_forgotten_is_noticed(monkeypatch):
    monkeypatch.setattr(call_spelling, "write_items", lambda n, *_: n.clone())
    with pytest.raises(LCError, match="does not compute what the model does"):
        check_same(_a_copy_before_the_write)


def test_a_view_that_is_not_read_again_is_noticed(monkeypatch):
    monkeypatch.setattr(views.Views, "write", lambda *_: None)
    with pytest.raises(LCError, match="through another view"):
        check_same(_two_views)


def test_a_write_through_the_wrong_view_is_noticed(monkeypatch):
    monkeypatch.setattr(views, "write_view", lambda n, items, *_: n.clone())
    with pytest.raises(LCError, match="does not compute what the model does"):
        check_same(_a_view_of_a_view)
