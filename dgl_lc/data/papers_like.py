"""A generated data set in OGB's raw layout, of ogbn-papers100M's shape.

Every number is a hash of the seed and its place, so that any part can be
made again: OGB stores all sources before all targets, and each half is
written as it comes, without a file in between.
"""

import csv
import gzip
import io
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from dgl import DGLError
from tqdm.auto import tqdm

from .._common.bytes import format_bytes, parse_bytes
from .._common.jit import jit
from .._common.json_files import read_json, write_json
from .._common.threads import num_threads, ranges, run_parallel

NUM_NODES = 111_059_956
NUM_EDGES = 1_615_685_872
NUM_CLASSES = 172
#: Labelled nodes in training, validation and test, the oldest first.
SPLIT = {"train": 1_207_179, "valid": 125_265, "test": 214_338}
#: The share of citations inside a class, and of those to well-known papers.
_HOMOPHILY = 0.5
_FAMOUS = 0.7
#: The length of the class means; the noise has unit variance.
_SIGNAL = 3.0
_FOLDER = "ogbn_papers100M"
_NOTE = "papers_like.json"


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
        Show progress bars. Default: in a terminal, if it takes a while.

    Returns
    -------
    Path
        The folder of the data set. If it is there already, nothing is done.

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
    budget = parse_bytes(memory)
    home = Path(root) / _FOLDER
    about = {
        "generated": "papers_like 1",
        "scale": scale,
        "feat_dim": feat_dim,
        "seed": seed,
    }
    if (home / _NOTE).exists():
        found = read_json(home / _NOTE)
        if found != about:
            raise DGLError(
                f"{home} holds another data set, {found}: asked for is "
                f"{about}. Choose another folder."
            )
        return home
    if (home / "raw" / "data.npz").exists():
        raise DGLError(
            f"{home} holds a data set that was not generated: choose another "
            f"folder."
        )
    (home / "raw").mkdir(parents=True, exist_ok=True)
    (home / "split" / "time").mkdir(parents=True, exist_ok=True)
    needed = 16 * m + 4 * n * feat_dim
    free = shutil.disk_usage(home).free
    if free < needed:
        raise DGLError(
            f"{home}: the data set needs {format_bytes(needed)} of disk, free "
            f"are {format_bytes(free)}."
        )
    rule = _rule(n, seed)
    with tqdm(
        total=needed, unit="B", unit_scale=True, unit_divisor=1024,
        desc="generate",
        disable=None if progress is None else not progress,
        delay=2 if progress is None else 0,
    ) as bar:  # fmt: skip
        _write_data(home, rule, m, feat_dim, seed, budget, bar)
    _write_labels(home, rule)
    write_json(home / _NOTE, about)
    return home


class _Rule(NamedTuple):
    """How papers are named, given their place in time."""

    num_nodes: int
    key: np.uint64
    half: np.uint64
    mask: np.uint64
    times: np.ndarray
    plus: np.ndarray
    inverse: np.ndarray


