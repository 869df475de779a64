"""Products with adjacency matrices, and sums by indices made of them."""

import dgl.function as fn
import torch
import torch.nn.functional as F
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused, transformed


def _case(body, call=None, **parts):
    """A model with a layer before, and one after an aggregation."""
    parts = {
        "before": nn.Linear(IN, HID),
        "after": nn.Linear(HID, OUT),
        **parts,
    }
    model = Function(body, **parts)
    return Case(model) if call is None else Case(model, call)


@transformed("S² x")
def einsum_with_an_adjacency_matrix():
    def body(self, g, x):
        adj = g.adj_external().to_dense().to(x)
        h = torch.einsum("ij,jk->ik", adj, x)
        h = torch.einsum("ij, jk", adj, F.relu(self.before(h)))
        return self.after(h)

    return _case(body)


@transformed("S x")
def einsum_over_heads():
    def body(self, g, x):
        adj = g.adj_external().to_dense().to(x)
        h = F.relu(self.before(x)).view(-1, 2, HID // 2)
        h = torch.einsum("nhd,mn->hmd", h, adj.t())
        return self.after(h.transpose(0, 1).flatten(1))

    return _case(body)


@transformed("S x")
def matmul_over_heads():
    def body(self, g, x):
        adj = g.adj_external().to_dense().to(x)
        h = F.relu(self.before(x)).view(-1, 2, HID // 2).transpose(0, 1)
        h = torch.matmul(adj, h)
        return self.after(h.transpose(0, 1).flatten(1))

    return _case(body)


@transformed("x", "S x")
def addmm_with_a_residual():
    def body(self, g, x):
        adj = g.adj_external().to(x)
        h = F.relu(self.before(x))
        h = torch.addmm(h, adj, h, beta=0.1, alpha=0.9)
        return self.after(h)

    return _case(body)


@transformed("S² x")
def addmm_with_a_bias():
    def body(self, g, x):
        adj = g.adj_external().to(x)
        h = torch.addmm(self.bias, adj.to_dense(), self.before(x))
        return self.after(adj @ F.relu(h))

    return _case(body, bias=nn.Parameter(torch.zeros(HID)))


@transformed("x", "S x")
def sparse_addmm():
    def body(self, g, x):
        h = F.relu(self.before(x))
        return self.after(torch.sparse.addmm(h, g.adj_external().to(x), h))

    return _case(body)


@transformed("S² x")
def indices_of_a_matrix():
    def body(self, g, x):
        adj = g.adj_external().to(x).coalesce()
        (row, col), weight = adj.indices(), adj.values()[:, None]
        h = x
        for layer in (self.before, self.after):
            h = F.relu(layer(h))
            sums = h.new_zeros(g.num_nodes(), h.shape[1])
            h = sums.index_add_(0, row, h[col] * weight)
        return h

    return _case(body)


@transformed("S x")
def edges_in_both_directions_with_loops():
    def body(self, g, x):
        (u, v), loops = g.edges(), g.nodes()
        ends = torch.stack([torch.cat([u, v, loops]), torch.cat([v, u, loops])])
        degrees = torch.zeros(len(x)).index_add(
            0, ends[1], torch.ones(ends.shape[1])
        )
        norm = degrees.pow(-0.5).to(x)
        weight = norm[ends[0]] * norm[ends[1]]
        h = F.relu(self.before(x))
        spread = ends[1].unsqueeze(1).expand(-1, HID)
        messages = h.index_select(0, ends[0]) * weight.unsqueeze(-1)
        return self.after(torch.zeros_like(h).scatter_add(0, spread, messages))

    return _case(body)


@transformed("S x")
def sums_over_outgoing_edges():
    def body(self, g, x):
        u, v = g.edges()
        h = F.relu(self.before(x))
        return self.after(torch.zeros_like(h).index_add(0, u, h[v]))

    return _case(body)


@transformed("S x")
def ends_of_another_type():
    def body(self, g, x):
        u, v = (ends.long() for ends in g.edges())
        h = F.relu(self.before(x))
        return self.after(torch.zeros_like(h).index_add(0, v, h[u]))

    return _case(body, lambda g, x: ((g.int(), x), {}))


def _weights(g, x):
    g.edata["w"] = torch.linspace(0.1, 1, g.num_edges()).to(x)[:, None]
    return (g, x), {}


@transformed("S x", "in-degree")
def layer_with_a_bias_on_weighted_messages():
    def body(self, g, x):
        def message(edges):
            return {"m": self.after(edges.src["h"] * edges.data["w"])}

        g.ndata["h"] = F.relu(self.before(x))
        g.update_all(message, fn.sum("m", "h"))
        return g.ndata.pop("h")

    return _case(body, _weights)


@transformed("S x", "in-degree")
def parameter_added_to_weighted_messages():
    def body(self, g, x):
        g.ndata["h"] = F.relu(self.before(x))
        g.apply_edges(fn.u_mul_e("h", "w", "m"))
        g.edata["m"] = self.bias - g.edata["m"]
        g.update_all(fn.copy_e("m", "m"), fn.sum("m", "h"))
        return self.after(g.ndata.pop("h"))

    return _case(body, _weights, bias=nn.Parameter(torch.zeros(HID)))


@transformed("S x")
def heads_joined_by_split_and_cat():
    def body(self, g, x):
        h = torch.cat(self.before(x).split(HID // 2, 1), 0)
        h = F.relu(self.head(h))
        h = torch.cat(torch.split(h, g.num_nodes()), 1)
        g.ndata["h"] = self.after(h)
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
        return g.ndata.pop("h")

    return _case(body, head=nn.Linear(HID // 2, HID // 2))


def _eigenvectors(g):
    adj = g.adj_external().to_dense().to(torch.get_default_dtype())
    return torch.linalg.eigh(adj + adj.t())


@transformed("S x", exact=True)
def fixed_function_of_eigenvalues():
    def body(self, g, x):
        values, vectors = _eigenvectors(g)
        matrix = vectors @ torch.diag(torch.exp(-values.abs())) @ vectors.t()
        return self.after(matrix @ self.before(x))

    return _case(body, before=nn.Linear(IN, HID, bias=False))


@refused("matmul with eigenvectors", "rows of frequencies", "LC029")
def learned_function_of_eigenvalues():
    def body(self, g, x):
        values, vectors = _eigenvectors(g)
        gain = torch.tanh(self.gain(values.unsqueeze(1)))
        return self.after(vectors @ (gain * (vectors.t() @ self.before(x))))

    return _case(body, gain=nn.Linear(1, HID))


def _mean(g):
    adj = g.adj_external().to_dense().to(torch.get_default_dtype())
    return adj / adj.sum(1, keepdim=True).clamp(min=1)


@transformed("x", "S x", "S² x")
def laplacian_of_identity_minus_mean():
    def body(self, g, x):
        laplacian = torch.eye(g.num_nodes()) - _mean(g)
        h = F.relu(laplacian @ self.before(x))
        return torch.mm(laplacian, self.after(h))

    return _case(body)


@transformed("x", "S x", "S² x")
def chebyshev_by_a_scaled_matrix():
    def body(self, g, x):
        n = g.num_nodes()
        identity = torch.eye(n, n, dtype=x.dtype)
        scaled = 2 * (identity - _mean(g)) / 1.5 - identity
        first = F.relu(self.before(x))
        second = scaled @ first
        third = 2 * torch.matmul(scaled, second) - first
        return self.after(first + self.more(second) - third)

    return _case(body, more=nn.Linear(HID, HID))


@transformed("S² x")
def matrix_without_its_identity():
    def body(self, g, x):
        identity = torch.eye(g.num_nodes())
        negative = (identity - _mean(g)) * 2 - 2 * identity
        h = F.relu(negative @ self.before(x))
        return torch.mm(negative, self.after(h))

    return _case(body)
