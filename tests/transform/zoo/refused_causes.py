"""Models whose cause has a name that their authors know, all refused."""

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused


def _case(body, **parts):
    """A model with an encoder ``enc``, a layer ``out``, and other parts."""
    parts = {
        "enc": dglnn.GraphConv(IN, HID, allow_zero_in_degree=True),
        "out": dglnn.GraphConv(HID, OUT, allow_zero_in_degree=True),
        **parts,
    }
    return Case(Function(body, **parts))


# Nodes picked by learned scores


@refused("topk of learned scores", "which nodes are kept", "LC010")
def top_k_pooling():
    def body(self, g, x):
        h = torch.relu(self.enc(g, x))
        score = self.score(h).squeeze(1)
        kept = torch.topk(score, int(0.5 * g.num_nodes()))[1]
        return self.head(h[kept] * torch.tanh(score[kept])[:, None])

    return _case(body, score=nn.Linear(HID, 1), head=nn.Linear(HID, OUT))


@refused("argsort of learned scores", "which nodes are kept", "LC010")
def sort_pooling():
    def body(self, g, x):
        h = self.enc(g, x)
        order = torch.argsort(h[:, -1], descending=True)
        return self.head(h[order])

    return _case(body, head=nn.Linear(HID, OUT))


@refused("getitem of learned scores", "which nodes are kept", "LC010")
def nodes_above_a_learned_threshold():
    def body(self, g, x):
        h = self.enc(g, x)
        return self.head(h[self.score(h).squeeze(1) > 0])

    return _case(body, score=nn.Linear(HID, 1), head=nn.Linear(HID, OUT))


# Random numbers


@refused("DropNode, a random mask (bernoulli)", "random numbers", "LC011")
def drop_node_in_training():
    def body(self, g, x):
        if self.training:
            keep = torch.full((x.shape[0], 1), 0.5)
            x = x * torch.bernoulli(keep) / 0.5
        return self.out(g, torch.relu(self.enc(g, x)))

    return _case(body)


@refused("DropNode, a random mask (rand)", "random numbers", "LC011")
def random_mask_of_nodes():
    def body(self, g, x):
        h = torch.relu(self.enc(g, x))
        h = h * (torch.rand(h.shape[0], 1) < 0.8)
        return self.out(g, h)

    return _case(body)


@refused("Gumbel noise (rand)", "random numbers", "LC011")
def gumbel_noise_by_hand():
    def body(self, g, x):
        h = self.enc(g, x)
        noise = -torch.log(-torch.log(torch.rand(h.shape)))
        return self.out(g, F.softmax(h + noise, dim=1))

    return _case(body)


@refused("Gumbel noise (gumbel_softmax)", "random numbers", "LC011")
def gumbel_softmax():
    def body(self, g, x):
        return self.out(g, F.gumbel_softmax(self.enc(g, x), tau=0.5))

    return _case(body)


@refused("randperm shuffles nodes", "random numbers", "LC012")
def contrastive_corruption():
    def body(self, g, x):
        shuffled = x[torch.randperm(g.num_nodes())]
        return self.enc(g, x), self.enc(g, shuffled)

    return _case(body)


# Statistics of all nodes


@refused("mean over all nodes", "mixes nodes", "LC014")
def mean_subtraction():
    def body(self, g, x):
        h = self.enc(g, x)
        h = h - h.mean(dim=0, keepdim=True)
        return self.out(g, torch.relu(h))

    return _case(body)


@refused("mean over all nodes", "mixes nodes", "LC014")
def graph_norm():
    def body(self, g, x):
        h = self.enc(g, x)
        centred = h - self.alpha * h.mean(0)
        spread = centred.pow(2).mean(0).add(1e-5).sqrt()
        return self.out(g, torch.relu(self.gamma * centred / spread))

    return _case(
        body,
        alpha=nn.Parameter(torch.ones(HID)),
        gamma=nn.Parameter(torch.ones(HID)),
    )


@refused("mean over all nodes", "virtual node", "LC013")
def virtual_node():
    def body(self, g, x):
        h = self.enc(g, x)
        virtual = torch.relu(self.mlp(h.mean(dim=0, keepdim=True)))
        return self.out(g, h + virtual)

    return _case(body, mlp=nn.Linear(HID, HID))


