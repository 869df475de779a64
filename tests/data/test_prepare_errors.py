"""What ``prepare`` refuses, and what it says."""

import gzip

import numpy as np
import pytest
from dgl import DGLError

from dgl_lc.data import prepare

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet as pq

EDGES = "src,dst\na,b\nb,c\n"
NODES = "id,x,y\na,1,2\nb,3,4\nc,5,6\n"


def run(tmp_path, edges=EDGES, nodes=NODES, end="csv", **options):
    for name, text in (("edges", edges), ("nodes", nodes)):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / f"{name}.{end}").write_bytes(data)
    return prepare(
        tmp_path / f"edges.{end}", tmp_path / f"nodes.{end}",
        tmp_path / "out", **options,
    )  # fmt: skip


def test_the_plain_case_works(tmp_path):
    assert run(tmp_path).graph.num_edges() == 2


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        (EDGES + "a,x\nq,b\n", NODES, r"2 ids .*'q', 'x' .*row 4"),
        (EDGES + "a,x\n", NODES, r"edges\.csv, row 4.*rows of the features"),
        ("a,b\nperson,c\n", NODES, r"edges.csv has 1 id .*'person'.*row 2"),
        (EDGES, NODES + "a,7,8\n", r"'a' stands for two nodes.*0 and 3"),
        (EDGES, NODES + "d,,8\n", r"nodes\.csv, row 5: column 'x' has no"),
        (EDGES, NODES + "d,nan,8\n", r"row 5: column 'x' has no value"),
        (EDGES, NODES + "d,z,8\n", r"Row #5.*'z'"),
        (EDGES, NODES + "d,inf,8\n", r"holds inf at node 3, column 0"),
        (EDGES, NODES + ",1,8\n", r"row 5: column 'id' has no value"),
        (EDGES + "a,\n", NODES, r"edges\.csv, row 4: column 'dst'"),
        (EDGES + "a,b,c\n", NODES, r"Row #4: Expected 2 columns, got 3"),
        (EDGES + "a\n", NODES, r"Row #4: Expected 2 columns, got 1"),
        (EDGES + '"a,b\n', NODES, r"edges\.csv cannot be read"),
        (EDGES.encode() + b"\xff,b\n", NODES, r"Row #4.*UTF8"),
        (EDGES, "id,x\n", r"features: .*nodes\.csv has no rows"),
        (EDGES.encode("utf-16"), NODES, r"edges\.csv is encoded in utf-16"),
        ("", NODES, r"edges\.csv is empty"),
        ("src\na\n", NODES, r"two columns, source and target, got 1"),
        ("src,src\na,b\n", NODES, r"two columns 'src'"),
        (EDGES, "id\na\nb\nc\n", r"should have columns of numbers"),
    ],
)
def test_bad_files_are_named(tmp_path, edges, nodes, message):
    with pytest.raises(DGLError, match=message):
        run(tmp_path, edges, nodes)


def test_a_type_that_changes_later_is_an_error(tmp_path):
    rows = "".join(f"{i},1\n" for i in range(200_000))
    with pytest.raises(DGLError, match=r"row 200002.*'x1'.*id_type=\"text\""):
        run(tmp_path, "src,dst\n1,2\n", f"id,x\n{rows}x1,2\n")
    # Rows that were wrong are not kept; with the hint it works.
    data = run(
        tmp_path, "src,dst\nx1,2\n", f"id,x\n{rows}x1,2\n", id_type="text",
        resume=False,
    )  # fmt: skip
    assert data.ids_of([2, 200_000]).tolist() == ["2", "x1"]


@pytest.mark.parametrize("value", [str(2**63), "1.0", "01", ""])
def test_integers_out_of_range_or_odd(tmp_path, value):
    with pytest.raises(DGLError, match=r"row 4"):
        run(
            tmp_path, f"src,dst\n1,2\n2,1\n{value},1\n", "id,x\n1,1\n2,2\n"
        )  # fmt: skip


def test_a_huge_field(tmp_path):
    with pytest.raises(DGLError, match="row of more than"):
        run(tmp_path, EDGES + "x" * (3 << 20) + ",b\n")


