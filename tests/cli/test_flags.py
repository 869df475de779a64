"""Types of flags, and checks of devices and outputs."""

import argparse
import os

import pytest
from dgl import DGLError

from dgl_lc import hops
from dgl_lc._common.dtypes import VALUE_TYPES
from dgl_lc.cli.flags import (
    DTYPES,
    NORMS,
    check_device,
    check_output_file,
    check_output_folder,
    count,
    given_path,
    non_negative_float,
    positive_float,
    rate,
    seed,
    small_count,
)


def test_choices_are_those_of_the_tables():
    assert list(DTYPES) == list(VALUE_TYPES)
    assert NORMS == hops.NORMS


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (count, ["1", "7", str(2**63 - 1)], ["0", "-1", str(2**63)]),
        (small_count, ["1", "10000"], ["0", "10001"]),
        (seed, ["0", str(2**63 - 1)], ["-1", str(2**63)]),
        (positive_float, ["1e-9", "3"], ["0", "-1", "-0.0"]),
        (non_negative_float, ["0", "1e30"], ["-1e-9"]),
        (rate, ["0", "0.999"], ["1", "-0.1", "1.5"]),
    ],
)
def test_numbers_outside_their_range_are_refused(kind, good, bad):
    for text in good:
        assert kind(text) == float(text) or kind(text) == int(text)
    for text in [*bad, "", "x", "nan", "inf", "-inf", "1" * 5000]:
        with pytest.raises(argparse.ArgumentTypeError, match="should be"):
            kind(text)


def test_an_empty_path_is_refused():
    assert given_path("a").name == "a"
    with pytest.raises(argparse.ArgumentTypeError, match="is empty"):
        given_path("")


@pytest.mark.parametrize(
    "name", ["foo", "", "meta", "mps", "cuda:x", "cuda:-1", "cpu:", "cuda:9999"]
)
def test_devices_that_cannot_be_used_are_refused(name):
    assert check_device("cpu") == "cpu"
    with pytest.raises(DGLError, match="--device"):
        check_device(name)


def test_a_gpu_is_known_even_if_there_is_none():
    assert check_device("cuda", usable=False) == "cuda"
    with pytest.raises(DGLError, match="--device 'foo' is not known"):
        check_device("foo", usable=False)


def test_a_file_that_can_be_written_gets_its_folder(tmp_path):
    path = tmp_path / "a" / "b" / "file.csv"
    check_output_file(path, "--history")
    assert path.parent.is_dir()
    assert not path.exists()
    path.write_text("old")
    check_output_file(path, "--history")
    assert path.read_text() == "old"


def test_files_that_cannot_be_written_are_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for place, words in {
        tmp_path: "is a folder",
        tmp_path / "file" / "below": "is a file, not a folder|Not a dir",
        tmp_path / "pipe": "not a regular file",
        tmp_path / "loop": "cannot be written",
        tmp_path / ("x" * 300): "cannot be written",
        tmp_path / ("x" * 300) / "file": "cannot be written",
        type(tmp_path)("/proc/nothing/file"): "cannot be written",
    }.items():
        with pytest.raises(DGLError, match=words) as found:
            check_output_file(place, "--save")
        assert "--save" in str(found.value)


def test_a_folder_is_checked_and_not_created(tmp_path):
    check_output_folder(tmp_path / "a" / "b", "--out")
    check_output_folder(tmp_path, "--out")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("x")
    with pytest.raises(DGLError, match="is a file, not a folder"):
        check_output_folder(tmp_path / "file", "--out")
    with pytest.raises(DGLError, match="--out /proc/nothing cannot be"):
        check_output_folder(type(tmp_path)("/proc/nothing"), "--out")
