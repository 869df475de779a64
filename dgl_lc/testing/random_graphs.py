"""Random graphs and features for tests.

No other module of the package imports hypothesis, which only developers have.
"""

import dgl
import numpy as np
import torch
from hypothesis import strategies as st


@st.composite
def graphs(
    draw: st.DrawFn, max_nodes: int = 40, max_edges: int = 150
) -> dgl.DGLGraph:
    """Draw directed graphs: isolated nodes, hubs, self-loops, multi-edges."""
    n = draw(st.integers(1, max_nodes))
    m = draw(st.integers(0, max_edges))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    source, target = rng.integers(0, n, m), rng.integers(0, n, m)
    if draw(st.booleans()):
        target[: m // 2] = rng.integers(0, n)
    if draw(st.booleans()):
        source[: m // 3] = target[: m // 3]
    idtype = draw(st.sampled_from([torch.int32, torch.int64]))
    g = dgl.graph(
        (torch.from_numpy(source), torch.from_numpy(target)),
        num_nodes=n,
        idtype=idtype,
    )
    formats = draw(st.sampled_from(["coo", "csc made", "only csr"]))
    if formats == "csc made":
        g.create_formats_()
    elif formats == "only csr":
        g = g.formats("csr")
    return g


def make_features(
    n: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Make n rows of d normal random numbers, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator).to(dtype)
