"""Models in the styles that DGL's users write, to be transformed or refused.

Every entry is a function that makes a :class:`Case`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

IN, HID, OUT = 7, 8, 3


@dataclass
class Case:
    """A model, and how it is called with a graph and features."""

    model: nn.Module
    call: Callable = lambda g, x: ((g, x), {})
    #: For a model that is refused: what the reason has to mention.
    refused: str = ""
    options: dict = field(default_factory=dict)


ZOO: dict[str, Callable[[], Case]] = {}


def entry(make):
    ZOO[make.__name__] = make
    return make


class Layers(nn.Module):
    """Convolutions with an activation between them."""

    def __init__(self, *convs, activation=torch.relu):
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.activation = activation

    def forward(self, g, x):
        for number, conv in enumerate(self.convs):
            if number:
                x = self.activation(x)
            x = conv(g, x)
        return x


class Function(nn.Module):
    """A forward function with some modules: ``body(self, g, x)``."""

    def __init__(self, body, **parts):
        super().__init__()
        self.body = body
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args, **kwargs):
        return self.body(self, *args, **kwargs)


def gcn(*, norm="both", layers=2, **options):
    widths = [IN, *[HID] * (layers - 1), OUT]
    return [
        dglnn.GraphConv(a, b, norm=norm, **options) for a, b in pairwise(widths)
    ]


# dgl.nn


@entry
def gcn_two_layers():
    return Case(Layers(*gcn()))


@entry
def gcn_norm_right():
    return Case(Layers(*gcn(norm="right")))


@entry
def gcn_norm_left():
    return Case(Layers(*gcn(norm="left")))


@entry
def gcn_norm_none():
    return Case(Layers(*gcn(norm="none", layers=3)))


@entry
def gcn_with_dropout_and_elu():
    class GCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(
                [
                    dglnn.GraphConv(IN, HID, activation=F.elu),
                    dglnn.GraphConv(HID, HID, activation=F.elu),
                    dglnn.GraphConv(HID, OUT),
                ]
            )
            self.dropout = nn.Dropout(p=0.5)

        def forward(self, g, features):
            h = features
            for i, layer in enumerate(self.layers):
                if i != 0:
                    h = self.dropout(h)
                h = layer(g, h)
            return h

    return Case(GCN())


@entry
def gcn_functional_dropout():
    def body(self, g, x):
        h = F.dropout(x, 0.3, training=self.training)
        h = F.relu(self.a(g, h))
        h = F.dropout(h, 0.3, training=self.training)
        return self.b(g, h)

    a, b = gcn()
    return Case(Function(body, a=a, b=b))


@entry
def gcn_edge_weights():
    def body(self, g, x, w):
        h = self.a(g, x, edge_weight=w)
        return self.b(g, torch.tanh(h), edge_weight=w)

    a, b = gcn(norm="right")

    def call(g, x):
        generator = torch.Generator().manual_seed(3)
        weight = torch.rand(g.num_edges(), generator=generator) + 0.5
        return (g, x, weight.to(x)), {}

    return Case(Function(body, a=a, b=b), call)


@entry
def gcn_edge_weight_norm():
    def body(self, g, x):
        w = self.norm(g, g.edata["w"])
        h = F.relu(self.a(g, x, edge_weight=w))
        return self.b(g, h, edge_weight=w)

    a, b = gcn(norm="none")
    model = Function(body, a=a, b=b, norm=dglnn.EdgeWeightNorm("both"))

    def call(g, x):
        g.edata["w"] = torch.linspace(0.5, 1.5, g.num_edges()).to(x)
        return (g, x), {}

    return Case(model, call)


@entry
def gcn_batch_norm_residual():
    def body(self, g, x):
        h = self.fc_in(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = F.relu(norm(conv(g, h))) + h
        return self.fc_out(h)

    return Case(
        Function(
            body,
            fc_in=nn.Linear(IN, HID),
            convs=nn.ModuleList(
                dglnn.GraphConv(HID, HID, bias=False) for _ in range(2)
            ),
            norms=nn.ModuleList(nn.BatchNorm1d(HID) for _ in range(2)),
            fc_out=nn.Linear(HID, OUT),
        )
    )


@entry
def gcn_layer_norm_in_place():
    def body(self, g, x):
        h = self.a(g, x)
        h = self.norm(h)
        F.relu_(h)
        h += 1
        return self.b(g, self.act(h))

    a, b = gcn()
    return Case(
        Function(
            body, a=a, b=b, norm=nn.LayerNorm(HID), act=nn.ELU(inplace=True)
        )
    )


@entry
def sgc():
    return Case(Layers(dglnn.SGConv(IN, OUT, k=3)))


@entry
def sgc_cached_after_mlp():
    def body(self, g, x):
        return self.conv(g, F.relu(self.fc(x)))

    return Case(
        Function(body, fc=nn.Linear(IN, HID), conv=dglnn.SGConv(HID, OUT, k=2))
    )


@entry
def tagcn():
    return Case(
        Layers(dglnn.TAGConv(IN, HID, k=2), dglnn.TAGConv(HID, OUT, k=1))
    )


@entry
def appnp():
    def body(self, g, x):
        h = self.fc2(F.relu(self.fc1(x)))
        return self.propagate(g, h)

    return Case(
        Function(
            body,
            fc1=nn.Linear(IN, HID),
            fc2=nn.Linear(HID, OUT),
            propagate=dglnn.APPNPConv(k=4, alpha=0.1),
        )
    )


@entry
def sage_mean():
    return Case(
        Layers(
            dglnn.SAGEConv(IN, HID, "mean", feat_drop=0.2),
            dglnn.SAGEConv(HID, OUT, "mean"),
        )
    )


@entry
def sage_gcn():
    return Case(
        Layers(dglnn.SAGEConv(IN, HID, "gcn"), dglnn.SAGEConv(HID, OUT, "gcn"))
    )


def _gin(learn_eps):
    mlps = [
        nn.Sequential(nn.Linear(a, HID), nn.ReLU(), nn.Linear(HID, b))
        for a, b in ((IN, HID), (HID, OUT))
    ]
    return Layers(
        *(
            dglnn.GINConv(mlp, "sum", init_eps=0.1, learn_eps=learn_eps)
            for mlp in mlps
        )
    )


@entry
def gin():
    return Case(_gin(False))


@entry
def gin_learned_eps():
    return Case(_gin(True))


@entry
def cheb():
    return Case(Layers(dglnn.ChebConv(IN, HID, 3), dglnn.ChebConv(HID, OUT, 2)))


@entry
def gcnii():
    def body(self, g, x):
        h = h0 = F.relu(self.fc_in(x))
        for conv in self.convs:
            h = F.relu(conv(g, F.dropout(h, 0.4, self.training), h0))
        return self.fc_out(h)

    return Case(
        Function(
            body,
            fc_in=nn.Linear(IN, HID),
            fc_out=nn.Linear(HID, OUT),
            convs=nn.ModuleList(
                dglnn.GCN2Conv(
                    HID, layer=i + 1, alpha=0.2, lambda_=0.5,
                    allow_zero_in_degree=True,
                )
                for i in range(4)
            ),
        )
    )  # fmt: skip


def _jknet(mode):
    def body(self, g, x):
        branches = []
        for conv in self.convs:
            x = F.relu(conv(g, x))
            branches.append(x)
        return self.out(self.jump(branches))

    convs = [dglnn.GraphConv(IN, HID), dglnn.GraphConv(HID, HID)]
    return Function(
        body,
        convs=nn.ModuleList(convs),
        jump=dglnn.JumpingKnowledge(mode, HID, 2),
        out=nn.Linear(2 * HID if mode == "cat" else HID, OUT),
    )


@entry
def jknet_cat():
    return Case(_jknet("cat"))


@entry
def jknet_max():
    return Case(_jknet("max"))


@entry
def jknet_lstm():
    return Case(_jknet("lstm"))


@entry
def dgl_sequential():
    return Case(dglnn.Sequential(*gcn()))


# By hand


class NodeApply(nn.Module):
    """The first GCN tutorial's style."""

    def __init__(self, in_feats, out_feats):
        super().__init__()
        self.linear = nn.Linear(in_feats, out_feats)

    def forward(self, g, feature):
        with g.local_scope():
            g.ndata["h"] = feature
            g.update_all(fn.copy_u("h", "m"), fn.mean("m", "h"))
            return self.linear(g.ndata["h"])


