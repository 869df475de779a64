"""One call for every source of a task."""

import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dgl import DGLError

from .._common.json_files import read_json
from ..storage.manifest import MANIFEST, STATE
from .dgl_data import CLASSES, load_dgl
from .disk_data import KIND, DiskData
from .files import load_npz
from .graphsaint import load_graphsaint
from .node_data import NodeData
from .ogb import DATASETS, PAPERS, load_ogb
from .synthetic import block_model

_KNOWN = (
    f'"synthetic", "synthetic:1000000" for a size, {", ".join(CLASSES)}, '
    f"{', '.join(DATASETS)}, or the path of an npz file, of a folder with npy "
    f"files (edges or edge_index, feat, labels, train, valid, test) or of a "
    f"folder with GraphSAINT's files"
)


def load(source: str | os.PathLike, **options: Any) -> NodeData:
    """Load a task by name or from files.

    The formats, and what is in them:

    - "synthetic", or "synthetic:" and a number of nodes:
      :func:`~dgl_lc.data.block_model`.
    - The name of a data set of DGL: cora, citeseer, pubmed, flickr, reddit,
      coauthor_cs, coauthor_physics, amazon_computers, amazon_photo.
    - The name of a data set of OGB: ogbn-arxiv, ogbn-products. OGB's csv
      files are read from ``folder``, or downloaded.
    - An npz file, or a folder of npy files with these names:

      - ``edges`` or ``edge_index``: integers (2, E), sources and destinations;
      - ``feat``: the features, numbers (n, d); or as a CSR matrix, in an npz
        file only, ``feat_indptr``, ``feat_indices``, ``feat_data`` and
        ``feat_dim``;
      - ``labels``: integers (n,), -1 where there is none;
      - ``train``, ``valid``, ``test``: node ids, or masks (n,) of bools;
      - optional: ``edge_weight``, numbers (E,), which become
        ``graph.edata["weight"]``; ``class_names``, texts; ``node_ids``,
        integers or texts (n,);
      - optional, in an npz file only: ``num_nodes``, ``num_classes``,
        ``name``, ``inductive`` and ``train_edges``, the edges (2, E) that may
        be seen in training.

      :func:`~dgl_lc.data.save_npz` writes such a file.
    - A folder with GraphSAINT's files: ``adj_full.npz`` and ``adj_train.npz``
      (CSR matrices as ``scipy.sparse.save_npz`` writes them), ``feats.npy``,
      ``class_map.json`` and ``role.json``.

    A folder that was prepared on disk is opened by :func:`open_data`.

    Parameters
    ----------
    source : str or path
        A name or a path, as above. A name takes precedence over a path: write
        ``./cora`` for a folder of that name.
    **options
        Options of the source: the arguments of ``block_model``; folder,
        inductive and seed for DGL's datasets; folder and add_reverse for
        OGB's; add_reverse for npz and npy files; standardize for
        GraphSAINT's.

    Examples
    --------
    >>> from dgl_lc.data import load
    >>> load("synthetic:500", num_classes=3).feat.shape
    torch.Size([500, 128])
    """
    reader, arguments = _reader(source)
    try:
        inspect.signature(reader).bind(*arguments, **options)
    except TypeError as error:
        known = list(inspect.signature(reader).parameters)[len(arguments) :]
        raise DGLError(
            f"{source}: {error}. Options of this source: {', '.join(known)}."
        ) from None
    return reader(*arguments, **options)


def open_data(source: str | os.PathLike, **options: Any) -> NodeData | DiskData:
    """Open a task: a prepared folder on disk, or whatever ``load`` reads.

    A folder is a prepared task if its manifest says so, whatever other
    folders or files have the same names as its parts.

    Parameters
    ----------
    source : str or path
        A folder that was prepared before, which is opened as a
        :class:`~dgl_lc.data.DiskData` without reading it, or a source of
        :func:`load`.
    **options
        Options of :func:`load`. A prepared folder has none: its options were
        set when it was written.

    Examples
    --------
    >>> from dgl_lc.data import open_data
    >>> open_data("synthetic:500", num_classes=3).num_classes
    3
    """
    path = _path_of(source)
    if path is None or not _is_prepared(path):
        return load(source, **options)
    if options:
        raise DGLError(
            f"{source} is a prepared task, which has no option "
            f"{', '.join(options)}: give it when the task is prepared."
        )
    return DiskData(path)


def _is_prepared(path: Path) -> bool:
    """Tell whether a folder is a task on disk, finished or not."""
    for name in (MANIFEST, STATE):
        if (path / name).is_file():
            try:
                return read_json(path / name).get("format") == KIND.format
            except DGLError:
                # Other programs have files of these names as well.
                return False
    return False


def _path_of(source: Any) -> Path | None:
    """Return the source as a path; None for the name of a data set."""
    if isinstance(source, str):
        name = source.lower().replace("-", "_")
        names = (*CLASSES, *DATASETS, PAPERS)
        if name in (known.replace("-", "_") for known in names):
            return None
        if source.partition(":")[0] == "synthetic":
            return None
    try:
        return Path(source)
    except TypeError:
        raise DGLError(
            f"source should be a name or a path, got {type(source).__name__}."
        ) from None


def _reader(source: Any) -> tuple[Callable[..., NodeData], list[Any]]:
    """Find the function that reads a source, and its first arguments."""
    path = _path_of(source)
    if path is None:
        if source.partition(":")[0] == "synthetic":
            return block_model, _size(source)
        name = source.lower().replace("-", "_")
        if name in CLASSES:
            return load_dgl, [name]
        return load_ogb, [name.replace("_", "-")]
    if path.is_file():
        return load_npz, [path]
    if not path.is_dir():
        raise DGLError(
            f"source={str(source)!r} is neither a known name nor a file or "
            f"folder. Known are {_KNOWN}."
        )
    if _is_prepared(path):
        raise DGLError(
            f"source={str(source)!r} is a prepared task on disk: open it with "
            f"dgl_lc.data.open_data or DiskData; load reads into memory."
        )
    if (path / "adj_full.npz").exists():
        return load_graphsaint, [path]
    if any((path / f"{key}.npy").exists() for key in ("edges", "edge_index")):
        return load_npz, [path]
    raise DGLError(
        f"source={str(source)!r} is a folder with neither edges.npy (or "
        f"edge_index.npy) nor adj_full.npz. Known are {_KNOWN}."
    )


def _size(source: str) -> list[int]:
    if source == "synthetic":
        return []
    if not re.fullmatch(r"synthetic:[0-9][0-9_,]{0,40}", source):
        raise DGLError(
            f"source={source!r}: write a number of nodes, as in "
            f'"synthetic:1000000".'
        )
    return [int(re.sub("[_,]", "", source.partition(":")[2]))]
