"""Models that must be refused."""

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, Layers, gcn, refused
from .convolutions import appnp


@refused("attention over neighbours (edge softmax)", "are learned", "LC004")
def gat():
    def body(self, g, x):
        return self.conv(g, x).mean(1)

    return Case(Function(body, conv=dglnn.GATConv(IN, OUT, 2)))


@refused("attention over neighbours (edge softmax)", "are learned", "LC004")
def gatv2():
    def body(self, g, x):
        return self.conv(g, x).mean(1)

    return Case(Function(body, conv=dglnn.GATv2Conv(IN, OUT, 2)))


@refused("attention over neighbours (edge softmax)", "are learned", "LC004")
def agnn():
    def body(self, g, x):
        return self.conv(g, self.fc(x))

    return Case(Function(body, fc=nn.Linear(IN, OUT), conv=dglnn.AGNNConv()))


@refused("message passing (copy_lhs, max)", "max over neighbours", "LC006")
def sage_pool():
    return Case(Layers(dglnn.SAGEConv(IN, OUT, "pool")))


@refused("a user-defined reduce function", "is not a linear filter", "LC006")
def sage_lstm():
    return Case(Layers(dglnn.SAGEConv(IN, OUT, "lstm")))


@refused("message passing (copy_lhs, max)", "max over neighbours", "LC006")
def gin_max():
    return Case(
        Layers(*(dglnn.GINConv(nn.Linear(IN, IN), "max") for _ in range(2)))
    )


@refused("a user-defined reduce function", "is not a linear filter", "LC006")
def pna():
    conv = dglnn.PNAConv(IN, OUT, ["mean", "max"], ["identity"], 2.0)
    return Case(Layers(conv))


@refused("message passing (mul, sum)", "edge weights are learned", "LC003")
def gates_on_edges():
    def body(self, g, x):
        with g.local_scope():
            g.ndata["h"], g.ndata["a"] = self.fc(x), self.gate(x)
            g.apply_edges(fn.u_add_v("a", "a", "score"))
            g.edata["score"] = torch.sigmoid(g.edata["score"])
            g.update_all(fn.u_mul_e("h", "score", "m"), fn.sum("m", "h"))
            return g.ndata["h"]

    return Case(Function(body, fc=nn.Linear(IN, OUT), gate=nn.Linear(IN, OUT)))


@refused("mean over all nodes", "mixes nodes", "LC014")
def pair_norm():
    def body(self, g, x):
        h = self.a(g, x)
        h = h - h.mean(dim=0)
        return self.b(g, F.relu(h / h.pow(2).sum(1).mean().sqrt()))

    a, b = gcn()
    return Case(Function(body, a=a, b=b))


@refused("softmax over all nodes", "mixes nodes", "LC015")
def softmax_over_nodes():
    def body(self, g, x):
        return F.softmax(self.a(g, x), dim=0)

    return Case(Function(body, a=dglnn.GraphConv(IN, OUT)))


@refused("a readout over all nodes", "mixes nodes", "LC013")
def readout():
    def body(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.a(g, x)
            return dgl.mean_nodes(g, "h")

    return Case(Function(body, a=dglnn.GraphConv(IN, OUT)))


@refused("DropEdge", "edges are dropped at random", "LC007")
def drop_edge_in_training():
    def body(self, g, x):
        if self.training:
            g = self.drop(g)
        return self.a(g, x)

    conv = dglnn.GraphConv(IN, OUT, allow_zero_in_degree=True)
    return Case(Function(body, drop=dgl.DropEdge(0.5), a=conv))


@refused("DropEdge", "edges are dropped at random", "LC007")
def drop_edge():
    def body(self, g, x):
        return self.a(self.drop(g), x)

    return Case(
        Function(
            body,
            drop=dgl.DropEdge(0.5),
            a=dglnn.GraphConv(IN, OUT, allow_zero_in_degree=True),
        )
    )


@refused("message passing (mul, sum)", "edges are dropped at random", "LC007")
def appnp_edge_dropout():
    case = appnp()
    case.model.propagate = dglnn.APPNPConv(k=2, alpha=0.1, edge_drop=0.5)
    return case


@refused("sample_neighbors makes a graph", "samples neighbours", "LC008")
def sampling_in_forward():
    def body(self, g, x):
        sampled = dgl.sampling.sample_neighbors(g, torch.arange(5), 3)
        return self.a(sampled, x)

    conv = dglnn.GraphConv(IN, OUT, allow_zero_in_degree=True)
    return Case(Function(body, a=conv))


@refused("the parameter embedding.weight", "numbers for each node", "LC016")
def node_embeddings():
    model = Function(
        lambda self, g, x: self.a(g, x + self.embedding.weight),
        a=dglnn.GraphConv(IN, OUT),
    )

    def call(g, x):
        model.embedding = nn.Embedding(g.num_nodes(), IN).to(x.dtype)
        return (g, x), {}

    return Case(model, call)


@refused("g.nodes", "is made of integers", "LC016")
def node_embeddings_by_id():
    model = Function(
        lambda self, g, x: self.a(g, x + self.embedding(g.nodes())),
        a=dglnn.GraphConv(IN, OUT),
    )

    def call(g, x):
        model.embedding = nn.Embedding(g.num_nodes() + 999, IN).to(x.dtype)
        return (g, x), {}

    return Case(model, call)


@refused("the parameter weight", "with numbers for each edge", "LC016")
def learned_edge_weights():
    model = Function(
        lambda self, g, x: dgl.ops.u_mul_e_sum(g, self.fc(x), self.weight),
        fc=nn.Linear(IN, OUT),
    )

    def call(g, x):
        weight = torch.rand(g.num_edges(), 1).to(x)
        model.weight = nn.Parameter(weight)
        return (g, x), {}

    return Case(model, call)


@refused("mul", "computes something else in training", "LC021")
def other_steps_in_training():
    def body(self, g, x):
        h = self.a(g, x)
        if self.training:
            h = h * 2
        return h

    return Case(Function(body, a=dglnn.GraphConv(IN, OUT)))


@refused(
    "__bool__", "turns a learned or random value into a Python number", "LC019"
)
def control_flow_on_learned_values():
    def body(self, g, x):
        h = self.a(g, x)
        return h if h.sum() > 0 else -h

    return Case(Function(body, a=dglnn.GraphConv(IN, OUT)))


@refused("random mask or noise (randn_like)", "draws random numbers", "LC011")
def noise_on_hidden_values():
    def body(self, g, x):
        h = self.fc(x)
        return self.a(g, h + 0.1 * torch.randn_like(h))

    return Case(
        Function(body, fc=nn.Linear(IN, HID), a=dglnn.GraphConv(HID, OUT))
    )
