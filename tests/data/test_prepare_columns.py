"""Which columns of tables ``prepare`` takes for what."""

import numpy as np
import pytest
from dgl import DGLError

from dgl_lc.data import prepare

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet as pq


def run(tmp_path, edges, features, **options):
    for name, text in (("edges", edges), ("features", features)):
        (tmp_path / f"{name}.csv").write_text(text)
    return prepare(
        tmp_path / "edges.csv", tmp_path / "features.csv", tmp_path / "out",
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["uid", "UserID", "paper_id"])
def test_a_first_column_that_ends_in_id_has_the_ids(tmp_path, name):
    data = run(
        tmp_path, "src,dst\n2,0\n", f"{name},a,b\n2,5,6\n1,7,8\n0,9,9\n"
    )
    assert data.ids_of([0, 1, 2]).tolist() == [2, 1, 0]
    assert data.num_feats == 2
    # The edge from 2 to 0 goes from the first row to the last.
    assert data.graph.indices.tolist() == [0]
    assert data.graph.indptr.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("nodes", ["number,a\n2,5\n1,7\n", "0.5,1\n0.25,2\n"])
def test_a_table_of_features_without_ids_is_an_error(tmp_path, nodes):
    with pytest.raises(DGLError, match=r"no column of ids.*'id': ''"):
        run(tmp_path, "src,dst\n1,0\n", nodes)
    assert not (tmp_path / "out").exists()
    data = run(tmp_path, "src,dst\n1,0\n", nodes, columns={"id": ""})
    assert data.ids_of([0, 1]).tolist() == [0, 1]
    assert data.num_feats == 2


def test_ids_in_another_file_need_no_column_of_ids(tmp_path):
    data = run(
        tmp_path, "src,dst\n8,9\n", "a,b\n5,6\n1,2\n", nodes=np.array([8, 9])
    )
    assert data.ids_of([0, 1]).tolist() == [8, 9]


def test_nodes_that_are_called_u_and_v_are_no_header(tmp_path):
    data = run(tmp_path, "u,v\nv,w\n", "id,x\nu,1\nv,2\nw,3\n")
    assert data.graph.num_edges() == 2
