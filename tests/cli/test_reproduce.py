"""``dgl-lc reproduce``."""

import pandas as pd
import pytest

from dgl_lc.cli import main
from dgl_lc.data import block_model, save_npz

DATA = "synthetic:200"


def flags_of(out, *models):
    return ["--data", DATA, "--models", *models, "--seeds", "1",
            "--out", str(out)]  # fmt: skip


def test_tables_are_saved_and_nothing_is_run_twice(
    tmp_path, short_flags, capsys
):
    flags = flags_of(tmp_path, "GCN", "LCGCN", "SGC", "autoGCN")
    flags += ["--seeds", "2", *short_flags]
    assert main(["reproduce", "accuracy", *flags]) == 0
    text = capsys.readouterr().out
    assert "8 runs to do" in text
    assert "mean of LC minus original" in text
    frame = pd.read_csv(tmp_path / "accuracy-synthetic-200.csv")
    assert list(frame.model) == ["GCN", "LCGCN", "SGC", "autoGCN"]
    table = (tmp_path / "accuracy-synthetic-200.md").read_text()
    assert table.startswith("| model |")
    assert main(["reproduce", "time", *flags]) == 0
    assert "0 runs to do, 8 done before" in capsys.readouterr().out
    assert "ms / " in (tmp_path / "time-synthetic-200.md").read_text()
    assert main(["reproduce", "validation-over-time", *flags]) == 0
    picture = tmp_path / "validation-over-time-synthetic-200.png"
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_other_parameters_are_run_again(tmp_path, short_flags, capsys):
    call = ["reproduce", "accuracy", *flags_of(tmp_path, "SGC"), *short_flags]
    assert main(call) == 0
    capsys.readouterr()
    assert main([*call, "--lr", "0.5"]) == 0
    assert "1 runs to do, 0 done before" in capsys.readouterr().out


@pytest.mark.slow
def test_runs_by_several_workers(tmp_path, short_flags):
    """test_interrupt.py has workers that start, by day."""
    flags = flags_of(tmp_path, "SGC", "LCGCN")
    flags += ["--seeds", "2", "--workers", "2", *short_flags]
    assert main(["reproduce", "accuracy", *flags]) == 0
    assert len(list((tmp_path / "runs").glob("*.json"))) == 4


def test_two_files_of_one_name_have_a_column_each(
    tmp_path, short_flags, capsys
):
    files = [tmp_path / name / "graph.npz" for name in "xy"]
    for seed, file in enumerate(files):
        file.parent.mkdir()
        save_npz(block_model(100, seed=seed, num_feats=6), file)
    out = tmp_path / "out"
    call = ["reproduce", "accuracy", "--models", "SGC", "--seeds", "1",
            "--out", str(out), *short_flags, "--data"]  # fmt: skip
    assert main([*call, *map(str, files)]) == 0
    (table,) = out.glob("accuracy-*.csv")
    frame = pd.read_csv(table)
    first, second = (n for n in frame.columns[1:] if "," not in n)
    assert first == "synthetic"
    assert second.startswith("synthetic (")
    assert main([*call, str(files[1])]) == 0
    assert "0 runs to do, 1 done before" in capsys.readouterr().out
    assert len(list(out.glob("accuracy-*.csv"))) == 2


def test_two_data_sets_of_one_name_are_kept_apart(
    tmp_path, short_flags, capsys
):
    call = ["reproduce", "accuracy", "--models", "SGC", "--seeds", "1",
            "--out", str(tmp_path), *short_flags, "--data"]  # fmt: skip
    assert main([*call, "synthetic:100"]) == 0
    assert main([*call, "synthetic:150"]) == 0
    assert capsys.readouterr().out.count("1 runs to do, 0 done before") == 2
    assert main([*call, "synthetic:100"]) == 0
    assert "0 runs to do, 1 done before" in capsys.readouterr().out


def test_data_sets_that_cannot_be_loaded_are_skipped(
    tmp_path, short_flags, capsys
):
    call = ["reproduce", "accuracy", *flags_of(tmp_path, "SGC"), *short_flags]
    assert main([*call, "--data", "nowhere.npz", DATA]) == 0
    assert "skipped: nowhere.npz" in capsys.readouterr().out


def test_schemes_agree_and_are_drawn(tmp_path):
    call = ["reproduce", "cpu-vs-blocks", "--data", DATA, "--nodes", "300",
            "--columns", "9", "--runs", "1",
            "--out", str(tmp_path)]  # fmt: skip
    assert main(call) == 0
    frame = pd.read_csv(tmp_path / "cpu-vs-blocks-synthetic-200.csv")
    assert len(frame) == 4
    assert (tmp_path / "cpu-vs-blocks-power-law-300.png").exists()


def test_papers100m_on_a_generated_data_set(tmp_path, capsys):
    call = ["reproduce", "papers100m", "--root", str(tmp_path / "raw"),
            "--synthetic", "2e-5", "--feat-dim", "8", "--models", "SGC",
            "LCGCN", "--seeds", "1", "--epochs", "2", "--out",
            str(tmp_path / "out")]  # fmt: skip
    assert main(call) == 0
    text = capsys.readouterr().out
    assert "| LCGCN |" in text
    assert "64.7" not in text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (["accuracy", "--data", "x", "--models", "JKnet"],
         "Did you mean 'JKNet'?"),
        (["time", "--data", "x", "--seeds", "0"], "--seeds"),
        (["time", "--data", "x", "--epochs", "0"], "--epochs: should be at"),
        (["cpu-vs-blocks"], "give --data, --nodes, or both"),
        (["cpu-vs-blocks", "--nodes", "9", "--runs", "0"], "--runs"),
        (["papers100m", "--root", "x", "--models", "GCN"],
         "'GCN' is not one of SGC"),
        (["papers100m", "--root", "x", "--seeds", "0"], "--seeds"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, message, tmp_path, refused):
    assert message in refused("reproduce", *call, "--out", str(tmp_path))


def test_data_sets_none_of_which_can_be_loaded_are_an_error(tmp_path, refused):
    call = ["reproduce", "accuracy", "--data", "nowhere"]
    assert "could be loaded" in refused(*call, "--out", str(tmp_path))


def test_today_is_resumed_and_its_tables_are_saved(tmp_path, capsys):
    call = ["reproduce", "today", "--data", DATA, "--models", "SGC",
            "--seeds", "1", "--trials", "1", "--epochs", "2", "--patience",
            "2", "--out", str(tmp_path)]  # fmt: skip
    assert main([*call, "--minutes", "1e-9"]) == 0
    assert "the same command resumes" in capsys.readouterr().out
    assert main(call) == 0
    text = capsys.readouterr().out
    assert "chosen by validation: SGC" in text
    frame = pd.read_csv(tmp_path / "today-results--synthetic-200.csv")
    assert list(frame.model[:1]) == ["SGC"]
    assert main(call) == 0
    assert " epochs, " not in capsys.readouterr().out


def test_today_refuses_a_model_that_it_does_not_have(tmp_path, refused):
    message = refused(
        "reproduce", "today", "--data", DATA, "--models", "GAMLP", "--out",
        str(tmp_path),
    )  # fmt: skip
    assert "Did you mean 'GAMLP (jk)'?" in message