@refused("sum over all nodes (a readout)", "mixes nodes", "LC013")
def sum_readout():
    def body(self, g, x):
        return self.head(self.enc(g, x).sum(dim=0))

    return _case(body, head=nn.Linear(HID, OUT))


@refused("a readout over all nodes", "mixes nodes", "LC013")
def average_pooling():
    def body(self, g, x):
        return self.head(self.pool(g, torch.relu(self.enc(g, x))))

    return _case(body, pool=dglnn.AvgPooling(), head=nn.Linear(HID, OUT))


@refused("a readout over all nodes", "mixes nodes", "LC013")
def global_attention_pooling():
    def body(self, g, x):
        return self.head(self.pool(g, self.enc(g, x)))

    pool = dglnn.GlobalAttentionPooling(nn.Linear(HID, 1))
    return _case(body, pool=pool, head=nn.Linear(HID, OUT))


# Attention, gates and learned graphs


@refused("attention over neighbours (edge softmax)", "are learned", "LC004")
def dot_product_attention():
    def body(self, g, x):
        return self.conv(g, torch.relu(self.enc(g, x))).mean(1)

    return _case(body, conv=dglnn.DotGatConv(HID, OUT, 2))


@refused("attention over neighbours (edge softmax)", "are learned", "LC004")
def attention_by_hand():
    def body(self, g, x):
        h = self.fc(x)
        with g.local_scope():
            g.ndata["h"], g.ndata["a"] = h, self.att(h)
            g.apply_edges(
                lambda e: {"s": F.leaky_relu(e.src["a"] + e.dst["a"])}
            )
            g.edata["w"] = dgl.ops.edge_softmax(g, g.edata["s"])
            g.update_all(
                lambda e: {"m": e.src["h"] * e.data["w"]}, fn.sum("m", "h")
            )
            return self.out(g, g.ndata["h"])

    return _case(body, fc=nn.Linear(IN, HID), att=nn.Linear(HID, 1))


