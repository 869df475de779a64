"""Graphs, features and parameters that models of the zoo are tested with."""

import dgl
import torch
from dgl import nn as dglnn
from torch import nn

from dgl_lc import lc_transform
from dgl_lc.testing.random_graphs import make_features

from .cases import HID, IN, OUT, Function


def random_graph(n=60, m=300, seed=0):
    """A hub, multi-edges, self-loops, and edges into every node."""
    generator = torch.Generator().manual_seed(seed)
    u = torch.randint(0, n - 1, (m,), generator=generator)
    v = torch.randint(0, n - 1, (m,), generator=generator)
    v[: m // 5], u[:10], v[:10] = 3, u[10:20].clone(), v[10:20].clone()
    ring = torch.arange(n)
    u, v = torch.cat([u, ring]), torch.cat([v, ring.roll(1)])
    return dgl.graph((u, v), num_nodes=n)


def looped_graph():
    """A random graph with one self-loop for every node, as GCN has it."""
    return dgl.add_self_loop(dgl.remove_self_loop(random_graph()))


def permutation_graph(n=60, seed=0):
    """One edge into and one out of every node."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return dgl.graph((order, order.roll(1)), num_nodes=n)


def weighted_graph():
    """A random graph with edge weights ``w``."""
    g = random_graph()
    generator = torch.Generator().manual_seed(3)
    g.edata["w"] = torch.rand(g.num_edges(), generator=generator)
    return g


def features(n=60):
    return make_features(n, IN, dtype=torch.float64)


def randomised(model, seed=1):
    """The model with other parameters: a bias of zero would hide errors."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(0.3 * noise.to(parameter))
    return model


def model_of(body, **parts):
    """A model with a linear layer ``fc``, a convolution ``conv`` and parts."""
    parts = {
        "fc": nn.Linear(IN, HID),
        "conv": dglnn.GraphConv(HID, OUT, allow_zero_in_degree=True),
        **parts,
    }
    return randomised(Function(body, **parts)).double()


def transform_body(body, **parts):
    """The LC version of such a model, on a random graph."""
    return lc_transform(model_of(body, **parts), random_graph(), features())
