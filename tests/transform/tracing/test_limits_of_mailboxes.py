"""Reduce functions with a limit on the number of messages are refused.

On small graphs they are sums: a limit of 100 shows at a hub alone.
"""

import dgl
import dgl.function as fn
import pytest
import torch
from torch import nn

from dgl_lc import LCError, lc_transform


class Reducing(nn.Module):
    def __init__(self, reduce):
        super().__init__()
        self.fc, self.reduce = nn.Linear(8, 3, bias=False), reduce

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.fc(x)
            g.update_all(
                fn.copy_u("h", "m"),
                lambda nodes: {"h": self.reduce(nodes.mailbox["m"])},
            )
            return g.ndata["h"]


def first_messages(mail):
    total = 0
    for number in range(min(100, mail.shape[1])):
        total = total + mail[:, number]
    return total


LIMITS = {
    "max": lambda mail: mail.sum(1) / max(100, mail.shape[1]),
    "min": lambda mail: mail.sum(1) / min(100, mail.shape[1]),
    "slice": lambda mail: mail[:, :100].sum(1),
    "slice, then relu": lambda mail: torch.relu(mail[:, :100]).sum(1),
    "loop": first_messages,
    "branch": lambda m: m.sum(1) if m.shape[1] < 100 else m.mean(1),
    "chunk": lambda mail: mail.split(1500, dim=1)[0].sum(1),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_on_messages_is_refused(name):
    g = dgl.add_self_loop(dgl.rand_graph(60, 240))
    with pytest.raises(LCError, match="LC006"):
        lc_transform(Reducing(LIMITS[name]), g, torch.randn(60, 8))


def test_a_limit_between_two_thousand_and_the_largest_degree_is_refused():
    nodes = torch.arange(2600)
    g = dgl.add_self_loop(dgl.graph((nodes, torch.zeros_like(nodes))))
    model = Reducing(lambda mail: mail.sum(1) / max(2400, mail.shape[1]))
    with pytest.raises(LCError, match="LC006"):
        lc_transform(model, g, torch.randn(2600, 8))


def test_wide_messages_are_tested_on_fewer():
    g = dgl.add_self_loop(dgl.rand_graph(60, 240))

    class Wide(Reducing):
        def forward(self, g, x):
            return self.fc2(super().forward(g, x))

    model = Wide(lambda mail: mail.sum(1) / mail.shape[1])
    model.fc, model.fc2 = nn.Linear(8, 3000), nn.Linear(3000, 3)
    lc = lc_transform(model, g, torch.randn(60, 8))
    assert str(lc.inputs[0]) == "S x"
