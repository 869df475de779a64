"""Files of checkpoints: errors while writing, and damage found on reading."""

import errno
import os
import pickle
import random
import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from dgl import DGLError
from tiny_task import DATA, SPLIT, make, stray
from torch import nn

from dgl_lc._common import file_access
from dgl_lc.training import epochs, fit, save_model
from dgl_lc.training.tensor_files import plain_copy, read_file, write_file

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(scope="module")
def hops():
    return make().precompute(DATA.graph, DATA.feat)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "folder" / "run.pt"


class FullDisk:
    """Takes some bytes, and then has no room."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def write(self, data):
        if len(data) > self._room:
            self._file.write(data[: self._room])
            raise FULL
        self._room -= len(data)
        return self._file.write(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)


def fail(monkeypatch, where, error=FULL):
    """Let a step of writing fail."""

    def failing(*_, **__):
        raise error

    if where == "write":
        create = file_access.create_file

        def created(path):
            return FullDisk(create(path), 100)

        monkeypatch.setattr(file_access, "create_file", created)
    elif where == "open":
        monkeypatch.setattr(file_access, "create_file", failing)
    else:
        monkeypatch.setattr(os, where, failing)


# Writing


@pytest.mark.parametrize("where", ["open", "write", "fsync", "replace"])
@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_a_full_disk_costs_neither_the_fit_nor_the_earlier_file(
    hops, file, monkeypatch, where, seconds
):
    expected = make()
    whole = fit(expected, hops, *SPLIT, epochs=5)
    fit(make(), hops, *SPLIT, epochs=2, checkpoint=file)
    before = file.read_bytes()
    monkeypatch.setattr(epochs, "_CHECKPOINT_SECONDS", seconds)
    model = make()
    with monkeypatch.context() as patch:
        fail(patch, where)
        with pytest.warns(UserWarning, match="could not be written.*No space"):
            found = fit(model, hops, *SPLIT, epochs=5, checkpoint=file)
    assert found.history.valid_loss.tolist() == (
        whole.history.valid_loss.tolist()
    )
    assert torch.equal(model.fc.weight, expected.fc.weight)
    assert file.read_bytes() == before
    assert stray(file) == []
    # With room again it resumes from the earlier file.
    again = make()
    fit(again, hops, *SPLIT, epochs=5, checkpoint=file)
    assert torch.equal(again.fc.weight, expected.fc.weight)


def test_a_write_that_fails_once_is_made_up_for(hops, file, monkeypatch):
    monkeypatch.setattr(epochs, "_CHECKPOINT_SECONDS", 0.0)
    real, calls = os.replace, []

    def sometimes(*args):
        calls.append(args)
        if len(calls) == 3:
            raise FULL
        return real(*args)

    monkeypatch.setattr(os, "replace", sometimes)
    with pytest.warns(UserWarning, match="could not be written"):
        fit(make(), hops, *SPLIT, epochs=3, checkpoint=file)
    # The last epoch was the one that failed; the end wrote it.
    assert len(calls) == 4
    rows = []
    fit(make(), hops, *SPLIT, epochs=4, checkpoint=file, on_epoch=rows.append)
    assert [row["epoch"] for row in rows] == [4]


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_an_interruption_while_writing_leaves_the_earlier_file(
    hops, file, monkeypatch, where
):
    expected = make()
    fit(expected, hops, *SPLIT, epochs=4)
    fit(make(), hops, *SPLIT, epochs=2, checkpoint=file)
    before = file.read_bytes()
    model = make()
    with monkeypatch.context() as patch:
        fail(patch, where, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            fit(model, hops, *SPLIT, epochs=4, checkpoint=file)
    assert file.read_bytes() == before
    assert stray(file) == []
    # The weights of the best epoch are put back all the same.
    assert torch.equal(model.fc.weight, expected.fc.weight)


def test_content_and_name_reach_the_disk_in_this_order(file, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def spy_fsync(number):
        is_folder = stat.S_ISDIR(os.fstat(number).st_mode)
        calls.append("folder" if is_folder else "file")
        fsync(number)

    def spy_replace(*args):
        calls.append("rename")
        replace(*args)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    write_file(file, "thing", {"a": torch.ones(3)})
    assert calls == ["file", "rename", "folder"]


def test_planted_links_are_not_followed(file, tmp_path, monkeypatch):
    file.parent.mkdir()
    target = tmp_path / "precious"
    target.write_text("precious")
    # The name that was used before, and one that is guessed by luck.
    (file.parent / "run.pt.part").symlink_to(target)
    write_file(file, "thing", {"a": 1})
    monkeypatch.setattr(
        file_access.secrets, "token_hex", lambda size: "guessed"
    )
    guessed = file.parent / ".run.pt.guessed.part"
    guessed.symlink_to(target)
    with pytest.raises(DGLError, match="could not be written"):
        write_file(file, "thing", {"a": 2})
    assert guessed.is_symlink()
    assert target.read_text() == "precious"
    assert read_file(file, "thing", "")["a"] == 1


def test_a_link_is_neither_followed_nor_replaced(file, tmp_path):
    file.parent.mkdir()
    target = tmp_path / "precious"
    target.write_text("precious")
    file.symlink_to(target)
    with pytest.raises(DGLError, match="is a link: name the file"):
        write_file(file, "thing", {"a": 1})
    assert target.read_text() == "precious"
    assert file.is_symlink()


def test_a_file_of_another_kind_is_not_replaced(file, hops):
    write_file(file, "checkpoint", {"a": 1})
    with pytest.raises(DGLError, match="is not a model that dgl-lc wrote"):
        save_model(make(), file)
    own = file.with_name("weights.pt")
    torch.save(make().state_dict(), own)
    before = own.read_bytes()
    with pytest.raises(DGLError, match="is not a model that dgl-lc wrote"):
        save_model(make(), own)
    with pytest.raises(DGLError, match="is not a checkpoint that dgl-lc"):
        fit(make(), hops, *SPLIT, epochs=1, checkpoint=own, resume=False)
    assert own.read_bytes() == before
    with pytest.raises(DGLError, match="not the name of a file"):
        save_model(make(), ".")


def test_files_that_we_did_not_write_are_not_replaced(file, hops):
    file.parent.mkdir()
    np.savez(file.parent / "data.npz", a=np.ones(3))
    foreign = {
        "notes.txt": b"notes", "data.npz": None, "zip.pt": b"PK\x03\x04zip",
    }  # fmt: skip
    for name, content in foreign.items():
        path = file.parent / name
        if content is not None:
            path.write_bytes(content)
        before = path.read_bytes()
        with pytest.raises(DGLError, match="that dgl-lc wrote"):
            write_file(path, "thing", {"a": 1})
        rows = []
        with pytest.raises(DGLError, match="that dgl-lc wrote"):
            fit(make(), hops, *SPLIT, epochs=1, checkpoint=path, resume=False,
                on_epoch=rows.append)  # fmt: skip
        assert rows == []
        assert path.read_bytes() == before
    (file.parent / "empty.pt").touch()
    write_file(file.parent / "empty.pt", "thing", {"a": 1})


@pytest.mark.parametrize("make_it", [os.mkfifo, os.mkdir])
def test_only_regular_files_are_read_and_replaced(file, make_it, hops):
    file.parent.mkdir()
    make_it(file)
    with pytest.raises(DGLError, match="not a regular file"):
        write_file(file, "thing", {"a": 1})
    for resume in (True, False):
        with pytest.raises(DGLError, match="not a regular file"):
            fit(make(), hops, *SPLIT, epochs=1, checkpoint=file, resume=resume)
    with pytest.raises(DGLError, match="not a regular file"):
        read_file(file, "thing", "")
    assert stray(file) == []


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(
    file, monkeypatch
):
    # As if it was exchanged after it was looked at.
    write_file(file, "thing", {"a": 1})
    regular = os.stat(file)
    file.unlink()
    os.mkfifo(file)
    monkeypatch.setattr(os, "stat", lambda *_, **__: regular)
    with pytest.raises(DGLError, match="not a regular file"):
        read_file(file, "thing", "")


def test_a_device_is_not_read():
    with pytest.raises(DGLError, match="not a regular file"):
        read_file(Path("/dev/zero"), "thing", "")


def test_a_file_gets_the_permissions_of_any_new_file(file):
    before = os.umask(0o027)
    try:
        write_file(file, "thing", {"a": 1})
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_what_a_file_can_not_hold_is_named(file):
    with pytest.raises(DGLError, match=r"thing\['a'\]\[1\]\['b'\] is a set"):
        write_file(file, "thing", {"a": [1, {"b": {1}}]})
    assert not file.exists()


def test_a_copy_holds_no_memory_of_the_original():
    base = torch.arange(6.0, requires_grad=True)
    value = {"a": [base[:2], (np.float64(1.5), None)], 3: "text", "b": True}
    found = plain_copy(value, "value")
    assert found["a"][0].data_ptr() != base.data_ptr()
    assert not found["a"][0].requires_grad
    assert type(found["a"][1][0]) is float
    assert found["a"][1] == (1.5, None)
    assert (found[3], found["b"]) == ("text", True)


# Reading


def test_torch_reads_the_files_too(file):
    write_file(file, "thing", {"a": torch.arange(3)})
    found = torch.load(file, weights_only=True)
    assert found["a"].tolist() == [0, 1, 2]


class Malicious:
    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def foreign_files(folder):
    """Files that are not ours, by what is wrong with them."""
    bad = Malicious()
    bad.path = folder / "executed"
    sealed = folder / "sealed.pt"
    write_file(sealed, "thing", {"a": torch.ones(3)})
    data = sealed.read_bytes()
    names = {
        "empty": b"", "text": b"no file of torch", "pickle": pickle.dumps(bad),
        "no checksum": data[: data.rindex(b"dgl-lc format")],
        "half": data[: len(data) // 2],
        "later format": data.replace(b"format 2 check", b"format 3 check"),
        "only the end": data[data.rindex(b"dgl-lc format") :],
    }  # fmt: skip
    for name, content in names.items():
        (folder / name).write_bytes(content)
    for name, content in {
        "malicious": bad, "module": nn.Linear(2, 2), "a list": [1],
        "a tensor": torch.ones(2), "other kind": {"kind": "other", "format": 2},
        "odd kind": {"kind": torch.ones(2), "format": torch.ones(2)},
        "odd format": {"kind": "thing", "format": torch.ones(2)},
        "no format": {"kind": "thing"},
        "true": {"kind": "thing", "format": True},
    }.items():  # fmt: skip
        torch.save(content, folder / name)
        names[name] = content
    script = torch.jit.script(nn.Linear(2, 2))
    torch.jit.save(script, folder / "script")
    np.savez(folder / "arrays.npz", a=np.ones(2))
    return [*names, "script", "arrays.npz"]


@pytest.mark.filterwarnings("ignore")
def test_foreign_files_are_refused_and_nothing_is_executed(tmp_path):
    for name in foreign_files(tmp_path):
        with pytest.raises(DGLError, match=r"can't be read as a thing.*Do it"):
            read_file(tmp_path / name, "thing", "Do it again.")
    assert not (tmp_path / "executed").exists()
    with pytest.raises(DGLError, match="it has format 3"):
        read_file(tmp_path / "later format", "thing", "")
    with pytest.raises(DGLError, match="does not exist"):
        read_file(tmp_path / "none", "thing", "")


def broken_states(state):
    """States that a run can't have, by what is wrong with them."""
    rows = state["rows"]
    for key in state:
        yield f"without {key}", {k: v for k, v in state.items() if k != key}
        for value in (None, "text", torch.ones(2), [1], {"a": 1}, -1):
            yield f"{key}={value!r}", {**state, key: value}
    for name, change in {
        "more epochs than rows": {"epoch": 7},
        "best epoch in the future": {"best_epoch": 9},
        "no best epoch": {"best_epoch": 0},
        "a loss of nan": {
            "rows": [{**rows[0], "valid_loss": float("nan")}] * 2
        },
        "rows of numbers": {"rows": [1] * len(rows)},
        "rows of text": {"rows": ["train_loss"] * len(rows)},
        "rows without a column": {"rows": [{"epoch": 1}] * len(rows)},
        "short generator": {"generator": state["generator"][:9]},
        "weights of other shape": {"model": {"fc.weight": torch.ones(2)}},
        "best of other shape": {"best": {"fc.weight": torch.ones(2)}},
        "optimizer without groups": {
            "optimizer": {"state": {}, "param_groups": []}
        },
    }.items():
        yield name, {**state, **change}
    optimizer = state["optimizer"]
    group, first = optimizer["param_groups"][0], optimizer["state"][0]
    for name, change in {
        "a learning rate of text": {"param_groups": [{**group, "lr": "text"}]},
        "no learning rate": {"param_groups": [{"params": group["params"]}]},
        "moments of other shape": {
            "state": {0: {**first, "exp_avg": torch.ones(5)}}
        },
        "no moments": {"state": {0: {"step": first["step"]}}},
    }.items():
        yield name, {**state, "optimizer": {**optimizer, **change}}


