"""Ids of nodes from a file."""

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
        ("7,8\n", "a row with 2 columns"),
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
    with pytest.raises(DGLError, match="can't be read"):
        read_nodes(tmp_path / "bytes.csv", DATA)
