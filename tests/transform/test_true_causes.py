"""The causes that authors of models are told, and the lines."""

import dgl
import pytest
import torch
from torch import nn

from dgl_lc import lc_explain


def problems(forward, **parts):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 4)
            self.register_buffer("running", torch.zeros(4))
            for name, part in parts.items():
                setattr(self, name, part)

    Model.forward = forward
    g = dgl.add_self_loop(dgl.rand_graph(60, 240))
    return lc_explain(Model(), g, torch.randn(60, 8)).problems


def segments(self, g, x):
    rows = self.fc(x)[g.edges()[0]]
    return dgl.ops.segment_reduce(g.in_degrees(), rows, "sum")


def own_generator(self, g, x):
    noise = torch.randn(
        x.shape[0], 4, generator=torch.Generator().manual_seed(0)
    )
    return dgl.ops.copy_u_mean(g, self.fc(x) + noise)


def written_buffer(self, g, x):
    h = dgl.ops.copy_u_mean(g, self.fc(x))
    self.running.mul_(0.9)
    return h - self.running


def replaced_buffer(self, g, x):
    h = dgl.ops.copy_u_mean(g, self.fc(x))
    self.running = 0.9 * self.running
    return h - self.running


def reversible(self, g, x):
    return self.layers(g, x)


@pytest.mark.parametrize(
    ("forward", "code", "words"),
    [
        (segments, "LC030", "lengths of segments"),
        (own_generator, "LC011", "draws random numbers"),
        (written_buffer, "LC023", "the buffer running"),
        (replaced_buffer, "LC023", "is another tensor after forward"),
        (reversible, "LC025", "a gradient of its own"),
    ],
)
def test_only_the_true_cause_is_named(forward, code, words):
    layers = dgl.nn.GroupRevRes(dgl.nn.GraphConv(4, 4), 2)
    (found,) = problems(forward, layers=layers)
    assert found.code == code
    assert words in found.reason
    assert "object at" not in found.reason


def test_attention_is_named_at_the_line_of_its_softmax():
    def forward(self, g, x):
        h = self.fc(x)
        score = dgl.ops.u_dot_v(g, h, h)
        weight = dgl.ops.edge_softmax(g, score)
        return dgl.ops.u_mul_e_sum(g, h, weight)

    (found,) = problems(forward)
    assert found.code == "LC004"
    assert found.text == "weight = dgl.ops.edge_softmax(g, score)"


def test_running_statistics_of_torch_may_change():
    def forward(self, g, x):
        return self.norm(dgl.ops.copy_u_mean(g, self.fc(x)))

    assert not problems(forward, norm=nn.BatchNorm1d(4))
