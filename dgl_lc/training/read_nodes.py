"""Reading the nodes that a command is about, from a file with ids."""

import csv
from pathlib import Path

import numpy as np
import torch
from dgl import DGLError

from ..data import DiskData, NodeData
from ..storage.numpy_files import integers, read_npy

#: First lines of a text file that are a title, not an id.
_TITLES = ("id", "ids", "node", "nodes", "node_id")


def read_nodes(path: str | Path, data: NodeData | DiskData) -> torch.Tensor:
    """Read ids of nodes from a file; return the numbers of the nodes.

    Parameters
    ----------
    path : path
        An npy file with ids or with a mask of all nodes; or a text file (csv,
        txt) with one id per line. A first line such as ``id`` or ``node`` is
        a title.
    data : NodeData or DiskData
        The task whose nodes these are.
    """
    path = Path(path)
    if not path.exists():
        raise DGLError(f"{path} does not exist.")
    numbers = data.ids_of(torch.tensor([0])).dtype.kind == "i"
    if path.suffix == ".npy":
        array = read_npy(path)
        if array.dtype == bool:
            return _marked(path, array, data.graph.num_nodes())
        ids = _check_ids(path, array, numbers)
    else:
        ids = _read_lines(path, numbers)
    if len(ids) == 0:
        raise DGLError(f"{path} is empty: it should hold ids of nodes.")
    try:
        return data.find_nodes(ids)
    except DGLError as error:
        raise DGLError(f"{path}: {error}") from None


def _marked(path: Path, mask: np.ndarray, num_nodes: int) -> torch.Tensor:
    """Return the nodes that a mask marks."""
    if mask.shape != (num_nodes,):
        raise DGLError(
            f"{path} is a mask of shape {mask.shape}, but should have an "
            f"entry for each of {num_nodes} nodes."
        )
    return torch.from_numpy(np.flatnonzero(mask))


def _check_ids(path: Path, array: np.ndarray, numbers: bool) -> np.ndarray:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if numbers:
        return integers(array, str(path))
    if array.ndim != 1 or array.dtype.kind not in "USiu":
        raise DGLError(
            f"{path} should have one dimension and hold ids, got {array.dtype} "
            f"of shape {array.shape}."
        )
    return array.astype(str).astype(object)


def _read_lines(path: Path, numbers: bool) -> np.ndarray:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DGLError(f"{path} can't be read: {error}.") from None
    texts = [text for row in csv.reader(lines) for text in _one(path, row)]
    if texts and texts[0].lower() in _TITLES:
        texts = texts[1:]
    if not numbers:
        return np.array(texts, dtype=object)
    try:
        return np.array([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        wrong = next(text for text in texts if not _is_number(text))
        raise DGLError(
            f"{path} holds {wrong!r}, but ids of this data are integers."
        ) from None


def _one(path: Path, row: list[str]) -> list[str]:
    """Return the only value of a row; none if the row is empty."""
    if len(row) > 1:
        raise DGLError(
            f"{path} has a row with {len(row)} columns: give one id per line."
        )
    return row


def _is_number(text: str) -> bool:
    try:
        return -(2**63) <= int(text) < 2**63
    except ValueError:
        return False
