"""Precomputing inputs: memory, storage, formats."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn
from transform.zoo import (
    HID,
    IN,
    OUT,
    Layers,
    features,
    gcn,
    looped_graph,
    model_of,
    random_graph,
)

from dgl_lc import lc_transform
from dgl_lc.precompute import open_store
from dgl_lc.transform import precompute_inputs
from dgl_lc.transform.on_disk.run_steps import Runner

pytestmark = pytest.mark.usefixtures("double_precision")


def test_memory_is_a_promise():
    graph, feat = looped_graph(), features()
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    with pytest.raises(dgl.DGLError, match="memory"):
        lc.precompute(graph, feat, memory=100)
    lc.precompute(graph, feat, memory="64MiB")


def test_memory_counts_what_is_made_on_the_way():
    graph, feat = looped_graph(), features()

    class Scaled(nn.Module):
        """Rows scaled by hand, so that the engine has no norm for it."""

        def forward(self, g, x):
            scale = (1.0 + g.in_degrees()).pow(-0.3).unsqueeze(1)
            h = dgl.ops.copy_u_sum(g, x * scale) * scale
            return dgl.ops.copy_u_sum(g, h.relu() * scale)

    wide = feat.repeat(1, 4096)
    lc = lc_transform(Scaled(), graph, wide)
    with pytest.raises(dgl.DGLError, match="memory="):
        lc.precompute(graph, wide, memory=wide.nbytes // 2)


def test_storage_type():
    graph, feat = looped_graph(), features()
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    (rows,) = lc.precompute(graph, feat, dtype=torch.float16)
    assert rows.dtype == torch.float16
    expected = lc.module(rows.double())
    assert torch.equal(lc.module(rows), expected)


def test_a_graph_with_one_format():
    conv = dglnn.GraphConv(HID, OUT, norm="right", allow_zero_in_degree=True)
    model = model_of(
        lambda self, g, x: self.conv(g, F.relu(self.fc(x))), conv=conv
    )
    g, x = random_graph().formats("csc"), features()
    lc = lc_transform(model, g, x)
    (found,) = lc.precompute(g, x)
    torch.testing.assert_close(found, dgl.ops.copy_u_mean(g, x))


@pytest.mark.parametrize(("norm", "both_ways"), [("in", False), ("both", True)])
def test_the_engine_computes_the_filter_of_tagconv(
    monkeypatch, norm, both_ways
):
    asked = []
    plain = precompute_inputs.block_aggregate

    def spy(*args, **options):
        asked.append((options["norm"], options["hops"]))
        return plain(*args, **options)

    monkeypatch.setattr(precompute_inputs, "block_aggregate", spy)
    # Node 0 has edges out and none in.
    g, x = dgl.graph(([0, 0, 1, 2, 2], [1, 2, 2, 3, 3])), features()[:4]
    if both_ways:
        g = dgl.add_reverse_edges(g)
    conv = dglnn.TAGConv(IN, OUT, k=2)
    model = model_of(lambda self, g, x: self.conv(g, x), conv=conv)
    lc = lc_transform(model, g, x)
    found = lc.module(*lc.precompute(g, x))
    torch.testing.assert_close(found, model(g, x))
    assert asked == [(norm, [1, 2])]


class SeveralWords(nn.Module):
    """Two filters, degrees by hand, and rows that are matrices."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(IN, OUT)

    def forward(self, g, x, pairs):
        back = dgl.reverse(g)
        scale = (1.0 + g.in_degrees()).pow(-0.3).unsqueeze(1)
        h = dgl.ops.copy_u_sum(g, F.relu(self.fc(x)) * scale)
        h = h + dgl.ops.copy_u_mean(back, F.relu(self.fc(x)))
        pairs = dgl.ops.copy_u_sum(g, F.relu(self.fc(pairs)))
        return dgl.ops.copy_u_sum(g, h.relu()) + pairs.sum(dim=1)


