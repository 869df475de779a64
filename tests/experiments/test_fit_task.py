"""Training on tasks: which nodes without a label are seen."""

import pytest
from dgl import DGLError

from dgl_lc.data import NodeData, block_model
from dgl_lc.experiments import fit_task as module
from dgl_lc.experiments.fit_task import fit_task
from dgl_lc.experiments.train_one import train_model
from dgl_lc.nn import SGC

DATA = block_model(200, num_feats=8, num_classes=3)


def inductive():
    split = (DATA.train, DATA.valid, DATA.test)
    return NodeData(DATA.graph, DATA.feat, DATA.labels, *split, 3, "new", True)


@pytest.mark.parametrize("name", ["SGC", "GCN"])
def test_no_node_joins_in_an_inductive_task(name):
    # The graph of an original has test nodes as well, without their edges.
    with pytest.raises(DGLError, match="new is inductive, so that nodes"):
        train_model(name, inductive(), stages=2, threshold=0, epochs=1)


@pytest.mark.parametrize("is_inductive", [True, False])
def test_consistency_has_the_nodes_that_are_seen(monkeypatch, is_inductive):
    given = []
    monkeypatch.setattr(
        module, "fit", lambda *args, **options: given.append(options)
    )
    data = inductive() if is_inductive else DATA
    seen = (data.train_graph, data.feat)
    model = SGC(8, 3)
    fit_task(model, seen, (data.graph, data.feat), data, consistency=0.5)
    found = given[0]["consistency"].unlabelled
    if is_inductive:
        assert found is None
    else:
        assert found.tolist() == data.test.sort().values.tolist()
