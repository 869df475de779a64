"""What the stages of papers100m.py are compared with.

Each leads from the raw files to hop features of the labelled nodes, in memory,
and checks that these are equal to ours.
"""

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import dgl
import numpy as np
import torch

from dgl_lc.data import DiskData


def labelled(data):
    return torch.cat([data.train, data.valid, data.test])


def raw_arrays(args):
    home = next((args.folder / "raw").rglob("data.npz")).parent
    with np.load(home / "data.npz") as raw:
        return raw["edge_index"], raw["node_feat"]


def scipy_way(args):
    """Multiply X by a normalised sparse matrix, as OGB's sgc.py does."""
    import scipy.sparse as sp

    (source, target), x = raw_arrays(args)
    n = len(x)
    ones = np.ones(len(source), np.float32)
    a = sp.csr_matrix((ones, (target, source)), (n, n))
    a = a + a.T
    a.data[:] = 1
    a.setdiag(1)
    degree = np.asarray(a.sum(1)).ravel() ** -0.5
    s = sp.diags_array(degree.astype(np.float32)) @ a
    s = (s @ sp.diags_array(degree.astype(np.float32))).tocsr()
    nodes = labelled(DiskData(args.folder / "prepared")).numpy()
    kept = [x[nodes]]
    for _ in range(args.hops):
        x = s @ x
        kept.append(x[nodes])
    compare(args, np.stack(kept, 1))


def dgl_way(args):
    """Pass messages hop by hop on a DGLGraph that has both directions."""
    (source, target), x = raw_arrays(args)
    g = dgl.graph((torch.from_numpy(source), torch.from_numpy(target)),
                  num_nodes=len(x))  # fmt: skip
    g = dgl.to_bidirected(g)
    g = dgl.add_self_loop(dgl.remove_self_loop(g))
    norm = g.in_degrees().float().pow(-0.5).unsqueeze(1)
    h = torch.from_numpy(x)
    nodes = labelled(DiskData(args.folder / "prepared"))
    kept = [h[nodes]]
    for _ in range(args.hops):
        h = dgl.ops.copy_u_sum(g, h * norm) * norm
        kept.append(h[nodes])
    compare(args, torch.stack(kept, 1).numpy())


def compare(args, rows):
    """Check that a peer's hop features are equal to ours."""
    ours = np.load(args.folder / "hops" / "rows.npy", mmap_mode="r")
    np.testing.assert_allclose(rows, ours, rtol=2e-3, atol=2e-4)
    print("the same hop features")


PEERS = {"DGL": dgl_way, "scipy": scipy_way}
