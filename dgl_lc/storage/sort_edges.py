"""Sorting edges by destination on disk, under a budget of memory.

One pass over the raw edges counts those of each node. Each further pass
fills the range of destinations that fits into memory, and writes it behind
the others. What a pass has written is kept if a later one is killed.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
from dgl import DGLError

from .._common.bytes import parse_bytes
from .array_stream import ArrayStream
from .disk_graph import COUNTS, FILES, KIND, WEIGHTS, DiskGraph
from .edge_sorter import EdgeSorter
from .edge_sources import EdgeSource, WeightedEdges, edge_source
from .folder import build, check_apart
from .read_ahead import reader_thread
from .sort_memory import OVERHEAD, Budget


def build_disk_graph(
    edges: str | os.PathLike | EdgeSource,
    num_nodes: int,
    path: str | os.PathLike,
    *,
    weights: str | os.PathLike | ArrayStream | None = None,
    weight_dtype: str | None = None,
    memory: int | str = "4GiB",
    add_reverse: bool = False,
    drop_loops: bool = False,
    progress: bool | None = None,
    resume: bool = True,
) -> DiskGraph:
    """Sort a list of edges into a graph on disk, in bounded memory.

    Parameters
    ----------
    edges : path or source of edges
        A npy file (2, m) or (m, 2), an npz file with such an array as
        ``edge_index`` or ``edges``, or a csv file, plain or gz; or one of the
        classes of ``dgl_lc.storage.edge_sources``, for files that are read
        otherwise.
    num_nodes : int
        Nodes are 0 to num_nodes - 1.
    path : path
        The folder to write.
    weights : path or ArrayStream, optional
        A number for each edge, in the order of the edges: a npy file of
        shape (m,) with integers, float16, float32 or float64, all finite.
        Default: none, unless the source of edges has weights, as
        ``CsvEdges(path, weighted=True)``.
    weight_dtype : str, optional
        How weights are stored, "float32" or "float64". Default: float64 if
        they are given as float64, otherwise float32.
    memory : int or str, optional
        What may be allocated. Less memory means more passes over the edges.
    add_reverse : bool, optional
        Whether to make the graph undirected: every edge in both directions,
        once, as ``dgl.to_bidirected``. Otherwise edges are as in the file,
        multi-edges too, and those of a row in the order of the file. The
        reverse of an edge has its weight; an edge that occurs again, in
        either direction, with another weight is an error that names it.
    drop_loops : bool, optional
        Whether to omit self-loops.
    progress : bool, optional
        Whether to show progress bars. Default: in a terminal, if it takes a
        while.
    resume : bool, optional
        Whether to resume where a killed run stopped. A folder that was made
        from other edges or with other options is then an error; with False
        it is written again.

    Returns
    -------
    DiskGraph
        The graph, open. If the folder was whole already, nothing is done.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dgl_lc.data import build_disk_graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/edges.npy", np.array([[0, 1, 1], [1, 0, 2]]))
    ...     g = build_disk_graph(
    ...         f"{folder}/edges.npy", 3, f"{folder}/graph", add_reverse=True
    ...     )
    ...     g.num_edges()
    4
    """
    for given in (edges, weights):
        if isinstance(given, (str, os.PathLike)):
            check_apart(Path(given), Path(path))
    if weights is None:
        source = edge_source(edges)
    else:
        source = WeightedEdges(edges, weights)
    overhead = OVERHEAD + source.reader_bytes
    return sort_edges(
        source, num_nodes, path, Budget(parse_bytes(memory), overhead),
        add_reverse=add_reverse, drop_loops=drop_loops,
        weight_dtype=weight_dtype, progress=progress, resume=resume,
    )  # fmt: skip


def sort_edges(
    source: EdgeSource,
    num_nodes: int,
    path: str | os.PathLike,
    budget: Budget,
    *,
    add_reverse: bool = False,
    drop_loops: bool = False,
    weight_dtype: str | None = None,
    progress: bool | None = None,
    resume: bool = True,
) -> DiskGraph:
    """Do the work of :func:`build_disk_graph`, with any overhead."""
    if type(num_nodes) is bool or not isinstance(num_nodes, (int, np.integer)):
        raise DGLError(f"num_nodes should be an integer, got {num_nodes!r}.")
    if not 1 <= num_nodes < 2**31:
        raise DGLError(
            f"num_nodes should be from 1 to {2**31 - 1}, got {num_nodes}."
        )
    folder = Path(path)
    made_from = source.made_from()
    options: dict[str, Any] = {
        "num_nodes": int(num_nodes),
        "add_reverse": bool(add_reverse),
        "drop_loops": bool(drop_loops),
    }
    files = dict(FILES)
    stored_as = _weight_dtype(source, weight_dtype)
    if stored_as is not None:
        options["weight_dtype"] = files[WEIGHTS] = stored_as
    with build(
        folder, KIND, (*files, COUNTS), made_from, options,
        resume=resume,
    ) as work:  # fmt: skip
        if work is not None:
            with reader_thread() as reader:
                sorter = EdgeSorter(
                    source, reader, work, budget, progress, **options
                )
                sorter.count()
                sorter.fill()
            sorter.check_source(made_from)
            # A resumed run may have had nothing to write to some of them.
            arrays = {
                name: work.array(name, dtype) for name, dtype in files.items()
            }
            work.finish(
                drop=(COUNTS,),
                num_nodes=int(num_nodes),
                num_edges=arrays["indices.npy"].count,
            )
    return DiskGraph(folder)


def _weight_dtype(source: EdgeSource, asked: str | None) -> str | None:
    """Choose how weights are stored; None if the edges have none."""
    if asked not in (None, "float32", "float64"):
        raise DGLError(
            f"weight_dtype should be 'float32' or 'float64', got {asked!r}."
        )
    if source.weight_type is None:
        if asked is not None:
            raise DGLError(
                f"weight_dtype={asked!r} was given, but {source.what} has no "
                f"weights: give weights, or omit weight_dtype."
            )
        return None
    if asked is not None:
        return asked
    is_double = source.weight_type.newbyteorder("=") == np.float64
    return "float64" if is_double else "float32"
