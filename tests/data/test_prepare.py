"""Tasks on disk from files of one's own."""

import gzip
import sys

import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases

from dgl_lc.data import DiskData, prepare
from dgl_lc.testing.folders import folder_content

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet as pq
from prepare_cases import (
    FORMATS,
    Content,
    arguments,
    edge_columns,
    make_content,
    node_columns,
    write_csv,
)


def check_task(data: DiskData, content: Content) -> None:
    source, target = content.edges
    order = np.argsort(target, kind="stable")
    assert np.array_equal(data.graph.indices, source[order])
    if content.weights is not None:
        assert np.array_equal(data.graph.weights, content.weights[order])
    feat = torch.from_numpy(content.feat)
    assert torch.equal(data.feat.block(0, feat.shape[1]), feat)
    n = len(content.ids)
    assert data.ids_of(torch.arange(n)).tolist() == content.ids
    assert data.find_nodes(content.ids[::-1]).tolist() == list(range(n))[::-1]
    if content.labels:
        names = [*data.class_names, ""]
        assert [names[c] for c in data.labels.tolist()] == content.labels
        assert data.class_names == sorted(set(content.labels) - {""})
        assert data.num_classes == len(data.class_names)
    for part, word in (("train", "train"), ("valid", "val"), ("test", "test")):
        wanted = [i for i, w in enumerate(content.split) if w == word]
        assert getattr(data, part).tolist() == wanted


@pytest.fixture(scope="module")
def csv_keys(tmp_path_factory):
    """The key of the task that is read from csv, with and without texts."""
    folder = tmp_path_factory.mktemp("csv")
    keys = {}
    for text in (True, False):
        content = make_content(text=text)
        options = arguments(folder / f"in {text}", content, "csv")
        keys[text] = prepare(**options, out=folder / f"out {text}").key
    return keys


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_task(tmp_path, csv_keys, form, text):
    content = make_content(text=text)
    data = prepare(
        **arguments(tmp_path / "in", content, form), out=tmp_path / "out"
    )
    check_task(data, content)
    data.verify()
    assert data.key == csv_keys[text]
    assert not (tmp_path / "out" / "edges").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_takes_weights(tmp_path, form):
    content = make_content(text=form == "tsv", weighted=True)
    data = prepare(
        **arguments(tmp_path / "in", content, form), out=tmp_path / "out"
    )
    check_task(data, content)


odd_texts = st.lists(
    st.text(
        st.one_of(
            st.sampled_from("0017-,;\t\"' \n\r#é日𝄞"),
            st.characters(exclude_categories=["Cs"]),
        ),
        min_size=1,
        max_size=12,
    ).filter(lambda text: "\0" not in text),
    min_size=2,
    max_size=12,
    unique=True,
)
odd_integers = st.lists(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1),
        st.sampled_from([0, -1, 2**63 - 1, -(2**63), 2**32]),
    ),
    min_size=2,
    max_size=12,
    unique=True,
)


@settings(deadline=None, max_examples=cases(12, 200))
@given(ids=st.one_of(odd_texts, odd_integers), data=st.data())
def test_odd_ids_survive_every_format(tmp_path_factory, ids, data):
    form = data.draw(st.sampled_from(FORMATS))
    n = len(ids)
    ends = st.integers(0, n - 1)
    pairs = data.draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=20))
    labels = ["a"] * n
    content = Content(
        ids,
        np.array(pairs).T,
        np.arange(2 * n, dtype=np.float32).reshape(n, 2),
        labels,
        ["train"] * n,
    )
    folder = tmp_path_factory.mktemp("odd")
    options = arguments(folder / "in", content, form)
    if form == "arrays and files of ids":
        options["split"].pop("val")
        options["split"].pop("test")
    check_task(prepare(**options, out=folder / "out"), content)


def test_integers_and_leading_zeros_are_told_apart(tmp_path):
    content = make_content(n=3, m=6)
    content.labels = content.split = []
    content.ids = ["7", "007", "+7"]
    edges = write_csv(tmp_path / "e.csv", edge_columns(content))
    nodes = write_csv(tmp_path / "x.csv", node_columns(content))
    data = prepare(edges, nodes, tmp_path / "out")
    check_task(data, content)


