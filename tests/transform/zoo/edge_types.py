"""Models of graphs with types of edges: a filter for each type."""

from itertools import pairwise

import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused, transformed

TWO = ("S₁² x", "S₂ S₁ x", "S₁ S₂ x", "S₂² x")


def types_of_edges(g, count=2):
    return torch.arange(g.num_edges()) * 7 % 5 % count


def relational(count=2, layers=2, **options):
    """Relational GCN: every type of edges has a matrix."""
    widths = [IN, *[HID] * (layers - 1), OUT]

    def body(self, g, x, types):
        for conv in self.convs:
            x = conv(g, x, types)
        return x

    convs = nn.ModuleList(
        dglnn.RelGraphConv(a, b, count, activation=F.relu, **options)
        for a, b in pairwise(widths)
    )
    return Case(
        Function(body, convs=convs),
        lambda g, x: ((g, x, types_of_edges(g, count)), {}),
    )


@transformed(*TWO)
def rgcn():
    return relational(self_loop=False)


@transformed(*TWO)
def rgcn_basis():
    return relational(regularizer="basis", num_bases=2, self_loop=False)


@transformed("S₁ x", "S₂ x", exact=True)
def rgcn_blocks():
    return relational(layers=1, regularizer="bdd", num_bases=1, self_loop=False)


@transformed("x", "S₁ x", "S₂ x", *TWO)
def gated_graph_of_two_types():
    def body(self, g, x, types):
        return self.out(self.conv(g, x, types))

    return Case(
        Function(
            body,
            conv=dglnn.GatedGraphConv(IN, HID, n_steps=2, n_etypes=2),
            out=nn.Linear(HID, OUT),
        ),
        lambda g, x: ((g, x, types_of_edges(g)), {}),
    )


@transformed(*TWO)
def types_by_masks():
    """A layer for each type, and edge weights that choose its edges."""

    def body(self, g, x, types):
        with g.local_scope():
            for layer in self.layers:
                total = 0
                for number, fc in enumerate(layer):
                    g.edata["w"] = (types == number).to(x.dtype)
                    g.ndata["h"] = fc(x)
                    g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "h"))
                    total = total + g.ndata["h"]
                x = torch.tanh(total)
            return x

    layers = nn.ModuleList(
        nn.ModuleList(nn.Linear(a, b) for _ in range(2))
        for a, b in ((IN, HID), (HID, OUT))
    )
    return Case(
        Function(body, layers=layers),
        lambda g, x: ((g, x, types_of_edges(g)), {}),
    )


@refused("the number of inputs", "would be 625", "LC033")
def too_many_products_of_filters():
    return relational(count=5, layers=4, self_loop=False)