def test_a_state_that_no_run_can_have_is_refused(hops, file):
    fit(make(), hops, *SPLIT, epochs=2, checkpoint=file)
    good = read_file(file, "checkpoint", "")
    contents = [
        (name, {"run": good["run"], "state": state})
        for name, state in broken_states(good["state"])
    ]
    contents += [
        ("no run", {"state": good["state"]}),
        ("no state", {"run": good["run"]}),
        ("a run of text", {"run": "text", "state": good["state"]}),
        ("a state of text", {"run": good["run"], "state": "text"}),
    ]
    for name, content in contents:
        write_file(file, "checkpoint", content)
        model = make()
        before = model.fc.weight.detach().clone()
        damaged = file.read_bytes()
        print(name)
        with pytest.raises(DGLError, match="resume=False") as caught:
            fit(model, hops, *SPLIT, epochs=3, checkpoint=file)
        assert file.read_bytes() == damaged
        # What the optimizer needs, only its first step can tell.
        if "can't use its state" not in str(caught.value):
            assert torch.equal(model.fc.weight, before), name


def corruptions(data, count, seed):
    """Damaged copies of a file: flipped bits, cuts, zeros, other bytes."""
    rng = random.Random(seed)
    for number in range(count):
        damaged = bytearray(data)
        place = rng.randrange(len(data))
        if number % 5 < 2:
            for _ in range(rng.choice([1, 1, 3])):
                damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif number % 5 == 2:
            del damaged[place:]
        elif number % 5 == 3:
            last = min(len(data), place + rng.choice([1, 16, 300, 5000]))
            damaged[place:last] = bytes(last - place)
        else:
            last = min(len(data), place + rng.choice([1, 8, 64]))
            damaged[place:last] = rng.randbytes(last - place)
        yield bytes(damaged)


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_checkpoint_is_refused_or_harmless(hops, file):
    fit(make(), hops, *SPLIT, epochs=2, checkpoint=file)
    data = file.read_bytes()
    expected = make()
    fit(expected, hops, *SPLIT, epochs=3)
    refused = 0
    for damaged in corruptions(data, 150, seed=0):
        file.write_bytes(damaged)
        model = make()
        try:
            fit(model, hops, *SPLIT, epochs=3, checkpoint=file)
        except DGLError:
            refused += 1
        else:
            assert damaged == data
            assert torch.equal(model.fc.weight, expected.fc.weight)
    assert refused > 100


def test_a_flipped_bit_of_a_weight_is_found(hops, file):
    fit(make(), hops, *SPLIT, epochs=2, checkpoint=file)
    data = bytearray(file.read_bytes())
    weights = read_file(file, "checkpoint", "")["state"]["best"]["fc.weight"]
    place = bytes(data).index(weights.numpy().tobytes())
    data[place + 7] ^= 0x40
    # torch itself does not notice.
    file.write_bytes(data)
    found = torch.load(file, weights_only=True)["state"]
    both = [found[name]["fc.weight"] for name in ("model", "best")]
    assert sum(torch.equal(tensor, weights) for tensor in both) == 1
    with pytest.raises(DGLError, match=r"damaged \(its checksum"):
        fit(make(), hops, *SPLIT, epochs=3, checkpoint=file)
