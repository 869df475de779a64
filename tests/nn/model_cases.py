"""One model of each kind, and its formula in dense float64."""

import dgl
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dgl_lc import nn
from dgl_lc.testing.random_graphs import make_features
from dgl_lc.testing.reference import dense_filter

IN, HID, OUT = 5, 6, 3
MODELS = {
    "LCGCN": lambda **o: nn.LCGCN(IN, HID, OUT, num_layers=3, **o),
    "LCJKNet cat": lambda **o: nn.LCJKNet(IN, HID, OUT, **o),
    "LCJKNet max": lambda **o: nn.LCJKNet(IN, HID, OUT, mode="max", **o),
    "LCGPRGNN": lambda **o: nn.LCGPRGNN(IN, HID, OUT, K=3, **o),
    "LCAPPNP": lambda **o: nn.LCAPPNP(IN, HID, OUT, K=4, **o),
    "LCMixHop": lambda **o: nn.LCMixHop(IN, HID, OUT, p=(0, 1, 3), **o),
    "LCH2GCN": lambda **o: nn.LCH2GCN(IN, HID, OUT, **o),
    "SGC": lambda **o: nn.SGC(IN, OUT, K=3, **o),
    "SIGN": lambda **o: nn.SIGN(IN, HID, OUT, K=2, **o),
    "FSGNN": lambda **o: nn.FSGNN(IN, HID, OUT, K=2, **o),
    "FSGNN hidden": lambda **o: nn.FSGNN(
        IN, HID, OUT, K=2, num_layers=3, dropout=0.5, dropout2=0.25, **o
    ),
}
EVERY = pytest.mark.parametrize("name", MODELS)


def make(name, **options):
    torch.manual_seed(1)
    made = MODELS[name](**options)
    # Biases and coefficients that are not what they start as.
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made.double().eval()


def make_graph():
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 12, 40), rng.integers(0, 12, 40)
    return dgl.graph((source, target), num_nodes=13)


def make_feat():
    return make_features(13, IN, dtype=torch.float64)


def powers(g, x, K, **options):
    matrix = torch.from_numpy(dense_filter(g, **options))
    found = [x]
    for _ in range(K):
        found.append(matrix @ found[-1])
    return found


def conv(layer, h):
    return h @ layer.weight + layer.bias


def mlp(module, h):
    for number, layer in enumerate(module.layers):
        h = layer(F.relu(h) if number else h)
    return h


def expected_output(model, g, x):
    """The formula of the class's docstring, written out."""
    kind = type(model).__name__
    hops = powers(g, x, 6)
    if kind == "LCGCN":
        h = hops[3]
        for number, layer in enumerate(model.layers):
            h = conv(layer, F.relu(h) if number else h)
        return h
    if kind == "LCJKNet":
        branches = []
        for k in (1, 2, 3):
            h = hops[k]
            for number, layer in enumerate(model.layers[:k]):
                h = layer(F.relu(h) if number else h)
            branches.append(h)
        if model.output is None:
            return torch.stack(branches).max(dim=0).values
        return model.output(F.relu(torch.cat(branches, 1)))
    if kind == "LCGPRGNN":
        return sum(model.gamma[k] * mlp(model.mlp, hops[k]) for k in range(4))
    if kind == "LCAPPNP":
        theta = [0.1 * 0.9**k for k in range(4)] + [0.9**4]
        return sum(theta[k] * mlp(model.mlp, hops[k]) for k in range(5))
    if kind == "LCMixHop":

        def at(layer, k):
            if layer == 0:
                return hops[k]
            parts = model.layers[layer - 1]
            return torch.cat(
                [
                    torch.tanh(parts[str(p)](at(layer - 1, k + p)))
                    for p in (0, 1, 3)
                ],
                1,
            )

        return model.output(at(2, 0))
    if kind == "LCH2GCN":
        filters = exact_filters(g)
        inputs = [x, *(f @ x for f in filters)]
        inputs += [a @ b @ x for a in filters for b in filters]
        found = [F.relu(model.embedding(i)) for i in inputs]
        return model.output(torch.cat(found, 1))
    if kind == "SGC":
        return model.fc(hops[3])
    if kind == "SIGN":
        found = [layer(hops[k]) for k, layer in enumerate(model.layers)]
        return model.output(F.relu(torch.cat(found, 1)))
    assert kind == "FSGNN"
    inputs = [*hops[:3], *powers(g, x, 2, self_loop=False)[1:]]
    weights = torch.softmax(model.att, 0)
    if model.hidden is not None:
        weights = 5 * weights
    found = []
    for weight, layer, i in zip(weights, model.layers, inputs, strict=True):
        h = layer(i)
        found.append(weight * h / h.norm(dim=1, keepdim=True))
    h = F.relu(torch.cat(found, 1))
    if model.hidden is not None:
        h = F.relu(model.hidden(h))
    return model.output(h)


def exact_filters(g):
    """Normalised adjacency of nodes exactly one and two steps away."""
    n = g.num_nodes()
    near = np.zeros((n, n), bool)
    source, target = (t.numpy() for t in g.edges(order="srcdst"))
    near[target, source] = True
    near &= ~np.eye(n, dtype=bool)
    far = (near.astype(int) @ near.astype(int)) > 0
    far &= ~near & ~np.eye(n, dtype=bool)
    found = []
    for matrix in (near, far):
        rows = matrix.sum(1, keepdims=True).astype(float)
        columns = matrix.sum(0, keepdims=True).astype(float)
        with np.errstate(divide="ignore"):
            scale = np.where(rows > 0, rows**-0.5, 0) * np.where(
                columns > 0, columns**-0.5, 0
            )
        found.append(torch.from_numpy(matrix * scale))
    return found


def permutation_graph(n):
    """One edge in, one out: S is a permutation, and swaps with anything."""
    order = np.random.default_rng(3).permutation(n)
    return dgl.graph((np.arange(n), order), num_nodes=n)
