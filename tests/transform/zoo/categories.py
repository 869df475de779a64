"""Models of categories: integers that choose rows of a table."""

import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused, transformed

KINDS = (4, 3, 5)


def categories(n):
    """Three columns of categories, which depend on the node."""
    nodes = torch.arange(n)
    columns = [nodes * 7 // (k + 1) % k for k in KINDS]
    return torch.stack(columns, dim=1)


def first_column(g, x):
    return (g, categories(g.num_nodes())[:, 0].contiguous()), {}


def two_layers(look_up, call=first_column, width=IN, **parts):
    def body(self, g, z):
        h = F.relu(self.a(g, look_up(self, z)))
        return self.b(g, h)

    return Case(
        Function(
            body,
            a=dglnn.GraphConv(width, HID),
            b=dglnn.GraphConv(HID, OUT),
            **parts,
        ),
        call,
    )


@transformed("S² one_hot(x)")
def embedding():
    table = nn.Embedding(4, IN)
    return two_layers(lambda self, z: self.table(z), table=table)


@transformed("S² one_hot(x)")
def embedding_with_padding():
    table = nn.Embedding(4, IN, padding_idx=1)
    return two_layers(lambda self, z: torch.tanh(self.table(z)), table=table)


@transformed("S² one_hot(x)")
def embedding_by_index():
    table = nn.Parameter(torch.randn(4, IN))
    return two_layers(lambda self, z: self.table[z], table=table)


@transformed(*(f"S² one_hot(x[:, {column}])" for column in range(3)))
def sum_of_embeddings():
    """As the atom encoder of OGB."""

    def look_up(self, z):
        total = 0
        for column, table in enumerate(self.tables):
            total = total + table(z[:, column])
        return total

    tables = nn.ModuleList(nn.Embedding(kind, IN) for kind in KINDS)
    return two_layers(
        look_up, lambda g, x: ((g, categories(60)), {}), tables=tables
    )


@transformed("S² mean(one_hot(x))")
def bag_of_embeddings():
    return two_layers(
        lambda self, z: self.bag(z),
        lambda g, x: ((g, categories(60)), {}),
        bag=nn.EmbeddingBag(5, IN, mode="mean"),
    )


@transformed("x", "S one_hot(x)")
def embedding_with_a_residual():
    """The lookup is a lookup where nothing is aggregated."""

    def body(self, g, z):
        h = F.relu(self.fc(self.table(z)))
        return self.conv(g, h) + h

    return Case(
        Function(
            body,
            table=nn.Embedding(4, IN),
            fc=nn.Linear(IN, OUT),
            conv=dglnn.GraphConv(OUT, OUT),
        ),
        first_column,
    )


@refused("table", "has a table of 2,000 rows", "LC017")
def embedding_of_many_categories():
    table = nn.Embedding(2000, IN)
    return two_layers(lambda self, z: self.table(z), table=table)
