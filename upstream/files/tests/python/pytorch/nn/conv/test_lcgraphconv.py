import backend as F

import dgl
import dgl.nn.pytorch as nn
import pytest
import torch as th
from dgl import DGLError
from utils import parametrize_idtype
from utils.graph_cases import get_cases


def compute_hops(g, feat, num_hops, norm):
    """Return the list of S^0 X ... S^K X for the filter S of GraphConv."""
    aggregate = nn.GraphConv(
        0, 0, norm=norm, weight=False, bias=False, allow_zero_in_degree=True
    )
    hops = [feat]
    for _ in range(num_hops):
        hops.append(aggregate(g, hops[-1]))
    return hops


def make_pair(in_feats, out_feats, **kwargs):
    """Return a GraphConv and an LCGraphConv with the same parameters."""
    kwargs["allow_zero_in_degree"] = True
    conv = nn.GraphConv(in_feats, out_feats, **kwargs).to(F.ctx())
    lc_conv = nn.LCGraphConv(in_feats, out_feats, **kwargs).to(F.ctx())
    if conv.bias is not None:
        th.nn.init.uniform_(conv.bias)
    lc_conv.load_state_dict(conv.state_dict())
    return conv, lc_conv


def close(x, y):
    return th.allclose(x, y, rtol=1e-4, atol=1e-4)


@parametrize_idtype
@pytest.mark.parametrize("g", get_cases(["homo"]))
@pytest.mark.parametrize("norm", ["none", "both", "right", "left"])
@pytest.mark.parametrize("bias", [True, False])
def test_one_layer_is_graph_conv(g, idtype, norm, bias):
    g = g.astype(idtype).to(F.ctx())
    feat = F.randn((g.num_nodes(), 5))
    conv, lc_conv = make_pair(
        5, 3, norm=norm, bias=bias, activation=th.nn.functional.relu
    )
    hops = compute_hops(g, feat, 1, norm)
    assert close(lc_conv(g, hops), conv(g, feat))


@parametrize_idtype
@pytest.mark.parametrize("g", get_cases(["homo"]))
@pytest.mark.parametrize("norm", ["none", "both", "right", "left"])
def test_linear_layers_are_graph_convs(g, idtype, norm):
    g = g.astype(idtype).to(F.ctx())
    feat = F.randn((g.num_nodes(), 5))
    conv1, lc_conv1 = make_pair(5, 4, norm=norm, bias=False)
    conv2, lc_conv2 = make_pair(4, 3, norm=norm)
    hops = compute_hops(g, feat, 2, norm)
    expected = conv2(g, conv1(g, feat))
    assert close(lc_conv2(g, lc_conv1(g, hops)), expected)
    # the graph is not needed
    assert close(lc_conv2(None, lc_conv1(None, hops)), expected)


@pytest.mark.parametrize("g", get_cases(["homo"], exclude=["zero-degree"]))
def test_layers_act_on_rows(g):
    g = g.to(F.ctx())
    feat = F.randn((g.num_nodes(), 5))
    hops = compute_hops(g, feat, 3, "both")
    conv1 = nn.LCGraphConv(5, 4, activation=th.relu).to(F.ctx())
    conv2 = nn.LCGraphConv(4, 3).to(F.ctx())
    hidden = conv1(g, hops)
    rst = conv2(g, hidden)
    assert len(hidden) == 3 and len(rst) == 2
    for k in range(2):
        h = th.relu(hops[k + 2] @ conv1.weight + conv1.bias)
        assert close(rst[k], h @ conv2.weight + conv2.bias)

    # one tensor of hops gives one tensor of hops
    assert close(conv2(g, conv1(g, th.stack(hops))), th.stack(rst))
    # hops that are not needed may be missing
    rows = th.tensor([2, 0], device=F.ctx())
    batch = [None, None, hops[2][rows]]
    assert close(conv2(None, conv1(None, batch)), rst[0][rows])


def test_gradients():
    g = dgl.add_self_loop(dgl.rand_graph(20, 60)).to(F.ctx())
    feat = F.randn((20, 5))
    conv, lc_conv = make_pair(5, 3)
    conv(g, feat).square().sum().backward()
    lc_conv(g, compute_hops(g, feat, 1, "both")).square().sum().backward()
    assert close(conv.weight.grad, lc_conv.weight.grad)
    assert close(conv.bias.grad, lc_conv.bias.grad)


def test_external_weight():
    hops = [F.randn((4, 5)), F.randn((4, 5))]
    weight = F.randn((5, 3))
    conv = nn.LCGraphConv(5, 3, weight=False, bias=False).to(F.ctx())
    assert close(conv(None, hops), hops[1])
    assert close(conv(None, hops, weight=weight), hops[1] @ weight)
    with pytest.raises(DGLError, match="weight=False"):
        nn.LCGraphConv(5, 3).to(F.ctx())(None, hops, weight=weight)


@pytest.mark.parametrize(
    "feat, message",
    [
        (th.ones(4, 5), "shape"),
        ("features", "str"),
        ([th.ones(4, 5)], "too few hops"),
        ([th.ones(4, 5), None], "too few hops"),
        ([th.ones(4, 6), th.ones(4, 6)], "6 columns"),
    ],
)
def test_wrong_hops(feat, message):
    with pytest.raises(DGLError, match=message):
        nn.LCGraphConv(5, 3)(None, feat)


def test_wrong_norm():
    with pytest.raises(DGLError, match="norm"):
        nn.LCGraphConv(5, 3, norm="all")


def test_print():
    conv = nn.LCGraphConv(5, 3, activation=th.relu)
    conv.set_allow_zero_in_degree(True)
    assert "in=5, out=3, normalization=both, activation=" in str(conv)
