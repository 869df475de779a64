"""Stores of the inputs of models of several filters."""

import json
import pickle
import shutil

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from night import pairwise

from dgl_lc.nn import FSGNN, LCH2GCN
from dgl_lc.precompute import block_aggregate, open_store
from dgl_lc.storage import write_hops
from dgl_lc.testing.folders import folder_content
from dgl_lc.training import HopLoader, fit, predict

MODELS = [FSGNN, LCH2GCN]
NODES = torch.tensor([5, 3, 59, 20])


def random_graph(seed=0):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(60, (2, 300), generator=generator)
    return dgl.graph((ends[0], ends[1]), num_nodes=60)


@pytest.fixture
def g():
    return random_graph()


@pytest.fixture
def x():
    return torch.randn(60, 12, generator=torch.Generator().manual_seed(1))


def make(kind, **options):
    torch.manual_seed(0)
    return kind(12, 8, 3, **{"K": 2, **options})


@pytest.mark.parametrize(
    ("kind", "K", "nodes", "dtype"),
    pairwise(MODELS, [0, 1, 2], [None, NODES], [torch.float32, torch.bfloat16]),
)
def test_a_store_is_the_result_in_memory(g, x, tmp_path, kind, K, nodes, dtype):
    model = make(kind, K=K)
    expected = model.precompute(g, x, nodes=nodes, dtype=dtype)
    found = model.precompute(g, x, nodes=nodes, dtype=dtype, out=tmp_path / "s")
    assert found.names == model.input_names
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(found.stack, expected.stack)
    again = open_store(tmp_path / "s")
    again.verify()
    ids = NODES[[2, 0]]
    torch.testing.assert_close(again.rows(ids).stack, expected.rows(ids).stack)
    torch.testing.assert_close(
        model(None, again.rows(ids)), model(None, expected.rows(ids))
    )


@pytest.mark.parametrize("kind", MODELS)
def test_training_from_a_store_is_training_from_memory(g, x, tmp_path, kind):
    labels = torch.arange(60) % 3
    outputs = []
    for out in (None, tmp_path / "s"):
        model = make(kind)
        inputs = model.precompute(g, x, nodes=NODES, out=out)
        fit(model, inputs, labels, NODES[:3], NODES[3:], epochs=3)
        outputs.append(predict(model, inputs, NODES))
    torch.testing.assert_close(*outputs)


def test_batches_are_those_of_memory(g, x, tmp_path):
    model = make(LCH2GCN)
    held = model.precompute(g, x)
    stored = model.precompute(g, x, out=tmp_path / "s")
    options = {"batch_size": 7, "shuffle": True, "seed": 3}
    ids = torch.arange(0, 60, 2)
    pairs = zip(
        HopLoader(stored, ids, **options), HopLoader(held, ids, **options),
        strict=True,
    )  # fmt: skip
    for one, other in pairs:
        torch.testing.assert_close(one.stack, other.stack)
        assert one.names == other.names


def test_the_path_is_pickled(g, x, tmp_path):
    model = make(FSGNN)
    inputs = model.precompute(g, x, out=tmp_path / "s")
    data = pickle.dumps(inputs)
    assert len(data) < 500
    assert torch.equal(pickle.loads(data).stack, inputs.stack)
    model.precompute(g, x + 1, out=tmp_path / "s", resume=False)
    with pytest.raises(DGLError, match="was written again since"):
        pickle.loads(data)
    # A reader that has the old files mapped keeps them.
    torch.testing.assert_close(inputs.stack, make(FSGNN).precompute(g, x).stack)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("change", "text"), [
    ({"g": "other"}, "graph="), ({"feat": "other"}, "features="),
    ({"nodes": NODES}, "nodes="), ({"dtype": torch.float16}, "dtype="),
    ({"model": {"norm": "right"}}, "inputs="), ({"model": {"K": 1}}, "inputs="),
])  # fmt: skip
def test_a_store_of_something_else_is_an_error(
    g, x, tmp_path, kind, change, text
):
    make(kind).precompute(g, x, out=tmp_path / "s")
    before = folder_content(tmp_path / "s")
    call = {"graph": g, "feat": x, **change}
    model = make(kind, **call.pop("model", {}))
    if call.pop("g", None):
        call["graph"] = random_graph(7)
    if isinstance(call["feat"], str):
        call["feat"] = x + 1
    with pytest.raises(DGLError, match=rf"something else: .*with {text}"):
        model.precompute(**call, out=tmp_path / "s")
    assert folder_content(tmp_path / "s") == before


