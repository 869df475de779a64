"""Damaged folders: an error of ours or the right result, never anything else.

Every file of every format is damaged in many ways, and then used. A crash
would end the test run, a hang is ended by the time limit. More cases:

    DGL_LC_FUZZ=5000 pytest tests/storage/test_damage.py
"""

import json
import os
import random
import warnings
import zlib

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from night import fuzz, pairwise

from dgl_lc import block_aggregate
from dgl_lc.data import DiskData, build_disk_graph, prepare_ogb, write_features
from dgl_lc.data.papers_like import write_papers_like
from dgl_lc.nn import FSGNN
from dgl_lc.precompute import open_store
from dgl_lc.storage.disk_features import DiskFeatures
from dgl_lc.storage.disk_graph import DiskGraph
from dgl_lc.testing.folders import edit_manifest
from dgl_lc.training import HopLoader

CASES = fuzz(15, 1000)


def random_edges(n=50, m=200):
    return np.random.default_rng(3).integers(0, n, (2, m))


def features():
    return torch.randn(50, 10, generator=torch.Generator().manual_seed(0))


def make_graph(tmp_path):
    np.save(tmp_path / "edges.npy", random_edges())
    build_disk_graph(tmp_path / "edges.npy", 50, tmp_path / "out")


def make_weighted(tmp_path):
    np.save(tmp_path / "edges.npy", random_edges())
    np.save(tmp_path / "weights.npy", np.random.default_rng(1).random(200))
    build_disk_graph(
        tmp_path / "edges.npy", 50, tmp_path / "out",
        weights=tmp_path / "weights.npy",
    )  # fmt: skip


def use_weighted(path):
    graph = DiskGraph(path).to_dgl()
    return *use_graph(path), graph.edata["weight"]


def use_graph(path):
    hops = block_aggregate(DiskGraph(path), features(), 2, nodes=[3, 49, 7])
    return hops.stack, DiskGraph(path).to_dgl().edges()


def make_features(tmp_path):
    np.save(tmp_path / "x.npy", features().numpy())
    write_features(tmp_path / "x.npy", tmp_path / "out", width=4)


def use_features(path):
    edges = torch.from_numpy(random_edges())
    g = dgl.graph((edges[0], edges[1]), num_nodes=50)
    feat = DiskFeatures(path)
    hops = block_aggregate(g, feat, 2)
    return hops.stack, feat.rows([4, 1]), feat.block(1, 9)


def make_store(tmp_path):
    edges = torch.from_numpy(random_edges())
    g = dgl.graph((edges[0], edges[1]), num_nodes=50)
    nodes = [3, 49, 7, 20]
    block_aggregate(g, features(), 2, nodes=nodes, out=tmp_path / "out")


def use_store(path):
    hops = open_store(path)
    nodes = torch.tensor([49, 20, 3])
    batches = [batch.stack for batch in HopLoader(hops, nodes, batch_size=2)]
    filters = torch.tensor([hops.filter.norm == "both", hops.filter.self_loop])
    return torch.cat(batches), filters, torch.tensor(hops.hops)


def make_task(tmp_path):
    write_papers_like(tmp_path / "raw", 1e-5, feat_dim=5)
    prepare_ogb(tmp_path / "raw", tmp_path / "out", width=4)


def use_task(path):
    data = DiskData(path)
    hops = block_aggregate(data.graph, data.feat, 1, nodes=data.train[:3])
    splits = (data.train, data.valid, data.test, data.labels.clone())
    return hops.stack, *splits


def make_inputs(tmp_path):
    edges = torch.from_numpy(random_edges())
    g = dgl.graph((edges[0], edges[1]), num_nodes=50)
    nodes = torch.tensor([3, 49, 7, 20])
    model = FSGNN(10, 4, 2, K=1)
    model.precompute(g, features(), nodes=nodes, out=tmp_path / "out")


def use_inputs(path):
    inputs = open_store(path)
    nodes = torch.tensor([49, 20, 3])
    batches = [batch.stack for batch in HopLoader(inputs, nodes, batch_size=2)]
    # A manifest without its digest may have names that a model refuses.
    model = FSGNN(10, 4, 2, K=1)
    if inputs.names != model.input_names:
        raise DGLError("other names")
    return torch.cat(batches), torch.tensor(len(inputs))


FORMATS = {
    "graph": (make_graph, use_graph),
    "weighted": (make_weighted, use_weighted),
    "inputs": (make_inputs, use_inputs),
    "features": (make_features, use_features),
    "store": (make_store, use_store),
    "task": (make_task, use_task),
}


def flatten(values):
    found = []
    for value in values:
        found += list(value) if isinstance(value, tuple) else [value]
    return found