def test_a_damaged_packed_file(tmp_path):
    good = gzip.compress((EDGES + 20_000 * "a,b\n").encode())
    nodes = gzip.compress(NODES.encode())
    with pytest.raises(DGLError, match=r"edges\.csv\.gz cannot be read"):
        run(tmp_path, good[:-9], nodes, "csv.gz")


def test_files_of_a_folder_with_other_types(tmp_path):
    (tmp_path / "e").mkdir()
    pq.write_table(pa.table({"src": [1], "dst": [2]}), tmp_path / "e" / "0.pq")
    pq.write_table(
        pa.table({"src": ["1"], "dst": ["2"]}), tmp_path / "e" / "1.pq"
    )
    with pytest.raises(DGLError, match=r"1\.pq: column 'src' is text"):
        prepare(tmp_path / "e", np.ones((3, 1)), tmp_path / "out")
    (tmp_path / "e" / "1.pq").unlink()
    (tmp_path / "e" / "x.csv").write_text("1,2\n")
    with pytest.raises(DGLError, match="files of one format"):
        prepare(tmp_path / "e", np.ones((3, 1)), tmp_path / "out")


def test_text_ids_and_integer_edges(tmp_path):
    pq.write_table(pa.table({"src": [1], "dst": [2]}), tmp_path / "e.parquet")
    pq.write_table(
        pa.table({"id": ["1", "2"], "x": [1.0, 2.0]}), tmp_path / "x.parquet"
    )
    with pytest.raises(DGLError, match=r"'src' holds int64, but texts are"):
        prepare(
            tmp_path / "e.parquet", tmp_path / "x.parquet", tmp_path / "out"
        )


def test_nulls_in_parquet(tmp_path):
    for column, row in (("id", [1, None]), ("x", [1.0, None])):
        table = {"id": [1, 2], "x": [1.0, 2.0]} | {column: row}
        pq.write_table(pa.table(table), tmp_path / f"{column}.parquet")
        with pytest.raises(DGLError, match=f"row 2: column '{column}' has no"):
            prepare(
                np.array([[1], [1]]), tmp_path / f"{column}.parquet",
                tmp_path / f"out {column}",
            )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": "id,label\na,1\nz,2\n"}, r"1 id that no node has.*'z'"),
        ({"labels": "id,label\na,1\na,1\n"}, r"row 3: the node 'a' has a lab"),
        ({"labels": "id,label\na,\n"}, "has no labels"),
        ({"labels": "1\n2\n"}, "has 2 rows, but there are 3 nodes"),
        ({"split": (0.5, 0.2, 0.2)}, "split is given, but no labels"),
        (
            {"labels": "id,label\na,1\nb,2\n", "split": "id,split\nc,test\n"},
            "1 of the test nodes have no label, such as 'c'",
        ),
        (
            {"labels": "0\n1\n1\n", "split": "id,split\nc,tset\n"},
            r"row 2: the part of the split is 'tset'",
        ),
        (
            {"labels": "0\n1\n1\n", "split": "id,split\na,test\na,train\n"},
            r"row 3: the node 'a' has a part of the split already",
        ),
        ({"labels": "0\n1\n1\n", "split": (0.5, 0.6, 0.2)}, "at most 1"),
        ({"labels": "0\n1\n1\n", "split": "nan,0.5,0.5"}, "three positive"),
        ({"labels": "0\n1\n1\n", "split": (0.5, -0.5, 0.5)}, "three positive"),
        ({"labels": "0\n1\n1\n", "split": "inf,0.5,0.5"}, "at most 1"),
        ({"labels": "0\n1\n1\n", "split": {"trian": [1]}}, "'trian'"),
        ({"labels": "0\n1\n1\n", "split": 7}, "three fractions"),
        ({"columns": {"weigth": "w"}}, "'weigth'; known are source"),
        ({"columns": {"weight": "w"}}, "has no column 'w'; it has 'src'"),
        ({"columns": {"features": "q"}}, "has no column 'q'"),
        ({"columns": {"features": "x,y,x"}}, r"\['features'\] names 'x' twice"),
        ({"columns": {"features": ["x", "x"]}}, "names 'x' twice"),
        (
            {"id_type": "int"},
            r"row 2: column 'id' holds 'a', which is not an integer of 64 bits",
        ),
        ({"labels": ["a", None, 0.5]}, r"labels holds 0\.5: labels are"),
        ({"id_type": "str"}, 'id_type should be "int" or "text"'),
        ({"seed": -1}, "seed should be"),
        ({"memory": "1MiB"}, "would be enough|is the least"),
    ],
)
def test_bad_labels_splits_and_options(tmp_path, options, message):
    for name in ("labels", "split"):
        if "\n" in str(options.get(name)):
            (tmp_path / f"{name}.csv").write_text(options[name])
            options = options | {name: tmp_path / f"{name}.csv"}
    with pytest.raises(DGLError, match=message):
        run(tmp_path, **options)