@refused("message passing (copy_rhs, sum)", "learned value", "LC005")
def messages_of_an_mlp():
    def body(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.fc(x)
            g.update_all(
                lambda e: {
                    "m": torch.relu(
                        self.mlp(torch.cat([e.src["h"], e.dst["h"]], 1))
                    )
                },
                fn.sum("m", "h"),
            )
            return self.out(g, g.ndata["h"])

    return _case(body, fc=nn.Linear(IN, HID), mlp=nn.Linear(2 * HID, HID))


@refused("matmul of all pairs of nodes", "mixes nodes", "LC015")
def attention_between_all_nodes():
    def body(self, g, x):
        h = self.enc(g, x)
        weight = F.softmax(self.q(h) @ self.k(h).t() / HID**0.5, dim=1)
        return self.out(g, weight @ h)

    return _case(body, q=nn.Linear(HID, HID), k=nn.Linear(HID, HID))


@refused("matmul", "learned for each pair", "LC009")
def learned_adjacency():
    def body(self, g, x):
        adjacency = F.softmax(F.relu(self.e1 @ self.e2.t()), dim=1)
        return self.out(g, torch.relu(adjacency @ self.fc(x)))

    case = _case(body, fc=nn.Linear(IN, HID))

    def call(g, x):
        n = g.num_nodes()
        case.model.e1 = nn.Parameter(torch.randn(n, 4).to(x))
        case.model.e2 = nn.Parameter(torch.randn(n, 4).to(x))
        return (g, x), {}

    case.call = call
    return case


@refused("KNNGraph makes a graph", "by their features", "LC008")
def nearest_neighbours_of_hidden_features():
    def body(self, g, x):
        h = torch.relu(self.enc(g, x))
        return self.out(self.knn(h), h)

    return _case(body, knn=dglnn.KNNGraph(3))


@refused("edge_subgraph makes a graph", "built or sampled", "LC008")
def random_edge_subgraph():
    def body(self, g, x):
        kept = torch.randperm(g.num_edges())[: g.num_edges() // 2]
        part = dgl.edge_subgraph(g, kept, relabel_nodes=False)
        return self.enc(part, x)

    return _case(body)


@refused("rand", "random numbers for edges", "LC007")
def random_mask_of_edges():
    def body(self, g, x):
        mask = (torch.rand(g.num_edges(), 1) < 0.7).to(x.dtype)
        return dgl.ops.u_mul_e_sum(g, self.enc(g, x), mask)

    return _case(body)


# Several at once


@refused("attention over neighbours (edge softmax)", "are learned", "LC004")
def five_problems_at_once():
    def body(self, g, x):
        h = self.gat(g, x).flatten(1)
        h = h - h.mean(0)
        h = h * torch.bernoulli(torch.full((h.shape[0], 1), 0.9))
        h = torch.relu(self.pool(g, h))
        return self.head(h.max(dim=0)[0])

    return _case(
        body,
        gat=dglnn.GATConv(IN, HID // 2, 2, allow_zero_in_degree=True),
        pool=dglnn.SAGEConv(HID, HID, "pool"),
        head=nn.Linear(HID, OUT),
    )


# Functions of DGL


@refused(
    "attention between all nodes of a graph", "attends to all others", "LC015"
)
def set_transformer():
    def body(self, g, x):
        return self.out(g, self.attend(g, self.enc(g, x)))

    attend = dglnn.SetTransformerEncoder(HID, 2, HID // 2, HID)
    return _case(body, attend=attend)


@refused("AddEdge", "adds edges at random", "LC008")
def edges_added_at_random():
    def body(self, g, x):
        return self.enc(dgl.AddEdge(0.1)(g), x)

    return _case(body)


@refused("add_edges", "changes the nodes or edges", "LC008")
def edges_added_in_forward():
    def body(self, g, x):
        g = g.local_var()
        g.add_edges(torch.tensor([0]), torch.tensor([1]))
        return self.enc(g, x)

    return _case(body)


@refused("lap_pe (LaplacianPE)", "drawn at random", "LC011")
def laplacian_encoding_in_forward():
    def body(self, g, x):
        g = dgl.LaplacianPE(2, "pe")(g)
        return self.enc(g, x + g.ndata["pe"].sum(1, keepdim=True))

    return _case(body)


@refused("random_walk_pe", "outside of torch", "LC020")
def random_walk_encoding_in_forward():
    def body(self, g, x):
        h = x + dgl.random_walk_pe(g, 2).sum(1, keepdim=True)
        return self.enc(g, h)

    return _case(body)


@refused("batch makes a graph", "joins graphs in forward", "LC008")
def heads_in_a_batch_of_graphs():
    def body(self, g, x):
        h = torch.cat(self.enc(g, x).split(HID // 2, 1), 0)
        h = dgl.ops.copy_u_sum(dgl.batch([g, g]), h)
        return torch.cat(h.split(g.num_nodes(), 0), 1)

    return _case(body)


@refused("cat of 2 blocks of rows", "below each other", "LC029")
def heads_below_each_other_by_indices():
    def body(self, g, x):
        h = torch.cat(self.enc(g, x).split(HID // 2, 1), 0)
        u, v = (torch.cat([e, e + g.num_nodes()]) for e in g.edges())
        h = torch.zeros_like(h).index_add(0, v, h[u])
        return torch.cat(h.split(g.num_nodes(), 0), 1)

    return _case(body)


@refused("index_add of messages", "weights are learned", "LC005")
def learned_weights_by_indices():
    def body(self, g, x):
        h = self.enc(g, x)
        row, col = g.adj_external().coalesce().indices()
        weight = torch.sigmoid((h[row] * h[col]).sum(1, keepdim=True))
        return torch.zeros_like(h).index_add(0, row, h[col] * weight)

    return _case(body)


@refused("scatter_reduce (amax)", "is not a sum", "LC006")
def largest_by_scatter_reduce():
    def body(self, g, x):
        h = self.enc(g, x)
        u, v = g.edges()
        places = v[:, None].expand(-1, HID)
        start = torch.zeros_like(h)
        return start.scatter_reduce(0, places, h[u], "amax", include_self=False)

    return _case(body)


@refused("reshape of 2 blocks of rows", "blocks with all nodes", "LC029")
def heads_below_each_other_by_reshaping():
    def body(self, g, x):
        n = x.shape[0]
        h = self.fc(x).view(n, 2, -1).transpose(0, 1).reshape(2 * n, -1)
        u, v = (torch.cat([end, end + n]) for end in g.edges())
        h = torch.zeros_like(h).index_add(0, v, h[u])
        return h.view(2, n, -1).mean(0)

    return _case(body, fc=nn.Linear(IN, 2 * OUT))
