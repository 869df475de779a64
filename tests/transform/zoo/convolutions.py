"""Stacks of convolutions from dgl.nn."""

import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, Layers, gcn, transformed


@transformed("S² x")
def gcn_two_layers():
    return Case(Layers(*gcn()))


@transformed("S² x")
def gcn_norm_right():
    return Case(Layers(*gcn(norm="right")))


@transformed("S² x")
def gcn_norm_left():
    return Case(Layers(*gcn(norm="left")))


@transformed("S³ x")
def gcn_norm_none():
    return Case(Layers(*gcn(norm="none", layers=3)))


@transformed("S³ features")
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


@transformed("S² x")
def gcn_functional_dropout():
    def body(self, g, x):
        h = F.dropout(x, 0.3, training=self.training)
        h = F.relu(self.a(g, h))
        h = F.dropout(h, 0.3, training=self.training)
        return self.b(g, h)

    a, b = gcn()
    return Case(Function(body, a=a, b=b))


@transformed("S² x")
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


@transformed("S² x")
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


@transformed("x", "S x", "S² x")
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


@transformed("S² x")
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


@transformed("S³ x", exact=True)
def sgc():
    return Case(Layers(dglnn.SGConv(IN, OUT, k=3)))


@transformed("S² x")
def sgc_cached_after_mlp():
    def body(self, g, x):
        return self.conv(g, F.relu(self.fc(x)))

    return Case(
        Function(body, fc=nn.Linear(IN, HID), conv=dglnn.SGConv(HID, OUT, k=2))
    )


@transformed("x", "S x", "S² x", "S³ x")
def tagcn():
    return Case(
        Layers(dglnn.TAGConv(IN, HID, k=2), dglnn.TAGConv(HID, OUT, k=1))
    )


@transformed("x", "S x", "S² x", "S³ x", "S⁴ x")
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


@transformed("x", "S x", "S² x")
def sage_mean():
    return Case(
        Layers(
            dglnn.SAGEConv(IN, HID, "mean", feat_drop=0.2),
            dglnn.SAGEConv(HID, OUT, "mean"),
        )
    )


@transformed("P² x")
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


@transformed("sum(scaled(x), neighbours(x))", "S sum(scaled(x), neighbours(x))")
def gin():
    return Case(_gin(False))


@transformed("x", "S x", "S² x")
def gin_learned_eps():
    return Case(_gin(True))


@transformed("x", "S x", "S² x", "S³ x")
def cheb():
    return Case(Layers(dglnn.ChebConv(IN, HID, 3), dglnn.ChebConv(HID, OUT, 2)))


@transformed("x", "S x", "S² x", "S³ x", "S⁴ x")
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


@transformed("S x", "S² x")
def jknet_cat():
    return Case(_jknet("cat"))


@transformed("S x", "S² x")
def jknet_max():
    return Case(_jknet("max"))


@transformed("S x", "S² x")
def jknet_lstm():
    return Case(_jknet("lstm"))


@transformed("S² x")
def dgl_sequential():
    return Case(dglnn.Sequential(*gcn()))
