"""Graphs that are given as a sparse matrix or as edges, not as a DGLGraph.

Entry (i, j) of a matrix is an edge from i to j, as in ``dgl.from_scipy``. The
DGLGraph that is made here views the arrays of the matrix where DGL can: the
edges and their order are those of the matrix as it is stored.
"""

from typing import Any, NamedTuple, TypeAlias, Union

import dgl
import numpy as np
import torch
from dgl import DGLError
from scipy import sparse

from ...storage.disk_graph import DiskGraph
from ...storage.npy_file import tensor_of

#: What the calls of the precomputation take as a graph.
GraphLike: TypeAlias = Union[
    dgl.DGLGraph, DiskGraph, "sparse.spmatrix", "sparse.sparray", torch.Tensor,
    tuple[Any, Any],
]  # fmt: skip

#: Values that are compared or converted at a time.
_VALUES = 1 << 16
#: Integers up to here are exact in float32.
_EXACT = 1 << 24

_TAKEN = (
    "a DGLGraph, a DiskGraph, a scipy.sparse matrix, a torch sparse tensor or "
    "a pair (src, dst)"
)


class GivenGraph(NamedTuple):
    """A graph, and the values of the matrix that it was given as.

    ``weight`` is None where there are no values, or all of them are one.
    """

    graph: dgl.DGLGraph | DiskGraph
    weight: torch.Tensor | None


def as_graph(g: Any, num_nodes: int | None = None) -> GivenGraph:
    """Give a sparse matrix, or a pair of ends of edges, as a graph.

    Every stored entry of a matrix is an edge: an entry that is stored twice
    is two edges, and a stored zero is an edge of weight 0 (not in the blocks
    of a BSR matrix). Arrays of CSR, CSC and COO matrices and of pairs are
    viewed, not copied, if they are contiguous and of type int32 or int64 both.

    Parameters
    ----------
    g : DGLGraph, DiskGraph, sparse matrix, sparse tensor or pair
        Graphs are returned as they are.
    num_nodes : int, optional
        The number of nodes of a pair. Default: the largest id plus one, as
        in ``dgl.graph``.

    Examples
    --------
    >>> from scipy import sparse
    >>> graph, weight = as_graph(sparse.csr_matrix([[0, 2], [3, 0]]))
    >>> graph.edges(), weight
    ((tensor([0, 1], dtype=torch.int32), tensor([1, 0], dtype=torch.int32)),
     tensor([2., 3.]))
    """
    if isinstance(g, (dgl.DGLGraph, DiskGraph)):
        return GivenGraph(g, None)
    if sparse.issparse(g):
        return _from_scipy(g)
    if isinstance(g, torch.Tensor) and g.layout != torch.strided:
        return _from_torch(g)
    # A list may also be one of edges, each of which is a pair.
    if isinstance(g, tuple) and len(g) == 2:
        source, target = (_ids(ends) for ends in g)
        return GivenGraph(_from_pairs(source, target, num_nodes), None)
    raise _refusal(g)


def as_unweighted(g: Any, num_nodes: int | None = None) -> Any:
    """Give a graph as :func:`as_graph`, where weights have no meaning."""
    graph, weight = as_graph(g, num_nodes)
    if weight is not None:
        raise DGLError(
            "g is a matrix with values other than one, and weights of edges "
            "are not used here: set its values to one."
        )
    return graph


def _from_scipy(matrix: Any) -> GivenGraph:
    n = _num_nodes(matrix.shape)
    if matrix.format not in ("csr", "csc", "coo"):
        blocks = matrix.format == "bsr"
        matrix = matrix.tocoo()
        if blocks:
            # Most zeros in a block are there because others are not zero.
            matrix.eliminate_zeros()
    if matrix.format == "coo":
        graph = _from_pairs(_ids(matrix.row), _ids(matrix.col), n)
        return GivenGraph(graph, _weight(_values(matrix.data)))
    # The arrays may be longer than the matrix has entries.
    stored = int(matrix.indptr[-1])
    indptr, indices = _ids(matrix.indptr), _ids(matrix.indices[:stored])
    graph = _compressed(matrix.format, indptr, indices, n)
    return GivenGraph(graph, _weight(_values(matrix.data[:stored])))


