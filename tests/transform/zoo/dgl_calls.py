"""Message passing by other calls than ``update_all``, and other graphs."""

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused, transformed

COPY, SUM = fn.copy_u("h", "m"), fn.sum("m", "h")


def two_layers(propagate, activation=F.relu):
    """Two linear layers, each followed by ``propagate(g, h)``."""

    def body(self, g, x):
        with g.local_scope():
            x = activation(propagate(g, self.a(x)))
            return propagate(g, self.b(x))

    return Case(Function(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT)))


@transformed("S² x")
def send_and_recv():
    def propagate(g, h):
        g.ndata["h"] = h
        g.send_and_recv(g.edges(), COPY, SUM)
        return g.ndata["h"]

    return two_layers(propagate)


@transformed("S² x")
def send_and_recv_edge_ids():
    def propagate(g, h):
        g.ndata["h"] = h
        ids = torch.arange(g.num_edges())
        g.send_and_recv(ids, COPY, fn.mean("m", "new"))
        return g.ndata.pop("new")

    return two_layers(propagate)


@transformed("S² x")
def pull_all_nodes():
    def propagate(g, h):
        g.ndata["h"] = h
        g.pull(g.nodes(), COPY, lambda nodes: {"h": nodes.mailbox["m"].sum(1)})
        return g.ndata["h"]

    return two_layers(propagate)


@transformed("S² x")
def push_all_nodes():
    def propagate(g, h):
        g.ndata["h"] = h
        g.push(g.nodes(), COPY, SUM)
        return g.ndata["h"]

    return two_layers(propagate)


@transformed("S² x")
def multi_update_all_of_one_type():
    def propagate(g, h):
        g.ndata["h"] = h
        g.multi_update_all({"_E": (COPY, SUM)}, "sum")
        g.apply_nodes(lambda nodes: {"h": nodes.data["h"] * 0.5})
        return g.ndata["h"]

    return two_layers(propagate)


@transformed("S² x")
def edges_then_copy_e():
    def propagate(g, h):
        g.ndata["h"] = h
        g.apply_edges(fn.copy_u("h", "e"))
        g.update_all(fn.copy_e("e", "m"), SUM)
        return g.ndata["h"]

    return two_layers(propagate)


@transformed("S² x")
def divided_by_the_target():
    def propagate(g, h):
        g.ndata["h"] = h
        g.ndata["d"] = g.in_degrees().to(h).view(-1, 1)
        g.update_all(fn.u_div_v("h", "d", "m"), SUM)
        return g.ndata["h"]

    return two_layers(propagate)


@transformed("S² x")
def adjacency_from_dgl():
    def propagate(g, h):
        return torch.sparse.mm(g.adj_external(transpose=True).to(h.dtype), h)

    return two_layers(propagate)


@transformed("S² x")
def dense_normed_adjacency():
    def body(self, g, x):
        adj = g.adj_external(transpose=True).to_dense().to(x.dtype)
        adj = adj + torch.eye(g.num_nodes(), dtype=x.dtype)
        adj = adj / adj.sum(dim=1, keepdim=True)
        return adj @ self.b(F.relu(torch.matmul(adj, self.a(x))))

    return Case(Function(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT)))


@transformed("S x")
def adjacency_written_into_a_matrix():
    def body(self, g, x):
        u, v = g.edges()
        dense = torch.zeros(g.num_nodes(), g.num_nodes())
        dense[v, u] = 1
        return dense.to(x) @ self.fc(x)

    return Case(Function(body, fc=nn.Linear(IN, OUT)))


@transformed("S² x")
def sparse_matrix_by_hand():
    def body(self, g, x):
        u, v = g.edges()
        n = g.num_nodes()
        w = torch.ones(g.num_edges(), dtype=x.dtype)
        adj = torch.sparse_coo_tensor(torch.stack([v, u]), w, (n, n))
        h = F.relu(self.a(torch.sparse.mm(adj, x)))
        return torch.spmm(adj, self.b(h))

    return Case(Function(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT)))


@transformed("S² x")
def scatter_by_hand():
    def propagate(g, h):
        u, v = g.edges()
        return torch.zeros_like(h).index_add(0, v, h[u])

    return two_layers(propagate)


@transformed("S² x")
def scatter_add_with_weights():
    def propagate(g, h):
        u, v = g.edges(form="uv")
        norm = g.in_degrees().to(h.dtype).clamp(min=1) ** -0.5
        messages = h.index_select(0, u) * (norm[u] * norm[v]).unsqueeze(1)
        index = v.unsqueeze(1).expand(-1, messages.shape[1])
        out = torch.zeros(g.num_nodes(), h.shape[1], dtype=h.dtype)
        return out.scatter_add(0, index, messages)

    return two_layers(propagate, torch.tanh)


@transformed("S² x")
def diffusion_in_forward():
    def body(self, g, x):
        g = self.diffuse(g)
        x = F.relu(self.a(g, x, edge_weight=g.edata["p"].to(x)))
        return self.b(g, x, edge_weight=g.edata["p"].to(x))

    options = {"norm": "none", "allow_zero_in_degree": True}
    return Case(
        Function(
            body,
            diffuse=dgl.transforms.PPR(alpha=0.2, eweight_name="p"),
            a=dglnn.GraphConv(IN, HID, **options),
            b=dglnn.GraphConv(HID, OUT, **options),
        )
    )


@transformed("S x", exact=True)
def ignored_drop_edge():
    def body(self, g, x):
        return self.a(self.drop(g), x)

    return Case(
        Function(body, drop=dgl.DropEdge(0.5), a=dglnn.GraphConv(IN, OUT)),
        options={"ignore_edge_dropout": True},
    )


@refused("DropNode, a random mask (bernoulli)", "random numbers", "LC011")
def drop_node():
    def body(self, g, x):
        return self.a(dgl.DropNode(0.2)(g), x)

    return Case(Function(body, a=dglnn.GraphConv(IN, OUT)))


@refused("message passing", "runs over some of the nodes")
def pull_some_nodes():
    def propagate(g, h):
        g.ndata["h"] = h
        g.pull(torch.arange(9), COPY, SUM)
        return g.ndata["h"]

    return two_layers(propagate)


@transformed("S x", exact=True)
def edge_dropout_ignored_in_training():
    def body(self, g, x):
        h = self.drop(g) if self.training else g
        return self.a(h, x)

    return Case(
        Function(body, drop=dgl.DropEdge(0.5), a=dglnn.GraphConv(IN, OUT)),
        options={"ignore_edge_dropout": True},
    )


@transformed("S² x")
def in_edges_of_all_nodes():
    def propagate(g, h):
        u, v = g.in_edges(g.nodes())
        weight = g.in_degrees()[v].to(h).reciprocal().unsqueeze(1)
        return torch.zeros_like(h).index_add(0, v, h[u] * weight)

    return two_layers(propagate)


@transformed("S² x")
def lists_of_edges():
    def propagate(g, h):
        u, v = g.adj_tensors("coo")
        return torch.zeros_like(h).index_add(0, v.long(), h[u.long()])

    return two_layers(propagate)


@transformed("S² x")
def ids_of_edges():
    def propagate(g, h):
        u, v = g.edges()
        weight = g.in_degrees()[v].to(h).rsqrt()[g.edge_ids(u, v)]
        return dgl.ops.u_mul_e_sum(g, h, weight)

    return two_layers(propagate)
