"""ShaDow-GAT: what it computes, what it may see, what is refused."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from torch import nn

from dgl_lc.data import NodeData, block_model
from dgl_lc.experiments.shadow import ShaDowGAT, fit_shadow, predict_shadow

DATA = block_model(
    300, 4, 16, avg_degree=8, homophily=0.8, seed=2
)  # fmt: skip
ALL = (-1, -1)


def make(**options):
    torch.manual_seed(0)
    return ShaDowGAT(DATA.num_feats, 16, DATA.num_classes, **options)


def tiny(inductive=False):
    """A directed ring of eight nodes with chords; feat holds the ids."""
    source = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 0, 6, 3, 5])
    target = torch.tensor([1, 2, 3, 4, 5, 6, 7, 0, 3, 1, 1, 2])
    ids = torch.arange(8)
    return NodeData(
        dgl.graph((source, target)),
        torch.cat([ids[:, None], torch.randn(8, 15)], dim=1),
        ids % 2,
        ids[:4],
        ids[4:6],
        ids[6:],
        num_classes=2,
        name="tiny",
        inductive=inductive,
    )


def accuracy(model, apart):
    logits = predict_shadow(model, DATA, DATA.test, fanouts=(5, 5), apart=apart)
    return float((logits.argmax(1) == DATA.labels[DATA.test]).float().mean())


@pytest.mark.parametrize(("apart", "epochs"), [(True, 4), (False, 12)])
def test_it_learns(apart, epochs):
    model = make()
    before = accuracy(model, apart)
    found = fit_shadow(
        model, DATA, fanouts=(5, 5), apart=apart, batch_size=32,
        epochs=epochs, lr=0.02,
    )  # fmt: skip
    assert accuracy(model, apart) > max(before, 1 / DATA.num_classes) + 0.25
    assert list(found.history.columns) == [
        "train_loss", "valid_loss", "valid_accuracy", "train_seconds",
        "seconds",
    ]  # fmt: skip
    assert found.history.index.tolist() == list(range(1, epochs + 1))


@pytest.mark.parametrize("pooling", [None, "mean", "max"])
def test_a_root_does_not_depend_on_the_others_of_its_batch(pooling):
    model, nodes = make(pooling=pooling), DATA.test[:12]
    wide = predict_shadow(model, DATA, nodes, fanouts=ALL)
    for batch_size in (1, 5):
        found = predict_shadow(
            model, DATA, nodes, fanouts=ALL, batch_size=batch_size
        )
        torch.testing.assert_close(found, wide)
    some = predict_shadow(model, DATA, nodes[[7, 2, 7]], fanouts=ALL)
    torch.testing.assert_close(some, wide[[7, 2, 7]])


def test_a_shared_subgraph_is_the_same_up_to_as_many_layers_as_fanouts():
    nodes = DATA.test[:12]
    for num_layers, same in ((2, True), (3, False)):
        model = make(num_layers=num_layers)
        apart, shared = (
            predict_shadow(model, DATA, nodes, fanouts=ALL, apart=apart)
            for apart in (True, False)
        )
        assert torch.allclose(apart, shared, atol=1e-5) == same


def dense_attention(layer, edge, feat):
    """A GATConv on a matrix that says whether j -> i is an edge."""
    heads, width = layer.attn_l.shape[1:]
    feat = layer.fc(feat).view(-1, heads, width)
    left, right = ((feat * a).sum(2) for a in (layer.attn_l, layer.attn_r))
    score = F.leaky_relu(left[None] + right[:, None], 0.2)
    score = score.masked_fill(~edge[:, :, None], -torch.inf).softmax(1)
    found = torch.einsum("ijh,jhd->ihd", score, feat).flatten(1)
    return F.elu(found + layer.bias.flatten())


@pytest.mark.parametrize("pooling", [None, "mean", "max"])
def test_it_is_attention_on_the_subgraph_of_k_hops(pooling):
    data, model = tiny(), make(pooling=pooling)
    edge = torch.eye(8, dtype=torch.bool)
    source, target = data.graph.edges()
    edge[target, source] = True
    near = edge.float() @ edge.float() > 0
    expected = []
    for root in range(8):
        kept = near[root].nonzero().squeeze(1)
        feat = data.feat[kept]
        for layer in model.layers:
            feat = dense_attention(layer, edge[kept][:, kept], feat)
        read = feat[kept == root].squeeze(0)
        if pooling == "mean":
            read = torch.cat([read, feat.mean(0)])
        elif pooling == "max":
            read = torch.cat([read, feat.max(0).values])
        expected.append(model.output(read))
    assert 1 < int(near.sum(1).min()) < 8
    for fanouts in (ALL, (8, 8)):
        found = predict_shadow(model, data, torch.arange(8), fanouts=fanouts)
        torch.testing.assert_close(found, torch.stack(expected))


class Witness(nn.Module):
    """Keeps the edges it is shown, by the ids in the first column."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))
        self.seen = {True: set(), False: set()}

    def forward(self, subgraph, feat, roots):
        ends = [feat[end.long(), 0].tolist() for end in subgraph.edges()]
        self.seen[self.training].update(zip(*ends, strict=True))
        return self.weight.expand(len(roots), 2)


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("inductive", [True, False])
def test_training_sees_the_edges_of_the_training_graph_alone(apart, inductive):
    data, model = tiny(inductive), Witness()
    fit_shadow(model, data, fanouts=ALL, apart=apart, epochs=2)
    for training, graph, roots in (
        (True, data.train_graph, data.train),
        (False, data.graph, data.valid),
    ):
        edges = set(zip(*(e.tolist() for e in graph.edges()), strict=True))
        seen = {(a, b) for a, b in model.seen[training] if a != b}
        loops = {a for a, b in model.seen[training] if a == b}
        assert seen <= edges
        assert loops >= set(roots.tolist())
    hidden = {(a, b) for a, b in model.seen[True] if max(a, b) > 3}
    assert bool(hidden) != inductive
    assert any(max(edge) > 3 for edge in model.seen[False])


