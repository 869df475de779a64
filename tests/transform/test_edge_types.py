"""Constant filters for each type of edges."""

import pytest
import torch
from dgl import nn as dglnn
from transform.zoo import IN, OUT, Function, features, random_graph, randomised

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def linear_rgcn(count, sort=False, **options):
    """Two relational layers without anything that is not linear."""

    def body(self, g, x, types, norm):
        for conv in (self.a, self.b):
            x = conv(g, x, types, norm, presorted=sort)
        return x

    def layer(width):
        return dglnn.RelGraphConv(width, OUT, count, bias=False, **options)

    return randomised(Function(body, a=layer(IN), b=layer(OUT)))


def typed_edges(g, count):
    generator = torch.Generator().manual_seed(5)
    shape = (g.num_edges(),)
    types = torch.randint(0, count, shape, generator=generator)
    return types, torch.rand(*shape, 1, generator=generator)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"self_loop": False},
        {"regularizer": "basis", "num_bases": 2},
        {"regularizer": "bdd", "num_bases": 1},
    ],
)
def test_linear_relational_layers_are_exact(options):
    g, x = random_graph(), features()
    types, norm = typed_edges(g, 3)
    model = linear_rgcn(3, **options)
    lc = lc_transform(model, g, x, types, norm)
    assert lc.report.exact
    found = lc.module(*lc.precompute(g, x, types, norm))
    torch.testing.assert_close(found, model(g, x, types, norm))


def test_sorted_types_stay_sorted_in_probes():
    g, x = random_graph(), features()
    types, norm = typed_edges(g, 3)
    types = types.sort().values
    model = linear_rgcn(3, sort=True)
    lc = lc_transform(model, g, x, types, norm)
    found = lc.module(*lc.precompute(g, x, types, norm))
    torch.testing.assert_close(found, model(g, x, types, norm))


def test_a_type_without_edges_needs_no_filter():
    g, x = random_graph(), features()
    types, norm = typed_edges(g, 4)
    types = torch.where(types == 2, 0, types)
    model = linear_rgcn(4, self_loop=False)
    lc = lc_transform(model, g, x, types, norm)
    assert len(lc.inputs) == 9
    found = lc.module(*lc.precompute(g, x, types, norm))
    torch.testing.assert_close(found, model(g, x, types, norm))
    types[5] = 2
    with pytest.raises(LCError, match="any"):
        lc.precompute(g, x, types, norm)


def test_the_number_of_inputs_has_a_limit_that_can_be_raised():
    g, x = random_graph(), features()
    types, norm = typed_edges(g, 3)
    model = linear_rgcn(3, self_loop=False)
    with pytest.raises(LCError) as caught:
        lc_transform(model, g, x, types, norm, max_inputs=8)
    assert caught.value.code == "LC033"
    assert "would be 9" in caught.value.reason
    assert "max_inputs" in caught.value.advice
    lc = lc_transform(model, g, x, types, norm, max_inputs=9)
    assert len(lc.inputs) == 9


def test_counting_inputs_stops_early():
    g, x = random_graph(), features()
    types = torch.arange(g.num_edges()) % 40

    def body(self, g, x, types):
        for conv in self.convs:
            x = conv(g, x, types)
        return x

    widths = [(IN, OUT), (OUT, OUT), (OUT, OUT)]
    convs = torch.nn.ModuleList(
        dglnn.RelGraphConv(a, b, 40, self_loop=False) for a, b in widths
    )
    with pytest.raises(LCError, match="would be more than"):
        lc_transform(Function(body, convs=convs), g, x, types)
