"""Flags of commands, with values that they may not expect."""

import os
import shutil

import pytest
from night import NIGHT

from dgl_lc.cli import COMMANDS, _make_parser, main

#: A short call of each command; OUT is a folder that does not exist, DATA a
#: file of a task.
SHORT = ["--epochs", "1", "--patience", "1", "--batch-size", "50",
         "--out", "OUT"]  # fmt: skip
STUDY = ["--data", "DATA.npz", "--models", "SGC", "--seeds", "1", "--hid-feats",
         "4", *SHORT]  # fmt: skip
CALLS = {
    "demo": ["--nodes", "60", "--epochs", "1", "--hid-feats", "4",
             "--seeds", "1", "--out", "OUT"],
    "selftest": ["--device", "cpu", "--nodes", "60"],
    "tune": ["SGC", "DATA.npz", "--trials", "1", "--hid-feats", "4", *SHORT],
    "reproduce accuracy": STUDY,
    "reproduce papers100m": ["--root", "OUT", "--memory", "64MiB", "--models",
                             "SGC", "--seeds", "1", *SHORT],
    "reproduce cpu-vs-blocks": ["--nodes", "60", "--columns", "2", "--runs",
                                "1", "--hops", "1", "--out", "OUT"],
    "reproduce today": ["--data", "DATA.npz", "--models", "SGC", "--seeds",
                        "1", "--trials", "1", *SHORT],
    "calibrate": [],
    "warmup": ["--dtype", "float32", "--columns", "8", "--workers", "1"],
    "train": ["--model", "LCGPRGNN", "--data", "DATA.npz", "--hops", "1",
              "--hid-feats", "4", "--epochs", "1"],
    "plan": ["--data", "DATA.npz", "--hops", "1"],
    "precompute": ["--data", "DATA.npz", "--hops", "1", "--out", "OUT"],
    "prepare": ["--edges", "edges.csv", "--features", "feat.npy",
                "--out", "OUT", "--memory", "64MiB"],
    "predict": ["--model", "model.pt", "--data", "DATA.npz",
                "--out", "OUT.csv", "--overwrite"],
    "store extend": ["STORE", "--data", "DATA.npz", "--hops", "2",
                     "--out", "OUT"],
    "update": ["STORE", "--old-data", "DATA.npz", "--data", "DATA.npz",
               "--out", "OUT"],
}  # fmt: skip

VALUES = ["-1", "0", "nan", "inf", "1e30", "9" * 20, "9" * 5000, "", "FOLDER",
          "FILE", "PIPE", "FILE/below", "/proc/nothing"]  # fmt: skip


def flags_of(command):
    """The flags of a command that take a value."""
    words = command.split()
    parser = _make_parser(words)
    for word in words:
        (parts,) = (a for a in parser._actions if a.dest in ("==SUPPRESS==",))
        parser = parts.choices[word]
    return [
        action.option_strings[0]
        for action in parser._actions
        if action.option_strings and action.nargs != 0
    ]


CASES = [
    (command, flag)
    for command in CALLS
    if command.split()[0] in COMMANDS
    for flag in flags_of(command)
]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """A folder with the files that commands read."""
    import numpy as np

    from dgl_lc.data import block_model, save_npz
    from dgl_lc.nn import LCGPRGNN
    from dgl_lc.precompute import block_aggregate
    from dgl_lc.training import save_model

    folder = tmp_path_factory.mktemp("places")
    data = block_model(60, num_feats=4)
    save_npz(data, folder / "DATA.npz")
    model = LCGPRGNN(4, 4, data.num_classes, K=1)
    save_model(model, folder / "model.pt")
    block_aggregate(data.graph, data.feat, 1, out=folder / "STORE")
    np.save(folder / "feat.npy", data.feat.numpy())
    (folder / "edges.csv").write_text("0,1\n1,2\n")
    (folder / "FOLDER").mkdir()
    (folder / "FILE").write_text("something")
    return folder


@pytest.fixture
def places(made_once, tmp_path, monkeypatch):
    """Paths by the words that stand for them, in the current folder."""
    from dgl_lc.experiments import compare_models, papers100m_plan

    shutil.copytree(made_once, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    # What the demo measures takes seconds, whatever the flags are.
    monkeypatch.setattr(compare_models, "compile_kernels", lambda *given: 0.0)
    monkeypatch.setattr(papers100m_plan, "hop_seconds", lambda plan: 60.0)
    os.mkfifo("PIPE")
    return tmp_path


@pytest.mark.parametrize(("command", "flag"), CASES, ids=map(" ".join, CASES))
@pytest.mark.timeout(60)
def test_a_value_is_used_or_refused_in_one_line(command, flag, places, capfd):
    # By day, a pipe and one more of the values: another one of each flag.
    number = CASES.index((command, flag))
    values = ["PIPE", VALUES[number % len(VALUES)]]
    for value in VALUES if NIGHT else values:
        call = [*command.split(), *CALLS[command], f"{flag}={value}"]
        try:
            code = main(call)
        except SystemExit as end:
            code = end.code
        message = capfd.readouterr().err
        assert code in (0, 1, 2), value[:30]
        # A column may have any name; nothing else may have that of a pipe.
        if value == "PIPE" and not flag.endswith(("-column", "-columns")):
            assert code == 2
        if code == 2:
            assert message.startswith("dgl-lc: "), value[:30]
            assert message.count("\n") == 1, message[:2000]
        assert (places / "FILE").read_text() == "something"
        assert (places / "PIPE").is_fifo()


#: Sizes that no memory holds, or lists that are too long.
HUGE = [
    ("demo", "--nodes"), ("demo", "--hid-feats"), ("demo", "--seeds"),
    ("selftest", "--nodes"),
    ("tune", "--hid-feats"), ("tune", "--workers"),
    ("reproduce accuracy", "--hid-feats"), ("reproduce accuracy", "--seeds"),
    ("reproduce papers100m", "--feat-dim"),
    ("reproduce papers100m", "--synthetic"),
    ("reproduce cpu-vs-blocks", "--nodes"),
    ("reproduce cpu-vs-blocks", "--columns"),
    ("reproduce cpu-vs-blocks", "--hops"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "flag"), HUGE)
def test_sizes_that_cannot_work_are_refused(command, flag, places, refused):
    call = [*command.split(), *CALLS[command]]
    if command.startswith("tune"):
        call[1] = "LCGCN"
    elif command.endswith("accuracy"):
        call += ["--models", "LCGCN"]
    elif command.endswith("papers100m"):
        call += ["--synthetic", "2e-5"]
    refused(*call, f"{flag}=99999999999999")
    assert not list(places.glob("OUT/runs/*"))
    assert not (places / "OUT" / "raw").exists()


@pytest.mark.parametrize("flag", ["--batch-size", "--patience"])
def test_limits_may_be_as_large_as_one_likes(flag, places):
    call = ["reproduce", "accuracy", *CALLS["reproduce accuracy"]]
    assert main([*call, flag, str(2**63 - 1)]) == 0
