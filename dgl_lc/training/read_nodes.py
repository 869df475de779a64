"""Reading the nodes that a command is about, from a file with ids."""

import csv
import io
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from dgl import DGLError

from ..data import DiskData, NodeData
from ..storage.npy_header import open_file
from ..storage.numpy_files import integers, read_npy
from ..storage.texts import Texts, parse_integers

#: First lines of a text file that are a title, not an id.
_TITLES = ("id", "ids", "node", "nodes", "node_id")
#: Ends of names of files that hold no text.
_NO_TEXT = (".parquet", ".gz", ".zip", ".npz")
#: Ids that are converted at a time.
_PART = 1 << 16


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
    if path.is_dir() or path.suffix.lower() in _NO_TEXT:
        raise _not_a_list(path)
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
    """Read one id per row, as prepare reads them from tables."""
    parts = []
    try:
        with (
            open_file(path) as raw,
            io.BufferedReader(raw) as buffered,  # type: ignore[type-var]
            # The csv module keeps line ends inside quotes only if it sees
            # them.
            io.TextIOWrapper(buffered, "utf-8-sig", newline="") as file,
        ):
            texts = _texts(path, csv.reader(file, strict=True))
            while part := list(itertools.islice(texts, _PART)):
                parts.append(_convert(path, part, numbers))
    except UnicodeDecodeError:
        raise _not_a_list(path) from None
    except (OSError, csv.Error) as error:
        raise DGLError(f"{path} can't be read: {error}.") from None
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _texts(path: Path, rows: Iterable[list[str]]) -> Iterator[str]:
    """Return the only value of each row that is not empty; skip the title."""
    begins = True
    for row in rows:
        if len(row) > 1:
            raise DGLError(
                f"{path} has a row with {len(row)} columns: give one id per "
                f"line."
            )
        if row and not (begins and row[0].lower() in _TITLES):
            yield row[0]
        begins = begins and not row


def _convert(path: Path, texts: list[str], numbers: bool) -> np.ndarray:
    if not numbers:
        return np.array(texts, dtype=object)
    found, wrong = parse_integers(Texts.of(texts))
    if wrong >= 0:
        raise DGLError(
            f"{path} holds {texts[wrong]!r}, but ids of this data are "
            f"integers, such as 7."
        )
    return found


def _not_a_list(path: Path) -> DGLError:
    return DGLError(
        f"{path} is not a list of ids: give a csv or txt file with one id per "
        f"line, or an npy file with an array."
    )