def test_a_table_of_words_is_not_a_part_of_a_split(tmp_path):
    path = tmp_path / "split.csv"
    path.write_text("id,split\na,train\nb,test\n")
    with pytest.raises(DGLError, match=r"split\['train'\].* column 'split'"):
        run(tmp_path, labels=np.array([0, 1, 1]), split={"train": path})


@pytest.mark.parametrize("labels", [["b", None, "a"], [1, None, 0]])
def test_labels_in_memory_may_be_none(tmp_path, labels):
    data = run(tmp_path, labels=labels)
    assert data.labels.tolist() == [1, -1, 0]


def test_two_weights_of_one_edge_are_named_by_ids(tmp_path):
    edges = "src,dst,weight\na,b,1\nb,c,2\nb,a,3\n"
    with pytest.raises(DGLError) as caught:
        run(tmp_path, edges, add_reverse=True)
    message = str(caught.value)
    assert f"{tmp_path}/edges.csv: the edge between the nodes" in message
    assert "'a'" in message
    assert "'b'" in message
    assert "ends_" not in message


def test_ids_that_are_given_twice(tmp_path):
    (tmp_path / "x.csv").write_text(NODES)
    with pytest.raises(DGLError, match="order of the nodes is given twice"):
        prepare(
            np.zeros((2, 0), int), tmp_path / "x.csv", tmp_path / "out",
            nodes=np.arange(3),
        )  # fmt: skip


def test_too_little_memory_is_said_before_any_work(tmp_path):
    table = {f"f{i}": np.ones(3) for i in range(200)}
    pq.write_table(pa.table(table), tmp_path / "x.parquet")
    with pytest.raises(DGLError, match=r"is too small to read .*x\.parquet"):
        prepare(
            np.array([[0], [1]]), tmp_path / "x.parquet", tmp_path / "out",
            columns={"id": ""}, memory="64MiB",
        )  # fmt: skip
    assert not list((tmp_path / "out").rglob("*.npy"))


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(DGLError, match=r"edges: .*nope.csv does not exist"):
        prepare(tmp_path / "nope.csv", np.ones((2, 1)), tmp_path / "out")
    (tmp_path / "x.xlsx").write_text("1")
    with pytest.raises(DGLError, match="no known format"):
        prepare(tmp_path / "x.xlsx", np.ones((2, 1)), tmp_path / "out")


def test_sources_in_the_output_folder(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "e.csv").write_text("0,1\n")
    with pytest.raises(DGLError, match="which is to be written"):
        prepare(
            tmp_path / "out" / "e.csv", np.ones((2, 1)), tmp_path / "out"
        )  # fmt: skip
    assert (tmp_path / "out" / "e.csv").exists()


def test_a_full_disk_is_said_first(tmp_path, monkeypatch):
    import shutil

    from dgl_lc.storage import free_disk

    usage = shutil.disk_usage(tmp_path)._replace(free=100)
    monkeypatch.setattr(free_disk.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DGLError, match=r"the task needs .* only 100 B"):
        prepare(np.array([[0], [1]]), np.ones((9, 9)), tmp_path / "out")


def test_ids_that_a_task_does_not_have(tmp_path):
    data = run(tmp_path)
    with pytest.raises(DGLError, match=r"ids has 2 ids .*'x', 'y'"):
        data.find_nodes(["a", "x", "y"])
    with pytest.raises(DGLError, match="the ids of the nodes are texts"):
        data.find_nodes([1])
    with pytest.raises(DGLError, match="nodes holds 3"):
        data.ids_of([3])
