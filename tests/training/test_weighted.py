"""Edge weights: never dropped silently, and never mixed with none."""

import copy

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from dgl.base import DGLWarning
from tiny_task import DATA, OPTIONS, SPLIT, make

from dgl_lc.data import NodeData
from dgl_lc.nn import FSGNN, LCGPRGNN, LCH2GCN
from dgl_lc.precompute import open_store
from dgl_lc.training import (
    fit,
    load_model,
    predict,
    save_model,
    write_predictions,
)
from dgl_lc.training.task_store import check_rows, open_task_store

BOTH = pytest.mark.parametrize("weighted", [True, False])
KINDS = pytest.mark.parametrize("kind", [LCGPRGNN, FSGNN])


def option(weighted):
    return {"edge_weight": "weight" if weighted else False}


@pytest.fixture
def data():
    """The task with weights, in a graph that nobody was warned of."""
    graph = dgl.graph(DATA.graph.edges(), num_nodes=DATA.graph.num_nodes())
    rng = torch.Generator().manual_seed(0)
    graph.edata["weight"] = torch.rand(graph.num_edges(), generator=rng) * 3
    return NodeData(
        graph, DATA.feat, DATA.labels, DATA.train, DATA.valid, DATA.test,
        DATA.num_classes, "weighted",
    )  # fmt: skip


def trained(kind, data, weighted, **options):
    model = make(kind, K=2)
    rows = model.precompute(data.graph, data.feat, **option(weighted))
    fit(model, rows, *SPLIT, epochs=2, **OPTIONS)
    return model, rows


@BOTH
@KINDS
def test_a_trained_model_refuses_rows_of_the_other_filter(kind, weighted, data):
    model, rows = trained(kind, data, weighted)
    assert model.weighted is weighted
    assert predict(model, rows).shape == (400, 8)
    other = model.precompute(data.graph, data.feat, **option(not weighted))
    with pytest.raises(DGLError, match=r"trained with(out)? edge weights, but"):
        predict(model, other)
    with pytest.raises(DGLError, match=r"trained with(out)? edge weights, but"):
        fit(model, rows, *SPLIT, valid_inputs=other, epochs=1)
    # Another training replaces what the model remembers.
    fit(model, other, *SPLIT, epochs=1)
    assert model.weighted is not weighted


@BOTH
@KINDS
def test_a_file_of_a_model_knows_its_weights(kind, weighted, data, tmp_path):
    model, _ = trained(kind, data, weighted)
    save_model(model, tmp_path / "model.pt")
    assert load_model(tmp_path / "model.pt").weighted is weighted
    save_model(make(kind), tmp_path / "fresh.pt")
    assert load_model(tmp_path / "fresh.pt").weighted is None
    model.weighted = "yes"
    save_model(model, tmp_path / "wrong.pt")
    with pytest.raises(DGLError, match="weighted='yes' should be a bool"):
        load_model(tmp_path / "wrong.pt")


@BOTH
@KINDS
def test_predictions_in_a_file_use_the_filter_of_the_model(
    kind, weighted, data, tmp_path
):
    model, rows = trained(kind, data, weighted)
    path = tmp_path / "p.npy"
    some = model.precompute(
        data.graph, data.feat, nodes=torch.arange(50), **option(weighted)
    )
    wanted = predict(model, rows).softmax(1).numpy()
    # The filter is known from the model, from the rows, or from both.
    unknown = copy.deepcopy(model)
    unknown.weighted = None
    for used, given in ((model, None), (model, some), (unknown, some)):
        write_predictions(used, data, path, rows=given, probabilities=True)
        np.testing.assert_allclose(np.load(path), wanted, atol=1e-6)
    other = model.precompute(data.graph, data.feat, **option(not weighted))
    with pytest.raises(DGLError, match=r"trained with(out)? edge weights, but"):
        write_predictions(model, data, path, rows=other)


def test_a_model_with_weights_needs_a_task_with_weights(data, tmp_path):
    model, rows = trained(LCGPRGNN, data, True)
    with pytest.raises(DGLError, match=r"has none.*400 nodes can't"):
        write_predictions(model, DATA, tmp_path / "p.npy")
    # Nothing has to be computed here.
    write_predictions(model, DATA, tmp_path / "p.npy", rows=rows)


@BOTH
@KINDS
def test_a_store_of_the_other_filter_is_refused(kind, weighted, data, tmp_path):
    model, _ = trained(kind, data, weighted)
    for use in (True, False):
        model.precompute(
            data.graph, data.feat, out=tmp_path / str(use), **option(use)
        )
    assert len(open_task_store(tmp_path / str(weighted), model, data)) > 2
    with pytest.raises(DGLError, match=r"the model was trained with"):
        open_task_store(tmp_path / str(not weighted), model, data)
    fresh = make(kind, K=2)
    assert len(open_task_store(tmp_path / "True", fresh, data)) > 2
    with pytest.raises(
        DGLError, match="without edge weights, but weighted has"
    ):
        open_task_store(tmp_path / "False", fresh, data)
    with pytest.raises(DGLError, match=r"with edge weights, but .* has none"):
        open_task_store(tmp_path / "True", fresh, DATA)


def test_a_model_that_reads_the_graph_uses_the_weights_it_was_trained_with(
    data,
):
    model, rows = trained(LCGPRGNN, data, True)
    found = predict(model, (data.graph, data.feat))
    torch.testing.assert_close(found, predict(model, rows))
    fresh = make(LCGPRGNN, K=2)
    with pytest.warns(DGLWarning, match="is not used"):
        fit(fresh, (data.graph, data.feat), *SPLIT, epochs=1)
    assert fresh.weighted is False
    with pytest.raises(DGLError, match="trained without"):
        predict(fresh, rows)


def test_h2gcn_reads_a_task_with_weights(data, tmp_path):
    model = make(LCH2GCN, K=1)
    with pytest.warns(DGLWarning, match="LCH2GCN ignores the weights"):
        model.precompute(
            data.graph, data.feat, edge_weight="weight", out=tmp_path / "h2"
        )
    rows = open_task_store(tmp_path / "h2", model, data)
    fit(model, rows, *SPLIT, epochs=1, **OPTIONS)
    assert open_task_store(tmp_path / "h2", model, data) is not None
    write_predictions(model, data, tmp_path / "p.npy", probabilities=True)
    np.testing.assert_allclose(
        np.load(tmp_path / "p.npy"), predict(model, rows).softmax(1), atol=1e-6
    )


def test_a_store_of_several_filters_gets_advice_that_can_be_followed(
    data, tmp_path
):
    model = make(FSGNN, K=1)
    model.precompute(
        DATA.graph, DATA.feat, nodes=torch.arange(9), out=tmp_path / "several"
    )
    path = tmp_path / "several"
    other = NodeData(
        DATA.graph, DATA.feat + 1, *SPLIT, DATA.test, DATA.num_classes, "other"
    )
    with pytest.raises(DGLError, match="not made from the features") as error:
        open_task_store(path, model, other)
    assert "dgl-lc update" not in str(error.value)
    assert "into a new folder" in str(error.value)
    with pytest.raises(DGLError, match="can't be extended, so precompute"):
        check_rows(open_store(path), path, {"test": DATA.test})