def test_ids_that_are_the_rows_need_no_file(tmp_path):
    content = make_content(text=False)
    content.ids = list(range(len(content.ids)))
    options = arguments(tmp_path / "in", content, "csv")
    data = prepare(**options, out=tmp_path / "out")
    assert not list((tmp_path / "out" / "ids").glob("*.npy"))
    check_task(data, content)
    np.save(tmp_path / "e.npy", content.edges.T)
    np.save(tmp_path / "x.npy", content.feat)
    same = prepare(
        tmp_path / "e.npy", tmp_path / "x.npy", tmp_path / "same",
        labels=np.array(content.labels),
        split={
            word: np.array([w == word for w in content.split])
            for word in ("train", "val", "test")
        },
    )  # fmt: skip
    assert same.key == data.key
    assert not (tmp_path / "same" / "edges").exists()


def test_memory_maps_and_tensors_are_taken(tmp_path):
    content = make_content(text=False)
    np.save(tmp_path / "x.npy", content.feat)
    feat = np.lib.format.open_memmap(tmp_path / "x.npy", mode="r")
    data = prepare(
        torch.tensor(np.array(content.ends)), feat, tmp_path / "out",
        nodes=torch.tensor(content.ids),
    )  # fmt: skip
    content.labels = content.split = []
    check_task(data, content)
    assert (data.num_classes, data.class_names) == (0, None)
    assert (data.labels == -1).all()
    assert len(data.train) == len(data.valid) == len(data.test) == 0


def test_half_floats_in_parquet(tmp_path):
    half = np.array([[1.5, -2], [0.25, 3]], np.float16)
    columns = {f"f{i}": pa.array(half[:, i]) for i in range(2)}
    pq.write_table(
        pa.table({"id": ["a", "b"]} | columns), tmp_path / "x.parquet"
    )
    edges = write_csv(tmp_path / "e.csv", {"src": ["a"], "dst": ["b"]})
    data = prepare(
        edges, tmp_path / "x.parquet", tmp_path / "out", dtype=torch.float16
    )
    assert data.feat.dtype == torch.float16
    assert np.array_equal(data.feat.block(0, 2).numpy(), half)


@pytest.mark.parametrize(
    ("given", "labels", "names"),
    [
        ([0, 1, 2, -1], [0, 1, 2, -1], None),
        ([10, 2, 2, -1], [1, 0, 0, -1], ["2", "10"]),
        ([1.0, 0.0, np.nan, 1.0], [1, 0, -1, 1], None),
        (["b", "a", "", "b"], [1, 0, -1, 1], ["a", "b"]),
        (["10", "9", "-1", ""], [1, 0, -1, -1], ["9", "10"]),
        (["b", "-1", "a", "N/A"], [1, -1, 0, -1], ["a", "b"]),
        (["NA", " ", "a", "nuLL"], [-1, -1, 0, -1], ["a"]),
        ([True, False, True, True], [1, 0, 1, 1], None),
    ],
)
def test_labels_become_classes(tmp_path, given, labels, names):
    edges, feat = np.array([[0], [1]]), np.ones((4, 1), np.float32)
    data = prepare(edges, feat, tmp_path / "a", labels=np.array(given))
    assert data.labels.tolist() == labels
    assert data.class_names == names
    assert data.num_classes == len(set(labels) - {-1})
    missing = [
        None if value != value or value == "" else value for value in given
    ]
    pq.write_table(
        pa.table({"id": range(4), "label": missing}), tmp_path / "y.parquet"
    )
    data = prepare(edges, feat, tmp_path / "b", labels=tmp_path / "y.parquet")
    assert data.labels.tolist() == labels
    table = {"id": range(4), "label": ["" if v is None else v for v in missing]}
    if given[0] is not True:
        path = write_csv(tmp_path / "y.csv", table)
        data = prepare(edges, feat, tmp_path / "c", labels=path)
        assert data.labels.tolist() == labels
        assert data.class_names == names


def test_fractions_are_exact_and_repeatable(tmp_path):
    n = 103
    edges, feat = np.array([[0], [1]]), np.ones((n, 1), np.float32)
    labels = np.arange(n) % 3
    labels[100:] = -1
    options = {"labels": labels, "split": (0.6, 0.2, 0.2)}
    first = prepare(edges, feat, tmp_path / "a", **options)
    again = prepare(edges, feat, tmp_path / "b", **options)
    other = prepare(edges, feat, tmp_path / "c", seed=1, **options)
    parts = [first.train, first.valid, first.test]
    assert [len(part) for part in parts] == [60, 20, 20]
    assert sorted(torch.cat(parts).tolist()) == list(range(100))
    assert torch.equal(first.train, again.train)
    assert not torch.equal(first.train, other.train)


