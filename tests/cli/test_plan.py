"""``dgl-lc plan``."""

import os

import pytest

from dgl_lc.cli import main
from dgl_lc.data import prepare_ogb, write_papers_like

PAPERS100M = ["plan", "--nodes", "111059956", "--edges", "1615685872",
              "--feats", "128", "--hops", "3", "--memory", "32GiB"]  # fmt: skip


def test_plan_of_papers100m(capsys):
    assert main(PAPERS100M) == 0
    text = capsys.readouterr().out
    assert "111,059,956 nodes, 1,615,685,872 edges" in text
    assert "fewest bytes" in text


def test_plan_that_does_not_fit_says_what_would(refused):
    error = refused(*PAPERS100M, "--device", "cpu")
    assert "is too small" in error
    assert "would be enough" in error


def test_plan_with_measured_coefficients(capsys):
    call = [*PAPERS100M, "--hops", "2", "--memory", "24GiB"]
    assert main([*call, "--calibrate", "--keep", "1500000"]) == 0
    assert "published" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--memory", "big"], "--memory='big'"),
        (["--hops", "0"], "--hops should be at least 1, got 0"),
        (["--edges", "-1"], "--edges should be at least 0, got -1"),
        (["--keep", "0"], "--keep should be from 1"),
        (["--feats", "9" * 20], "--feats should be at most 1,000,000"),
    ],
)
def test_bad_flags_are_named(flags, message, refused):
    assert message in refused(*PAPERS100M, *flags)


RANKS = [*PAPERS100M[:-1], "14GB", "--ranks", "16", "--hosts", "4"]


def test_plan_for_many_ranks(capsys):
    assert main([*RANKS, "--network", "100Gbit"]) == 0
    text = capsys.readouterr().out
    for words in ("16 ranks of 4 hosts", "network 100 Gbit/s", "columns",
                  "8 x 2", "edges", "* chosen: split="):  # fmt: skip
        assert words in text
    assert "32-bit" not in text
    assert main([*RANKS, "--split", "2x8"]) == 0
    assert "* chosen: split=(2, 8)" in capsys.readouterr().out
    assert main([*RANKS, "--split", "edges"]) == 0
    assert "* chosen: split='edges'" in capsys.readouterr().out


def test_a_small_disk_has_ranks_share_the_edges(capsys):
    assert main([*RANKS, "--hosts", "16", "--host-disk", "4GB"]) == 0
    assert "* chosen: split='columns'" not in capsys.readouterr().out


WEB = ["plan", "--nodes", "3500000000", "--edges", "128000000000", "--feats",
       "128", "--hops", "2", "--dtype", "float16", "--keep", "35000000",
       "--memory", "512GB"]  # fmt: skip


@pytest.mark.parametrize("flags", [[], ["--ranks", "64", "--hosts", "64"]])
def test_a_graph_with_more_ids_than_there_are_is_marked(flags, capsys):
    assert main([*WEB, *flags]) == 0
    assert capsys.readouterr().out.endswith(
        "planned with 32-bit unsigned ids; such a graph cannot be computed yet "
        "(ids are 31 bits)\n"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--ranks", "0"], "--ranks: should be at least 1, got 0"),
        (["--ranks", "many"], "--ranks: should be an integer"),
        (["--ranks", "5000"], "--ranks 5000 should be an integer from 1 to"),
        (["--ranks", "2"], "--hosts is 4, more than the 2 ranks"),
        (["--split", "rows"], "--split: should be columns, edges, or two"),
        (["--split", "3x5"], "--split 3x5: the product of the two"),
        (["--split", "0x5"], "--split 0x5: the product of the two"),
        (["--network", "fast"], "--network='fast' is not a bandwidth"),
        (["--host-disk", "big"], "--host-disk='big' is not a number"),
        (["--host-disk", "1MB"], "--host-disk=977 KiB is too small"),
        (["--device", "cuda"], "--device cuda does not go with --ranks"),
        (["--calibrate"], "--calibrate does not go with --ranks"),
        (["--memory", "1MiB"], "--memory=1 MiB per rank is too small"),
        (["--nodes", str(2**32)], "--nodes should be at most 4,294,967,295"),
    ],
)
def test_bad_flags_of_ranks_are_named(flags, message, refused):
    assert message in refused(*RANKS, *flags)


@pytest.mark.parametrize(
    "flag", [["--hosts", "2"], ["--split", "edges"], ["--network", "10Gbit"],
             ["--host-disk", "1TB"]]
)  # fmt: skip
def test_flags_of_ranks_need_ranks(flag, refused):
    assert f"{flag[0]} is for --ranks" in refused(*PAPERS100M, *flag)


@pytest.fixture
def task(tmp_path):
    """The folder of a prepared task."""
    write_papers_like(tmp_path / "raw", 1e-5, feat_dim=4)
    prepare_ogb(tmp_path / "raw", tmp_path / "task", memory="64MiB")
    return str(tmp_path / "task")


def test_plan_of_a_task_has_time_memory_and_disk(task, tmp_path, capsys):
    before = sorted(os.listdir(tmp_path))
    call = ["plan", "--data", task, "--hops", "2", "--memory", "64MiB"]
    assert main([*call, "--out", str(tmp_path / "hops")]) == 0
    text = capsys.readouterr().out
    for words in ("DiskData", "checking the graph", "reading the features",
                  "computing hops", "writing the store", "total", "memory",
                  "disk"):  # fmt: skip
        assert words in text
    assert "finding the frontier" not in text
    assert sorted(os.listdir(tmp_path)) == before
    assert main([*call, "--split-only", "--dtype", "float16"]) == 0
    text = capsys.readouterr().out
    assert "finding the frontier" in text
    assert "columns of float16" in text


def test_plan_of_data_in_memory(capsys):
    assert main(["plan", "--data", "synthetic:500", "--hops", "3"]) == 0
    assert "sorting the edges" in capsys.readouterr().out


def test_plan_of_data_for_a_gpu(capsys):
    call = ["plan", "--data", "synthetic:500", "--hops", "3"]
    assert main([*call, "--device", "cuda", "--memory", "1GiB"]) == 0
    assert "on cuda" in capsys.readouterr().out


def test_plan_of_a_task_for_ranks_has_exact_bytes(task, capsys):
    call = ["plan", "--data", task, "--hops", "2", "--memory", "64MiB"]
    assert main([*call, "--ranks", "2", "--split", "edges"]) == 0
    text = capsys.readouterr().out
    assert "* chosen: split='edges'" in text
    assert "at most" not in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--data", "synthetic:300", "--nodes", "3"], "--nodes does not go"),
        (["--data", "nowhere"], "nowhere"),
        (["--data", "synthetic:300", "--memory", "1KiB"], "is too small"),
        (["--data", "synthetic:300", "--out", "/proc/x"], "--out /proc/x"),
        (["--nodes", "3"], "--edges is missing"),
        (["--nodes", "3", "--split-only"], "--split-only is for --data"),
        (["--data", "synthetic:300", "--hops", "9999"], "at most 1000"),
    ],
)
def test_flags_that_do_not_go_together_are_named(flags, message, refused):
    assert message in refused("plan", "--hops", "2", *flags)
