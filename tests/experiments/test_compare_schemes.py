"""The schemes of precomputation."""

import dgl
import pytest
import torch
from dgl import DGLError

from dgl_lc.data import block_model
from dgl_lc.experiments import compare_schemes as module
from dgl_lc.experiments.compare_schemes import OURS, SCHEMES, compare_schemes


def test_all_schemes_give_the_same_last_hop_of_a_new_graph():
    data = block_model(200, seed=1, num_classes=3, num_feats=6)
    data.graph.create_formats_()
    fresh = dgl.graph(data.graph.edges(), num_nodes=data.graph.num_nodes())
    assert fresh.formats()["created"] == ["coo"]
    wanted = SCHEMES[OURS](data.graph, 6, 1 << 30)(data.feat, 2)
    for prepare in SCHEMES.values():
        found = prepare(fresh, 6, 1 << 30)(data.feat, 2)
        assert torch.allclose(found, wanted, atol=1e-4)


def test_a_scheme_with_another_result_is_an_error(tmp_path, monkeypatch):
    data = block_model(100, seed=1, num_feats=6)
    wrong = {**SCHEMES, "wrong": lambda g, columns, memory: lambda x, K: x}
    monkeypatch.setattr(module, "SCHEMES", wrong)
    with pytest.raises(DGLError, match="'wrong' differ from ours by"):
        compare_schemes(
            data.graph, data.feat, 2, "small", tmp_path, 1 << 30, runs=1
        )
    assert not list(tmp_path.iterdir())
