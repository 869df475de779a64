"""Words are products of matrices, applied from the right to the left."""

import dgl
import pytest
import torch
from dgl import nn as dglnn
from torch import nn
from transform.zoo import IN, OUT, Function, features, random_graph

from dgl_lc import lc_transform
from dgl_lc.transform.apply_words import apply_word
from dgl_lc.transform.evaluate import Evaluator
from dgl_lc.transform.tracing.model_call import read_call

pytestmark = pytest.mark.usefixtures("double_precision")


def dense(g):
    """Return the matrix that sums over in-neighbours, and both degrees."""
    u, v = g.edges()
    matrix = torch.zeros(g.num_nodes(), g.num_nodes(), dtype=torch.float64)
    matrix.index_put_((v, u), torch.ones(len(u)).double(), accumulate=True)
    return matrix, matrix.sum(1).clamp(min=1), matrix.sum(0).clamp(min=1)


def _both(self, g, x):
    return self.conv(g, x)


def _left_then_sum(self, g, x):
    return dgl.ops.copy_u_sum(g, self.left(g, x))


def _sum_then_left(self, g, x):
    return self.left(g, dgl.ops.copy_u_sum(g, x))


def _personalised(self, g, x):
    return 0.9 * self.left(g, dgl.ops.copy_u_mean(g, x)) + 0.1 * x


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize(
    "layer", [_both, _left_then_sum, _sum_then_left, _personalised]
)
def test_a_word_is_the_product_of_its_letters(layer, hops):
    def body(self, g, x):
        for _ in range(hops):
            x = layer(self, g, x)
        return self.out(x)

    options = {"weight": False, "bias": False, "allow_zero_in_degree": True}
    model = Function(
        body, conv=dglnn.GraphConv(IN, IN, **options),
        left=dglnn.GraphConv(IN, IN, norm="left", **options),
        out=nn.Linear(IN, OUT, bias=False),
    )  # fmt: skip
    g, x = random_graph(), features()
    a, into, out = dense(g)
    filters = {
        _both: into.rsqrt()[:, None] * a * out.rsqrt(),
        _left_then_sum: a @ (a / out),
        _sum_then_left: (a / out) @ a,
        _personalised: 0.9 * (a / out) @ (a / into[:, None])
        + 0.1 * torch.eye(len(a)),
    }
    lc = lc_transform(model, g, x)
    (entry,) = lc.inputs
    found = apply_word(entry.word, x, Evaluator(read_call(model, (g, x), {})))
    expected = torch.linalg.matrix_power(filters[layer], hops) @ x
    torch.testing.assert_close(found, expected)