class Falling(nn.Module):
    """Counts its steps; its validation loss is best at step 3."""

    def __init__(self):
        super().__init__()
        self.steps = nn.Parameter(torch.zeros(()))

    def forward(self, subgraph, feat, roots):
        # While the gradient keeps its sign, Adam goes by about lr.
        level = self.steps if self.training else -((self.steps - 3) ** 2)
        right = F.one_hot(feat[roots, 0].long() % 2, 2)
        return right * level


def test_the_best_weights_are_put_back_after_an_early_stop():
    rows = []
    model = Falling()
    found = fit_shadow(
        model, tiny(), epochs=50, patience=4, lr=1.0, on_epoch=rows.append
    )
    best = found.history.valid_loss.idxmin()
    assert found.best_epoch == best
    assert len(found.history) == len(rows) == best + 4 < 50
    assert abs(model.steps.item() - 3) < 0.5
    assert [row["epoch"] for row in rows] == found.history.index.tolist()


def test_weights_are_the_best_also_when_a_run_is_stopped():
    def stop(row):
        if row["epoch"] == 6:
            raise KeyboardInterrupt

    model = Falling()
    with pytest.raises(KeyboardInterrupt):
        fit_shadow(model, tiny(), lr=1.0, on_epoch=stop)
    assert abs(model.steps.item() - 3) < 0.5


@pytest.mark.parametrize("apart", [True, False])
def test_a_seed_gives_the_same_run(apart):
    data, losses, logits = tiny(), [], []
    for seed in (1, 1, 2):
        model = make()
        torch.rand(seed)
        before = torch.get_rng_state()
        found = fit_shadow(
            model, data, fanouts=(1, 1), apart=apart, batch_size=2, epochs=3,
            seed=seed,
        )  # fmt: skip
        assert torch.equal(torch.get_rng_state(), before)
        losses.append(found.history.valid_loss.tolist())
        logits.append(
            predict_shadow(
                make(), DATA, DATA.test[:9], fanouts=(2, 2), apart=apart,
                seed=seed,
            )
        )  # fmt: skip
    assert losses[0] == losses[1] != losses[2]
    assert torch.equal(logits[0], logits[1])
    assert not torch.equal(logits[0], logits[2])


def test_int32_graphs_with_data_of_their_own_are_taken():
    data = tiny()
    expected = predict_shadow(make(), data, data.test, fanouts=ALL)
    data.graph = data.graph.int().formats("csr")
    data.graph.ndata["feat"] = data.feat
    for apart in (True, False):
        fit_shadow(make(), data, apart=apart, epochs=1)
    found = predict_shadow(make(), data, data.test, fanouts=ALL)
    torch.testing.assert_close(found, expected)
    assert list(data.graph.ndata) == ["feat"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("patience", 0),
        ("batch_size", 0),
        ("fanouts", ()),
        ("fanouts", (5, 0)),
        ("fanouts", (5, 2.5)),
        ("fanouts", 5),
    ],
)
def test_a_bad_argument_of_training_is_named(name, value):
    with pytest.raises(DGLError, match=name):
        fit_shadow(make(), DATA, **{name: value})


@pytest.mark.parametrize("nodes", [[], [300], [-1], [0.5], [True]])
def test_nodes_that_are_not_there_are_named(nodes):
    with pytest.raises(DGLError, match="nodes"):
        predict_shadow(make(), DATA, torch.tensor(nodes))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_layers", 0),
        ("num_heads", 0),
        ("num_heads", 3),
        ("pooling", "sum"),
    ],
)
def test_a_bad_argument_of_the_model_is_named(name, value):
    with pytest.raises(DGLError, match=name):
        make(**{name: value})


def test_pooling_wants_subgraphs_apart():
    with pytest.raises(DGLError, match="apart=True"):
        predict_shadow(make(pooling="mean"), DATA, DATA.test, apart=False)
