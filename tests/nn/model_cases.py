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
    "FSGNN of some inputs": lambda **o: nn.FSGNN(
        IN, HID, OUT, K=2, num_layers=3, normalization="batch",
        select=[0, 2, 3], **o,
    ),
    "FSGNN of other inputs": lambda **o: nn.FSGNN(
        IN, HID, OUT, K=2, normalization=None, select=[3, 4], **o
    ),
    "SAGN": lambda **o: nn.SAGN(IN, HID, OUT, K=3, **o),
    "SAGN of heads": lambda **o: nn.SAGN(
        IN, HID, OUT, K=2, num_layers=3, num_heads=2, zero_attention=False,
        normalization="layer", **o,
    ),
    "GAMLP": lambda **o: nn.GAMLP(IN, HID, OUT, K=3, **o),
    "GAMLP jk": lambda **o: nn.GAMLP(
        IN, HID, OUT, K=2, mode="jk", num_layers=3, jk_layers=2,
        score="sigmoid", residual=False, alpha=0.3, normalization="layer", **o,
    ),
    "GAMLP bare": lambda **o: nn.GAMLP(
        IN, HID, OUT, K=2, encode=False, num_layers=1, score="relu",
        normalization=None, **o,
    ),
}  # fmt: skip
EVERY = pytest.mark.parametrize("name", MODELS)


def make(name, **options):
    torch.manual_seed(1)
    made = MODELS[name](**options)
    # Biases and coefficients that are not what they start as.
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        # Running statistics of norms as well.
        for name, buffer in made.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.add_(0.3 * torch.rand_like(buffer))
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
    if kind == "SAGN":
        return sagn_output(model, hops[: model.hops[-1] + 1])
    if kind == "GAMLP":
        return gamlp_output(model, hops[: model.hops[-1] + 1])
    assert kind == "FSGNN"
    inputs = [*hops[:3], *powers(g, x, 2, self_loop=False)[1:]]
    config = model.config
    if config["select"] is not None:
        inputs = [inputs[place] for place in config["select"]]
    weights = torch.softmax(model.att, 0)
    if model.hidden is not None:
        weights = len(inputs) * weights
    found = []
    for place, layer in enumerate(model.layers):
        h = layer(inputs[place])
        if config["normalization"] == "l2":
            h = h / h.norm(dim=1, keepdim=True)
        elif config["normalization"] is not None:
            h = normalise(model.norms[place], h)
        found.append(weights[place] * h)
    assert len(found) == len(inputs)
    h = F.relu(torch.cat(found, 1))
    if model.hidden is not None:
        h = F.relu(model.hidden(h))
    return model.output(h)


def normalise(module, h):
    """A norm of a layer, with the statistics of the rows in training."""
    if isinstance(module, torch.nn.Identity):
        return h
    if isinstance(module, torch.nn.LayerNorm):
        mean = h.mean(1, keepdim=True)
        var = ((h - mean) ** 2).mean(1, keepdim=True)
    elif module.training:
        mean = h.mean(0)
        var = ((h - mean) ** 2).mean(0)
    else:
        mean, var = module.running_mean, module.running_var
    return (h - mean) / (var + 1e-5) ** 0.5 * module.weight + module.bias


def linear(layer, h):
    h = h @ layer.weight.T
    return h if layer.bias is None else h + layer.bias


def prelu(module, h):
    return torch.where(h > 0, h, module.weight * h)


def encoded(module, h, activation):
    for layer, norm in zip(module.layers[:-1], module.norms, strict=True):
        h = activation(normalise(norm, linear(layer, h)))
    return linear(module.layers[-1], h)


def softmax(scores):
    exps = torch.stack(scores).exp()
    return list(exps / exps.sum(0))


def leaky(score):
    return torch.where(score > 0, score, 0.2 * score)


def sagn_output(model, hops, weights_alone=False):
    """Section 4.1 of the paper, head by head."""
    outputs, weights = [], []
    width = model.att_hop.shape[1]
    for head in range(len(model.outputs)):
        hidden = [
            encoded(encoder, hop, F.relu)
            for encoder, hop in zip(
                model.encoders[head :: len(model.outputs)], hops, strict=True
            )
        ]
        left, right = model.att_hop[head], model.att_first[head]
        theta = softmax([leaky(h @ left + hidden[0] @ right) for h in hidden])
        weights.append(torch.stack(theta, 1))
        places = slice(head * width, (head + 1) * width)
        h = hops[0] @ model.first.weight[places].T
        outputs.append(
            h + sum(t[:, None] * x for t, x in zip(theta, hidden, strict=True))
        )
    if weights_alone:
        return sum(weights) / len(weights)
    h = F.relu(normalise(model.norms[0], torch.cat(outputs, 1)))
    parts = h.split(width, 1)
    outputs = [
        encoded(last, part, F.relu)
        for last, part in zip(model.outputs, parts, strict=True)
    ]
    return sum(outputs) / len(outputs)


def initial_residual(module, h, alpha):
    first = normalise(module.norms[0], linear(module.layers[0], h))
    if len(module.layers) == 1:
        return first
    if first.shape == h.shape:
        first = first + h
    h = first
    for layer, norm in zip(
        module.layers[1:-1], module.norms[1:-1], strict=True
    ):
        z = prelu(module.activation, h)
        mixed = (1 - alpha) * z + alpha * first
        h = normalise(norm, linear(layer, mixed)) + z
    z = prelu(module.activation, h)
    return normalise(module.norms[-1], linear(module.layers[-1], z))


def gamlp_output(model, hops, weights_alone=False):
    """Section 4.2 of the paper, with its concatenations."""
    alpha = model.config["alpha"]
    delta = {
        "leaky_relu": leaky, "sigmoid": torch.sigmoid, "relu": F.relu
    }[model.config["score"]]  # fmt: skip
    hidden = hops
    if len(model.encoders):
        hidden = [
            encoded(e, hop, lambda h, e=e: prelu(e.activation, h))
            for e, hop in zip(model.encoders, hops, strict=True)
        ]
    a = torch.cat([model.att_reference, model.att_hop])

    def score(reference, h):
        both = torch.cat([reference, h], 1)
        return delta(both @ a + model.att_bias)

    if model.reference is None:
        scores = [score(hidden[0], hidden[0])]
        for k in range(1, len(hidden)):
            w = softmax(scores)
            history = sum(w[j][:, None] * hidden[j] for j in range(k))
            scores.append(score(history, hidden[k]))
    else:
        every = torch.cat(hidden, 1)
        every = initial_residual(model.reference, every, alpha)
        every = prelu(model.activation, every)
        scores = [score(every, h) for h in hidden]
    w = softmax(scores)
    if weights_alone:
        return torch.stack(w, 1)
    h = sum(w[k][:, None] * hidden[k] for k in range(len(hidden)))
    if model.first is not None:
        h = prelu(model.activation, h + linear(model.first, hops[0]))
    return initial_residual(model.output, h, alpha)


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