def _from_torch(matrix: torch.Tensor) -> GivenGraph:
    if matrix.device.type != "cpu":
        raise DGLError(
            f"g is on {matrix.device}: use g.cpu(). The graph is kept in host "
            f"memory."
        )
    if matrix.requires_grad:
        raise DGLError(
            "g requires grad, but precomputation is not differentiable: give "
            "g.detach()."
        )
    layout = matrix.layout
    if layout in (torch.sparse_bsr, torch.sparse_bsc):
        raise DGLError(f"g has layout {layout}: use g.to_sparse_csr().")
    n = _num_nodes(matrix.shape)
    if layout == torch.sparse_coo:
        # Only the private names give a tensor that is not coalesced.
        values, ends = matrix._values(), matrix._indices()
        if matrix.dense_dim():
            raise _dense_entries(values)
        graph = _from_pairs(_ids(ends[0]), _ids(ends[1]), n)
        return GivenGraph(graph, _weight(values))
    values = matrix.values()
    if values.dim() != 1:
        raise _dense_entries(values)
    if layout == torch.sparse_csr:
        name, indptr = "csr", matrix.crow_indices()
        indices = matrix.col_indices()
    else:
        name, indptr = "csc", matrix.ccol_indices()
        indices = matrix.row_indices()
    graph = _compressed(name, _ids(indptr), _ids(indices), n)
    return GivenGraph(graph, _weight(values))


def _dense_entries(values: torch.Tensor) -> DGLError:
    return DGLError(
        f"g has entries of shape {tuple(values.shape[1:])}: give a matrix with "
        f"one number for each edge."
    )


def _num_nodes(shape: tuple[int, ...]) -> int:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise DGLError(
            f"g has shape {tuple(shape)}: a graph's matrix has a row and a "
            f"column for each node."
        )
    return int(shape[0])


def _from_pairs(
    source: torch.Tensor, target: torch.Tensor, num_nodes: int | None
) -> dgl.DGLGraph:
    if len(source) != len(target):
        raise DGLError(
            f"g has {len(source):,} sources and {len(target):,} destinations: "
            f"give both ends of each edge."
        )
    ends = _same_type(source, target)
    for ids in ends:
        _check_range(ids, num_nodes)
    return dgl.graph(ends, num_nodes=num_nodes)


def _compressed(
    name: str, indptr: torch.Tensor, indices: torch.Tensor, num_nodes: int
) -> dgl.DGLGraph:
    if len(indptr) != num_nodes + 1:
        raise DGLError(
            f"g has {len(indptr)} pointers for {num_nodes} nodes: give one "
            f"more than nodes."
        )
    _check_range(indices, num_nodes)
    if len(indices) < 2**31 and indices.dtype == torch.int32:
        # There are few pointers, so that they are the ones to convert.
        indptr = indptr.int()
    indptr, indices = _same_type(indptr, indices)
    no_ids = torch.empty(0, dtype=indices.dtype)
    return dgl.graph((name, (indptr, indices, no_ids)), num_nodes=num_nodes)