@entry
def by_hand_mean():
    return Case(Layers(NodeApply(IN, HID), NodeApply(HID, OUT)))


class NormedByHand(nn.Module):
    def __init__(self, in_feats, out_feats):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(in_feats, out_feats))

    def forward(self, g, h):
        degrees = g.in_degrees().float().clamp(min=1)
        norm = torch.pow(degrees, -0.5).unsqueeze(1).to(h.device)
        g = g.local_var()
        g.ndata["h"] = torch.mm(h, self.weight) * norm
        g.update_all(fn.copy_u(u="h", out="m"), fn.sum(msg="m", out="h"))
        return g.ndata.pop("h") * norm


@entry
def by_hand_degree_norm():
    return Case(Layers(NormedByHand(IN, HID), NormedByHand(HID, OUT)))


@entry
def by_hand_norm_in_ndata():
    def body(self, g, x):
        for fc in self.layers:
            h = fc(x) * g.ndata["norm"]
            g.ndata["h"] = h
            g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
            x = F.relu(g.ndata.pop("h") * g.ndata["norm"])
        return x

    def call(g, x):
        degrees = g.in_degrees().clamp(min=1).to(x)
        g.ndata["norm"] = degrees.pow(-0.5).unsqueeze(1)
        return (g, x), {}

    layers = nn.ModuleList([nn.Linear(IN, HID), nn.Linear(HID, OUT)])
    return Case(Function(body, layers=layers), call)


