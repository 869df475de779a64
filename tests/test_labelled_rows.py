"""Inputs paired with label features."""

import dgl
import pytest
import torch
from dgl import DGLError

from dgl_lc.labelled_rows import LabelledRows
from dgl_lc.nn import FSGNN
from dgl_lc.precompute import (
    block_aggregate,
    label_features,
    open_store,
    with_labels,
)
from dgl_lc.testing.random_graphs import make_features
from dgl_lc.training import HopLoader

N = 30


def make_graph(seed=0):
    ends = torch.randint(
        N, (2, 120), generator=torch.Generator().manual_seed(seed)
    )
    return dgl.graph((ends[0], ends[1]), num_nodes=N)


G, X = make_graph(), make_features(N, 6)
LABELS, TRAIN = torch.arange(N) % 4, torch.arange(20)


def features(**options):
    return block_aggregate(G, X, 2, **options)


def labels(**options):
    return label_features(G, LABELS, TRAIN, 2, **options)


SOME, FEW = torch.tensor([9, 2, 25, 14]), torch.tensor([14, 9])
PAIRS = [
    (None, None, None),
    (SOME, SOME, SOME),
    (SOME, None, SOME),
    (None, SOME, SOME),
    (SOME, FEW, FEW),
    (FEW, SOME, FEW),
]


@pytest.mark.parametrize(("own", "other", "both"), PAIRS)
@pytest.mark.parametrize("stored", [False, True])
def test_rows_are_those_of_both(tmp_path, own, other, both, stored):
    hops, found = features(nodes=own), labels(nodes=other)
    if stored:
        hops = features(nodes=own, out=tmp_path / "hops")
        found = labels(nodes=other, out=tmp_path / "labels")
    rows = with_labels(hops, found)
    whole, all_labels = features(), labels()
    ids = torch.tensor([14, 9])
    batch = rows.rows(ids)
    assert isinstance(batch, LabelledRows)
    for hop in range(3):
        torch.testing.assert_close(batch.features[hop], whole[hop][ids])
        torch.testing.assert_close(batch[hop], whole[hop][ids])
    for hop in (1, 2):
        torch.testing.assert_close(batch.labels[hop], all_labels[hop][ids])
    assert (rows.nodes is None) == (both is None)
    if both is not None:
        assert sorted(rows.nodes.tolist()) == sorted(both.tolist())
    assert rows.shape == (N if both is None else len(both), 6)
    assert len(next(iter(rows))) == rows.shape[0]
    if both is not None and 0 not in both:
        with pytest.raises(DGLError, match="ids holds 0 without a row"):
            rows.rows(torch.tensor([0]))


def test_a_loader_gives_batches_of_both():
    rows = with_labels(features(), labels(nodes=torch.arange(N).flip(0)))
    ids = torch.randperm(N)[:17]
    seen = []
    for batch, target in HopLoader(rows, ids, LABELS, 5, shuffle=True):
        nodes = batch.nodes
        seen.append(nodes)
        assert torch.equal(target, LABELS[nodes])
        assert torch.equal(batch.features.nodes, nodes)
        torch.testing.assert_close(batch.features[1], features()[1][nodes])
        torch.testing.assert_close(batch.labels[2], labels()[2][nodes])
    assert sorted(torch.cat(seen).tolist()) == sorted(ids.tolist())


def test_rows_can_be_converted():
    rows = with_labels(features(nodes=SOME), labels()).to(torch.float64)
    assert rows.dtype == torch.float64
    assert rows.labels.dtype == torch.float64
    batch = rows.rows(FEW)
    torch.testing.assert_close(batch.labels[1], labels()[1][FEW].double())
    assert rows.nbytes == rows.features.nbytes + rows.labels.nbytes


def test_inputs_of_several_filters_are_paired_too(tmp_path):
    model = FSGNN(6, 4, 4, K=2)
    for inputs in (
        model.precompute(G, X),
        model.precompute(G, X, nodes=SOME, out=tmp_path / "inputs"),
    ):
        rows = with_labels(inputs, labels())
        batch = rows.rows(FEW)
        assert batch.features.names == model.input_names
        torch.testing.assert_close(batch.labels[1], labels()[1][FEW])
    again = with_labels(open_store(tmp_path / "inputs"), labels())
    torch.testing.assert_close(again.rows(FEW).features[0], X[FEW])


def test_row_shards_keep_their_number():
    hops = features(nodes=SOME)
    hops.shard = (0, 2)
    rows = with_labels(hops, labels())
    assert rows.shard == (0, 2)
    assert rows.rows(FEW).shard is None
    shard = labels(nodes=SOME)
    shard.shard = (1, 2)
    with pytest.raises(DGLError, match="label_hops is row shard"):
        with_labels(hops, shard)
    with pytest.raises(DGLError, match="label_hops has no row of node 2"):
        with_labels(hops, labels(nodes=FEW))


def test_mismatches_name_the_argument():
    with pytest.raises(DGLError, match="label_hops has no row of node 2, and"):
        with_labels(features(nodes=SOME), labels(nodes=[9, 3]))
    other = label_features(make_graph(1), LABELS, TRAIN, 2)
    with pytest.raises(DGLError, match="label_hops is of another graph"):
        with_labels(features(), other)
    with pytest.raises(DGLError, match="hops should be hop features"):
        with_labels([X, X], labels())
    with pytest.raises(DGLError, match="label_hops should be what"):
        with_labels(features(), X)
    with pytest.raises(DGLError, match="hops has label features already"):
        with_labels(with_labels(features(), labels()), labels())
