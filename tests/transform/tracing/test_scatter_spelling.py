"""Sums and means of messages by an index, in all spellings."""

import dgl
import pytest
import torch
from torch import nn
from transform.zoo import IN, OUT, Function, features

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def wide(v, h):
    return v[:, None].expand(-1, h.shape[1])


def reduced(how, name="scatter_reduce", start=lambda h: h, **options):
    def body(h, u, v):
        index = wide(v, h) if name.startswith("scatter") else v
        return getattr(start(h), name)(0, index, h[u], how, **options)

    return body


STYLES = {
    "index_add": lambda h, u, v: h.index_add(0, v, h[u]),
    "index_add_": lambda h, u, v: h.clone().index_add_(0, v, h[u]),
    "index_add by names": lambda h, u, v: torch.index_add(
        input=h, dim=-2, index=v, source=h[u]
    ),
    "alpha": lambda h, u, v: h.index_add(0, v, h[u], alpha=-0.5),
    "alpha to zeros": lambda h, u, v: torch.zeros_like(h).index_add(
        0, v, h[u], alpha=3
    ),
    "scatter_add": lambda h, u, v: h.scatter_add(0, wide(v, h), h[u]),
    "scatter_add_": lambda h, u, v: h.clone().scatter_add_(
        0, index=wide(v, h), src=h[u]
    ),
    "into a view": lambda h, u, v: _into_a_view(h, u, v),
    "index_put": lambda h, u, v: h.index_put((v,), h[u], accumulate=True),
    "index_put_": lambda h, u, v: torch.zeros_like(h).index_put_(
        [v], h[u], True
    ),
    "sum": reduced("sum"),
    "sum of others": reduced("sum", include_self=False),
    "mean": reduced("mean"),
    "mean of others": reduced("mean", include_self=False),
    "mean with zeros": reduced("mean", start=torch.zeros_like),
    "mean of others with zeros": reduced(
        "mean", start=torch.zeros_like, include_self=False
    ),
    "index_reduce": reduced("mean", "index_reduce"),
    "index_reduce of others": reduced(
        "mean", "index_reduce", include_self=False
    ),
    "index_reduce_": reduced(
        "mean", "index_reduce_", torch.clone, include_self=False
    ),
}


def _into_a_view(h, u, v):
    found = torch.cat([h, h], dim=1)
    found[:, :OUT].index_add_(0, v, h[u])
    return found[:, :OUT]


def model_of(style):
    torch.manual_seed(0)

    def body(self, g, x):
        return style(style(self.fc(x), *g.edges()), *g.edges())

    return Function(body, fc=nn.Linear(IN, OUT, bias=False))


@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize("all_receive", [True, False])
def test_a_style_is_a_filter(name, all_receive):
    g, x = dgl.rand_graph(60, 150), features()
    assert (g.in_degrees() == 0).any()
    if all_receive:
        g = dgl.add_self_loop(g)
    model = model_of(STYLES[name])
    lc = lc_transform(model, g, x)
    assert lc.report.exact
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))


def test_a_self_and_a_sum_are_the_layer_of_gin():
    g, x = dgl.rand_graph(60, 150), features()
    lc = lc_transform(model_of(STYLES["index_add"]), g, x)
    assert tuple(map(str, lc.inputs)) == ("x", "S x", "S² x")


@pytest.mark.parametrize(
    ("style", "code"),
    [
        (lambda h, u, v: h.index_put((v,), h[u]), "LC030"),
        (reduced("amax"), "LC006"),
        (reduced("prod", "index_reduce"), "LC006"),
        (lambda h, u, v: h.index_add(0, v, h[u] * h[v] * h[u]), "LC005"),
    ],
)
def test_what_is_no_sum_is_refused_by_name(style, code):
    g, x = dgl.rand_graph(60, 150), features()
    with pytest.raises(LCError) as caught:
        lc_transform(model_of(style), g, x)
    assert caught.value.code == code
    assert "index_add" in caught.value.advice
    assert "dgl.ops" in caught.value.advice