def test_a_split_comes_from_a_folder_or_an_npz_file(tmp_path):
    edges, feat = np.array([[0], [1]]), np.ones((4, 1), np.float32)
    np.savez(
        tmp_path / "s.npz",
        train=[0, 3],
        valid=[1],
        test=np.array([2], np.uint8),
    )
    masks = np.eye(4, dtype=bool)[[0, 1, 2]]
    masks[0, 3] = True
    np.savez(
        tmp_path / "m.npz", train_mask=masks[0], val_mask=masks[1],
        test_mask=masks[2],
    )  # fmt: skip
    (tmp_path / "parts").mkdir()
    for name, ids in (("train", [3, 0]), ("valid", [1]), ("test", [2])):
        write_csv(tmp_path / "parts" / f"{name}.csv", {"id": ids})
    write_csv(
        tmp_path / "words.csv",
        {"id": [3, 0, 1, 2], "split": ["train", "Train", "validation", "test"]},
    )
    for number, split in enumerate(["s.npz", "m.npz", "parts", "words.csv"]):
        data = prepare(
            edges, feat, tmp_path / f"out{number}", labels=np.zeros(4, int),
            split=tmp_path / split,
        )  # fmt: skip
        found = [data.train.tolist(), data.valid.tolist(), data.test.tolist()]
        assert found == [[0, 3], [1], [2]]


def test_reverse_edges_and_loops(tmp_path):
    edges = np.array([[0, 1, 2], [1, 0, 2]])
    feat = np.ones((3, 1), np.float32)
    data = prepare(
        edges, feat, tmp_path / "a", add_reverse=True, drop_loops=True
    )
    assert data.graph.num_edges() == 2


def test_a_second_call_opens_the_task(tmp_path):
    options = arguments(tmp_path / "in", make_content(), "csv")
    prepare(**options, out=tmp_path / "out")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*")}
    prepare(**options, out=tmp_path / "out")
    after = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*")}
    assert after == before


def test_other_inputs_or_options_are_an_error(tmp_path):
    content = make_content()
    options = arguments(tmp_path / "in", content, "csv")
    prepare(**options, out=tmp_path / "out")
    with pytest.raises(DGLError, match=r"drop_loops.*resume=False"):
        prepare(**options, out=tmp_path / "out", drop_loops=True)
    write_csv(tmp_path / "y.csv", {"id": content.ids, "y": content.ids})
    with pytest.raises(DGLError) as caught:
        prepare(**options, out=tmp_path / "out", labels=tmp_path / "y.csv")
    assert "it was made from the file x.csv, asked for is y.csv" in str(
        caught.value
    )
    content.feat[0] = 7
    write_csv(options["features"], node_columns(content))
    with pytest.raises(DGLError) as caught:
        prepare(**options, out=tmp_path / "out")
    message = str(caught.value)
    assert message.count("the file x.csv has changed (size, time)") == 1
    assert "inode" not in message
    assert "{" not in message
    data = prepare(**options, out=tmp_path / "out", resume=False)
    check_task(data, content)


def test_files_that_are_not_ours_stay(tmp_path):
    options = arguments(tmp_path / "in", make_content(), "csv")
    (tmp_path / "out" / "edges").mkdir(parents=True)
    (tmp_path / "out" / "edges" / "mine.csv").write_text("keep")
    with pytest.raises(DGLError, match="did not write"):
        prepare(**options, out=tmp_path / "out")
    assert (tmp_path / "out" / "edges" / "mine.csv").read_text() == "keep"
    with pytest.raises(DGLError, match="did not write"):
        prepare(**options, out=tmp_path / "out", resume=False)
    assert (tmp_path / "out" / "edges" / "mine.csv").read_text() == "keep"


def test_a_table_of_ids_that_does_not_fit_means_more_passes(
    tmp_path, monkeypatch
):
    from dgl_lc.storage import node_ids

    content = make_content(n=500, m=3000, weighted=True)
    options = arguments(tmp_path / "in", content, "csv")
    calm = prepare(**options, out=tmp_path / "calm")
    monkeypatch.setattr(node_ids, "num_parts", lambda *_: 3)
    data = prepare(**options, out=tmp_path / "out")
    check_task(data, content)
    assert data.key == calm.key


def without_pyarrow(monkeypatch):
    for name in ("pyarrow", "pyarrow.csv", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)