def test_a_finished_store_is_not_computed_again(g, x, tmp_path, monkeypatch):
    model = make(LCH2GCN)
    expected = model.precompute(g, x, out=tmp_path / "s").stack
    monkeypatch.setattr("dgl_lc.nn.h2gcn.block_aggregate", lambda *_: 1 / 0)
    assert torch.equal(
        model.precompute(g, x, out=tmp_path / "s").stack, expected
    )


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("nodes", [None, NODES])
def test_an_interrupted_run_resumes_after_its_last_part(
    g, x, tmp_path, monkeypatch, kind, nodes
):
    expected = make(kind).precompute(g, x, nodes=nodes, out=tmp_path / "calm")
    finish = write_hops.StoreWriter.finish
    finished = []

    def failing(self, *counts):
        if len(finished) == 1 and not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise KeyboardInterrupt
        finished.append(self.folder.name)
        finish(self, *counts)

    monkeypatch.setattr(write_hops.StoreWriter, "finish", failing)
    out = tmp_path / "s"
    with pytest.raises(KeyboardInterrupt):
        make(kind).precompute(g, x, nodes=nodes, out=out)
    with pytest.raises(DGLError, match="was not finished"):
        open_store(out)
    with pytest.raises(DGLError, match="something else"):
        make(kind).precompute(g, x + 1, nodes=nodes, out=out)
    found = make(kind).precompute(g, x, nodes=nodes, out=out)
    assert finished == list(expected.parts)
    assert folder_content(out) == folder_content(tmp_path / "calm")
    assert found.key == expected.key


def test_a_memory_map_is_used_again_with_a_warning(g, x, tmp_path):
    np.save(tmp_path / "x.npy", x.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    make(FSGNN).precompute(g, mapped, out=tmp_path / "s")
    with pytest.warns(dgl.base.DGLWarning, match="was not compared") as found:
        make(FSGNN).precompute(g, mapped, out=tmp_path / "s")
    assert found[0].filename == __file__


@pytest.mark.parametrize("where", ["", "with-loops"])
@pytest.mark.parametrize("resume", [True, False])
def test_foreign_files_are_refused(g, x, tmp_path, where, resume):
    (tmp_path / "s" / where).mkdir(parents=True)
    (tmp_path / "s" / where / "mine.txt").write_text("mine")
    with pytest.raises(DGLError, match=r"holds 'mine\.txt'"):
        make(FSGNN).precompute(g, x, out=tmp_path / "s", resume=resume)
    assert (tmp_path / "s" / where / "mine.txt").read_text() == "mine"
    assert not (tmp_path / "s/without-loops").exists()


def test_hop_features_in_the_folder_are_refused(g, x, tmp_path):
    block_aggregate(g, x, 1, out=tmp_path / "s")
    with pytest.raises(DGLError, match="not of 'dgl-lc"):
        make(FSGNN).precompute(g, x, out=tmp_path / "s")
    make(FSGNN).precompute(g, x, out=tmp_path / "t")
    with pytest.raises(DGLError, match="not of 'dgl-lc"):
        block_aggregate(g, x, 1, out=tmp_path / "t")


def test_a_truncated_or_missing_file_is_found_when_it_is_opened(g, x, tmp_path):
    make(FSGNN).precompute(g, x, nodes=NODES, out=tmp_path / "s")
    files = [f for f in (tmp_path / "s").rglob("*.npy")]
    assert len(files) == 6
    for file in files:
        kept = file.read_bytes()
        file.write_bytes(kept[:-1])
        with pytest.raises(DGLError, match=rf"{file.name} has .* bytes"):
            open_store(tmp_path / "s")
        file.unlink()
        with pytest.raises(DGLError, match=rf"{file.name} cannot be opened"):
            open_store(tmp_path / "s")
        file.write_bytes(kept)
    open_store(tmp_path / "s").verify()


def test_a_changed_row_is_found_when_it_is_read(g, x, tmp_path):
    make(FSGNN).precompute(g, x, out=tmp_path / "s")
    file = tmp_path / "s/without-loops/rows.npy"
    content = bytearray(file.read_bytes())
    content[128 + 7] ^= 1
    file.write_bytes(content)
    inputs = open_store(tmp_path / "s")
    inputs.rows(torch.tensor([1, 2]))
    for read in (
        lambda: inputs.rows(torch.tensor([0])), lambda: inputs[4],
        lambda: list(inputs), lambda: inputs.stack, inputs.verify,
    ):  # fmt: skip
        with pytest.raises(DGLError, match="row of node 0 is not"):
            read()


def test_a_part_of_another_store_is_an_error(g, x, tmp_path):
    make(FSGNN).precompute(g, x, out=tmp_path / "s")
    make(FSGNN).precompute(g, x + 1, out=tmp_path / "t")
    shutil.rmtree(tmp_path / "s/with-loops")
    shutil.copytree(tmp_path / "t/with-loops", tmp_path / "s/with-loops")
    with pytest.raises(DGLError, match="is not the one that"):
        open_store(tmp_path / "s")


def test_a_folder_from_before_becomes_a_store(g, x, tmp_path):
    """FSGNN wrote its two hop stores without a manifest of both."""
    made = make(FSGNN).precompute(g, x, out=tmp_path / "s")
    (tmp_path / "s/manifest.json").unlink()
    inodes = [
        (p.folder / "rows.npy").stat().st_ino for p in made.parts.values()
    ]
    again = make(FSGNN).precompute(g, x, out=tmp_path / "s")
    assert [
        (p.folder / "rows.npy").stat().st_ino for p in again.parts.values()
    ] == inodes
    assert json.loads((tmp_path / "s/manifest.json").read_text())["parts"]