def transformed():
    """An LC version with inputs of two shapes, and its arguments."""
    feat = features()
    call = looped_graph(), feat, torch.stack([feat, -feat], dim=1)
    return lc_transform(SeveralWords().double(), *call), *call


@pytest.mark.parametrize("nodes", [None, [4, 1, 9]])
@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_inputs_on_disk_are_those_in_memory(tmp_path, nodes, dtype):
    lc, graph, feat, pairs = transformed()
    options = {"nodes": nodes, "dtype": dtype}
    held = lc.precompute(graph, feat, pairs, **options)
    assert len(held) == 3
    assert len({rows.shape for rows in held}) > 1
    found = lc.precompute(graph, feat, pairs, out=tmp_path / "s", **options)
    assert found.names == [str(entry) for entry in lc.inputs]
    for one, other in zip(found, held, strict=True):
        # The engine scales rows of a step on disk before it sums them up.
        torch.testing.assert_close(one, other)
    assert torch.equal(found[1], held[1])
    ids = torch.tensor([9, 4])
    expected = lc.module.to(dtype or torch.float64)(*lc.rows(held, ids))
    stored = open_store(tmp_path / "s")
    stored.verify()
    torch.testing.assert_close(lc.module(*lc.rows(stored, ids)), expected)
    (batch,) = lc.loader(stored, ids)
    torch.testing.assert_close(lc.module(None, batch), expected)


def test_finished_steps_are_not_computed_again(tmp_path, monkeypatch):
    lc, graph, feat, pairs = transformed()
    expected = lc.precompute(graph, feat, pairs, out=tmp_path / "calm")
    done = []
    run = Runner._run

    def failing(self, step, *rest):
        if len(done) == 3:
            done.append("failed")
            raise KeyboardInterrupt
        done.append(step.name)
        run(self, step, *rest)

    monkeypatch.setattr(Runner, "_run", failing)
    with pytest.raises(KeyboardInterrupt):
        lc.precompute(graph, feat, pairs, out=tmp_path / "s")
    with pytest.raises(dgl.DGLError, match="something else"):
        lc.precompute(graph, feat + 1, pairs, out=tmp_path / "s")
    found = lc.precompute(graph, feat, pairs, out=tmp_path / "s")
    done.remove("failed")
    assert len(done) == len(set(done))
    assert {name for name in done if "input" in name} == set(expected.parts)
    assert found.key == expected.key
    assert not (tmp_path / "s" / "work").exists()
    done.clear()
    lc.precompute(graph, feat, pairs, out=tmp_path / "s")
    assert done == []


def test_inputs_of_something_else_are_an_error(tmp_path):
    lc, graph, feat, pairs = transformed()
    lc.precompute(graph, feat, pairs, out=tmp_path / "s")
    other = dgl.add_edges(graph, [0], [3])
    for call in (
        (other, feat, {}), (graph, feat + 1, {}), (graph, feat, {"nodes": [1]}),
        (graph, feat, {"dtype": torch.float32}),
    ):  # fmt: skip
        with pytest.raises(dgl.DGLError, match="something else"):
            lc.precompute(*call[:2], pairs, out=tmp_path / "s", **call[2])
    found = lc.precompute(other, feat, pairs, out=tmp_path / "s", resume=False)
    expected = lc.precompute(other, feat, pairs)
    for one, own in zip(found, expected, strict=True):
        torch.testing.assert_close(one, own)


def test_inputs_that_are_no_fractions_are_not_stored(tmp_path):
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(IN, IN)

        def forward(self, g, x):
            return dgl.ops.copy_u_sum(g, self.fc(x)) * (x > 0)

    graph, feat = looped_graph(), features()
    lc = lc_transform(Masked().double(), graph, feat)
    with pytest.raises(dgl.DGLError, match=r"out: the input .* is torch\.bool"):
        lc.precompute(graph, feat, out=tmp_path / "s")
    assert not (tmp_path / "s").exists()
