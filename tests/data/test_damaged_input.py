"""Damaged input of every format: an error of ours, or a valid result.

A bit that is flipped in a user's data may well give another graph. It never
gives another exception, a crash, a hang, or ids that are no nodes. More cases:

    DGL_LC_FUZZ=5000 pytest tests/data/test_damaged_input.py
"""

import gzip
import json
import os
import random
import shutil

import numpy as np
import pytest
import torch
from dgl import DGLError
from night import fuzz

from dgl_lc.data import (
    block_model,
    build_disk_graph,
    load,
    prepare_ogb,
    save_npz,
    write_features,
    write_papers_like,
)
from dgl_lc.data.ogb import load_ogb
from dgl_lc.testing.damage import damage, damage_packed

CASES = fuzz(12, 1000)
N = 40


def random_edges(m=150):
    return np.random.default_rng(3).integers(0, N, (2, m))


def random_rows():
    rng = np.random.default_rng(4)
    return rng.standard_normal((N, 5)).astype(np.float32)


def check_task(data):
    source, target = data.graph.edges()
    n = data.graph.num_nodes()
    for ids in (source, target, data.train, data.valid, data.test):
        assert len(ids) == 0 or 0 <= int(ids.min()) <= int(ids.max()) < n
    assert int(data.labels.min()) >= -1
    assert int(data.labels.max()) < data.num_classes
    assert data.feat.shape[0] == n


def use_edges(folder, out):
    graph = build_disk_graph(next(folder.iterdir()), N, out, memory="16MiB")
    assert graph.num_nodes() == N
    graph.check_edges()


def use_features(folder, out):
    write_features(next(folder.iterdir()), out, width=2).verify()


def use_task(folder, out):
    check_task(load(next(folder.iterdir())))


def use_folder(folder, out):
    check_task(load(folder))


def use_ogb(folder, out):
    check_task(load_ogb("ogbn-arxiv", folder))


def use_ogb_binary(folder, out):
    data = prepare_ogb(folder, out, memory="16MiB")
    data.graph.check_edges()
    data.verify()
    assert data.labels.max() < data.num_classes


def write_csv(path, rows):
    text = "".join(",".join(map(str, row)) + "\n" for row in rows.tolist())
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def make_npy_folder(folder):
    data = block_model(N, 3, 4)
    np.save(folder / "edges.npy", torch.stack(data.graph.edges()).numpy())
    for name in ("feat", "labels", "train", "valid", "test"):
        np.save(folder / f"{name}.npy", getattr(data, name).numpy())


def make_sparse_task(folder):
    task = block_model(N, 3, 4)
    np.savez(
        folder / "a.npz",
        edges=random_edges(), labels=task.labels, train=task.train,
        valid=task.valid, test=task.test, num_nodes=np.int64(N),
        feat_indptr=np.arange(N + 1), feat_indices=np.arange(N) % 6,
        feat_data=np.ones(1, np.float16), feat_dim=np.int64(6),
    )  # fmt: skip


def make_graphsaint(folder):
    whole, train = np.eye(N, k=1), np.eye(N)
    train[N // 2 :] = 0
    for name, matrix in (("adj_full", whole), ("adj_train", train)):
        rows, columns = matrix.nonzero()
        np.savez(
            folder / f"{name}.npz", data=np.ones(len(rows)), indices=columns,
            indptr=np.searchsorted(rows, np.arange(N + 1)),
            shape=np.array([N, N]), format=np.array(b"csr"),
        )  # fmt: skip
    np.save(folder / "feats.npy", random_rows())
    classes = {str(node): node % 3 for node in range(N)}
    (folder / "class_map.json").write_text(json.dumps(classes))
    nodes = list(range(N))
    roles = {"tr": nodes[: N // 2], "va": nodes[N // 2 : 30], "te": nodes[30:]}
    (folder / "role.json").write_text(json.dumps(roles))


def make_ogb(folder):
    raw, split = folder / "raw", folder / "split" / "time"
    write_csv(raw / "edge.csv.gz", random_edges().T)
    write_csv(raw / "node-feat.csv.gz", random_rows())
    write_csv(raw / "node-label.csv.gz", np.arange(N)[:, None])
    write_csv(raw / "num-node-list.csv.gz", np.array([[N]]))
    parts = np.split(np.arange(N)[:, None], [20, 30])
    for name, ids in zip(("train", "valid", "test"), parts, strict=True):
        write_csv(split / f"{name}.csv.gz", ids)


def make_ogb_binary(folder):
    home = write_papers_like(folder / "made", 1e-5, feat_dim=3)
    shutil.copytree(home, folder, dirs_exist_ok=True)
    shutil.rmtree(folder / "made")


def save_edges(folder):
    np.save(folder / "e.npy", random_edges())


FORMATS = {
    "npy edges": (save_edges, use_edges),
    "npy edges, other layout": (
        lambda f: np.save(f / "e.npy", random_edges().T.astype(">i2").copy()),
        use_edges,
    ),
    "npz edges": (
        lambda f: np.savez(f / "e.npz", edge_index=random_edges()),
        use_edges,
    ),
    "csv edges": (
        lambda f: write_csv(f / "e.csv", random_edges().T),
        use_edges,
    ),
    "csv.gz edges": (
        lambda f: write_csv(f / "e.csv.gz", random_edges().T),
        use_edges,
    ),
    "npy features": (
        lambda f: np.save(f / "x.npy", random_rows()),
        use_features,
    ),
    "npz features": (
        lambda f: np.savez_compressed(f / "x.npz", node_feat=random_rows()),
        use_features,
    ),
    "npz task": (
        lambda f: save_npz(block_model(N, 3, 4), f / "a.npz"),
        use_task,
    ),
    "npz task, sparse": (make_sparse_task, use_task),
    "npy folder": (make_npy_folder, use_folder),
    "GraphSAINT": (make_graphsaint, use_folder),
    "OGB csv": (make_ogb, use_ogb),
    "OGB binary": (make_ogb_binary, use_ogb_binary),
}


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_input_is_an_error_or_valid(tmp_path, name):
    make, use = FORMATS[name]
    folder = tmp_path / "in"
    folder.mkdir()
    make(folder)
    use(folder, tmp_path / "out")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    files = [path for path in files if path.name != "papers_like.json"]
    rng = random.Random(CASES)
    errors = 0
    for _ in range(CASES):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        path = rng.choice(files)
        kept = path.read_bytes()
        if rng.random() < 0.5:
            path.write_bytes(damage(kept, rng))
        else:
            path.write_bytes(damage_packed(path.name, kept, rng))
        try:
            use(folder, tmp_path / "out")
        except DGLError:
            errors += 1
        path.write_bytes(kept)
    assert errors > CASES // 10


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
@pytest.mark.parametrize("name", FORMATS)
def test_a_pipe_is_an_error_and_no_hang(tmp_path, name):
    make, use = FORMATS[name]
    folder = tmp_path / "in"
    folder.mkdir()
    make(folder)
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name == "papers_like.json":
            continue
        kept = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(DGLError):
            use(folder, tmp_path / "out")
        path.unlink()
        path.write_bytes(kept)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
