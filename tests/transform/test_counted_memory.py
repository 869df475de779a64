"""``memory=`` counts each part: a budget without room for it is refused.

tests/transform/on_disk/test_memory_of_steps.py measures whole calls.
"""

import dgl
import pytest
import torch
from dgl import DGLError
from torch import nn
from transform.zoo import Function

from dgl_lc import lc_transform
from dgl_lc.transform import precompute_inputs

NODES, WIDTH = 2048, 512
#: Bytes of a tensor with the shape of the features.
WHOLE = NODES * WIDTH * 4


def graph(edges=4096):
    torch.manual_seed(0)
    return dgl.add_self_loop(dgl.rand_graph(NODES, edges))


def mean(g, h):
    return dgl.ops.copy_u_mean(g, h)


def back(g, h):
    return dgl.ops.copy_u_sum(dgl.reverse(g), h)


def one_filter(self, g, x):
    return mean(g, self.fc(x))


def two_filters(self, g, x):
    h = self.fc(x)
    return mean(g, h) + back(g, h)


def a_step_and_two_results(self, g, x):
    h = torch.relu(mean(g, self.fc(x)))
    return dgl.ops.copy_u_sum(g, h) + back(g, h)


def a_value_and_its_result(self, g, x):
    return mean(g, self.fc(torch.tanh(x)))


def values_one_after_the_other(self, g, x):
    functions = torch.tanh, torch.sin, torch.cos, torch.sigmoid
    return sum(mean(g, self.fc(function(x))) for function in functions)


def values_on_the_way(self, g, x):
    return mean(g, self.fc(torch.sin(torch.cos(x))))


def rows_as_they_are(self, g, x):
    return self.fc(torch.sin(torch.cos(x))) + mean(g, x[:, :4])


def on_the_graph(self, g, x):
    return dgl.ops.copy_u_sum(g, self.fc(x))


def on_a_derived_graph(self, g, x):
    return back(g, self.fc(x))


def transformed(body, g):
    model = Function(body, fc=nn.Linear(WIDTH, 4))
    x = torch.rand(NODES, WIDTH)
    return lc_transform(model, g, x), x


def least(lc, x, g, **options):
    """The least memory that is enough, in steps of 1/8 of the features."""
    for eighths in range(1, 200):
        memory = eighths * WHOLE // 8
        try:
            lc.precompute(g, x, memory=memory, progress=False, **options)
        except DGLError as error:
            if "memory" not in str(error):
                raise
        else:
            return eighths / 8
    raise AssertionError("no memory is enough")


#: What is held beside the work of the engine, and the options of the call.
PARTS = {
    two_filters: (1, {}),
    a_step_and_two_results: (2, {}),
    a_value_and_its_result: (1, {}),
    values_one_after_the_other: (4, {}),
    values_on_the_way: (2, {"nodes": [1, 2]}),
}


@pytest.mark.parametrize("body", PARTS, ids=lambda body: body.__name__)
def test_what_is_held_at_once_is_counted_and_no_more(body):
    held, options = PARTS[body]
    g = graph()
    alone = least(*transformed(one_filter, g), g, **options)
    found = least(*transformed(body, g), g, **options)
    # The engine can do with a little less, and both are whole eighths.
    assert held - 0.3 <= found - alone <= held + 1 / 8


def test_temporary_values_are_counted():
    g = graph()
    found = least(*transformed(rows_as_they_are, g), g, nodes=[1, 2])
    # The cosine, its sine, and as much again while that is computed.
    assert found >= 3


def test_a_derived_graph_is_counted():
    g = graph(edges=300_000)
    alone = least(*transformed(on_the_graph, g), g, nodes=[1])
    found = least(*transformed(on_a_derived_graph, g), g, nodes=[1])
    # Both ends of its edges.
    assert found - alone >= 16 * g.num_edges() / WHOLE


def test_the_engine_gets_what_is_left(monkeypatch):
    given = []
    plain = precompute_inputs.block_aggregate

    def spy(*args, **options):
        given.append(options["memory"])
        return plain(*args, **options)

    monkeypatch.setattr(precompute_inputs, "block_aggregate", spy)
    g = graph()
    lc, x = transformed(two_filters, g)
    lc.precompute(g, x, memory=10 * WHOLE, progress=False)
    first, second = given
    assert first <= 10 * WHOLE
    assert second <= first - WHOLE


def test_ids_made_of_a_mask_are_counted(monkeypatch):
    kept = []
    hold = precompute_inputs.MemoryCount.hold

    def spy(self, size, what):
        kept.append((size, what))
        hold(self, size, what)

    monkeypatch.setattr(precompute_inputs.MemoryCount, "hold", spy)
    g = graph()
    lc, x = transformed(two_filters, g)
    mask = torch.zeros(NODES, dtype=torch.bool)
    mask[:100] = True
    lc.precompute(g, x, nodes=mask, memory="1GiB", progress=False)
    assert (800, "ids of the nodes asked for") in kept
