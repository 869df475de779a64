"""One call for every source of a task."""

import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dgl import DGLError

from .dgl_data import CLASSES, load_dgl
from .files import load_npz
from .graphsaint import load_graphsaint
from .node_data import NodeData
from .ogb import DATASETS, PAPERS, load_ogb
from .synthetic import block_model

_KNOWN = (
    f'"synthetic", "synthetic:1000000" for a size, {", ".join(CLASSES)}, '
    f"{', '.join(DATASETS)}, or the path of an npz file, of a folder with npy "
    f"files (edges, feat, labels, train, valid, test) or of a folder with "
    f"GraphSAINT's files"
)


def load(source: str | os.PathLike, **options: Any) -> NodeData:
    """Load a task by name or from files.

    Parameters
    ----------
    source : str or path
        "synthetic", or "synthetic:" and a number of nodes:
        :func:`~dgl_lc.data.block_model`. The name of a dataset of DGL: cora,
        citeseer, pubmed, flickr, reddit, coauthor_cs, coauthor_physics,
        amazon_computers, amazon_photo; or of OGB: ogbn-arxiv,
        ogbn-products. Or the path of an npz file, of a folder with npy
        files, or of a folder with GraphSAINT's files. A name takes precedence
        over a path: write ``./cora`` for a folder of that name.
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


def _reader(source: Any) -> tuple[Callable[..., NodeData], list[Any]]:
    """Find the function that reads a source, and its first arguments."""
    if isinstance(source, str):
        if source.partition(":")[0] == "synthetic":
            return block_model, _size(source)
        name = source.lower().replace("-", "_")
        if name in CLASSES:
            return load_dgl, [name]
        name = name.replace("_", "-")
        if name in (*DATASETS, PAPERS):
            return load_ogb, [name]
    try:
        path = Path(source)
    except TypeError:
        raise DGLError(
            f"source should be a name or a path, got {type(source).__name__}."
        ) from None
    if path.is_file():
        return load_npz, [path]
    if not path.is_dir():
        raise DGLError(
            f"source={str(source)!r} is neither a known name nor a file or "
            f"folder. Known are {_KNOWN}."
        )
    if (path / "adj_full.npz").exists():
        return load_graphsaint, [path]
    if (path / "edges.npy").exists():
        return load_npz, [path]
    raise DGLError(
        f"source={str(source)!r} is a folder with neither edges.npy nor "
        f"adj_full.npz. Known are {_KNOWN}."
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
