"""Labels and split of a task on disk, checked and written in bounded memory."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from dgl import DGLError

from .._common.bytes import format_bytes
from ..storage.array_stream import ArrayStream
from ..storage.csv_file import CSV_BYTES, read_tables
from ..storage.folder import Build
from ..storage.npy_file import HEADER
from ..storage.npy_header import as_bytes, open_file, read_into
from ..storage.numpy_files import check_range
from ..storage.sort_memory import Budget
from ..storage.work_space import WorkSpace

#: Labels that are read at a time.
_ROWS = 1 << 14
#: Nodes whose ids are checked at once, at least.
_LEAST_NODES = 1 << 16


def write_labels(
    source: ArrayStream, work: Build, num_nodes: int, num_classes: int
) -> None:
    """Write classes as int64, -1 where the source has nan."""
    if source.shape[:1] != (num_nodes,) or source.num_values != num_nodes:
        raise DGLError(
            f"{source.what} has shape {source.shape}, but should have one "
            f"label for each of {num_nodes} nodes."
        )
    if source.dtype.kind not in "fiu":
        raise DGLError(
            f"{source.what} should hold numbers, got {source.dtype}."
        )
    file = work.array("labels.npy", np.int64)
    for values in source.values([np.empty(_ROWS, source.dtype)]):
        known = ~np.isnan(values)
        part = np.full(len(values), -1)
        with np.errstate(invalid="ignore"):
            part[known] = values[known]
        wrong = known & ((part != values) | (part < 0) | (part >= num_classes))
        if wrong.any():
            place = int(np.argmax(wrong))
            raise DGLError(
                f"{source.what} holds {values[place]} at node "
                f"{file.count + place}, but classes go from 0 to "
                f"{num_classes - 1}; nan is no label."
            )
        file.append(part)


def write_split(
    files: Mapping[str, Path], work: Build, num_nodes: int, budget: Budget
) -> None:
    """Write the ids of each part of a split, after the labels.

    A byte for each node says whether it has a label and is in no part yet.
    Where memory is short this is done for one range of nodes after another.

    Parameters
    ----------
    files : mapping
        The csv file of each part.
    work : Build
        The folder that is being written.
    num_nodes : int
        Ids are from 0 to num_nodes - 1.
    budget : Budget
        Memory that may be allocated.
    """
    room = min(num_nodes, split_room(budget))
    free = WorkSpace(room).array(room, np.int8)
    for low in range(0, num_nodes, room):
        part = free[: num_nodes - low]
        _mark_labelled(work, low, part)
        for split, path in files.items():
            for ids in _read_ids(path, num_nodes):
                if low == 0:
                    work.array(f"{split}.npy", np.int64).append(ids)
                own = ids[(ids >= low) & (ids < low + len(part))]
                np.subtract.at(part, own - low, 1)
                wrong = own[part[own - low] < 0]
                if len(wrong):
                    raise _not_free(work, path, int(wrong[0]))


def split_room(budget: Budget) -> int:
    """The nodes that can be checked at once; an error if there are few."""
    room = budget.room - CSV_BYTES
    if room < _LEAST_NODES:
        enough = budget.overhead + CSV_BYTES + _LEAST_NODES
        raise DGLError(
            f"memory={format_bytes(budget.memory)} is too small to read the "
            f"split: {format_bytes(enough)} ({enough} bytes) would be enough."
        )
    return room


def _labels(work: Build, low: int, out: np.ndarray) -> np.ndarray:
    """Labels of the nodes from ``low`` on, which were written before."""
    with open_file(work.path / "labels.npy") as file:
        file.seek(HEADER + 8 * low)
        read_into(file, as_bytes(out))
    return out


def _mark_labelled(work: Build, low: int, out: np.ndarray) -> None:
    """Set 1 for each node that has a label, 0 for others."""
    labels = np.empty(_ROWS, np.int64)
    for begin in range(0, len(out), _ROWS):
        part = out[begin : begin + _ROWS]
        part[:] = _labels(work, low + begin, labels[: len(part)]) >= 0


def _read_ids(path: Path, num_nodes: int) -> Iterator[np.ndarray]:
    count = 0
    for table in read_tables(path, np.int64):
        if table.shape[1] != 1:
            raise DGLError(
                f"{path} has {table.shape[1]} columns, but should have 1."
            )
        ids = np.ascontiguousarray(table[:, 0])
        check_range(ids, num_nodes, str(path), "nodes")
        count += len(ids)
        yield ids
    if not count:
        raise DGLError(f"{path} is empty: it should hold ids of nodes.")


def _not_free(work: Build, path: Path, node: int) -> DGLError:
    label = _labels(work, node, np.empty(1, np.int64))[0]
    if label < 0:
        return DGLError(f"{path} holds node {node}, which has no label.")
    return DGLError(
        f"{path} holds nodes that are in a split already, such as {node}."
    )
