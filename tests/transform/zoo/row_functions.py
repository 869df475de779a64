"""Functions of rows between aggregations, as users write them."""

from functools import partial

import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn
from torch.utils.checkpoint import checkpoint

from .cases import HID, IN, OUT, Case, Function, gcn, refused, transformed
from .propagation import hops_of, mean_over_edges, normed, sum_over_edges


def between(function, **parts):
    """A GCN of two layers with a function of rows between them."""

    def body(self, g, x):
        return self.b(g, function(self, self.a(g, x)))

    a, b = gcn()
    return Case(Function(body, a=a, b=b, **parts))


@transformed("S² x")
def squeeze_and_excite():
    def excite(self, h):
        return h * torch.sigmoid(self.up(F.relu(self.down(h))))

    return between(excite, down=nn.Linear(HID, 2), up=nn.Linear(2, HID))


@transformed("S² x")
def masked_columns():
    def mask(self, h):
        h = torch.where(self.mask, h, torch.zeros(()).to(h))
        return h.masked_fill(~self.mask, -1.0).clamp(-3, 3) * self.scale

    case = between(mask)
    case.model.register_buffer("mask", torch.arange(HID) % 3 > 0)
    case.model.register_buffer(
        "scale", torch.linspace(0, 1, HID), persistent=False
    )
    return case


@transformed("S₁ S₂ x")
def heads_by_einsum():
    def body(self, g, x):
        h = torch.einsum("nd,dhk->nhk", x, self.first)
        h = F.elu(mean_over_edges(g, h))
        h = torch.einsum("nhk,hkj->nhj", h, self.second)
        return sum_over_edges(g, h).mean(dim=1)

    return Case(
        Function(
            body,
            first=nn.Parameter(torch.randn(IN, 2, 4)),
            second=nn.Parameter(torch.randn(2, 4, OUT)),
        )
    )


@transformed("S x")
def heads_by_batched_products():
    def body(self, g, x):
        h = self.fc(x).view(-1, 2, 4).transpose(0, 1)
        h = torch.baddbmm(self.bias, h, self.weight).transpose(0, 1)
        return self.out(normed(g, h.reshape(x.size(0), -1).relu()))

    return Case(
        Function(
            body,
            fc=nn.Linear(IN, 8),
            weight=nn.Parameter(torch.randn(2, 4, 3)),
            bias=nn.Parameter(torch.randn(2, 1, 3)),
            out=nn.Linear(6, OUT),
        )
    )


@transformed("S² x")
def steps_in_closures():
    act = partial(F.leaky_relu, negative_slope=0.1)
    norm = partial(F.normalize, p=2.0, dim=-1)

    def body(self, g, x):
        def step(h):
            return normed(g, h)

        for function in (self.a, act, step, norm, self.b, step):
            x = function(x)
        return x

    return Case(Function(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT)))


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(IN, HID), nn.Linear(HID, OUT)])
        self._norm = None

    def norm(self, g):
        if self._norm is None:
            degrees = g.in_degrees().double().clamp(min=1)
            self._norm = degrees.rsqrt().unsqueeze(1)
        return self._norm

    def forward(self, g, x):
        for layer in self.layers:
            x = sum_over_edges(g, layer(x) * self.norm(g)) * self.norm(g)
        return x


@transformed("S² x")
def norm_kept_on_the_module():
    return Case(Cached())


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        a, b = gcn()
        self.convs = nn.ModuleDict({"hidden": a, "out": b})

    @property
    def layers(self):
        return list(self.convs.values())

    def forward(self, g, x):
        first, second = self.layers
        h = first(g, x).tanh()
        logits = second(g, h)
        return {"logits": logits, "hidden": h, "prob": logits.softmax(-1)}


@transformed("S x", "S² x")
def outputs_in_a_dict():
    return Case(Parts())


@transformed("S² x")
def tied_weights():
    def body(self, g, x):
        h = normed(g, F.linear(x, self.weight)).relu()
        return normed(g, F.linear(h, self.weight.t()))

    return Case(Function(body, weight=nn.Parameter(torch.randn(HID, IN))))


