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
    data = run(tmp_path, "src,dst\n2,0\n", f"{name},a,b\n2,5,6\n1,7,8\n0,9,9\n")
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


def lines_of(tmp_path, edges, features, **options):
    lines = []
    run(tmp_path, edges, features, report=lines.append, **options)
    return lines


def test_columns_are_said_at_the_start(tmp_path):
    assert lines_of(
        tmp_path, "src,dst,w\na,b,0.5\n",
        "id,x,date,y,price\na,1,2020-01-01,2,\"1,5\"\nb,3,2020-01-02,4,\"2,5\"\n",
    ) == [
        "edges: source 'src', target 'dst', no weights; not used: 'w'; the "
        "first row is a header",
        "features: id 'id', 2 columns; left out, as they are not numbers: "
        "'date', 'price'; the first row is a header",
    ]  # fmt: skip


def test_files_without_a_header_are_said(tmp_path):
    lines = lines_of(tmp_path, "0,1,0.5\n", "0,1.5\n1,2.5\n")
    assert lines == [
        "edges: source '0', target '1', no weights; not used: '2'; there is "
        "no header",
        "features: id '0', 1 column; there is no header",
    ]
    with pytest.raises(DGLError, match="no node has"):
        lines_of(tmp_path, "0,1,0.5\n2,3,4\n", "0,1\n1,2\n", resume=False)


def test_labels_split_and_ids_are_said(tmp_path):
    (tmp_path / "y.csv").write_text("id,a,class\n8,z,1\n9,z,0\n7,z,1\n")
    np.savez(tmp_path / "e.npz", edge_index=[[8], [9]], edge_weight=[2.0])
    lines = []
    prepare(
        tmp_path / "e.npz", np.ones((3, 4)), tmp_path / "out",
        nodes=np.array([8, 9, 7]), labels=tmp_path / "y.csv",
        split={"train": [8], "val": [9]}, report=lines.append,
    )  # fmt: skip
    assert lines == [
        "edges: an array of 1 edge, with weights",
        "features: an array of 3 rows and 4 columns, ids from nodes",
        "labels: id 'id', label 'class'; not used: 'a'; the first row is a "
        "header",
        "split: train, valid, each with its ids or a mask",
    ]


def test_labels_beside_the_features_are_said(tmp_path):
    assert lines_of(
        tmp_path, "src,dst,weight\na,b,1\n",
        "id,x,label,split\na,1,0,train\nb,2,1,test\n",
    ) == [
        "edges: source 'src', target 'dst', weight 'weight'; the first row is "
        "a header",
        "features: id 'id', 1 column; the first row is a header",
        "labels: column 'label' of the features",
        "split: column 'split' of the features",
    ]  # fmt: skip


def test_dates_of_parquet_are_said(tmp_path):
    table = pa.table(
        {"x": [1.0, 2.0], "day": pa.array([1, 2], pa.date32()), "y": [1, 2]}
    )
    pq.write_table(table, tmp_path / "x.parquet")
    lines = []
    prepare(
        np.array([[0], [1]]), tmp_path / "x.parquet", tmp_path / "out",
        columns={"id": "", "features": "x"}, report=lines.append,
    )  # fmt: skip
    assert lines[1] == (
        "features: ids are the numbers of the rows, 1 column; not used: 'y'; "
        "left out, as they are not numbers: 'day'"
    )


def test_booleans_are_features(tmp_path):
    columns = {"id": ["a", "b"], "x": [1.5, 2.0], "ok": [True, False]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    edges = tmp_path / "e.csv"
    edges.write_text("a,b\n")
    lines = []
    data = prepare(
        edges, tmp_path / "x.parquet", tmp_path / "1", report=lines.append
    )
    assert data.feat.block(0, 2).tolist() == [[1.5, 1], [2, 0]]
    assert "2 columns, of which 'ok' has true and false as 1 and 0" in lines[1]
    text = "id,x,ok\na,1.5,True\nb,2,false\n"
    same = run(tmp_path, "a,b\n", text)
    assert same.key == data.key
    with pytest.raises(DGLError, match="row 3: column 'ok' has no value"):
        run(tmp_path, "a,b\n", "id,ok\na,true\nb,\n", resume=False)


def test_texts_true_and_false_are_classes(tmp_path):
    data = run(tmp_path, "a,b\n", "id,x,label\na,1,true\nb,2,false\n")
    assert data.class_names == ["false", "true"]
    assert data.num_feats == 1
