"""Folders: whose files they are, who may read them, and what is refused."""

import contextlib
import json
import multiprocessing
import os
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError

from dgl_lc import block_aggregate
from dgl_lc.data import build_disk_graph, write_features
from dgl_lc.precompute import open_store
from dgl_lc.storage.disk_features import DiskFeatures
from dgl_lc.storage.disk_graph import DiskGraph
from dgl_lc.storage.folder import is_whole, locked, remove_folder
from dgl_lc.storage.hop_store import KIND

EDGES = np.array([[0, 0, 1, 2, 2], [1, 1, 2, 0, 2]])


def snapshot(folder: Path) -> dict:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "raw" / "edges.npy"
    path.parent.mkdir()
    np.save(path, EDGES)
    return path


def make_graph(edges, path, **options):
    return build_disk_graph(edges, 4, path, **options)


def make_features(edges, path, **options):
    values = edges.with_name("x.npy")
    if not values.exists():
        np.save(values, np.arange(12, dtype=np.float32).reshape(4, 3))
    return write_features(values, path, width=2, **options)


def make_store(edges, path, **options):
    g = dgl.graph((EDGES[0], EDGES[1]), num_nodes=4)
    x = torch.arange(12.0).reshape(4, 3)
    return block_aggregate(g, x, 2, nodes=[3, 1, 0], out=path, **options)


MAKERS = [make_graph, make_features, make_store]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "name", ["edges.npy", "rows.npy", "indptr.npy", "columns_0000.npy", "a.txt"]
)
@pytest.mark.parametrize("resume", [True, False])
def test_foreign_files_are_neither_deleted_nor_overwritten(
    edges, tmp_path, make, name, resume
):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / name).write_bytes(b"years of work")
    before = snapshot(folder)
    with pytest.raises(DGLError, match=f"holds '{name}'"):
        make(edges, folder, resume=resume)
    assert snapshot(folder) == before


def test_the_folder_of_the_source_is_refused(edges):
    before = snapshot(edges.parent)
    with pytest.raises(DGLError, match=r"edges\.npy lies in .*/raw, which"):
        build_disk_graph(edges, 4, edges.parent)
    with pytest.raises(DGLError, match=r"x\.npy lies in .*/raw, which"):
        make_features(edges, edges.parent)
    (edges.parent / "x.npy").unlink()
    assert snapshot(edges.parent) == before


@pytest.mark.parametrize("make", MAKERS)
def test_a_file_that_was_added_to_a_whole_folder_stays(edges, tmp_path, make):
    make(edges, tmp_path / "out")
    (tmp_path / "out" / "notes.npy").write_bytes(b"mine")
    before = snapshot(tmp_path / "out")
    make(edges, tmp_path / "out")
    assert snapshot(tmp_path / "out") == before
    with pytest.raises(DGLError, match=r"holds 'notes\.npy'"):
        make(edges, tmp_path / "out", resume=False)
    assert snapshot(tmp_path / "out") == before


@pytest.mark.parametrize("make", MAKERS)
def test_names_in_a_manifest_lead_nowhere_else(edges, tmp_path, make):
    make(edges, tmp_path / "out")
    outside = tmp_path / "precious.npy"
    outside.write_bytes(b"mine")
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    manifest["files"]["../precious.npy"] = {}
    manifest["names"] = ["../precious.npy", str(outside)]
    (tmp_path / "out/manifest.json").write_text(json.dumps(manifest))
    make(edges, tmp_path / "out", resume=False)
    assert outside.read_bytes() == b"mine"


@pytest.mark.parametrize("make", MAKERS)
def test_the_folder_of_another_kind_is_refused(edges, tmp_path, make):
    for other in MAKERS:
        folder = tmp_path / other.__name__
        other(edges, folder)
        before = snapshot(folder)
        if other is not make:
            for resume in (True, False):
                with pytest.raises(DGLError, match="is that of 'dgl-lc "):
                    make(edges, folder, resume=resume)
            assert snapshot(folder) == before