@entry
def by_hand_dgl_ops():
    def body(self, g, x):
        h = F.gelu(self.a(dgl.ops.copy_u_mean(g, x)))
        h = dgl.ops.u_mul_e_sum(g, h, g.edata["w"])
        return self.b(h)

    def call(g, x):
        g.edata["w"] = torch.linspace(0.1, 1, g.num_edges()).to(x)
        return (g, x), {}

    return Case(
        Function(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT)), call
    )


@entry
def by_hand_message_function():
    def message(edges):
        return {"m": edges.src["h"] * edges.data["w"] * edges.src["c"]}

    def body(self, g, x):
        with g.local_scope():
            g.ndata["c"] = 1 / g.out_degrees().to(x).clamp(min=1).view(-1, 1)
            for fc in self.layers:
                g.ndata["h"] = torch.sigmoid(fc(x))
                g.update_all(message, fn.sum("m", "h"))
                x = g.ndata["h"]
            return x

    def call(g, x):
        g.edata["w"] = torch.linspace(0.1, 1, g.num_edges()).to(x)[:, None]
        return (g, x), {}

    layers = nn.ModuleList([nn.Linear(IN, HID), nn.Linear(HID, OUT)])
    return Case(Function(body, layers=layers), call)


@entry
def self_loops_in_forward():
    def body(self, g, x):
        g = dgl.add_self_loop(dgl.remove_self_loop(g))
        return self.b(g, F.relu(self.a(g, x)))

    a, b = gcn()
    return Case(Function(body, a=a, b=b))


@entry
def both_directions():
    def body(self, g, x):
        back = dgl.reverse(g)
        h = torch.cat([self.a(g, x), self.b(back, x)], dim=1)
        h = F.leaky_relu(h)
        return self.c(g, h) + self.d(back, h)

    options = {"allow_zero_in_degree": True}
    return Case(
        Function(
            body,
            a=dglnn.GraphConv(IN, HID, **options),
            b=dglnn.GraphConv(IN, HID, **options),
            c=dglnn.GraphConv(2 * HID, OUT, **options),
            d=dglnn.GraphConv(2 * HID, OUT, **options),
        )
    )


@entry
def graph_on_the_module():
    def body(self, x):
        return self.b(self.g, F.relu(self.a(self.g, x)))

    a, b = gcn()
    model = Function(body, a=a, b=b)

    def call(g, x):
        model.g = g
        return (x,), {}

    return Case(model, call)


@entry
def features_in_the_graph():
    def body(self, g):
        return self.b(g, F.relu(self.a(g, g.ndata["feat"])))

    def call(g, x):
        g.ndata["feat"] = x
        return (g,), {}

    a, b = gcn()
    return Case(Function(body, a=a, b=b), call)


@entry
def features_first():
    def body(self, x, g):
        return self.b(g, F.relu(self.a(g, x)))

    a, b = gcn()
    return Case(Function(body, a=a, b=b), lambda g, x: ((x, g), {}))


@entry
def two_features():
    def body(self, g, x, *, position):
        h = F.relu(self.a(g, torch.cat([x, position], 1)))
        return self.b(g, h + self.fc(position))

    def call(g, x):
        generator = torch.Generator().manual_seed(0)
        position = torch.randn(g.num_nodes(), 2, generator=generator)
        return (g, x), {"position": position.to(x)}

    return Case(
        Function(
            body,
            a=dglnn.GraphConv(IN + 2, HID),
            b=dglnn.GraphConv(HID, OUT),
            fc=nn.Linear(2, HID),
        ),
        call,
    )


