"""Graphs and features on disk, and the same in memory, for tests."""

import dgl
import numpy as np
import torch
from dgl import nn as dglnn
from torch import nn
from torch.nn import functional as F

from dgl_lc.data import build_disk_graph, write_features

NUM_NODES, IN, HID, OUT = 97, 6, 5, 3


def make_edges(loops, seed=0, n=NUM_NODES, m=500):
    """Edges with multi-edges and a node without edges into it."""
    rng = np.random.default_rng(seed)
    u, v = rng.integers(0, n, m), rng.integers(1, n, m)
    if not loops:
        u, v = u[u != v], v[u != v]
    return np.stack([u, v])


class OnDisk:
    """A graph and features on disk, and the same in memory."""

    def __init__(
        self, folder, loops=True, weights=False, zero_in=False, seed=0,
        columns=IN, **sizes,
    ):  # fmt: skip
        edges = make_edges(loops, seed, **sizes)
        n = sizes.get("n", NUM_NODES)
        if not zero_in:
            # Every node gets an edge from another one.
            nodes = np.arange(n)
            edges = np.concatenate(
                [edges, np.stack([np.roll(nodes, 1), nodes])], axis=1
            )
        rng = np.random.default_rng(seed + 1)
        np.save(folder / "edges.npy", edges)
        given = None
        if weights:
            given = folder / "weights.npy"
            np.save(given, rng.random(edges.shape[1], dtype=np.float32) + 0.5)
        self.graph = build_disk_graph(
            folder / "edges.npy", n, folder / "graph", weights=given
        )
        x = rng.standard_normal((n, columns)).astype(np.float32)
        np.save(folder / "x.npy", x)
        self.features = write_features(
            folder / "x.npy", folder / "features", width=4
        )
        g = self.graph.to_dgl()
        # In another order: DGL can't sum over edges that have no edge ids.
        order = torch.from_numpy(rng.permutation(g.num_edges()))
        u, v = (ends[order] for ends in g.edges(order="eid"))
        self.g = dgl.graph((u, v), num_nodes=n)
        if weights:
            self.g.edata["weight"] = g.edata["weight"][order]
        self.x = torch.from_numpy(x)
        self.sample = self.graph.sample(50)
        self.sample_x = self.features.rows(range(50))


class Model(nn.Module):
    """A model of a function, and of submodules that it uses."""

    def __init__(self, body, **parts):
        super().__init__()
        self.fc = nn.Linear(IN, HID)
        self.body = body
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, g, x, **more):
        with g.local_scope():
            return self.body(self, g, x, **more)