@pytest.mark.parametrize("make", MAKERS)
def test_planted_links_are_not_followed(edges, tmp_path, make, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    whole = make(edges, tmp_path / "whole")
    names = [path.name for path in (tmp_path / "whole").iterdir()]
    del whole
    for name in [*names, ".state.json.part", "state.json"]:
        folder = tmp_path / f"out-{name}"
        folder.mkdir()
        (folder / name).symlink_to(victim)
        with pytest.raises(DGLError):
            make(edges, folder)
        assert victim.read_bytes() == b"mine"


def _write_again(edges, folder):
    """Write another graph where one is mapped."""
    torch.set_num_threads(1)  # a fork keeps no threads
    old = build_disk_graph(edges, 300_000, folder)
    kept = old.indices[-1], old.indptr[-1], old.loops[-1]
    np.save(edges, np.zeros((2, 1), np.int64))
    new = build_disk_graph(edges, 2, folder, resume=False)
    assert (old.indices[-1], old.indptr[-1], old.loops[-1]) == kept
    assert new.num_nodes() == 2


def test_a_mapped_graph_does_not_change_under_its_reader(edges, tmp_path):
    # Reading a map of what was cut off would end the process.
    many = np.random.default_rng(0).integers(0, 300_000, (2, 500_000))
    np.save(edges, many)
    process = multiprocessing.get_context("fork").Process(
        target=_write_again, args=(edges, tmp_path / "g")
    )
    process.start()
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("make", MAKERS)
def test_whole_folders_are_read_while_someone_holds_the_lock(
    edges, tmp_path, make
):
    first = make(edges, tmp_path / "out")
    with locked(tmp_path / "out"):
        again = make(edges, tmp_path / "out")
    assert again.key == first.key


@pytest.mark.parametrize("make", MAKERS)
def test_whole_folders_are_read_from_a_disk_that_cannot_be_written(
    edges, tmp_path, make, monkeypatch
):
    make(edges, tmp_path / "out")

    def refuse(*args, **options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(os, "access", lambda *_: False)
    make(edges, tmp_path / "out")
    with pytest.raises(DGLError, match="cannot be"):
        make(edges, tmp_path / "new")


@pytest.mark.parametrize("make", MAKERS)
def test_a_folder_of_version_1_says_how_to_make_it_again(edges, tmp_path, make):
    make(edges, tmp_path / "out")
    path = tmp_path / "out/manifest.json"
    manifest = json.loads(path.read_text()) | {"version": 1}
    if make is make_store:
        manifest["format"] = 1
    path.write_text(json.dumps(manifest))
    with pytest.raises(DGLError, match=r"version 1, .* and resume=False"):
        make(edges, tmp_path / "out")
    make(edges, tmp_path / "out", resume=False)


@pytest.mark.parametrize("make", MAKERS)
def test_a_copy_has_the_same_key_if_its_content_is_the_same(
    edges, tmp_path, make
):
    first = make(edges, tmp_path / "out")
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in (tmp_path / "out").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    opened = {
        make_graph: DiskGraph, make_features: DiskFeatures,
        make_store: open_store,
    }[make](copy)  # fmt: skip
    assert opened.key == first.key
    if make is not make_store:
        assert opened.check_key() == first.key
        name = next(iter(opened.manifest.files))
        data = bytearray((copy / name).read_bytes())
        data[-1] ^= 1
        (copy / name).write_bytes(data)
        with pytest.raises(DGLError, match="is damaged"):
            opened.check_key()


def test_what_is_not_a_regular_file_is_not_opened(edges, tmp_path):
    make_graph(edges, tmp_path / "g")
    for name in ("manifest.json", "indices.npy"):
        kept = (tmp_path / "g" / name).read_bytes()
        (tmp_path / "g" / name).unlink()
        os.mkfifo(tmp_path / "g" / name)
        with pytest.raises(DGLError, match="not a regular file"):
            DiskGraph(tmp_path / "g")
        (tmp_path / "g" / name).unlink()
        (tmp_path / "g" / name).write_bytes(kept)


def test_a_source_in_the_output_folder_is_refused(edges, tmp_path):
    make_features(edges, tmp_path / "out")
    before = snapshot(tmp_path / "out")
    link = tmp_path / "link.npy"
    link.symlink_to(tmp_path / "out/columns_0000.npy")
    for source in (tmp_path / "out/columns_0000.npy", link):
        with pytest.raises(
            DGLError, match=r"lies in .* which is to be written"
        ):
            write_features(source, tmp_path / "out", resume=False)
    with pytest.raises(DGLError, match=r"lies in .* which is to be written"):
        build_disk_graph(link, 4, tmp_path / "out")
    assert snapshot(tmp_path / "out") == before


def test_another_file_of_the_same_name_size_and_time(edges, tmp_path):
    os.utime(edges, (0, 0))
    make_graph(edges, tmp_path / "out")
    other = tmp_path / "edges.npy"
    np.save(other, EDGES[::-1])
    os.utime(other, (0, 0))
    with pytest.raises(DGLError, match=r"edges.npy has changed \(inode\)"):
        make_graph(other, tmp_path / "out")


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", [".state.json.part", ".manifest.json.part"])
def test_a_planted_draft_is_not_ours(edges, tmp_path, make, name):
    """A link or a folder in the place of our draft is refused."""
    folder, aim = tmp_path / "out", tmp_path / "aim"
    folder.mkdir()
    aim.write_bytes(b'{\n "format": "dgl-lc ')
    (folder / name).symlink_to(aim)
    with pytest.raises(DGLError, match=f"holds '{name}'"):
        make(edges, folder)
    assert aim.read_bytes() == b'{\n "format": "dgl-lc '


@pytest.mark.parametrize(
    "change",
    [
        {"files": [1]},
        {"files": {"counts.npy": 3}},
        {"files": {"counts.npy": {"count": 4, "checksums": 5}}},
        {"notes": 3},
        {"names": ["indptr.npy"]},
        {"files": {"counts.npy": {"count": -1, "checksums": []}}},
        {"files": {"counts.npy": {"count": 4, "checksums": ["a"]}}},
        {"files": {"counts.npy": {"count": 4}}},
    ],
)
def test_a_damaged_state_is_not_resumed_from(
    edges, tmp_path, monkeypatch, change
):
    folder = tmp_path / "out"

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("dgl_lc.storage.edge_sorter.EdgeSorter.fill", full)
        with pytest.raises(DGLError, match="the disk is full"):
            make_graph(edges, folder)
    state = json.loads((folder / "state.json").read_text())
    assert state["files"]
    (folder / "state.json").write_text(json.dumps(state | change))
    with pytest.raises(DGLError, match="with resume=False"):
        make_graph(edges, folder)
    make_graph(edges, folder, resume=False).verify()


@pytest.mark.parametrize("make", MAKERS)
def test_a_read_only_folder_is_refused_before_work(
    edges, tmp_path, monkeypatch, make
):
    # The mode of a folder does not stop root: the answer is injected.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(DGLError, match="it is read-only"):
        make(edges, tmp_path / "out")
    assert not snapshot(tmp_path / "out")


@pytest.mark.parametrize("make", MAKERS)
def test_a_folder_written_again_has_new_files(edges, tmp_path, make):
    """A reader that has mapped the old files keeps them."""
    folder = tmp_path / "out"
    make(edges, folder)
    before = {path: os.stat(path) for path in folder.glob("*.npy")}
    with contextlib.ExitStack() as kept:
        # Open files keep their inodes from being used again.
        for path in before:
            kept.enter_context(open(path, "rb"))
        make(edges, folder, resume=False)
        for path, old in before.items():
            assert os.stat(path).st_ino != old.st_ino


@pytest.mark.parametrize("make", MAKERS)
def test_killed_while_a_folder_is_deleted(edges, tmp_path, make, monkeypatch):
    """After any number of deletions the same call, or another, works."""
    count, unlink = 0, Path.unlink

    def killed(self, missing_ok=False):
        nonlocal left
        if self.parent == folder:
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        unlink(self, missing_ok)

    while True:
        folder, left = tmp_path / f"out{count}", count
        make(edges, folder)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", killed)
            try:
                make(edges, folder, resume=False)
                break
            except KeyboardInterrupt:
                pass
        make(edges, folder, resume=False).verify()
        count += 1
    assert count > 3


def _killed_at_unlink(monkeypatch, number, function, *args, **options):
    """Call a function, which is killed before it deletes a file."""
    unlink = Path.unlink

    def killed(self, missing_ok=False):
        nonlocal number
        if self.exists():
            number -= 1
            if number < 0:
                raise KeyboardInterrupt
        unlink(self, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        try:
            function(*args, **options)
        except KeyboardInterrupt:
            return True
    return False


def test_a_store_that_was_killed_at_its_end_is_deleted_whole(
    edges, tmp_path, monkeypatch
):
    number = whole = 0
    folder = tmp_path / "out"
    while _killed_at_unlink(monkeypatch, number, make_store, edges, folder):
        # A manifest does not name the files that it no longer needs.
        whole += is_whole(folder)
        remove_folder(folder, KIND)
        assert not folder.exists()
        number += 1
    assert whole > 1


def test_a_store_that_is_half_deleted_is_not_whole(
    edges, tmp_path, monkeypatch
):
    number = 0
    while True:
        folder = tmp_path / f"out{number}"
        make_store(edges, folder)
        if not _killed_at_unlink(
            monkeypatch, number, remove_folder, folder, KIND
        ):
            break
        names = {path.name for path in folder.iterdir()}
        assert "rows.npy" in names or not is_whole(folder)
        make_store(edges, folder).verify()
        number += 1
    assert number > 3
