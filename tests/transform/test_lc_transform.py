"""The call and its options."""

import copy
import io
import threading

import dgl
import pytest
import torch
import torch.nn.functional as F
from conftest import make_features
from dgl import nn as dglnn
from test_zoo import random_graph, randomised
from torch import nn
from zoo import HID, IN, OUT, ZOO, Function, Layers, gcn

import dgl_lc.nn as lcnn
from dgl_lc import LCError, lc_transform
from dgl_lc.data import block_model
from dgl_lc.experiments import originals
from dgl_lc.training import fit, predict
from dgl_lc.transform.tracing import dgl_hooks


@pytest.fixture(autouse=True)
def _double():
    """APPNPConv makes edge weights of torch's default type."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def graph():
    return dgl.add_self_loop(dgl.remove_self_loop(random_graph()))


@pytest.fixture
def feat():
    return make_features(60, IN, dtype=torch.float64)


# The same functions as the modules of dgl_lc.nn


def agree(original, lc_model, graph, feat):
    randomised(original).double().eval()
    named = dict(original.named_parameters())
    with torch.no_grad():
        for name, mine in lc_model.named_parameters():
            prefix = name.rpartition(".")[0]
            turned = (
                isinstance(original.get_submodule(prefix), dglnn.GraphConv)
                and isinstance(lc_model.get_submodule(prefix), nn.Linear)
                and mine.dim() == 2
            )
            mine.copy_(named[name].T if turned else named[name])
    lc_model.double().eval()
    lc = lc_transform(original, graph, feat)
    found = lc.module(*lc.precompute(graph, feat))
    torch.testing.assert_close(found, lc_model(graph, feat))
    return lc


def test_gcn_is_lcgcn(graph, feat):
    original = originals.GCN(IN, HID, OUT, num_layers=3)
    lc = agree(original, lcnn.LCGCN(IN, HID, OUT, 3), graph, feat)
    assert [str(entry) for entry in lc.inputs] == ["S³ x"]


@pytest.mark.parametrize("mode", ["cat", "max"])
def test_jknet_is_lcjknet(graph, feat, mode):
    original = originals.JKNet(IN, HID, OUT, 3, mode)
    model = lcnn.LCJKNet(IN, HID, OUT, 3, mode)
    lc = agree(original, model, graph, feat)
    assert [str(entry) for entry in lc.inputs] == ["S x", "S² x", "S³ x"]


def test_gprgnn_is_lcgprgnn(graph, feat):
    original = originals.GPRGNN(IN, HID, OUT, K=3, num_layers=2)
    model = lcnn.LCGPRGNN(IN, HID, OUT, K=3, num_layers=2)
    randomised(original).double().eval()
    with torch.no_grad():
        model.gamma.copy_(original.gamma)
        for mine, its in zip(model.mlp.layers, original.layers, strict=True):
            mine.load_state_dict(its.state_dict())
    lc = lc_transform(original, graph, feat)
    found = lc.module(*lc.precompute(graph, feat))
    torch.testing.assert_close(found, model.double().eval()(graph, feat))


def test_appnp_is_lcappnp(graph, feat):
    original = ZOO["appnp"]().model
    randomised(original).double().eval()
    model = lcnn.LCAPPNP(IN, HID, OUT, K=4, alpha=0.1)
    with torch.no_grad():
        for mine, its in zip(
            model.mlp.layers, (original.fc1, original.fc2), strict=True
        ):
            mine.load_state_dict(its.state_dict())
    lc = lc_transform(original, graph, feat)
    found = lc.module(*lc.precompute(graph, feat))
    torch.testing.assert_close(
        found, model.double().eval()(graph, feat), rtol=1e-5, atol=1e-6
    )
    assert len(lc.inputs) == 5


def test_mixhop_is_lcmixhop(graph, feat):
    original = ZOO["mixhop"]().model
    for fcs in original.layers:
        for fc in fcs:
            fc.bias = None
    original.out.bias = None
    randomised(original).double().eval()
    model = lcnn.LCMixHop(IN, HID, OUT, p=(0, 1, 2))
    with torch.no_grad():
        for mine, its in zip(model.layers, original.layers, strict=True):
            for a, b in zip(mine.values(), its, strict=True):
                a.weight.copy_(b.weight)
        model.output.weight.copy_(original.out.weight)
    lc = lc_transform(original, graph, feat)
    found = lc.module(*lc.precompute(graph, feat))
    torch.testing.assert_close(found, model.double().eval()(graph, feat))


def test_h2gcn_is_lch2gcn(graph, feat):
    from dgl_lc.precompute.two_hop import one_hop_graph, two_hop_graph

    near = one_hop_graph(graph)
    far = two_hop_graph(near)

    def body(self, near, far, x):
        h = F.relu(self.embedding(x))
        rounds = [h]
        for _ in range(2):
            last = rounds[-1]
            parts = [self.conv(g, last) for g in (near, far)]
            rounds.append(torch.cat(parts, dim=1))
        return self.output(torch.cat(rounds, dim=1))

    model = lcnn.LCH2GCN(IN, HID, OUT, K=2)
    conv = dglnn.GraphConv(
        HID, HID, weight=False, bias=False, allow_zero_in_degree=True
    )
    original = Function(
        body, conv=conv, embedding=model.embedding, output=model.output
    )
    randomised(original).double().eval()
    lc = lc_transform(original, near, far, feat)
    assert len(lc.inputs) == 7
    found = lc.module(*lc.precompute(near, far, feat))
    expected = model.double().eval()(graph, feat)
    # The order of the words may be another: that of the output's columns.
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected)


# Options


def test_fold_makes_one_filter_of_appnp(graph, feat):
    model = ZOO["appnp"]().model.double().eval()
    lc = lc_transform(model, graph, feat, fold=True)
    assert len(lc.inputs) == 1
    assert lc.report.folded == 1
    powers = lc_transform(model, graph, feat).precompute(graph, feat)
    weights = [0.1, 0.09, 0.081, 0.0729, 0.6561]
    expected = sum(w * p for w, p in zip(weights, powers, strict=True))
    (found,) = lc.precompute(graph, feat)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_exact_bias_is_exact_where_nothing_else_differs(graph, feat):
    g = random_graph()
    model = randomised(Layers(*gcn(), activation=lambda h: h)).double()
    outside = lc_transform(model, g, feat)
    assert not outside.report.exact
    lc = lc_transform(model, g, feat, bias="exact")
    assert lc.report.exact
    found = lc.module(*lc.precompute(g, feat))
    torch.testing.assert_close(found, model(g, feat))
    extra = [entry for entry in lc.inputs if entry.columns == 1]
    assert len(extra) == 1


def test_exact_bias_of_linear_layers(feat):
    g = random_graph()
    model = ZOO["sgc_cached_after_mlp"]().model
    model.body = lambda self, g, x: self.conv(g, self.fc(x))
    randomised(model).double()
    lc = lc_transform(model, g, feat, bias="exact")
    found = lc.module(*lc.precompute(g, feat))
    torch.testing.assert_close(found, model(g, feat))


def test_unknown_bias_option(graph, feat):
    with pytest.raises(LCError, match="is not an option"):
        lc_transform(Layers(*gcn()).double(), graph, feat, bias="no")


def test_copy_is_independent(graph, feat):
    model = Layers(*gcn()).double()
    lc = lc_transform(model, graph, feat, copy=True)
    inputs = lc.precompute(graph, feat)
    before = lc.module(*inputs)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    torch.testing.assert_close(lc.module(*inputs), before)


def test_shared_parameters_are_trained(graph, feat):
    model = Layers(*gcn()).double()
    lc = lc_transform(model, graph, feat)
    lc.module(*lc.precompute(graph, feat)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_module_can_be_saved_and_copied(graph, feat):
    model = Layers(*gcn()).double().eval()
    lc = lc_transform(model, graph, feat)
    inputs = lc.precompute(graph, feat)
    expected = lc.module(*inputs)
    torch.testing.assert_close(copy.deepcopy(lc.module)(*inputs), expected)
    file = io.BytesIO()
    torch.save(lc.module.state_dict(), file)
    file.seek(0)
    other = Layers(*gcn()).double().eval()
    loaded = lc_transform(other, graph, feat)
    loaded.module.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(loaded.module(*inputs), expected)


def test_code_reads_like_the_models(graph, feat):
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    assert "def forward(self, s2_x)" in lc.code
    assert "self.convs" in lc.code
    assert lc.code.count(" @ ") == 2
    assert "None" not in lc.code


def test_report_says_what_makes_the_difference(graph, feat):
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    text = str(lc.report)
    assert "S² x" in text
    assert "non-linear: relu" in text
    assert lc.report.columns == IN
    assert lc.report.bytes == 60 * IN * 8
    assert not lc.report.exact
    linear = lc_transform(
        Layers(*gcn(bias=False), activation=lambda h: h).double(), graph, feat
    )
    assert linear.report.exact
    assert "exact" in str(linear.report)


def test_each_operation_is_called_once(graph, feat):
    lc = lc_transform(ZOO["gprgnn"]().model.double(), graph, feat)
    called = [n.target for n in lc.module.graph.nodes if n.op == "call_module"]
    assert sorted(called) == ["fc1", "fc2"]


def test_batch_norm_pools_over_words(graph, feat):
    def body(self, g, x):
        h = torch.relu(self.norm(self.fc(x)))
        return h + self.conv(g, h)

    model = Function(
        body,
        fc=nn.Linear(IN, HID),
        norm=nn.BatchNorm1d(HID),
        conv=dglnn.GraphConv(HID, HID),
    ).double()
    lc = lc_transform(model, graph, feat)
    lc.module.train()
    inputs = lc.precompute(graph, feat)
    lc.module(*inputs)
    assert int(model.norm.num_batches_tracked) == 1
    rows = model.fc(torch.cat(list(inputs)))
    expected = 0.1 * rows.mean(0)
    torch.testing.assert_close(model.norm.running_mean, expected)


def test_memory_is_a_promise(graph, feat):
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    with pytest.raises(dgl.DGLError, match="memory"):
        lc.precompute(graph, feat, memory=100)
    lc.precompute(graph, feat, memory="64MiB")


def test_memory_counts_what_is_made_on_the_way(graph, feat):
    class Scaled(nn.Module):
        """Rows scaled by hand, so that the engine has no norm for it."""

        def forward(self, g, x):
            scale = (1.0 + g.in_degrees()).pow(-0.3).unsqueeze(1)
            h = dgl.ops.copy_u_sum(g, x * scale) * scale
            return dgl.ops.copy_u_sum(g, h.relu() * scale)

    wide = feat.repeat(1, 4096)
    lc = lc_transform(Scaled(), graph, wide)
    with pytest.raises(dgl.DGLError, match="what they are made of"):
        lc.precompute(graph, wide, memory=wide.nbytes // 2)


def test_threads_are_as_many_as_before(graph, feat):
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        lc_transform(Layers(*gcn()).double(), graph, feat)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_storage_type(graph, feat):
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    (rows,) = lc.precompute(graph, feat, dtype=torch.float16)
    assert rows.dtype == torch.float16
    expected = lc.module(rows.double())
    assert torch.equal(lc.module(rows), expected)


def test_another_graph_of_the_same_kind(graph, feat):
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    g = dgl.add_self_loop(random_graph(30, 90))
    inputs = lc.precompute(g, feat[:30])
    assert lc.module(*inputs).shape == (30, OUT)


def test_a_graph_on_which_the_model_would_stop(graph, feat):
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    isolated = dgl.graph(([0, 1], [1, 0]), num_nodes=60)
    with pytest.raises(LCError, match="branch"):
        lc.precompute(isolated, feat)
    with pytest.raises(LCError, match="branch"):
        lc_transform(Layers(*gcn()).double(), isolated, feat)


def test_branch_on_the_number_of_nodes_is_checked_on_the_graph(feat):
    def body(self, g, x):
        h = self.a(g, x)
        return h if g.num_nodes() < 500 else h * 2

    model = Function(body, a=dglnn.GraphConv(IN, OUT)).double()
    small, large = random_graph(60), random_graph(700, 3000)
    lc = lc_transform(model, small, feat)
    assert len(lc.inputs) == 1
    x = make_features(700, IN, dtype=torch.float64)
    with pytest.raises(LCError, match="branch"):
        lc_transform(model, large, x)
    with pytest.raises(LCError, match="branch"):
        lc.precompute(large, x)


def test_heterographs_and_blocks_are_refused(feat):
    model = Layers(*gcn()).double()
    hetero = dgl.heterograph(
        {("a", "to", "b"): ([0], [1]), ("b", "to", "a"): ([1], [0])}
    )
    with pytest.raises(LCError, match="heterograph"):
        lc_transform(model, hetero, feat)
    block = dgl.to_block(random_graph(), torch.arange(60))
    with pytest.raises(LCError, match="block"):
        lc_transform(model, block, feat)


def test_what_is_not_a_model(graph, feat):
    with pytest.raises(LCError, match="Module"):
        lc_transform(torch.relu, graph, feat)
    with pytest.raises(LCError, match="graph"):
        lc_transform(Layers(*gcn()), feat)


def test_the_model_is_left_as_it_was(graph, feat):
    model = ZOO["gcn_batch_norm_residual"]().model.double().train()
    before = copy.deepcopy(model.state_dict())
    columns = set(graph.ndata), set(graph.edata)
    state = torch.get_rng_state()
    lc_transform(model, graph, feat)
    assert torch.equal(state, torch.get_rng_state())
    assert (set(graph.ndata), set(graph.edata)) == columns
    assert model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


# Training


def test_fit_trains_it_like_an_lc_module():
    data = block_model(600, seed=1)
    g = dgl.add_self_loop(dgl.remove_self_loop(data.graph))
    feat = data.feat.double()
    scores = []
    for make in (
        lambda: originals.GCN(data.num_feats, 16, data.num_classes),
        lambda: originals.JKNet(data.num_feats, 16, data.num_classes),
    ):
        torch.manual_seed(0)
        lc = lc_transform(make(), g, feat)
        inputs = lc.precompute(g, feat)
        found = fit(
            lc.module, inputs, data.labels, data.train, data.valid, epochs=40
        )
        scores.append(found.valid_accuracy)
        logits = predict(lc.module, inputs, data.valid)
        assert logits.shape == (len(data.valid), data.num_classes)
    torch.manual_seed(0)
    peer = lcnn.LCGCN(data.num_feats, 16, data.num_classes)
    found = fit(
        peer, peer.precompute(g, feat), data.labels, data.train,
        data.valid, epochs=40,
    )  # fmt: skip
    assert min(scores) > found.valid_accuracy - 0.1


def test_loader_gives_batches(graph, feat):
    lc = lc_transform(ZOO["jknet_cat"]().model.double(), graph, feat)
    inputs = lc.precompute(graph, feat)
    labels = torch.arange(60)
    loader = lc.loader(inputs, torch.arange(60), labels, batch_size=32)
    for batch, target in loader:
        assert lc.module(*batch).shape[0] == len(target)
        assert lc.module(None, batch).shape[0] == len(target)


# Patching


def test_patches_are_undone_also_after_an_error(graph, feat):
    before = dgl_hooks._spmm.gspmm_internal
    call = nn.Module.__call__
    lc_transform(Layers(*gcn()).double(), graph, feat)
    with pytest.raises(LCError):
        lc_transform(ZOO["gat"]().model.double(), graph, feat)
    assert dgl_hooks._spmm.gspmm_internal is before
    assert nn.Module.__call__ is call
    assert torch._C._len_torch_function_stack() == 0


def test_other_threads_are_not_traced(graph, feat):
    model = Layers(*gcn()).double().eval()
    expected = model(graph, feat)
    stop, wrong, count = threading.Event(), [], [0]

    def work():
        g = dgl.add_self_loop(dgl.remove_self_loop(random_graph()))
        while not stop.is_set():
            if not torch.equal(model(g, feat), expected):
                wrong.append(1)
            count[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        results = []
        threads = [
            threading.Thread(
                target=lambda: results.append(
                    lc_transform(model, graph, feat).inputs
                )
            )
            for _ in range(3)
        ]
        for other in threads:
            other.start()
        for other in threads:
            other.join()
    finally:
        stop.set()
        thread.join()
    assert len(results) == 3
    assert not wrong
    assert count[0]


# Size


def test_three_layers_are_transformed(graph, feat):
    model = Layers(*gcn(layers=3)).double()
    lc_transform(model, graph, feat)


def test_gcnii_of_32_layers_is_transformed(graph, feat):
    model = ZOO["gcnii"]().model
    model.convs = nn.ModuleList(
        dglnn.GCN2Conv(256, layer=i + 1, alpha=0.1) for i in range(32)
    )
    model.fc_in, model.fc_out = nn.Linear(IN, 256), nn.Linear(256, OUT)
    model.float()
    feat = feat.float()
    lc = lc_transform(model, graph, feat)
    assert len(lc.inputs) == 33