def damage(data: bytes, rng: random.Random) -> bytes:
    """Change some bytes of a file."""
    content = bytearray(data)
    way = rng.choice(["bit", "byte", "cut", "zeros", "grow", "swap", "empty"])
    place = rng.randrange(max(len(content), 1))
    if way == "bit" and content:
        content[place] ^= 1 << rng.randrange(8)
    elif way == "byte" and content:
        content[place] = rng.randrange(256)
    elif way == "cut":
        del content[place:]
    elif way == "zeros":
        content[place : place + 40] = bytes(len(content[place : place + 40]))
    elif way == "grow":
        content += bytes(rng.randrange(1, 60))
    elif way == "swap" and len(content) > 16:
        other = rng.randrange(len(content) - 8)
        place = min(place, len(content) - 8)
        one = bytes(content[place : place + 8])
        content[place : place + 8] = content[other : other + 8]
        content[other : other + 8] = one
    else:
        content = bytearray()
    return bytes(content)


@pytest.mark.parametrize("name", FORMATS)
def test_damage_is_an_error_or_does_not_matter(tmp_path, name):
    make, use = FORMATS[name]
    make(tmp_path)
    folder = tmp_path / "out"
    expected = flatten(use(folder))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    rng = random.Random(CASES)
    errors = 0
    for case in range(CASES):
        path = files[case % len(files)]
        kept, times = path.read_bytes(), path.stat()
        path.write_bytes(damage(kept, rng))
        try:
            found = flatten(use(folder))
        except DGLError:
            errors += 1
        else:
            pairs = zip(found, expected, strict=True)
            assert all(torch.equal(*pair) for pair in pairs), (case, path.name)
        path.write_bytes(kept)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert errors > CASES // 3


def crafted_arrays(rng, n, m):
    """Arrays that look right and are not."""
    indptr = np.sort(rng.integers(0, m + 1, n + 1)).astype(np.int64)
    indptr[0], indptr[-1] = 0, m
    indices = rng.integers(0, n, m).astype(np.int32)
    loops = np.zeros(n, np.int32)
    wrong = rng.integers(0, 5)
    if wrong == 0:
        indptr[rng.integers(1, n)] = m * 1000
    elif wrong == 1:
        indptr[rng.integers(1, n)] = -5
    elif wrong == 2:
        indices[rng.integers(0, m)] = n + rng.integers(0, 2**20)
    elif wrong == 3:
        indices[rng.integers(0, m)] = -1 - rng.integers(0, 2**20)
    else:
        loops[rng.integers(0, n)] = -50_000
    return {"indptr": indptr, "indices": indices, "loops": loops}


@pytest.mark.parametrize("seed", range(20))
def test_a_crafted_graph_does_not_reach_a_kernel(tmp_path, seed):
    make_graph(tmp_path)
    folder = tmp_path / "out"
    rng = np.random.default_rng(seed)
    for name, array in crafted_arrays(rng, 50, 200).items():
        data = (folder / f"{name}.npy").read_bytes()
        (folder / f"{name}.npy").write_bytes(data[:128] + array.tobytes())

    def fit(manifest):
        for name, about in manifest["files"].items():
            data = (folder / name).read_bytes()[128:]
            about["checksums"] = [zlib.crc32(data)]

    edit_manifest(folder, fit)
    DiskGraph(folder).verify()  # everything fits together
    with pytest.raises(DGLError, match=r"indptr|edge|self-loops"):
        use_graph(folder)


def set_content(folder, name, array):
    """Write other numbers to a file, and make the manifest agree."""
    path = folder / name
    path.write_bytes(path.read_bytes()[:128] + array.tobytes())

    def fit(manifest):
        manifest["files"][name]["checksums"] = [zlib.crc32(array.tobytes())]

    edit_manifest(folder, fit)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_crafted_weights_do_not_reach_a_kernel(tmp_path, value):
    make_weighted(tmp_path)
    weights = np.ones(200)
    weights[[77, 150]] = value
    set_content(tmp_path / "out", "weights.npy", weights)
    DiskGraph(tmp_path / "out").verify()  # everything fits together
    with pytest.raises(DGLError, match="edge 77 has the weight"):
        use_weighted(tmp_path / "out")


def test_weights_that_the_manifest_does_not_name(tmp_path):
    make_weighted(tmp_path)
    edit_manifest(
        tmp_path / "out", lambda found: found["files"].pop("weights.npy")
    )
    with pytest.raises(DGLError, match=r"weights\.npy is None, and \('<f8'"):
        DiskGraph(tmp_path / "out")


def test_weights_that_the_options_do_not_name(tmp_path):
    make_weighted(tmp_path)
    edit_manifest(
        tmp_path / "out", lambda found: found["options"].pop("weight_dtype")
    )
    with pytest.raises(DGLError, match=r"weights\.npy is .* and None follows"):
        DiskGraph(tmp_path / "out")


