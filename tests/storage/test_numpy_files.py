"""npy files with headers that lie, and what is made of their numbers."""

import io
import zipfile

import numpy as np
import pytest
from dgl import DGLError

from dgl_lc.data import build_disk_graph, write_features
from dgl_lc.storage.array_stream import NpyFile
from dgl_lc.storage.npz_stream import Member
from dgl_lc.storage.numpy_files import csr_rows, integers, read_npy, read_npz


def with_header(text, numbers=b"", version=1):
    """An npy file with this header."""
    head = text.encode("latin1").ljust(117) + b"\n"
    size = len(head).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + head + numbers


def header(descr="'<i8'", fortran="False", shape="(2, 3)"):
    text = f"'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}"
    return "{" + text + "}"


WRONG = {
    "negative": header(shape="(-2, 3)"),
    "product that overflows": header(shape="(2, 9223372036854775807)"),
    "product that becomes 0": header(shape="(4294967296, 4294967296)"),
    "longer than the file": header(shape="(2, 4)"),
    "truth as a length": header(shape="(True, 3)"),
    "a fraction": header(shape="(2.0, 3)"),
    "no tuple": header(shape="6"),
    "many dimensions": header(shape=str((1,) * 33)),
    "objects": header("'|O'"),
    "objects inside": header("[('a', '<i8'), ('b', '|O')]"),
    "a structure": header("[('a', '<i4'), ('b', '<i4')]"),
    "dates": header("'<M8[s]'"),
    "no type": header("'banana'"),
    "a type by a number": header("17"),
    "a list of nothing": header("[[]]"),
    "no dictionary": "[1, 2]",
    "a call": "__import__('os').abort()",
    "brackets without end": "{" * 60,
    "a bracket too many": header() + ")",
    "a null byte": header().replace(",", "\0", 1),
    "no ASCII": header().replace("descr", "d\xe9scr"),
    "another key": header().replace("shape", "shapf"),
    "nothing": "",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_header_is_an_error_that_names_the_file(tmp_path, text):
    data = with_header(text, bytes(48))
    path = tmp_path / "wrong.npy"
    path.write_bytes(data)
    for use in (
        lambda: read_npy(path),
        lambda: read_npy(path, mapped=True),
        lambda: build_disk_graph(path, 5, tmp_path / "graph"),
        lambda: write_features(path, tmp_path / "feat"),
    ):
        with pytest.raises(DGLError, match=r"wrong\.npy"):
            use()
    for how in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "wrong.npz", "w", how) as archive:
            archive.writestr("edge_index.npy", data)
        with pytest.raises(DGLError, match=r"wrong\.npz: edge_index"):
            read_npz(tmp_path / "wrong.npz", ["edge_index"])
        with pytest.raises(DGLError, match=r"wrong\.npz: edge_index"):
            Member(tmp_path / "wrong.npz", "edge_index")


def test_objects_are_not_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}, []], dtype=object))
    for mapped in (False, True):
        with pytest.raises(DGLError, match="pickled Python objects"):
            read_npy(tmp_path / "a.npy", mapped=mapped)


@pytest.mark.parametrize("version", [1, 2])
def test_headers_of_both_versions_are_read(tmp_path, version):
    numbers = np.arange(6).tobytes()
    data = with_header(header(), numbers, version)
    (tmp_path / "a.npy").write_bytes(data)
    found = read_npy(tmp_path / "a.npy")
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (7,), (), (2, 3, 4)])
def test_what_numpy_saves_is_read(tmp_path, mapped, shape):
    for order in "CF":
        a = np.random.default_rng(0).random(shape)
        np.save(tmp_path / "a.npy", np.asarray(a, order=order))
        found = read_npy(tmp_path / "a.npy", mapped=mapped)
        assert np.array_equal(found, a)
        np.savez(tmp_path / "a.npz", a=np.asarray(a, order=order), b="text")
        arrays = read_npz(tmp_path / "a.npz", ["a", "b", "c"])
        assert np.array_equal(arrays["a"], a)
        assert str(arrays["b"]) == "text"
        assert "c" not in arrays


def test_a_header_that_promises_more_than_memory(tmp_path):
    # A member whose sizes are all the same lie.
    huge = header(shape=f"({2**50},)")
    path = tmp_path / "huge.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", with_header(huge, bytes(1000)))
        info = archive.getinfo("a.npy")
        info.file_size = 128 + 8 * 2**50
    with pytest.raises(DGLError, match=r"more than .* bytes can stand for"):
        Member(path, "a")


def test_a_file_that_becomes_shorter_is_an_error(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(10_000))
    file = NpyFile(path)
    slices = file.values([np.empty(100, np.int64)])
    assert next(slices)[-1] == 99
    with open(path, "r+b") as raw:
        raw.truncate(3000)
    with pytest.raises(DGLError, match=r"a\.npy cannot be read: the file is"):
        list(slices)


@pytest.mark.parametrize("kind", [">i8", ">i4", "<u2", "i1", ">u8"])
@pytest.mark.parametrize("layout", ["rows", "columns", "fortran"])
def test_ids_of_every_type_are_the_same_graph(tmp_path, kind, layout):
    edges = np.random.default_rng(0).integers(0, 100, (2, 20_000))
    np.save(tmp_path / "plain.npy", edges)
    plain = build_disk_graph(tmp_path / "plain.npy", 100, tmp_path / "plain")
    other = edges.astype(kind)
    other = {
        "rows": other,
        "columns": np.ascontiguousarray(other.T),
        "fortran": np.asfortranarray(other),
    }[layout]
    np.save(tmp_path / "other.npy", other)
    np.savez_compressed(tmp_path / "other.npz", edge_index=other)
    for name in ("other.npy", "other.npz"):
        graph = build_disk_graph(tmp_path / name, 100, tmp_path / f"{name} g")
        assert graph.key == plain.key


def test_integers_that_do_not_fit_are_refused():
    with pytest.raises(DGLError, match="labels holds 18446744073709551615"):
        integers(np.array([2**64 - 1], np.uint64), "labels")
    assert integers(np.array([7], ">u8"), "labels").tolist() == [7]


def test_an_indptr_whose_steps_overflow_is_refused():
    indptr = np.array([0, 2**63 - 1, -2, 1])
    with pytest.raises(DGLError, match="indptr should rise"):
        csr_rows(indptr, np.zeros(1, int), (3, 3), "matrix")


def test_trailing_bytes_do_not_matter(tmp_path):
    file = io.BytesIO()
    np.save(file, np.arange(3))
    (tmp_path / "a.npy").write_bytes(file.getvalue() + b"more")
    assert read_npy(tmp_path / "a.npy").tolist() == [0, 1, 2]
