"""Input, output and configuration of every model."""

import numpy as np
import pytest
import torch
from dgl import DGLError
from model_cases import (
    EVERY,
    IN,
    MODELS,
    make,
    make_feat,
    make_graph,
    powers,
)
from scipy import sparse

import dgl_lc
from dgl_lc import block_aggregate, nn
from dgl_lc.nn.several_filters import SeveralFilters
from dgl_lc.training import predict

graph, feat = pytest.fixture(make_graph), pytest.fixture(make_feat)
ONE_FILTER = pytest.mark.parametrize(
    "name",
    [name for name in MODELS if not isinstance(make(name), SeveralFilters)],
)


@EVERY
def test_a_batch_gives_the_same_rows(name, graph, feat):
    model = make(name)
    inputs = model.precompute(graph, feat)
    ids = torch.tensor([7, 0, 12])
    assert len(inputs) == model.num_inputs
    batch = inputs.rows(ids)
    expected = model(graph, feat)[ids]
    torch.testing.assert_close(model(None, batch), expected)
    asked = model.precompute(graph, feat, nodes=ids)
    torch.testing.assert_close(model(None, asked), expected)
    torch.testing.assert_close(predict(model, asked, ids[:2]), expected[:2])


@EVERY
def test_the_graph_can_be_a_matrix_or_a_pair(name, graph, feat):
    model = make(name)
    wanted = list(model.precompute(graph, feat))
    source, target = (ends.numpy() for ends in graph.edges())
    ones = np.ones(len(source))
    for given_as in (
        (source, target),
        sparse.coo_matrix((ones, (source, target)), shape=(len(feat),) * 2),
    ):
        found = list(model.precompute(given_as, feat))
        assert all(map(torch.equal, found, wanted))
        with pytest.raises(DGLError, match=r"model\.precompute\(graph, feat"):
            model(given_as, feat)


@EVERY
def test_nodes_can_be_a_mask(name, graph, feat):
    model = make(name)
    ids = torch.tensor([0, 7, 12])
    wanted = model(None, model.precompute(graph, feat, nodes=ids))
    mask = torch.zeros(graph.num_nodes(), dtype=torch.bool)
    mask[ids] = True
    for nodes in (mask, mask.numpy(), mask.tolist()):
        found = model.precompute(graph, feat, nodes=nodes)
        assert found.nodes.tolist() == ids.tolist()
        assert torch.equal(model(None, found), wanted)
    with pytest.raises(DGLError, match="nodes is a mask of 2 entries"):
        model.precompute(graph, feat, nodes=[True, False])


def needed_alone(tensors, hops):
    """A list whose places are the hops, with None for the others."""
    found = [None] * (hops[-1] + 1)
    for hop, tensor in zip(hops, tensors, strict=True):
        found[hop] = tensor
    return found


@ONE_FILTER
def test_a_place_in_a_plain_sequence_is_its_hop(name, graph, feat):
    model = make(name)
    every = powers(graph, feat, model.hops[-1])
    expected = model(graph, feat)
    ids = torch.tensor([7, 0, 12])
    alone = needed_alone(list(model.precompute(graph, feat)), model.hops)
    for given in (every, tuple(every), torch.stack(every), alone):
        torch.testing.assert_close(model(None, given), expected)
    more = [*every, torch.full_like(feat, torch.nan)]
    assert torch.equal(model(None, more), model(None, every))
    batch = torch.stack(every)[:, ids]
    torch.testing.assert_close(model(None, batch), expected[ids])


@pytest.mark.parametrize("name", ["FSGNN", "FSGNN hidden", "LCH2GCN"])
def test_a_sequence_of_inputs_of_several_filters(name, graph, feat):
    model = make(name)
    inputs = list(model.precompute(graph, feat))
    expected = model(graph, feat)
    for given in (inputs, tuple(inputs), torch.stack(inputs)):
        torch.testing.assert_close(model(None, given), expected)
    with pytest.raises(DGLError, match="sequence of 2"):
        model(None, [feat, feat])
    with pytest.raises(DGLError, match="has hops"):
        model(None, [None, *inputs[1:]])


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("LCJKNet cat", 3, r"\[0, 1, 2\].*hops \[1, 2, 3\].*"
         r"\[None, x1, x2, x3\].*HopFeatures\(tensors, hops=\[1, 2, 3\]"),
        ("LCGCN", 1, r"hops \[0\].*\[None, None, None, x3\].*hops=\[3\]"),
        ("SGC", 1, r"hops \[0\].*\[None, None, None, x3\].*hops=\[3\]"),
        ("LCMixHop", 6, r"hops \[0, 1, 2, 3, 4, 5\].*"
         r"\[x0, x1, x2, x3, x4, None, x6\].*hops=\[0, 1, 2, 3, 4, 6\]"),
        ("LCGPRGNN", 3, r"hops \[0, 1, 2\].*\[x0, x1, x2, x3\]"),
        ("LCJKNet cat", 2, r"hops \[0, 1\].*\[None, x1, x2, x3\]"),
        ("LCGPRGNN", 0, r"hops \[\], .*\[x0, x1, x2, x3\]"),
    ],
)  # fmt: skip
def test_a_sequence_that_lacks_a_hop_is_refused(
    name, count, message, stacked, feat
):
    model = make(name)
    given = [feat] * count
    if stacked:
        given = feat.expand(count, *feat.shape)
    with pytest.raises(DGLError, match=message):
        model(None, given)