@entry
def gprgnn():
    def body(self, g, x):
        h = self.fc2(F.relu(self.fc1(x)))
        total = self.gamma[0] * h
        for weight in self.gamma[1:]:
            h = self.conv(g, h)
            total = total + weight * h
        return total

    return Case(
        Function(
            body,
            fc1=nn.Linear(IN, HID),
            fc2=nn.Linear(HID, OUT),
            gamma=nn.Parameter(torch.rand(4)),
            conv=dglnn.GraphConv(OUT, OUT, weight=False, bias=False),
        )
    )


@entry
def mixhop():
    def body(self, g, x):
        for fcs in self.layers:
            columns = []
            for number, fc in enumerate(fcs):
                h = fc(x)
                for _ in range(number):
                    h = self.conv(g, h)
                columns.append(h)
            x = torch.tanh(torch.cat(columns, dim=1))
        return self.out(x)

    def fcs(width):
        return nn.ModuleList(nn.Linear(width, HID) for _ in range(3))

    return Case(
        Function(
            body,
            layers=nn.ModuleList([fcs(IN), fcs(3 * HID)]),
            conv=dglnn.GraphConv(HID, HID, weight=False, bias=False),
            out=nn.Linear(3 * HID, OUT),
        )
    )


@entry
def dagnn():
    def body(self, g, x):
        h = self.fc2(F.relu(self.fc1(x)))
        results = [h]
        with g.local_scope():
            norm = g.in_degrees().to(h).clamp(min=1).pow(-0.5)[:, None]
            for _ in range(3):
                g.ndata["h"] = h * norm
                g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
                h = g.ndata["h"] * norm
                results.append(h)
        stacked = torch.stack(results, dim=1)
        score = torch.sigmoid(stacked @ self.s).permute(0, 2, 1)
        return torch.matmul(score, stacked).squeeze()

    return Case(
        Function(
            body,
            fc1=nn.Linear(IN, HID),
            fc2=nn.Linear(HID, OUT),
            s=nn.Parameter(torch.randn(OUT, 1)),
        )
    )


@entry
def dense_connections():
    def body(self, g, x):
        for conv in self.convs:
            x = torch.cat([x, F.relu(conv(g, x))], dim=-1)
        return self.out(x)

    widths = [IN, IN + HID]
    return Case(
        Function(
            body,
            convs=nn.ModuleList(dglnn.GraphConv(w, HID) for w in widths),
            out=nn.Linear(IN + 2 * HID, OUT),
        )
    )


@entry
def gated_by_gru():
    def body(self, g, x):
        h = self.fc(x)
        for _ in range(2):
            message = dgl.ops.copy_u_mean(g, h)
            h = self.gru(message, h)
        return self.out(h)

    return Case(
        Function(
            body,
            fc=nn.Linear(IN, HID),
            gru=nn.GRUCell(HID, HID),
            out=nn.Linear(HID, OUT),
        )
    )


@entry
def highway():
    def body(self, g, x):
        h = self.fc(x)
        for conv, gate in zip(self.convs, self.gates, strict=True):
            t = torch.sigmoid(gate(h))
            h = t * F.relu(conv(g, h)) + (1 - t) * h
        return self.out(h)

    return Case(
        Function(
            body,
            fc=nn.Linear(IN, HID),
            convs=nn.ModuleList(dglnn.GraphConv(HID, HID) for _ in range(2)),
            gates=nn.ModuleList(nn.Linear(HID, HID) for _ in range(2)),
            out=nn.Linear(HID, OUT),
        )
    )