def _rule(n: int, seed: int) -> _Rule:
    rng = np.random.default_rng(seed)
    bits = max(2, (n - 1).bit_length())
    times = rng.integers(0, 2**63, 3, dtype=np.uint64) * np.uint64(2)
    times += np.uint64(1)
    return _Rule(
        num_nodes=n,
        key=rng.integers(0, 2**63, dtype=np.uint64),
        half=np.uint64((bits + 1) // 2),
        mask=np.uint64(2**bits - 1),
        times=times,
        plus=rng.integers(0, 2**63, 3, dtype=np.uint64),
        inverse=np.array(
            [pow(int(factor), -1, 2**64) for factor in times], np.uint64
        ),
    )


@jit
def _hash(x):
    """Sixty-four bits that look random (splitmix64)."""
    x = np.uint64(x) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@jit
def _name(place, rule):
    """The id of the paper at a place in time.

    A permutation of the next power of two, walked until it is inside.
    """
    x = np.uint64(place)
    while True:
        for i in range(3):
            x = (x * rule.times[i] + rule.plus[i]) & rule.mask
            x ^= x >> rule.half
        if x < np.uint64(rule.num_nodes):
            return np.int64(x)


@jit
def _place(name, rule):
    """The place in time of the paper with an id."""
    x = np.uint64(name)
    while True:
        for i in range(2, -1, -1):
            x ^= x >> rule.half
            x = ((x - rule.plus[i]) * rule.inverse[i]) & rule.mask
        if x < np.uint64(rule.num_nodes):
            return np.int64(x)


@jit
def _cite(begin, rule, want_source, out):
    """Sources or targets of edges from ``begin`` on."""
    unit = 2.0**-53
    for i in range(len(out)):
        draw = _hash(rule.key + np.uint64(begin + i))
        share = np.float64(draw >> np.uint64(11)) * unit
        paper = 1 + np.int64(share * (rule.num_nodes - 1))
        if want_source:
            out[i] = _name(paper, rule)
            continue
        draw = _hash(draw)
        kinds = draw & np.uint64(0xFFFF)
        share = np.float64(_hash(draw) >> np.uint64(11)) * unit
        inside = kinds < np.uint64(_HOMOPHILY * 65536)
        famous = (draw >> np.uint64(16)) & np.uint64(0xFFFF)
        # Papers of one class come at equal steps.
        choice = paper // NUM_CLASSES if inside else paper
        if choice == 0:
            inside, choice = False, paper
        if famous < np.uint64(_FAMOUS * 65536):
            older = np.int64(choice * share * share)
        else:
            older = choice - 1 - np.int64(choice * share * share * share)
        if inside:
            older = older * NUM_CLASSES + paper % NUM_CLASSES
        out[i] = _name(older, rule)


@jit
def _describe(begin, rule, means, out):
    """Features of the nodes from ``begin`` on."""
    low = np.uint64(0xFFFF)
    # Four uniform numbers of 16 bits: variance 1/3, nearly Gaussian.
    scale = np.float32(3.0**0.5 / 65536)
    for i in range(len(out)):
        mean = means[_place(begin + i, rule) % NUM_CLASSES]
        state = _hash(rule.key ^ np.uint64(begin + i))
        for j in range(out.shape[1]):
            x = _hash(state + np.uint64(j))
            total = np.int64(x & low) + np.int64((x >> np.uint64(16)) & low)
            total += np.int64((x >> np.uint64(32)) & low)
            total += np.int64(x >> np.uint64(48))
            out[i, j] = mean[j] + np.float32(total - 131070) * scale


@jit
def _label(rule, labelled, names, labels):
    """Names and classes of labelled papers, the oldest first."""
    step = rule.num_nodes // labelled
    for i in range(labelled):
        place = i * rule.num_nodes // labelled
        place += np.int64(_hash(rule.key + np.uint64(~i)) % np.uint64(step))
        names[i] = _name(place, rule)
        labels[i] = place % NUM_CLASSES


def _write_data(
    home: Path,
    rule: _Rule,
    m: int,
    feat_dim: int,
    seed: int,
    budget: int,
    bar: tqdm,
) -> None:
    rng = np.random.default_rng([seed, 1])
    means = rng.standard_normal((NUM_CLASSES, feat_dim), dtype=np.float32)
    means *= _SIGNAL / np.linalg.norm(means, axis=1, keepdims=True)
    n = rule.num_nodes

    def write(archive, name, shape, dtype, fill, row_bytes):
        """A member, in pieces that fill(begin, rows) makes."""
        count = max(1, min(budget // 2, 1 << 26) // row_bytes)
        rows = shape[0] if name == "node_feat" else shape[-1]
        room = np.empty(count * row_bytes // dtype().itemsize, dtype)
        with archive.open(_info(name), "w", force_zip64=True) as file:
            _npy_header(file, dtype, shape)
            halves = shape[0] if name == "edge_index" else 1
            for half in range(halves):
                for begin in range(0, rows, count):
                    size = min(count, rows - begin)
                    piece = room[: size * row_bytes // dtype().itemsize]
                    _in_parallel(fill, half, begin, piece, size)
                    file.write(piece.view(np.uint8).data)
                    bar.update(piece.nbytes)

    def cite(half, begin, piece):
        _cite(begin, rule, half == 0, piece)

    def describe(_, begin, piece):
        _describe(begin, rule, means, piece.reshape(-1, feat_dim))

    def fill(archive):
        write(archive, "edge_index", (2, m), np.int64, cite, 8)
        write(
            archive, "node_feat", (n, feat_dim), np.float32,
            describe, 4 * feat_dim,
        )  # fmt: skip
        for name, count in (("num_nodes_list", n), ("num_edges_list", m)):
            _write_array(archive, name, np.array([count]))

    _write_npz(home / "raw" / "data.npz", zipfile.ZIP_STORED, fill)


def _in_parallel(
    fill: Callable, half: int, begin: int, piece: np.ndarray, rows: int
) -> None:
    parts = ranges(rows, min(rows, 4 * num_threads()))
    width = len(piece) // rows

    def work(_, part):
        low, high = parts[part]
        fill(half, begin + low, piece[low * width : high * width])

    run_parallel(work, len(parts))


def _write_labels(home: Path, rule: _Rule) -> None:
    n = rule.num_nodes
    labelled = round(n * sum(SPLIT.values()) / NUM_NODES)
    names = np.empty(labelled, np.int64)
    labels = np.empty(labelled, np.float32)
    _label(rule, labelled, names, labels)
    shares = np.cumsum(list(SPLIT.values())) / sum(SPLIT.values())
    ends = np.round(shares * labelled).astype(int)
    for split, ids in zip(SPLIT, np.split(names, ends[:2]), strict=True):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            [name] for name in np.sort(ids).tolist()
        )
        path = home / "split" / "time" / f"{split}.csv.gz"
        path.write_bytes(gzip.compress(text.getvalue().encode(), 6, mtime=0))
    order = np.argsort(names)
    names, labels = names[order], labels[order]

    def fill(archive):
        with archive.open(_info("node_label"), "w", force_zip64=True) as file:
            _npy_header(file, np.float32, (n, 1))
            count = 1 << 20
            for begin in range(0, n, count):
                piece = np.full(min(count, n - begin), np.nan, np.float32)
                low, high = np.searchsorted(names, [begin, begin + count])
                piece[names[low:high] - begin] = labels[low:high]
                file.write(piece.tobytes())

    _write_npz(home / "raw" / "node-label.npz", zipfile.ZIP_DEFLATED, fill)


def _write_npz(path: Path, how: int, fill: Callable) -> None:
    """Write an npz file that appears when it is complete."""
    part = path.with_name(f".{path.name}.part")
    with open(part, "wb") as file:
        with zipfile.ZipFile(file, "w", how) as archive:
            fill(archive)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


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
