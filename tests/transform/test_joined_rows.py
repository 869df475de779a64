"""Tensors with several rows for each node, taken apart and joined again."""

import dgl
import pytest
import torch
from torch import nn
from transform.zoo import (
    HID,
    IN,
    OUT,
    Function,
    features,
    permutation_graph,
    random_graph,
    randomised,
)

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def both(g, h):
    return [dgl.ops.copy_u_sum(g, h), dgl.ops.copy_u_mean(g, h)]


def rows(g, h):
    return torch.cat(both(g, h))


def halves(h, n):
    return torch.tanh(h[:n]) - h[n:]


def difference(parts):
    first, second = parts
    return torch.tanh(first) - second


SPELLINGS = {
    "columns": lambda s, g, h: torch.cat(both(g, h), 1)
    .view(h.shape[0], 2, -1).sum(1),
    "columns, -1": lambda s, g, h: torch.hstack(both(g, h))
    .view(-1, 2, HID).relu().mean(1),
    "unflatten": lambda s, g, h: torch.cat(both(g, h), 1)
    .unflatten(1, (2, HID)).relu().amax(1),
    "rows": lambda s, g, h: rows(g, h).view(2, h.shape[0], HID).sum(0),
    "rows, -1": lambda s, g, h: rows(g, h).view(2, -1, HID).tanh().mean(0),
    "one of them": lambda s, g, h: rows(g, h).view(2, h.size(0), -1)[1].relu(),
    "permuted": lambda s, g, h: s.both(
        rows(g, h).reshape(2, g.num_nodes(), -1).permute(1, 0, 2).flatten(1)
    ),
    "a layer": lambda s, g, h: s.fc(rows(g, h)).relu()
    .view(2, h.shape[0], -1).sum(0),
    "several": lambda s, g, h: (s.fc(rows(g, h)).relu() + rows(g, h))
    .view(2, h.shape[0], -1).sum(0),
    "chunks": lambda s, g, h: torch.stack(
        s.fc(torch.vstack(both(g, h))).chunk(2)
    ).amax(0),
    "one after the other": lambda s, g, h: difference(
        s.fc(rows(g, h)).chunk(2)
    ),
    "split": lambda s, g, h: sum(rows(g, h).relu().split(h.shape[0])),
    "slices": lambda s, g, h: halves(s.fc(rows(g, h)), h.shape[0]),
    "stacked": lambda s, g, h: s.fc(torch.stack(both(g, h)).view(-1, HID))
    .relu().view(2, -1, HID).sum(0),
    "inner": lambda s, g, h: s.fc(torch.stack(both(g, h), 1).view(-1, HID))
    .relu().view(-1, 2, HID).sum(1),
    "softmax": lambda s, g, h: torch.stack(both(g, h), 1).flatten(0, 1)
    .softmax(1).view(h.shape[0], -1)[:, :HID],
    "heads": lambda s, g, h: s.head(both(g, h)[0].view(h.shape[0] * 2, -1))
    .tanh().reshape(h.shape[0], -1),
    "repeated": lambda s, g, h: s.fc(both(g, h)[1].repeat(2, 1)).relu()
    .view(2, h.shape[0], -1).mean(0),
    "dropout": lambda s, g, h: nn.functional.dropout(
        rows(g, h), 0.5, s.training
    ).view(2, h.shape[0], -1).mean(0),
}  # fmt: skip


def model_of(apply):
    def body(self, g, x):
        h = torch.relu(self.a(x))
        return self.out(dgl.ops.copy_u_mean(g, apply(self, g, h).tanh()))

    return randomised(
        Function(
            body, a=nn.Linear(IN, HID), fc=nn.Linear(HID, HID),
            head=nn.Linear(HID // 2, HID // 2), both=nn.Linear(2 * HID, HID),
            out=nn.Linear(HID, OUT),
        )
    ).eval()  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_joined_rows_are_taken(name):
    model, x = model_of(SPELLINGS[name]), features()
    lc = lc_transform(model, random_graph(), x)
    assert len(lc.inputs) <= 2
    assert "equal on a permutation graph" in lc.report.checked
    ring = permutation_graph()
    inputs = lc.precompute(ring, x)
    expected = model(ring, x)
    torch.testing.assert_close(lc.module(*inputs), expected)
    ids = torch.tensor([8, 1, 8])
    part = lc.module(*lc.rows(inputs, ids))
    torch.testing.assert_close(part, expected[ids])


@pytest.mark.parametrize(
    "apply",
    [
        # Statistics would be those of one part after the other.
        lambda s, g, h: nn.functional.batch_norm(
            rows(g, h), torch.zeros(HID), torch.ones(HID), training=s.training
        ).view(2, h.shape[0], -1).sum(0),
        # Rows of one node are mixed with those of others.
        lambda s, g, h: rows(g, h).view(h.shape[0], 2, -1).sum(1),
        lambda s, g, h: rows(g, h).cumsum(0).view(2, h.shape[0], -1).sum(0),
        lambda s, g, h: rows(g, h).flip(0).view(2, h.shape[0], -1).sum(0),
        lambda s, g, h: rows(g, h).softmax(0).view(2, h.shape[0], -1).sum(0),
    ],
)  # fmt: skip
def test_joined_rows_that_are_mixed_are_refused(apply):
    with pytest.raises(LCError):
        lc_transform(model_of(apply), random_graph(), features())
