"""Writing a generated data set in OGB's raw layout, as ogbn-papers100M.

Every number is a hash of the seed and its place, so that any part can be
made again: OGB stores all sources before all targets, and each half is
written as it comes, without a file in between.
"""

import gzip
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from dgl import DGLError
from tqdm.auto import tqdm

from .._common.bytes import format_bytes, parse_bytes
from .._common.file_access import replace_buffered
from .._common.json_files import read_json, write_json
from .._common.progress import progress_bar
from .._common.threads import num_threads, ranges, run_parallel
from ..storage.free_disk import check_free
from ..storage.sort_memory import Budget
from ..storage.work_space import WorkSpace
from .papers_rule import (
    NUM_CLASSES,
    Rule,
    cite,
    describe,
    label_nodes,
    make_rule,
)

NUM_NODES = 111_059_956
NUM_EDGES = 1_615_685_872
#: Labelled nodes in training, validation and test, the oldest first.
SPLIT = {"train": 1_207_179, "valid": 125_265, "test": 214_338}
#: The length of the class means; the noise has unit variance.
_SIGNAL = 3.0
_FOLDER = "ogbn_papers100M"
_NOTE = "papers_like.json"
#: Bytes that are generated at a time, if memory allows.
_PIECE = 1 << 26
#: Nodes whose labels are written at a time. Not by memory: what is compressed
#: depends a little on how it is cut.
_NODES = 1 << 16


def write_papers_like(
    root: str | os.PathLike,
    scale: float,
    *,
    feat_dim: int = 128,
    seed: int = 0,
    memory: int | str = "4GiB",
    progress: bool | None = None,
) -> Path:
    """Write a data set that :func:`dgl_lc.data.prepare_ogb` takes for OGB's.

    Papers appear one after another and cite older ones: half of them of
    their own class, well-known papers most often, so that citations follow a
    power law. Ids are in no order of time. Features are Gaussian around a
    mean for each of 172 classes. 1.4 % of the nodes have labels; the split
    is by time, as OGB's.

    Parameters
    ----------
    root : path
        Where OGB puts its datasets; ``ogbn_papers100M`` is written there.
    scale : float
        1.0 is as large as ogbn-papers100M: 111 million nodes, 1.6 billion
        edges.
    feat_dim : int, optional
        Columns of the features, which are float32.
    seed : int, optional
        The same seed gives the same files.
    memory : int or str, optional
        What may be allocated.
    progress : bool, optional
        Whether to show progress bars. Default: in a terminal, if it takes a
        while.

    Returns
    -------
    Path
        The folder of the data set. If it exists already, nothing is done.

    Examples
    --------
    >>> import tempfile
    >>> from dgl_lc.data.papers_like import write_papers_like
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     home = write_papers_like(folder, 1e-5, feat_dim=8)
    ...     sorted(path.name for path in (home / "raw").iterdir())
    ['data.npz', 'node-label.npz']
    """
    n, m = round(NUM_NODES * scale), round(NUM_EDGES * scale)
    if not (scale > 0 and 500 <= n < 2**31):
        raise DGLError(
            f"scale should be from 0.00001 to 19, got {scale!r}: 1.0 is "
            f"{NUM_NODES:,} nodes."
        )
    if feat_dim < 1:
        raise DGLError(f"feat_dim should be at least 1, got {feat_dim}.")
    budget = Budget(parse_bytes(memory))
    row = 4 * feat_dim
    # The means of the classes, and at least one row.
    least = 3 * NUM_CLASSES * row + row
    if budget.room < least:
        enough = budget.overhead + least
        raise DGLError(
            f"memory={format_bytes(budget.memory)} is too small to generate "
            f"rows of {feat_dim} columns: {format_bytes(enough)} ({enough} "
            f"bytes) would be enough."
        )
    piece = min(budget.room - least + row, _PIECE)
    home = Path(root) / _FOLDER
    about = {
        "generated": "papers_like 1",
        "scale": scale,
        "feat_dim": feat_dim,
        "seed": seed,
    }
    if _claim(home, about):
        return home
    needed = 16 * m + 4 * n * feat_dim
    check_free(home, needed, "the data set")
    rule = make_rule(n, seed)
    with progress_bar(needed, "generate", progress) as bar:
        _write_data(home, rule, m, feat_dim, seed, piece, bar)
    _write_labels(home, rule)
    write_json(home / _NOTE, about)
    return home


def _claim(home: Path, about: dict[str, Any]) -> bool:
    """Make the folder ours, and say whether it is finished.

    A note that says what is being written comes first. Without one nothing
    that the folder holds is ours, and it is refused.
    """
    unfinished = about | {"finished": False}
    if (home / _NOTE).exists():
        found = read_json(home / _NOTE)
        if found not in (about, unfinished):
            raise DGLError(
                f"{home} holds another data set, {found}, and this one is "
                f"{about}: choose another folder."
            )
        return found == about
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise DGLError(
            f"{home} holds a data set that was not generated: choose another "
            f"folder."
        )
    (home / "raw").mkdir(parents=True, exist_ok=True)
    (home / "split" / "time").mkdir(parents=True, exist_ok=True)
    write_json(home / _NOTE, unfinished)
    return False