def _same_type(
    first: torch.Tensor, second: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if first.dtype != second.dtype:
        return first.long(), second.long()
    return first, second


def _check_range(ids: torch.Tensor, num_nodes: int | None) -> None:
    if len(ids) == 0:
        return
    low, high = (int(end) for end in torch.aminmax(ids))
    if low < 0:
        raise DGLError(f"g has an edge with the node id {low}: count from 0.")
    if num_nodes is not None and high >= num_nodes:
        raise DGLError(
            f"g has an edge with the node id {high}, but there are {num_nodes} "
            f"nodes, 0 to {num_nodes - 1}."
        )


def _ids(ends: Any) -> torch.Tensor:
    """View or convert ends of edges: contiguous, int32 or int64."""
    if not isinstance(ends, torch.Tensor):
        try:
            array = np.asarray(ends)
        except ValueError as error:
            raise DGLError(f"g should be {_TAKEN}: {error}.") from None
        if array.size == 0 and not isinstance(ends, np.ndarray):
            array = array.astype(np.int64)
        if array.dtype.kind not in "iu":
            raise _no_ids(array.dtype, array.shape)
        if array.dtype.kind == "u" and array.size and array.max() >= 2**63:
            raise DGLError(f"g has an edge with the node id {array.max()}.")
        kept = array.dtype in (np.int32, np.int64) and array.dtype.isnative
        # Copied only if that is needed.
        array = np.ascontiguousarray(array, None if kept else np.int64)
        if min(array.strides, default=0) < 0:
            array = array.copy()
        ends = tensor_of(array)
    if ends.device.type != "cpu":
        raise DGLError(f"g is on {ends.device}: use .cpu() for both ends.")
    no_integer = ends.is_floating_point() or ends.is_complex()
    if no_integer or ends.dtype == torch.bool or ends.dim() != 1:
        raise _no_ids(ends.dtype, tuple(ends.shape))
    if ends.dtype not in (torch.int32, torch.int64):
        ends = ends.long()
    return ends.contiguous()


def _no_ids(dtype: Any, shape: tuple[int, ...]) -> DGLError:
    return DGLError(
        f"g should be {_TAKEN}; of a pair, both should hold integer ids in one "
        f"dimension, got {dtype} of shape {shape}."
    )


def _values(array: np.ndarray) -> torch.Tensor:
    """View the values of a matrix as a tensor."""
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise DGLError(
            f"g has values of type {array.dtype}: convert it with "
            f"g.astype(numpy.float32)."
        )
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.float64)
    native = array.dtype.newbyteorder("=")
    array = np.ascontiguousarray(array, dtype=native)
    return tensor_of(array if array.ndim == 1 else array.reshape(-1))


def _weight(values: torch.Tensor) -> torch.Tensor | None:
    """Return the values as weights; None if all of them are one."""
    if all(bool((part == 1).all()) for part in values.split(_VALUES)):
        return None
    if values.is_floating_point():
        return values
    if values.is_complex():
        raise DGLError("g has complex values: give a matrix of real numbers.")
    largest = max(
        max(abs(int(end)) for end in torch.aminmax(part.long()))
        for part in values.split(_VALUES)
    )
    exact = largest <= _EXACT
    return values.to(torch.float32 if exact else torch.float64)


def _refusal(g: Any) -> DGLError:
    """Say what to give instead of something that is not taken as a graph."""
    kind = type(g).__name__
    package = type(g).__module__.partition(".")[0]
    if package == "networkx":
        advice = (
            "use dgl.from_networkx(g), or NodeData.from_networkx for a task"
        )
    elif kind == "SparseTensor" or package == "torch_sparse":
        advice = (
            "use g.to_torch_sparse_csr_tensor(), and for PyG's adj_t "
            "adj_t.t().to_torch_sparse_csr_tensor(): entry (i, j) is an edge "
            "from i to j"
        )
    elif kind == "SparseMatrix":
        advice = "use g.coo(), a pair (src, dst)"
    elif kind == "HeteroData":
        advice = "use (e[0], e[1]) with e = g.to_homogeneous().edge_index"
    elif package == "torch_geometric" or hasattr(g, "edge_index"):
        advice = (
            "use (g.edge_index[0], g.edge_index[1]), or NodeData.from_pyg(g) "
            "for a task"
        )
    elif package in ("pandas", "polars", "pyarrow"):
        advice = (
            "use (g['source'].to_numpy(), g['target'].to_numpy()) with the "
            "names of its columns, or NodeData.from_pandas for a task"
        )
    elif isinstance(g, (torch.Tensor, np.ndarray)):
        advice = (
            "use scipy.sparse.coo_array(g) for a dense matrix, or (g[0], g[1]) "
            "for an edge index of shape (2, m)"
        )
    elif isinstance(g, list):
        advice = "use a tuple (src, dst) of both ends of all edges"
    elif isinstance(g, (str, bytes)) or hasattr(g, "__fspath__"):
        advice = (
            "read it first, with dgl_lc.data.load(path).graph, or "
            "dgl_lc.data.DiskGraph(path) for a graph on disk"
        )
    elif hasattr(g, "graph") and hasattr(g, "feat"):
        advice = "use its graph, g.graph"
    else:
        advice = "make one with dgl.graph((src, dst))"
    return DGLError(f"g should be {_TAKEN}, got {kind}: {advice}.")