@transformed("x", "S x")
def gates_by_chunks():
    def body(self, g, x):
        value, gate, skip = self.fc(x).chunk(3, dim=-1)
        h = normed(g, value * torch.sigmoid(gate)) + skip
        left, right = torch.split(h, [HID // 2, HID // 2], dim=1)
        h = torch.cat([F.glu(h, dim=1), torch.maximum(left, right)], dim=1)
        return self.out(h)

    return Case(
        Function(body, fc=nn.Linear(IN, 3 * HID), out=nn.Linear(HID, OUT))
    )


@transformed("S² x")
def norms_of_rows():
    def norms(self, h):
        h = self.instance(self.group(h).unsqueeze(1)).squeeze(1)
        return F.layer_norm(F.gelu(h), (HID,))

    return between(
        norms, group=nn.GroupNorm(4, HID), instance=nn.InstanceNorm1d(1)
    )


@transformed("S² x")
def changes_of_type():
    def casts(self, h):
        return h.float().double().to(torch.float64).relu().type_as(h)

    return between(casts)


@transformed("S x", "S difference(x, in-degree)")
def features_without_gradients():
    def body(self, g, x):
        with torch.no_grad():
            more = normed(g, normed(g, x))
            more = more - more.mean(dim=1, keepdim=True)
        h = F.relu(self.fc(torch.cat([x, more], dim=1)))
        return self.conv(g, h)

    conv = dglnn.GraphConv(HID, OUT)
    return Case(Function(body, fc=nn.Linear(2 * IN, HID), conv=conv))


@transformed("S² x")
def checkpointed_layers():
    def body(self, g, x):
        for fc in self.layers:
            x = checkpoint(
                lambda h, fc=fc: torch.tanh(normed(g, fc(h))),
                x,
                use_reentrant=False,
            )
        return x

    layers = nn.ModuleList([nn.Linear(IN, HID), nn.Linear(HID, OUT)])
    return Case(Function(body, layers=layers))


@transformed("S² x")
def maxout():
    def body(self, g, x):
        h = self.a(g, x).view(-1, HID, 2).max(dim=-1).values
        return self.b(g, h)

    a, b = dglnn.GraphConv(IN, 2 * HID), dglnn.GraphConv(HID, OUT)
    return Case(Function(body, a=a, b=b))


@transformed("S² x")
def largest_columns_only():
    def largest(self, h):
        values, places = h.topk(4, dim=1)
        return torch.zeros_like(h).scatter(1, places, values)

    return between(largest)


@transformed("S² x")
def mask_by_scatter():
    def masked(self, h):
        mask = torch.zeros_like(h)
        mask.scatter_(1, h.topk(4, dim=1).indices, 1.0)
        return h * mask

    return between(masked)


@transformed("S² x")
def dropout_inside_an_if():
    def drop(self, h):
        h = F.relu(h)
        if self.training:
            h = F.dropout(h, p=0.5)
        return h

    return between(drop)


@transformed("S² x")
def hooks_on_layers():
    case = between(lambda self, h: h.relu())
    case.model.a.register_forward_hook(lambda module, args, result: result * 2)
    return case


@transformed("x", "S x")
def similarity_gate():
    def body(self, g, x):
        h = self.fc(x)
        there = normed(g, h)
        gate = F.cosine_similarity(h, there, dim=-1).unsqueeze(-1)
        return self.out(gate * there + (1 - gate) * h)

    return Case(Function(body, fc=nn.Linear(IN, HID), out=nn.Linear(HID, OUT)))


@transformed("x", "S x")
def less_common_functions():
    def body(self, g, x):
        a, b = self.a(x), self.b(x)
        h = torch.addcmul(a, b, b, value=0.5)
        h = torch.lerp(h, normed(g, h), self.weight)
        h = torch.logaddexp(h, -h)
        return self.out(F.softplus(h) - torch.logsumexp(h, 1, keepdim=True))

    return Case(
        Function(
            body,
            a=nn.Linear(IN, HID),
            b=nn.Linear(IN, HID),
            weight=nn.Parameter(torch.rand(HID)),
            out=nn.Linear(HID, OUT),
        )
    )


@transformed("x", "S x", "S² x", exact=True)
def weights_computed_from_others():
    def body(self, g, x):
        weight = (self.left @ self.right).softmax(dim=0)
        steps = torch.softmax(self.steps, dim=0)
        hops = hops_of(g, x @ weight, 2)
        return sum(w * h for w, h in zip(steps, hops, strict=True))

    return Case(
        Function(
            body,
            left=nn.Parameter(torch.randn(IN, 2)),
            right=nn.Parameter(torch.randn(2, OUT)),
            steps=nn.Parameter(torch.randn(3)),
        )
    )


@transformed("x", "S x", "S² x")
def raw_features_at_every_layer():
    def body(self, g, x):
        h = x
        for conv in self.convs:
            h = torch.cat((conv(g, h).relu(), x), dim=-1)
        return self.out(h)

    convs = [dglnn.GraphConv(IN, HID), dglnn.GraphConv(HID + IN, HID)]
    return Case(
        Function(body, convs=nn.ModuleList(convs), out=nn.Linear(HID + IN, OUT))
    )


@refused("unsqueeze", "is a mask of nodes")
def mask_of_nodes():
    def body(self, g, x):
        h = self.a(g, x)
        some = (g.in_degrees() > 3).unsqueeze(1)
        return self.b(g, torch.where(some, h, 0.5 * h))

    a, b = gcn()
    return Case(Function(body, a=a, b=b))


@refused("a write into some of the rows", "changes rows")
def first_rows_written():
    def body(self, g, x):
        h = self.a(g, x)
        h[:10] = 0
        return self.b(g, h)

    a, b = gcn()
    return Case(Function(body, a=a, b=b))