def _write_data(
    home: Path,
    rule: Rule,
    m: int,
    feat_dim: int,
    seed: int,
    piece_bytes: int,
    bar: tqdm,
) -> None:
    rng = np.random.default_rng([seed, 1])
    means = rng.standard_normal((NUM_CLASSES, feat_dim), dtype=np.float32)
    means *= _SIGNAL / np.linalg.norm(means, axis=1, keepdims=True)
    n = rule.num_nodes
    room = WorkSpace(piece_bytes).array(piece_bytes // 8 * 8, np.uint8)

    def write(
        file: IO[bytes],
        rows: int,
        row: np.ndarray,
        fill: Callable[[int, np.ndarray], None],
    ) -> None:
        """Write rows like this one, which ``fill(begin, rows)`` makes."""
        count = max(1, len(room) // row.nbytes)
        for begin in range(0, rows, count):
            size = min(count, rows - begin)
            piece = room[: size * row.nbytes].view(row.dtype)
            piece = piece.reshape(size, *row.shape)
            _in_parallel(fill, begin, piece)
            file.write(piece.reshape(-1).view(np.uint8).data)
            bar.update(piece.nbytes)

    def fill_archive(archive: zipfile.ZipFile) -> None:
        with archive.open(_info("edge_index"), "w", force_zip64=True) as file:
            _npy_header(file, np.int64, (2, m))
            for source in (True, False):
                write(
                    file, m, np.empty((), np.int64),
                    lambda begin, out, source=source: cite(  # type: ignore[misc]
                        begin, rule, source, out
                    ),
                )  # fmt: skip
        with archive.open(_info("node_feat"), "w", force_zip64=True) as file:
            _npy_header(file, np.float32, (n, feat_dim))
            write(
                file, n, np.empty(feat_dim, np.float32),
                lambda begin, out: describe(begin, rule, means, out),
            )  # fmt: skip
        for name, count in (("num_nodes_list", n), ("num_edges_list", m)):
            _write_array(archive, name, np.array([count]))

    _write_npz(home / "raw" / "data.npz", zipfile.ZIP_STORED, fill_archive)


def _in_parallel(
    fill: Callable[[int, np.ndarray], None], begin: int, piece: np.ndarray
) -> None:
    parts = ranges(len(piece), min(len(piece), 4 * num_threads()))

    def work(_: int, part: int) -> None:
        low, high = parts[part]
        fill(begin + low, piece[low:high])

    run_parallel(work, len(parts))


def _write_labels(home: Path, rule: Rule) -> None:
    """Write the labels of all nodes, and the ids of each split in order."""
    n = rule.num_nodes
    labelled = round(n * sum(SPLIT.values()) / NUM_NODES)
    shares = np.cumsum(list(SPLIT.values())) / sum(SPLIT.values())
    ends = np.round(shares * labelled).astype(np.int64)

    def pieces() -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        labels = np.empty(_NODES, np.float32)
        splits = np.empty(_NODES, np.int8)
        for begin in range(0, n, _NODES):
            size = min(_NODES, n - begin)
            label_nodes(
                begin, rule, labelled, ends, labels[:size], splits[:size]
            )
            yield begin, labels[:size], splits[:size]

    def fill(archive: zipfile.ZipFile) -> None:
        with archive.open(_info("node_label"), "w", force_zip64=True) as file:
            _npy_header(file, np.float32, (n, 1))
            for _, labels, _ in pieces():
                file.write(labels.view(np.uint8).data)

    _write_npz(home / "raw" / "node-label.npz", zipfile.ZIP_DEFLATED, fill)
    for number, split in enumerate(SPLIT):

        def write(file: BinaryIO, number: int = number) -> None:
            # Neither a name nor a date: the same seed gives the same bytes.
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                for begin, _, splits in pieces():
                    ids = begin + np.flatnonzero(splits == number)
                    text = "".join(f"{node}\n" for node in ids.tolist())
                    packed.write(text.encode())

        _replace(home / "split" / "time" / f"{split}.csv.gz", write)


def _write_npz(
    path: Path, how: int, fill: Callable[[zipfile.ZipFile], None]
) -> None:
    """Write an npz file that appears when it is complete."""

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w", how) as archive:
            fill(archive)

    _replace(path, write)


def _replace(path: Path, write: Callable[[BinaryIO], None]) -> None:
    # The name is always the same: what a killed run leaves is replaced.
    replace_buffered(path, write, path.with_name(f".{path.name}.part"))


def _info(name: str) -> zipfile.ZipInfo:
    # Without a date: the same seed gives the same bytes.
    return zipfile.ZipInfo(f"{name}.npy")


def _npy_header(file: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(file, header)


def _write_array(
    archive: zipfile.ZipFile, name: str, array: np.ndarray
) -> None:
    with archive.open(_info(name), "w") as file:
        _npy_header(file, array.dtype, array.shape)
        file.write(array.tobytes())