def test_integers_need_no_further_package(tmp_path, monkeypatch):
    content = make_content(text=False)
    np.save(tmp_path / "x.npy", content.feat)
    content.labels = content.split = []
    data = edge_columns(content)
    plain = write_csv(tmp_path / "e.csv", data)
    packed = write_csv(tmp_path / "e.csv.gz", data)
    bare = write_csv(tmp_path / "bare.csv", data, header=False)
    nodes = write_csv(tmp_path / "n.csv", {"id": content.ids})
    without_pyarrow(monkeypatch)
    for number, edges in enumerate([plain, packed, bare]):
        task = prepare(
            edges, tmp_path / "x.npy", tmp_path / f"out{number}", nodes=nodes
        )
        check_task(task, content)


@pytest.mark.parametrize("has_pyarrow", [True, False])
def test_the_mark_of_an_encoding_is_no_header(
    tmp_path, monkeypatch, has_pyarrow
):
    if not has_pyarrow:
        without_pyarrow(monkeypatch)
    for text in ("0,1\n1,2\n", "src,dst\n0,1\n1,2\n"):
        (tmp_path / "e.csv").write_text(text, encoding="utf-8-sig")
        data = prepare(
            tmp_path / "e.csv", np.ones((3, 1)), tmp_path / "out",
            resume=False,
        )  # fmt: skip
        assert data.graph.num_edges() == 2
    (tmp_path / "e.csv").write_text("0,1\n", encoding="utf-16")
    with pytest.raises(DGLError, match="is encoded in utf-16"):
        prepare(tmp_path / "e.csv", np.ones((3, 1)), tmp_path / "new")


@pytest.mark.parametrize("form", ["csv", "csv.zst", "tsv", "parquet"])
def test_other_formats_name_the_extra(tmp_path, monkeypatch, form):
    options = arguments(tmp_path / "in", make_content(), form)
    without_pyarrow(monkeypatch)
    with pytest.raises(DGLError, match=r'pip install "dgl-lc\[tables\]"'):
        prepare(**options, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_task_can_be_moved_and_opened_without_its_sources(tmp_path):
    content = make_content()
    options = arguments(tmp_path / "in", content, "csv.gz")
    prepare(**options, out=tmp_path / "out")
    whole = folder_content(tmp_path / "out")
    gzip.open(options["edges"]).close()
    (tmp_path / "out").rename(tmp_path / "moved")
    for path in (tmp_path / "in").iterdir():
        path.unlink()
    data = DiskData(tmp_path / "moved")
    check_task(data, content)
    assert data.name == "moved"
    assert folder_content(tmp_path / "moved") == whole


def test_numbers_and_masks_of_nodes_are_checked(tmp_path):
    content = make_content()
    data = prepare(**arguments(tmp_path / "in", content, "csv"),
                   out=tmp_path / "out")  # fmt: skip
    n = data.graph.num_nodes()
    mask = torch.arange(n) % 2 == 0
    assert data.ids_of(mask).tolist() == content.ids[::2]
    with pytest.raises(DGLError, match=f"nodes is a mask of {n - 1} entries"):
        data.ids_of(mask[1:])
    with pytest.raises(DGLError, match=f"nodes holds {n}, but there are"):
        data.ids_of([0, n])


@pytest.mark.parametrize("name", ["text.npy", "begins.npy"])
def test_damaged_ids_are_found(tmp_path, name):
    options = arguments(tmp_path / "in", make_content(), "csv")
    prepare(**options, out=tmp_path / "out")
    file = tmp_path / "out" / "ids" / name
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(content)
    with pytest.raises(DGLError, match="damaged"):
        DiskData(tmp_path / "out").ids_of([1])
    with pytest.raises(DGLError, match="damaged"):
        DiskData(tmp_path / "out").find_nodes(["a"])
    with pytest.raises(DGLError, match="damaged"):
        DiskData(tmp_path / "out").verify()


def test_ids_of_another_task_are_refused(tmp_path):
    for name, seed in (("a", 0), ("b", 1)):
        content = make_content(seed=seed)
        prepare(
            **arguments(tmp_path / f"in {name}", content, "csv"),
            out=tmp_path / name,
        )
    (tmp_path / "a" / "ids").rename(tmp_path / "old")
    (tmp_path / "b" / "ids").rename(tmp_path / "a" / "ids")
    with pytest.raises(DGLError, match=r"ids is not the one that"):
        DiskData(tmp_path / "a")