@entry
def heads_by_view():
    def body(self, g, x):
        h = self.fc(x).view(x.shape[0], 2, HID // 2)
        h = dgl.ops.copy_u_sum(g, h)
        h = F.normalize(h, dim=-1).flatten(1)
        return F.log_softmax(self.out(h), dim=1)

    return Case(Function(body, fc=nn.Linear(IN, HID), out=nn.Linear(HID, OUT)))


@entry
def no_graph_at_all():
    def body(self, g, x):
        return self.mlp(x)

    return Case(
        Function(
            body,
            mlp=nn.Sequential(
                nn.Linear(IN, HID), nn.PReLU(), nn.Linear(HID, OUT)
            ),
        )
    )


@entry
def static_features_normalised():
    def body(self, g, x):
        x = F.normalize(x, p=1, dim=1)
        return self.b(g, F.relu(self.a(g, x)))

    a, b = gcn()
    return Case(Function(body, a=a, b=b))


@entry
def two_outputs():
    def body(self, g, x):
        h = F.relu(self.a(g, x))
        return self.b(g, h), h

    a, b = gcn()
    return Case(Function(body, a=a, b=b))


@entry
def appnp_edge_dropout_ignored():
    case = appnp()
    case.model.propagate = dglnn.APPNPConv(k=2, alpha=0.1, edge_drop=0.5)
    case.options = {"ignore_edge_dropout": True}
    return case


# Refused


def refused(reason, body, call=None, **parts):
    case = Case(Function(body, **parts), refused=reason)
    if call is not None:
        case.call = call
    return case


@entry
def gat():
    def body(self, g, x):
        return self.conv(g, x).mean(1)

    return refused("learned", body, conv=dglnn.GATConv(IN, OUT, 2))


@entry
def gatv2():
    def body(self, g, x):
        return self.conv(g, x).mean(1)

    return refused("learned", body, conv=dglnn.GATv2Conv(IN, OUT, 2))


@entry
def agnn():
    def body(self, g, x):
        return self.conv(g, self.fc(x))

    return refused(
        "learned", body, fc=nn.Linear(IN, OUT), conv=dglnn.AGNNConv()
    )


@entry
def sage_pool():
    return Case(Layers(dglnn.SAGEConv(IN, OUT, "pool")), refused="max")


@entry
def sage_lstm():
    return Case(Layers(dglnn.SAGEConv(IN, OUT, "lstm")), refused="linear")


@entry
def gin_max():
    return Case(
        Layers(*(dglnn.GINConv(nn.Linear(IN, IN), "max") for _ in range(2))),
        refused="max",
    )


@entry
def pna():
    conv = dglnn.PNAConv(IN, OUT, ["mean", "max"], ["identity"], 2.0)
    return Case(Layers(conv), refused="")


@entry
def gates_on_edges():
    def body(self, g, x):
        with g.local_scope():
            g.ndata["h"], g.ndata["a"] = self.fc(x), self.gate(x)
            g.apply_edges(fn.u_add_v("a", "a", "score"))
            g.edata["score"] = torch.sigmoid(g.edata["score"])
            g.update_all(fn.u_mul_e("h", "score", "m"), fn.sum("m", "h"))
            return g.ndata["h"]

    return refused(
        "learned", body, fc=nn.Linear(IN, OUT), gate=nn.Linear(IN, OUT)
    )


@entry
def learned_difference_messages():
    def message(edges):
        return {"m": edges.dst["h"] - edges.src["h"]}

    def body(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.fc(x)
            g.update_all(message, fn.sum("m", "h"))
            return g.ndata["h"]

    return refused("", body, fc=nn.Linear(IN, OUT))


@entry
def pair_norm():
    def body(self, g, x):
        h = self.a(g, x)
        h = h - h.mean(dim=0)
        return self.b(g, F.relu(h / h.pow(2).sum(1).mean().sqrt()))

    a, b = gcn()
    return refused("mixes nodes", body, a=a, b=b)


@entry
def softmax_over_nodes():
    def body(self, g, x):
        return F.softmax(self.a(g, x), dim=0)

    return refused("mixes nodes", body, a=dglnn.GraphConv(IN, OUT))


@entry
def readout():
    def body(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.a(g, x)
            return dgl.mean_nodes(g, "h")

    return refused("mixes nodes", body, a=dglnn.GraphConv(IN, OUT))


@entry
def drop_edge():
    def body(self, g, x):
        return self.a(self.drop(g), x)

    return refused(
        "", body, drop=dgl.DropEdge(0.5),
        a=dglnn.GraphConv(IN, OUT, allow_zero_in_degree=True),
    )  # fmt: skip


@entry
def appnp_edge_dropout():
    case = appnp()
    case.model.propagate = dglnn.APPNPConv(k=2, alpha=0.1, edge_drop=0.5)
    case.refused = "at random"
    return case


@entry
def sampling_in_forward():
    def body(self, g, x):
        sampled = dgl.sampling.sample_neighbors(g, torch.arange(5), 3)
        return self.a(sampled, x)

    conv = dglnn.GraphConv(IN, OUT, allow_zero_in_degree=True)
    return refused("not constant", body, a=conv)


@entry
def node_embeddings():
    model = Function(
        lambda self, g, x: self.a(g, x + self.embedding.weight),
        a=dglnn.GraphConv(IN, OUT),
    )

    def call(g, x):
        model.embedding = nn.Embedding(g.num_nodes(), IN).to(x.dtype)
        return (g, x), {}

    return Case(model, call, refused="another graph")


@entry
def node_embeddings_by_id():
    model = Function(
        lambda self, g, x: self.a(g, x + self.embedding(g.nodes())),
        a=dglnn.GraphConv(IN, OUT),
    )

    def call(g, x):
        model.embedding = nn.Embedding(g.num_nodes() + 999, IN).to(x.dtype)
        return (g, x), {}

    return Case(model, call, refused="integers")


@entry
def learned_edge_weights():
    model = Function(
        lambda self, g, x: dgl.ops.u_mul_e_sum(g, self.fc(x), self.weight),
        fc=nn.Linear(IN, OUT),
    )

    def call(g, x):
        weight = torch.rand(g.num_edges(), 1).to(x)
        model.weight = nn.Parameter(weight)
        return (g, x), {}

    return Case(model, call, refused="another graph")


@entry
def other_steps_in_training():
    def body(self, g, x):
        h = self.a(g, x)
        if self.training:
            h = h * 2
        return h

    return refused("training", body, a=dglnn.GraphConv(IN, OUT))


@entry
def control_flow_on_learned_values():
    def body(self, g, x):
        h = self.a(g, x)
        return h if h.sum() > 0 else -h

    return refused("", body, a=dglnn.GraphConv(IN, OUT))


@entry
def noise_on_hidden_values():
    def body(self, g, x):
        h = self.fc(x)
        return self.a(g, h + 0.1 * torch.randn_like(h))

    return refused("", body, fc=nn.Linear(IN, HID), a=dglnn.GraphConv(HID, OUT))


@entry
def adjacency_as_a_matrix():
    def body(self, g, x):
        u, v = g.edges()
        dense = torch.zeros(g.num_nodes(), g.num_nodes())
        dense[v, u] = 1
        return dense.to(x) @ self.fc(x)

    return refused("", body, fc=nn.Linear(IN, OUT))


# Python numbers from the graph: DESIGN's six, and relatives


@entry
def number_sqrt_of_nodes():
    def body(self, g, x):
        return self.a(g, self.fc(x) / g.num_nodes() ** 0.5)

    return refused("number", body, fc=nn.Linear(IN, HID),
                   a=dglnn.GraphConv(HID, OUT))  # fmt: skip


@entry
def number_log_of_degree():
    def body(self, g, x):
        factor = math.log(g.num_edges() / g.num_nodes())
        return self.a(g, self.fc(x) * factor)

    return refused("number", body, fc=nn.Linear(IN, HID),
                   a=dglnn.GraphConv(HID, OUT))  # fmt: skip


@entry
def number_from_shape():
    def body(self, g, x):
        return self.a(g, self.fc(x) / x.shape[0])

    return refused("", body, fc=nn.Linear(IN, HID),
                   a=dglnn.GraphConv(HID, OUT))  # fmt: skip


@entry
def number_through_numpy():
    def body(self, g, x):
        factor = g.in_degrees().float().numpy().mean()
        return self.a(g, self.fc(x) * float(factor))

    return refused("torch", body, fc=nn.Linear(IN, HID),
                   a=dglnn.GraphConv(HID, OUT))  # fmt: skip


@entry
def number_scaled_edges():
    def body(self, g, x):
        return self.a(g, self.fc(x) / (g.num_edges() / 1000))

    return refused("number", body, fc=nn.Linear(IN, HID),
                   a=dglnn.GraphConv(HID, OUT))  # fmt: skip


@entry
def number_of_rows_by_len():
    def body(self, g, x):
        return self.a(g, self.fc(x) / len(x))

    return refused("len", body, fc=nn.Linear(IN, HID),
                   a=dglnn.GraphConv(HID, OUT))  # fmt: skip


@entry
def number_from_item():
    def body(self, g, x):
        return self.a(g, self.fc(x) * x.abs().max().item())

    return refused("number", body, fc=nn.Linear(IN, HID),
                   a=dglnn.GraphConv(HID, OUT))  # fmt: skip


_names = list(ZOO)
#: Models that are transformed, and those that are not: the second part.
TAKEN = _names[: _names.index("gat")]
REFUSED = _names[_names.index("gat") :]