@pytest.mark.parametrize("change", [
    {"dtype": "<i4", "shape": [400]}, {"dtype": "<f4", "shape": [400]},
    {"dtype": "<i8", "shape": [200]}, {"shape": [100, 2]},
])  # fmt: skip
def test_weights_of_another_type_or_shape(tmp_path, change):
    make_weighted(tmp_path)
    edit_manifest(
        tmp_path / "out",
        lambda found: found["files"]["weights.npy"].update(change),
    )
    with pytest.raises(DGLError, match=r"contradicts itself: weights\.npy is"):
        DiskGraph(tmp_path / "out")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("num_nodes", 10**9), ("num_nodes", 49), ("num_nodes", -1),
        ("num_nodes", "50"), ("num_nodes", True), ("num_edges", 10**12),
    ],
)  # fmt: skip
def test_sizes_that_contradict_the_files(tmp_path, part, value):
    make_graph(tmp_path)
    edit_manifest(tmp_path / "out", lambda found: found.update({part: value}))
    with pytest.raises(DGLError, match=r"contradicts itself|says that it has"):
        DiskGraph(tmp_path / "out")


def test_the_rows_of_another_store(tmp_path):
    make_store(tmp_path)
    edges = torch.from_numpy(random_edges())
    g = dgl.graph((edges[0], edges[1]), num_nodes=50)
    other = tmp_path / "other"
    block_aggregate(g, features() + 1, 2, nodes=[3, 49, 7, 20], out=other)
    for name in ("rows.npy", "checksums.npy"):
        (tmp_path / "out" / name).write_bytes((other / name).read_bytes())
    with pytest.raises(DGLError, match=r"checksums\.npy is damaged"):
        open_store(tmp_path / "out")


def test_rows_that_changed_places(tmp_path):
    make_store(tmp_path)
    for name in ("rows.npy", "checksums.npy"):
        path = tmp_path / "out" / name
        data = path.read_bytes()
        size = (len(data) - 128) // 4
        rows = [data[128 + i * size : 128 + (i + 1) * size] for i in range(4)]
        path.write_bytes(data[:128] + b"".join([rows[1], rows[0], *rows[2:]]))
    with pytest.raises(DGLError, match="damaged"):
        open_store(tmp_path / "out").verify()


def test_nodes_in_another_order(tmp_path):
    make_store(tmp_path)
    path = tmp_path / "out/nodes.npy"
    data = path.read_bytes()
    ids = np.frombuffer(data[128:], np.int64)[::-1]
    path.write_bytes(data[:128] + ids.tobytes())
    with pytest.raises(DGLError, match=r"nodes\.npy is damaged"):
        open_store(tmp_path / "out")


@pytest.mark.parametrize("change", [
    {"filter": {"norm": "left", "self_loop": True, "weighted": False}},
    {"hops": [1, 2, 3]}, {"dtype": "float16"}, {"rows": 3},
])  # fmt: skip
def test_an_edited_manifest(tmp_path, change):
    make_store(tmp_path)
    path = tmp_path / "out/manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DGLError, match="its digest is not that"):
        open_store(tmp_path / "out")


def test_no_warning_of_numpy_or_torch(tmp_path):
    make_features(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        use_features(tmp_path / "out")


# By day, each part of each format has one of the values.
@pytest.mark.parametrize(
    ("name", "part", "value"),
    pairwise(
        ["graph", "weighted", "features", "store", "inputs"],
        [
            "files", "key", "options", "num_nodes", "num_edges", "shape",
            "width", "dtype", "rows", "hops", "filter", "made_from",
            "some_nodes", "columns", "parts", "shapes", "graph_counts",
        ],
        ["absent", None, 1.5, [], {}, "x", -1, 10**12, True],
    ),
)  # fmt: skip
def test_any_value_in_a_manifest(tmp_path_factory, name, part, value):
    """With a digest that fits: somebody made it so."""
    folder = tmp_path_factory.getbasetemp() / f"manifest-{name}"
    make, use = FORMATS[name]
    if not folder.exists():
        folder.mkdir()
        make(folder)
    path = folder / "out/manifest.json"
    kept = path.read_bytes()

    def change(manifest):
        if value == "absent":
            manifest.pop(part, None)
        elif part in manifest:
            manifest[part] = value

    try:
        edit_manifest(folder / "out", change)
        use(folder / "out")
    except DGLError:
        pass
    finally:
        path.write_bytes(kept)


@pytest.mark.parametrize("name", ["graph", "weighted", "features", "store"])
def test_checksums_can_not_be_switched_off(tmp_path, name):
    make, use = FORMATS[name]
    make(tmp_path)

    def change(manifest):
        for file, about in manifest["files"].items():
            if file != "rows.npy":
                about["checksums"] = None

    edit_manifest(tmp_path / "out", change)
    with pytest.raises(DGLError, match="has no checksums of"):
        use(tmp_path / "out")