class Layers(nn.Module):
    """Convolutions with ReLUs between them."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, g, x):
        for number, layer in enumerate(self.layers):
            x = layer(g, F.relu(x) if number else x)
        return x


def gcn(norm="both", **options):
    return Layers(
        dglnn.GraphConv(IN, HID, norm=norm, **options),
        dglnn.GraphConv(HID, HID, norm=norm, **options),
        dglnn.GraphConv(HID, OUT, norm=norm, **options),
    )


def with_loops(convs):
    """Self-loops that are added in forward."""
    return Model(lambda s, g, x: s.convs(dgl.add_self_loop(g), x), convs=convs)


def one_loop_each(convs):
    """Self-loops that are replaced in forward."""

    def body(self, g, x):
        return self.convs(dgl.add_self_loop(dgl.remove_self_loop(g)), x)

    return Model(body, convs=convs)


def by_hand(self, g, x):
    norm = g.in_degrees().float().clamp(min=1).pow(-0.5).unsqueeze(1)
    h = self.fc(x)
    for _ in range(2):
        g.ndata["h"] = F.relu(h) * norm
        g.update_all(dgl.function.copy_u("h", "m"), dgl.function.sum("m", "h"))
        h = g.ndata["h"] * norm
    return h


def odd_power(self, g, x):
    scale = (1.0 + g.out_degrees()).pow(-0.3).unsqueeze(1)
    h = dgl.ops.copy_u_sum(g, F.relu(self.fc(x)) * scale) * scale
    return dgl.ops.copy_u_sum(g, h.relu() * scale)


def scaled_by_size(self, g, x):
    x = x / g.num_nodes() + torch.log(1.0 + g.in_degrees()).unsqueeze(1)
    return dgl.ops.copy_u_mean(g, self.fc(x))


def gprgnn(self, g, x):
    h = F.relu(self.fc(x))
    total = self.gamma[0] * h
    for k in range(1, 4):
        h = self.conv(g, h)
        total = total + self.gamma[k] * h
    return total


def jknet(self, g, x):
    h1 = F.relu(self.conv1(g, x))
    h2 = F.relu(self.conv2(g, h1))
    return self.out(torch.cat([h1, h2], 1))


def sign(self, g, x):
    rows = [x]
    for _ in range(3):
        rows.append(self.conv(g, rows[-1]))
    return sum(fc(r) for fc, r in zip(self.fcs, rows, strict=True))


def gcnii(self, g, x):
    h = first = F.relu(self.fc(x))
    for conv in self.convs:
        h = F.relu(conv(g, h, first))
    return h


def there_and_back(self, g, x):
    back = dgl.reverse(g)
    h = dgl.ops.copy_u_mean(g, F.relu(self.fc(x)))
    return h + dgl.ops.copy_u_mean(back, F.relu(self.fc(x)))


def weighted_by_degrees(self, g, x):
    """Edge weights that are computed from degrees of both ends."""
    g.ndata["d"] = g.in_degrees().float().clamp(min=1).pow(-0.5)
    g.apply_edges(dgl.function.u_mul_v("d", "d", "w"))
    return dgl.ops.u_mul_e_sum(g, F.relu(self.fc(x)), g.edata["w"])


def weighted_by_sums(self, g, x):
    """Edge weights divided by their sum over the edges into a node."""
    w = g.edata["weight"]
    total = dgl.ops.copy_e_sum(g, w)
    w = dgl.ops.e_div_v(g, w, total)
    return dgl.ops.u_mul_e_sum(g, F.relu(self.fc(x)), w)


def weights_of_the_graph(self, g, x):
    h = dgl.ops.u_mul_e_sum(g, F.relu(self.fc(x)), g.edata["weight"])
    return dgl.ops.u_mul_e_sum(g, h.relu(), g.edata["weight"])


def normalised(self, g, x):
    """Rows that are scaled by themselves, before and after a mean."""
    h = dgl.ops.copy_u_mean(g, F.normalize(x, dim=1))
    return dgl.ops.copy_u_mean(g, self.fc(F.normalize(h, dim=1)))


def conv(width=HID, out=HID, **options):
    return dglnn.GraphConv(width, out, weight=False, bias=False, **options)


#: (name, model, options of the graph)
MODELS = [
    ("gcn", gcn, {}),
    ("gcn right", lambda: gcn("right"), {}),
    ("gcn left", lambda: gcn("left"), {}),
    ("gcn none", lambda: gcn("none"), {}),
    ("gcn, zero in-degrees", lambda: gcn(allow_zero_in_degree=True),
     {"zero_in": True}),
    ("gcn, loops added", lambda: with_loops(gcn()), {"loops": False}),
    ("gcn, loops added twice", lambda: with_loops(gcn()), {"loops": True}),
    ("gcn, one loop each", lambda: one_loop_each(gcn()), {"loops": True}),
    ("gcn, loops removed",
     lambda: Model(lambda s, g, x: s.convs(dgl.remove_self_loop(g), x),
                   convs=gcn()), {}),
    ("sage mean",
     lambda: Layers(dglnn.SAGEConv(IN, HID, "mean"),
                    dglnn.SAGEConv(HID, OUT, "mean")), {}),
    ("sage gcn",
     lambda: Layers(dglnn.SAGEConv(IN, HID, "gcn"),
                    dglnn.SAGEConv(HID, OUT, "gcn")), {}),
    ("jknet",
     lambda: Model(jknet, conv1=dglnn.GraphConv(IN, HID),
                   conv2=dglnn.GraphConv(HID, HID),
                   out=nn.Linear(2 * HID, OUT)), {}),
    ("gprgnn",
     lambda: Model(gprgnn, conv=conv(),
                   gamma=nn.Parameter(torch.rand(4))), {}),
    ("appnp", lambda: Model(lambda s, g, x: s.conv(g, F.relu(s.fc(x))),
                            conv=dglnn.APPNPConv(3, 0.1)), {}),
    ("sgc", lambda: dglnn.SGConv(IN, OUT, k=2), {}),
    ("sign",
     lambda: Model(sign, conv=conv(), fcs=nn.ModuleList(
         nn.Linear(IN, OUT) for _ in range(4))), {}),
    ("gcnii",
     lambda: Model(gcnii, convs=nn.ModuleList(
         dglnn.GCN2Conv(HID, k) for k in (1, 2))), {}),
    ("side by side", lambda: Model(
        lambda self, g, x: self.a(g, x) + self.b(g, x) + self.c(g, x),
        a=dglnn.GraphConv(IN, OUT), b=dglnn.SAGEConv(IN, OUT, "mean"),
        c=dglnn.TAGConv(IN, OUT, k=2)), {}),
    ("tag", lambda: Layers(dglnn.TAGConv(IN, HID, k=2),
                           dglnn.TAGConv(HID, OUT, k=1)), {}),
    ("cheb", lambda: Model(
        lambda s, g, x: s.conv(g, x, torch.tensor([2.0])),
        conv=dglnn.ChebConv(IN, OUT, 3)), {}),
    ("gin", lambda: dglnn.GINConv(nn.Linear(IN, OUT), learn_eps=True), {}),
    ("by hand", lambda: Model(by_hand), {}),
    ("odd power", lambda: Model(odd_power), {}),
    ("scaled by size", lambda: Model(scaled_by_size), {}),
    ("there and back", lambda: Model(there_and_back), {}),
    ("there and back, weights", lambda: Model(
        lambda s, g, x: dgl.ops.u_mul_e_sum(
            dgl.reverse(g, copy_edata=True), F.relu(s.fc(x)),
            dgl.reverse(g, copy_edata=True).edata["weight"])),
     {"weights": True}),
    ("weighted by degrees", lambda: Model(weighted_by_degrees), {}),
    ("weighted by sums", lambda: Model(weighted_by_sums), {"weights": True}),
    ("weights of the graph", lambda: Model(weights_of_the_graph),
     {"weights": True}),
    ("normalised rows", lambda: Model(normalised), {}),
]  # fmt: skip
