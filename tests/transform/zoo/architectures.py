"""Whole models: residual and jumping connections, gates, several outputs."""

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, gcn, transformed
from .convolutions import appnp


@transformed("x", "S x", "S² x", "S³ x")
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


@transformed("x", "S x", "S² x", "S³ x", "S⁴ x")
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


@transformed("x", "S x", "S² x", "S³ x")
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


@transformed("S₁ S₂ x", "S₁ S₂² x")
def summed_after_jumping():
    """A plain sum over neighbours, after layers with norms at both ends."""

    def body(self, g, x):
        h1 = self.first(g, x).relu()
        h2 = self.second(g, h1).relu()
        with g.local_scope():
            g.ndata["h"] = torch.cat([h1, h2], 1)
            g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
            return self.out(g.ndata["h"])

    first, second = gcn()
    return Case(
        Function(
            body, first=first, second=second, out=nn.Linear(HID + OUT, OUT)
        )
    )


@transformed("x", "S x", "S² x")
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


@transformed("x", "S x", "S² x")
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


@transformed("x", "S x", "S² x")
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


@transformed("S x")
def heads_by_view():
    def body(self, g, x):
        h = self.fc(x).view(x.shape[0], 2, HID // 2)
        h = dgl.ops.copy_u_sum(g, h)
        h = F.normalize(h, dim=-1).flatten(1)
        return F.log_softmax(self.out(h), dim=1)

    return Case(Function(body, fc=nn.Linear(IN, HID), out=nn.Linear(HID, OUT)))


@transformed("x", exact=True)
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


@transformed("S² normalize(x)")
def static_features_normalised():
    def body(self, g, x):
        x = F.normalize(x, p=1, dim=1)
        return self.b(g, F.relu(self.a(g, x)))

    a, b = gcn()
    return Case(Function(body, a=a, b=b))


@transformed("S x", "S² x")
def two_outputs():
    def body(self, g, x):
        h = F.relu(self.a(g, x))
        return self.b(g, h), h

    a, b = gcn()
    return Case(Function(body, a=a, b=b))


@transformed("x", "S x", "S² x")
def appnp_edge_dropout_ignored():
    case = appnp()
    case.model.propagate = dglnn.APPNPConv(k=2, alpha=0.1, edge_drop=0.5)
    case.options = {"ignore_edge_dropout": True}
    return case
