"""Compute hop features as users of other projects would.

Each function takes a graph and prepares what can be prepared once
(normalisation, formats). It returns a function of features and K that computes
hops 0 to K. The preparation is not timed, which is in the peers' favour.
"""

import dgl
import torch
from dgl.ops import copy_u_sum

from dgl_lc.precompute import block_aggregate


def ours(g):
    """dgl-lc, which sorts a graph's edges in its first call."""

    def hops(x, K):
        return list(block_aggregate(g, x, K, progress=False))

    return hops


def published(g):
    """The LC paper's code: S as COO with int64 ids and values, torch.spmm.

    S is one block here: it fits in memory, and fewer blocks are faster.
    """
    source, target, values = _entries(g)
    n = g.num_nodes()
    matrix = torch.sparse_coo_tensor(
        torch.stack([target, source]), values, (n, n)
    ).coalesce()
    del source, target, values
    return lambda x, K: _powers(lambda h: torch.spmm(matrix, h), x, K)


def dgl_sign(g):
    """DGL's SIGNDiffusion transform (u_mul_e_sum)."""
    looped = dgl.add_self_loop(g)
    looped.create_formats_()

    def hops(x, K):
        looped.ndata["feat"] = x
        transform = dgl.SIGNDiffusion(k=K, diffuse_op="gcn")
        transform(looped)
        names = [f"out_feat_{k}" for k in range(1, K + 1)]
        return [x, *(looped.ndata.pop(name) for name in names)]

    return hops


def dgl_copy_u(g):
    """DGL's copy_u_sum with the norms folded into rows, as GraphConv does."""
    looped = dgl.add_self_loop(g)
    looped.create_formats_()
    norm = looped.in_degrees().float().pow(-0.5).unsqueeze(1)

    def step(h):
        return copy_u_sum(looped, h * norm).mul_(norm)

    return lambda x, K: _powers(step, x, K)


def dgl_fresh(g):
    """The same as in a script: DGL makes only the format that it needs."""
    looped = dgl.add_self_loop(g)
    norm = looped.in_degrees().float().pow(-0.5).unsqueeze(1)

    def step(h):
        return copy_u_sum(looped, h * norm).mul_(norm)

    return lambda x, K: _powers(step, x, K)


def dgl_rows_added(g):
    """The same without a graph with self-loops: their rows are added."""
    source, target = g.edges()
    if bool((source == target).any()):
        g = dgl.remove_self_loop(g)
    norm = (g.in_degrees().float() + 1).pow(-0.5).unsqueeze(1)

    def step(h):
        h = h * norm
        return copy_u_sum(g, h).add_(h).mul_(norm)

    return lambda x, K: _powers(step, x, K)


def torch_csr(g):
    """A torch CSR matrix with values."""
    source, target, values = _entries(g)
    n = g.num_nodes()
    matrix = torch.sparse_coo_tensor(
        torch.stack([target, source]), values, (n, n)
    ).to_sparse_csr()
    del source, target, values
    return lambda x, K: _powers(lambda h: matrix @ h, x, K)


def scipy_csr(g):
    """A scipy CSR matrix with values, as in OGB's and SGC's scripts."""
    import scipy.sparse as sparse

    source, target, values = (t.numpy() for t in _entries(g))
    n = g.num_nodes()
    matrix = sparse.csr_matrix((values, (target, source)), (n, n))
    del source, target, values

    def hops(x, K):
        found = _powers(lambda h: matrix @ h, x.numpy(), K)
        return [torch.from_numpy(h) for h in found]

    return hops


def pyg_sign(g):
    """PyG's SIGN transform, which normalises again in every call."""
    from torch_geometric.data import Data
    from torch_geometric.transforms import SIGN

    looped = dgl.add_self_loop(g)
    edges = torch.stack(looped.edges())

    def hops(x, K):
        data = SIGN(K)(Data(x=x, edge_index=edges))
        return [x, *(data[f"x{k}"] for k in range(1, K + 1))]

    return hops


PEERS = {
    "published (COO, torch.spmm)": published,
    "DGL SIGNDiffusion": dgl_sign,
    "DGL copy_u_sum, norms folded": dgl_copy_u,
    "torch CSR": torch_csr,
    "scipy CSR": scipy_csr,
    "PyG SIGN": pyg_sign,
}


#: Peers that are measured from a fresh graph on, preparation included.
FRESH = {
    "DGL copy_u_sum, self-loops added": dgl_fresh,
    "DGL copy_u_sum, loops' rows added": dgl_rows_added,
    "torch CSR": torch_csr,
    "scipy CSR": scipy_csr,
    "PyG SIGN": pyg_sign,
}


def _powers(step, x, K):
    hops = [x]
    for _ in range(K):
        hops.append(step(hops[-1]))
    return hops


def _entries(g):
    """Compute source, target and value of all entries of S, with self-loops."""
    looped = dgl.add_self_loop(g)
    source, target = looped.edges()
    norm = looped.in_degrees().float().pow(-0.5)
    return source, target, norm[source] * norm[target]
