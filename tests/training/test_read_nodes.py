"""Ids of nodes from a file."""

import csv
import dataclasses
import os

import numpy as np
import pytest
from dgl import DGLError
from tiny_task import DATA

from dgl_lc.training.read_nodes import read_nodes


@pytest.mark.parametrize(
    "text",
    [
        "7\n3\n399\n",
        "id\n7\n3\n\n399",
        "Node\r\n7\r\n3\r\n399\r\n",
        "\ufeffid\n7\n3\n399",
    ],
)
def test_one_id_per_line(text, tmp_path):
    path = tmp_path / "ids.csv"
    path.write_bytes(text.encode())
    assert read_nodes(path, DATA).tolist() == [7, 3, 399]


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, ">i4"])
def test_an_array_of_ids(dtype, tmp_path):
    for shape in (-1, (3, 1)):
        ids = np.array([7, 3, 99], dtype).reshape(shape)
        np.save(tmp_path / "ids.npy", ids)
        assert read_nodes(tmp_path / "ids.npy", DATA).tolist() == [7, 3, 99]


def test_a_mask(tmp_path):
    np.save(tmp_path / "mask.npy", np.arange(400) % 200 == 5)
    assert read_nodes(tmp_path / "mask.npy", DATA).tolist() == [5, 205]
    np.save(tmp_path / "mask.npy", np.ones(3, bool))
    with pytest.raises(DGLError, match=r"mask of shape \(3,\)"):
        read_nodes(tmp_path / "mask.npy", DATA)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7\nx\n", "holds 'x', but ids of this data are integers"),
        ("7\n99999999999999999999\n", "holds '99999999999999999999'"),
        ("7\n007\n", "holds '007', but ids of this data are integers"),
        ("+7\n", r"holds '\+7', but ids"),
        ("7.0\n", "holds '7.0', but ids"),
        ("7,8\n", "a row with 2 columns"),
        ('7\n"8\n', "can't be read"),
        ("", "is empty"),
        ("id\n", "is empty"),
        ("400\n", "ids.csv: ids holds 400"),
        ("-1\n", "ids.csv: ids holds -1"),
    ],
)
def test_bad_files_are_named(text, message, tmp_path):
    path = tmp_path / "ids.csv"
    path.write_text(text)
    with pytest.raises(DGLError, match=message):
        read_nodes(path, DATA)


def test_what_can_not_be_read_is_named(tmp_path):
    with pytest.raises(DGLError, match="does not exist"):
        read_nodes(tmp_path / "nowhere.csv", DATA)
    np.save(tmp_path / "ids.npy", np.array([1.5]))
    with pytest.raises(DGLError, match="should hold integers"):
        read_nodes(tmp_path / "ids.npy", DATA)
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(DGLError, match="is not a list of ids: give a csv or"):
        read_nodes(tmp_path / "bytes.csv", DATA)


@pytest.mark.parametrize("name", ["ids.parquet", "ids.csv.gz", "ids.npz", "."])
def test_other_kinds_of_files_are_refused(name, tmp_path):
    path = tmp_path / name
    if name != ".":
        path.write_text("7\n")
    with pytest.raises(DGLError, match=r"give a csv or txt file .* or an npy"):
        read_nodes(path, DATA)


@pytest.mark.parametrize("name", ["ids", "ids.csv", "ids.npy"])
@pytest.mark.timeout(20)
def test_a_pipe_is_refused_and_not_waited_for(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DGLError, match=f"{name} is not a regular file"):
        read_nodes(tmp_path / name, DATA)


def named(names):
    """The task with texts as ids: these, and some for all other nodes."""
    rest = [f"node {number}" for number in range(len(names), 400)]
    return dataclasses.replace(DATA, node_ids=[*names, *rest])


def test_a_text_may_hold_line_ends_and_commas(tmp_path):
    names = ["ab", "a\nb", "q\r\nr", "qr", "a\rb", "x,y", "l\u2028m", 'say "']
    data = named(names)
    path = tmp_path / "ids.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([own] for own in ["id", *names])
    assert read_nodes(path, data).tolist() == list(range(len(names)))


def test_many_ids_are_converted_part_by_part(tmp_path, monkeypatch):
    monkeypatch.setattr("dgl_lc.training.read_nodes._PART", 3)
    path = tmp_path / "ids.csv"
    path.write_text("id\n" + "\n".join(map(str, range(10))))
    assert read_nodes(path, DATA).tolist() == list(range(10))