def test_hops_that_a_sequence_says_it_lacks_are_refused(feat):
    with pytest.raises(DGLError, match=r"hops \[1, 3\]"):
        make("LCJKNet cat")(None, [None, feat, None, feat])


def test_the_advice_for_a_sequence_works(graph, feat):
    model = make("LCJKNet cat")
    tensors = list(model.precompute(graph, feat))
    with pytest.raises(DGLError, match="HopFeatures") as error:
        model(None, tensors)
    advice = "dgl_lc.HopFeatures(tensors, hops=[1, 2, 3], filter=model.filter)"
    assert advice in str(error.value)
    named = dgl_lc.HopFeatures(tensors, hops=[1, 2, 3], filter=model.filter)
    torch.testing.assert_close(model(None, named), model(graph, feat))


@ONE_FILTER
def test_other_things_in_a_sequence_are_named(name, feat):
    model = make(name)
    last = model.hops[-1]
    with pytest.raises(DGLError, match=r"shape \(12, 4\)|in_feats"):
        model(None, [*[feat] * last, feat[1:, :-1]])
    with pytest.raises(DGLError, match="ndarray"):
        model(None, [*[feat] * last, feat.numpy()])
    with pytest.raises(DGLError, match=r"shape \(1, 13, 5\)"):
        model(None, [*[feat] * last, feat[None]])


@EVERY
def test_reset_parameters_resets_all_of_them(name):
    made = MODELS[name]()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.fill_(7.0)
    made.reset_parameters()
    for key, parameter in made.named_parameters():
        assert not (parameter == 7.0).any(), key


@EVERY
def test_a_model_is_made_again_from_its_config(name):
    made = MODELS[name]()
    again = type(made)(**made.config)
    assert again.config == made.config
    again.load_state_dict(made.state_dict())
    assert repr(again) == repr(made)


@EVERY
def test_wrong_input_is_named(name, graph, feat):
    model = make(name)
    with pytest.raises(DGLError, match="needs a DGLGraph"):
        model(None, feat)
    with pytest.raises(DGLError, match="in_feats=5"):
        model(graph, feat[:, :4])
    with pytest.raises(DGLError, match="feat should be"):
        model(graph, "x")


def test_hops_of_another_filter_are_refused(graph, feat):
    hops = block_aggregate(graph, feat, 3, norm="right")
    with pytest.raises(DGLError, match="norm='right'"):
        make("SGC")(None, hops)
    hops = block_aggregate(graph, feat, 3, self_loop=False)
    with pytest.raises(DGLError, match="self_loop=False"):
        make("LCGPRGNN")(None, hops)
    with pytest.raises(DGLError, match="several filters, but feat is Hop"):
        make("FSGNN")(None, hops)
    inputs = make("FSGNN").precompute(graph, feat)
    with pytest.raises(DGLError, match="one filter, but feat is ModelInputs"):
        make("SGC")(None, inputs)
    with pytest.raises(DGLError, match="got ModelInputs"):
        nn.LCGraphConv(IN, 2)(None, inputs)


def test_inputs_of_another_model_are_refused(graph, feat):
    fsgnn, h2gcn = nn.FSGNN(IN, 4, 3, K=3), nn.LCH2GCN(IN, 4, 3, K=2)
    assert fsgnn.num_inputs == h2gcn.num_inputs
    inputs = fsgnn.precompute(graph, feat)
    with pytest.raises(DGLError, match=r"of another model.*\"S1 features"):
        h2gcn(None, inputs)
    for other in ({"K": 2}, {"K": 4}, {"norm": "right"}):
        with pytest.raises(DGLError, match=r"FSGNN reads .*hop"):
            nn.FSGNN(IN, 4, 3, **{"K": 3, **other})(None, inputs)


def test_hops_that_are_lacking_are_named(graph, feat):
    hops = block_aggregate(graph, feat, 2)
    with pytest.raises(DGLError, match=r"lack \[3\].*K=3"):
        make("LCJKNet cat")(None, hops)


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: nn.LCJKNet(3, 3, 3, mode="lstm"), "mode='lstm'"),
        (lambda: nn.LCGPRGNN(3, 3, 3, K=-1), "K=-1"),
        (lambda: nn.LCGPRGNN(3, 3, 3, alpha=2), "alpha=2"),
        (lambda: nn.LCGCN(3, 0, 3), "hid_feats=0"),
        (lambda: nn.LCMixHop(3, 3, 3, p=(1, 1)), "different powers"),
        (lambda: nn.LCGCN(3, 3, 3, activation="relux"), "'relux'"),
        (lambda: nn.SGC(3, 3, norm="up"), "norm='up'"),
        (lambda: nn.SGC(128, 16, 8), "got 8 as well. It has no hidden"),
        (lambda: nn.FSGNN(3, 3, 3, num_layers=4), "num_layers=4"),
        (lambda: nn.FSGNN(3, 3, 3, dropout2=0.5), "num_layers=3"),
    ],
)
def test_wrong_arguments_are_named(make_it, message):
    with pytest.raises(DGLError, match=message):
        make_it()


def test_features_that_want_gradients_are_refused(graph, feat):
    with pytest.raises(DGLError, match="requires"):
        make("SGC")(graph, feat.requires_grad_())
