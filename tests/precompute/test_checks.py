"""Bad input: an error that names the argument, before work starts."""

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError

from dgl_lc.precompute import block_aggregate, edge_blocks, normalize
from dgl_lc.precompute.graph import in_edges as csc
from dgl_lc.testing.random_graphs import make_features

HETERO = dgl.heterograph({
    ("user", "likes", "item"): ([0, 1], [0, 1]),
    ("user", "knows", "user"): ([0], [1]),
})  # fmt: skip


#: Fields that do not begin at multiples of their size.
PACKED = np.zeros(3, [("id", "<i8"), ("odd", "u1"), ("x", "<f4", (2,))])


def block():
    return dgl.to_block(dgl.graph(([0, 1], [1, 2])), torch.tensor([2]))


@pytest.fixture(autouse=True)
def _no_work(monkeypatch):
    """Reading the graph is the first work: it must not be reached."""

    def start(self, graph):
        raise AssertionError("work started before the input was checked")

    monkeypatch.setattr(csc.InEdges, "__init__", start)


def call(g=None, feat=None, K=2, **options):
    g = dgl.graph(([0, 1, 2], [1, 2, 0])) if g is None else g
    feat = make_features(3, 4) if feat is None else feat
    return block_aggregate(g, feat, K, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"g": HETERO}, "g is a heterograph.*edge_type_subgraph"),
        ({"g": block()}, "g is a block"),
        ({"g": dgl.graph(([], []))}, "g has no nodes"),
        ({"g": "graph"}, "g should be a DGLGraph, a DiskGraph.*, got str"),
        ({"feat": make_features(4, 2)}, "feat has 4 rows, but g has 3 nodes"),
        ({"feat": make_features(3, 2)[0]}, "feat should have two dim"),
        ({"feat": torch.ones(3, 0)}, "feat has no columns"),
        ({"feat": torch.ones(3, 2, requires_grad=True)},
         "feat requires grad.*detach"),
        ({"feat": torch.ones(3, 2, dtype=torch.long)}, "feat is torch.int64"),
        ({"feat": torch.ones(3, 2, dtype=torch.cfloat)},
         "feat is torch.complex64"),
        ({"feat": torch.ones(3, 2, device="meta")}, "feat is on meta"),
        ({"feat": torch.eye(3).to_sparse()}, "feat is sparse"),
        ({"feat": [[1.0], [2.0], [3.0]]}, "feat should be a tensor"),
        ({"feat": np.ones((3, 2), int)}, "NumPy array of int64"),
        ({"feat": np.ones((3, 2), ">f4")}, "foreign byte order"),
        ({"feat": np.ones((3, 2), np.float32)[:, ::-1]}, "negative stride"),
        ({"K": -1}, "K should be from 0 to 65535, got -1"),
        ({"K": 1.5}, "K should be an integer, got 1.5"),
        ({"K": True}, "K should be an integer, got True"),
        ({"hops": []}, "hops=\\[\\] should name at least one"),
        ({"hops": [3]}, "hops=\\[3\\] should name.*0 to K=2"),
        ({"hops": ["a"]}, "hops should be a list of integers"),
        ({"nodes": [0, 3]}, "nodes holds 3, but g has nodes 0 to 2"),
        ({"nodes": [-1]}, "nodes holds -1"),
        ({"nodes": []}, "nodes is empty"),
        ({"nodes": [0.5]}, "nodes should hold integer ids"),
        ({"nodes": [True, False]}, "nodes is a mask of 2 entries.* 3 nodes"),
        ({"nodes": torch.zeros(3).bool()}, "nodes is empty"),
        ({"nodes": [True, 2]}, "nodes should be .*both bools and integers"),
        ({"nodes": torch.zeros(2, 2, dtype=torch.long)}, "one dimension"),
        ({"nodes": ["a"]}, "nodes should be .* list of node ids"),
        ({"nodes": [2**70]}, "nodes should be .* list of node ids"),
        ({"nodes": torch.arange(3).to_sparse()}, "nodes is sparse"),
        ({"feat": PACKED["x"]}, "no whole number of values"),
        ({"edge_weight": torch.ones(3).to_sparse()}, "edge_weight is sparse"),
        ({"edge_weight": torch.ones(2)}, "edge_weight has shape.*3 edges"),
        ({"edge_weight": torch.ones(3, 2)}, "edge_weight has shape"),
        ({"edge_weight": torch.ones(3, dtype=torch.long)},
         "edge_weight is torch.int64"),
        ({"edge_weight": torch.ones(3, requires_grad=True)},
         "edge_weight requires grad"),
        ({"edge_weight": [1.0, 2.0, 3.0]}, "edge_weight should be a tensor"),
        ({"edge_weight": torch.tensor([1.0, 2.0, torch.nan])},
         "edge_weight holds nan at edge 2"),
        ({"edge_weight": np.array([[1.0], [np.nan], [3.0]])},
         "edge_weight holds nan at edge 1"),
        ({"edge_weight": np.ones(3, int)}, "edge_weight is a NumPy array of"),
        ({"edge_weight": np.ones(2)}, "edge_weight has shape.*3 edges"),
        ({"edge_weight": torch.ones(3, device="meta")},
         "edge_weight is on meta"),
        ({"norm": "sym"}, "norm='sym' is not known.*'both'"),
        ({"self_loop": 1}, "self_loop should be True or False"),
        ({"dtype": torch.int8}, "dtype=torch.int8 is not one of"),
        ({"device": "meta"}, "device='meta' is not supported"),
        ({"device": "gpu0"}, "device='gpu0' should be 'cpu', 'cuda'"),
        ({"device": 1.5}, "device=1.5 should be 'cpu', 'cuda'"),
        ({"host_memory": "1GiB"}, "host_memory is for runs on a GPU"),
        ({"host_memory": "big"}, "host_memory='big'"),
        ({"memory": "lots"}, "memory='lots' is not a number of bytes"),
        ({"memory": 0}, "memory=0 should be at least one byte"),
        ({"K": 10**8}, "K should be from 0 to 65535"),
        ({"K": 2**63}, "K should be from 0 to 65535"),
        ({"feat": np.ma.zeros((4, 3))}, "feat is a masked array"),
        ({"memory": 1.5}, "memory should be an integer"),
    ],
)  # fmt: skip
def test_bad_input_is_named(options, message):
    with pytest.raises(DGLError, match=message):
        call(**options)


@pytest.mark.parametrize("piece", [1, 2, 100])
def test_the_first_missing_weight_is_named(piece, monkeypatch):
    monkeypatch.setattr("dgl_lc.precompute.checks._PIECE", piece)
    weight = torch.tensor([1.0, torch.nan, torch.nan])
    with pytest.raises(DGLError, match="holds nan at edge 1:"):
        call(edge_weight=weight)


@pytest.mark.parametrize("function", [edge_blocks, normalize])
@pytest.mark.parametrize("number", [0, -2, 1.5, True])
def test_a_bad_number_of_blocks_is_named(function, number):
    g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    with pytest.raises(DGLError, match="num_blocks should be"):
        function(g, num_blocks=number)


def test_normalize_refuses_other_types():
    with pytest.raises(DGLError, match="dtype should be"):
        normalize(dgl.graph(([0], [1])), dtype=torch.float16)
