"""The scripts of examples/: they run, and their models are what they say."""

import difflib
import gzip
import importlib.util
import json
import re
import sys
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch

from dgl_lc import block_aggregate
from dgl_lc.data import block_model, save_npz
from dgl_lc.nn.model import HopModel
from dgl_lc.testing.reference import dense_filter

EXAMPLES = Path(__file__).parents[1] / "examples"
SWAP = EXAMPLES / "swap"
PAIRS = {
    "gcn": "GCN",
    "jknet": "JKNet",
    "gprgnn": "GPRGNN",
    "sage": "SAGE",
    "appnp": "APPNP",
    "gcnii": "GCNII",
}
#: The norm of the filter that each original computes, if it is not "both".
NORMS = {"sage": "right", "gcnii": "in"}
FEW_EPOCHS = [
    "--dataset", "synthetic:300", "--num-epochs", "2", "--num-hidden", "8",
]  # fmt: skip


@pytest.fixture
def script(monkeypatch):
    """Load a script by its path, as Python does when it is run."""
    before = set(sys.modules)
    beside = {"common", "datasets", "loop"}

    def load(path):
        monkeypatch.syspath_prepend(str(path.parent))
        spec = importlib.util.spec_from_file_location(
            f"example_{path.stem}", path
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    # Modules beside the scripts have names that others may have, too.
    for name in beside:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield load
    for name in beside - before:
        sys.modules.pop(name, None)


# swap/: originals, and the same scripts with their modules swapped


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("suffix", ["", "_lc"])
def test_a_script_of_a_pair_trains(script, name, suffix):
    module = script(SWAP / f"{name}{suffix}.py")
    accuracy = module.main(module.parse_args("", FEW_EPOCHS))
    assert 0 <= accuracy <= 1


def lines_that_differ(name):
    """What a twin changes, without the docstring and blank lines."""
    original, twin = (
        (SWAP / f"{name}{suffix}.py").read_text().splitlines()
        for suffix in ("", "_lc")
    )
    diff = list(difflib.unified_diff(original, twin, n=0, lineterm=""))[2:]
    return [
        line
        for line in diff
        if line[0] in "+-" and line[1:].strip() and '"""' not in line
    ]


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_differs_in_a_few_lines(name):
    changed = lines_that_differ(name)
    assert 0 < len(changed) <= 5, "\n".join(changed)


@pytest.mark.parametrize("name", PAIRS)
def test_the_readme_shows_the_lines_that_differ(name):
    readme = (SWAP / "README.md").read_text()
    _, _, section = readme.partition(f"\n## {PAIRS[name]}\n")
    section, _, _ = section.partition("\n## ")
    shown = re.findall(r"```diff\n(.*?)```", section, flags=re.DOTALL)
    assert "".join(shown).splitlines() == lines_that_differ(name)


class Pair:
    """A script's model and its twin's, with the same random weights."""

    def __init__(self, script, monkeypatch, name):
        classes = []
        for suffix in ("", "_lc"):
            module = script(SWAP / f"{name}{suffix}.py")
            classes.append(getattr(module, PAIRS[name]))
        self.name = name
        self.norm = NORMS.get(name, "both")
        self.graph, self.hops = self._asked_for(module, monkeypatch)
        torch.manual_seed(1)
        self.original, self.twin = (made(5, 6, 3) for made in classes)
        weights = {
            # Biases that are 0, as they begin, would hide their place.
            key: torch.randn(value.shape)
            for key, value in self.original.state_dict().items()
        }
        self.load(weights)

    def load(self, weights):
        for model in (self.original, self.twin):
            model.load_state_dict(weights)
            model.double().eval()
        self.weights = {k: v.double().numpy() for k, v in weights.items()}

    @staticmethod
    def _asked_for(twin, monkeypatch):
        """The graph of the script, and how it precomputes."""
        found = {}

        def spy(g, x, **options):
            found.update(graph=g, options=options)
            return block_aggregate(g, x, **options)

        with monkeypatch.context() as patch:
            patch.setattr(twin, "block_aggregate", spy)
            twin.main(twin.parse_args("", [*FEW_EPOCHS, "--num-epochs", "1"]))
        return found["graph"], found["options"]

    def original_output(self, g, x):
        # APPNPConv makes a tensor of ones of the default type.
        torch.set_default_dtype(torch.float64)
        try:
            with torch.no_grad():
                return self.original(g, x)
        finally:
            torch.set_default_dtype(torch.float32)

    def twin_output(self, g, x):
        """What the script computes on a graph, taken as it is."""
        hops = block_aggregate(g, x, **self.hops)
        with torch.no_grad():
            return self.twin(g, hops)

    def formula(self, g, x):
        """The paper's LC version, from the weights and a dense filter."""
        S = dense_filter(g, norm=self.norm, self_loop=False)
        return getattr(self, f"_{self.name}")(S, x.numpy())

    def _linear(self, name, h):
        """A linear layer of torch, whose weight is transposed."""
        bias = self.weights.get(f"{name}.bias", 0)
        return h @ self.weights[f"{name}.weight"].T + bias

    def _gcn(self, S, X):
        w = self.weights
        h = relu(S @ S @ X @ w["conv1.weight"] + w["conv1.bias"])
        return h @ w["conv2.weight"] + w["conv2.bias"]

    def _jknet(self, S, X):
        w, branches = self.weights, []
        for k in (1, 2, 3):
            h = np.linalg.matrix_power(S, k) @ X
            for layer in range(k):
                weight = w[f"convs.{layer}.weight"]
                h = relu(h @ weight + w[f"convs.{layer}.bias"])
            branches.append(h)
        return self._linear("output", np.concatenate(branches, axis=1))

    def _mlp(self, X):
        return self._linear("lin2", relu(self._linear("lin1", X)))

    def _gprgnn(self, S, X):
        return sum(
            gamma * self._mlp(np.linalg.matrix_power(S, k) @ X)
            for k, gamma in enumerate(self.weights["gamma"])
        )

    def _sage(self, S, X):
        def layer(name, h, neighbours):
            return self._linear(f"{name}.fc_self", h) + self._linear(
                f"{name}.fc_neigh", neighbours
            )

        h, neighbours = (
            relu(layer("conv1", hop, S @ hop)) for hop in (X, S @ X)
        )
        return layer("conv2", h, neighbours)

    def _appnp(self, S, X):
        alpha, total = 0.1, 0
        for k in range(11):
            share = (1 - alpha) ** k * (alpha if k < 10 else 1)
            total += share * self._mlp(np.linalg.matrix_power(S, k) @ X)
        return total

    def _gcnii(self, S, X):
        first = [
            relu(self._linear("input", np.linalg.matrix_power(S, k) @ X))
            for k in range(5)
        ]
        hops = first
        for layer in range(4):
            beta = np.log(0.5 / (layer + 1) + 1)
            weight = self.weights[f"convs.{layer}.weight1"]
            sums = [
                0.9 * later + 0.1 * h_0
                for later, h_0 in zip(hops[1:], first, strict=False)
            ]
            hops = [
                relu((1 - beta) * h + beta * (h @ weight)
                     + self.weights[f"convs.{layer}.bias"])
                for h in sums
            ]  # fmt: skip
        (last,) = hops
        return self._linear("output", last)


def relu(h):
    return np.maximum(h, 0)


@pytest.fixture(params=PAIRS)
def pair(request, script, monkeypatch):
    return Pair(script, monkeypatch, request.param)


def features(n):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 5, dtype=torch.float64, generator=generator)


def graphs():
    """Directed graphs with an edge into each node, by their self-loops."""
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 30, (2, 90))
    ring = np.arange(30)
    other = source != target
    without = dgl.graph(
        (
            np.concatenate([source[other], ring]),
            np.concatenate([target[other], (ring + 1) % 30]),
        )
    )
    one = dgl.add_self_loop(without)
    return {
        "none": without,
        "some": dgl.add_edges(without, [3, 4, 4, 9], [3, 4, 4, 9]),
        "one each": one,
        "two each": dgl.add_self_loop(one),
    }


def assert_equal(found, expected):
    found, expected = map(torch.as_tensor, (found, expected))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_a_twin_is_the_lc_version_of_the_paper(pair):
    x = features(30)
    for g in graphs().values():
        expected = pair.formula(g, x)
        assert_equal(pair.twin_output(g, x), expected)
        # The swap changes something, or this would show nothing.
        original = pair.original_output(g, x).numpy()
        assert np.abs(original - expected).max() > 1e-3


def test_a_twin_is_the_lc_version_on_the_graph_of_its_script(pair):
    x = features(pair.graph.num_nodes())
    assert_equal(pair.twin_output(pair.graph, x), pair.formula(pair.graph, x))


@pytest.mark.parametrize("name", PAIRS)
def test_a_linear_twin_equals_its_original(script, monkeypatch, name):
    """Without activations and biases, what is left is the filter."""
    monkeypatch.setattr(torch.nn.functional, "relu", lambda h: h)
    pair = Pair(script, monkeypatch, name)
    pair.load(
        {
            key: torch.zeros_like(value) if "bias" in key else value
            for key, value in pair.original.state_dict().items()
        }
    )
    x = features(30)
    for g in graphs().values():
        assert_equal(pair.twin_output(g, x), pair.original_output(g, x))


def test_a_twin_equals_its_original_on_a_permutation_graph(pair):
    # One edge in and one out: S permutes rows, and commutes with all else.
    order = torch.from_numpy(np.random.default_rng(0).permutation(30))
    g = dgl.graph((torch.arange(30), order))
    x = features(30)
    assert_equal(pair.twin_output(g, x), pair.original_output(g, x))


def test_checkpoints_go_both_ways(pair, tmp_path):
    g, x = graphs()["some"], features(30)
    before = pair.twin_output(g, x), pair.original_output(g, x)
    for source, target in (
        (pair.original, pair.twin),
        (pair.twin, pair.original),
    ):
        torch.save(source.state_dict(), tmp_path / "model.pt")
        for parameter in target.parameters():
            torch.nn.init.ones_(parameter)
        weights = torch.load(tmp_path / "model.pt", weights_only=True)
        target.load_state_dict(weights)
    assert torch.equal(pair.twin_output(g, x), before[0])
    assert torch.equal(pair.original_output(g, x), before[1])


# The scripts for datasets


def few(path, *more):
    return ["--data", str(path), "--num-epochs", "2", "--num-hidden", "8",
            *more]  # fmt: skip


def write_ogb(folder, data):
    """A task in OGB's files; one direction of each edge."""
    source, target = (ends.numpy() for ends in data.graph.edges())
    once = source < target
    tables = {
        "raw/num-node-list": [[data.graph.num_nodes()]],
        "raw/edge": np.stack([source[once], target[once]], axis=1),
        "raw/node-feat": data.feat.numpy(),
        "raw/node-label": data.labels.numpy()[:, None],
        "split/time/train": data.train.numpy()[:, None],
        "split/time/valid": data.valid.numpy()[:, None],
        "split/time/test": data.test.numpy()[:, None],
    }
    for name, rows in tables.items():
        path = folder / "ogbn_arxiv" / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{','.join(map(str, row))}\n" for row in rows)
        path.write_bytes(gzip.compress(text.encode()))
    return folder


def write_graphsaint(folder, data):
    """A task in GraphSAINT's files."""
    adjacency = np.zeros((data.graph.num_nodes(),) * 2)
    source, target = (ends.numpy() for ends in data.graph.edges())
    adjacency[target, source] = 1
    train = np.zeros_like(adjacency)
    inside = np.ix_(data.train.numpy(), data.train.numpy())
    train[inside] = adjacency[inside]
    for name, matrix in (("adj_full", adjacency), ("adj_train", train)):
        rows, columns = matrix.nonzero()
        np.savez(
            folder / f"{name}.npz",
            data=matrix[rows, columns],
            indices=columns,
            indptr=np.searchsorted(rows, np.arange(len(matrix) + 1)),
            shape=np.array(matrix.shape),
        )
    np.save(folder / "feats.npy", data.feat.numpy())
    classes = {str(i): label for i, label in enumerate(data.labels.tolist())}
    (folder / "class_map.json").write_text(json.dumps(classes))
    roles = {"tr": data.train, "va": data.valid, "te": data.test}
    roles = {role: ids.tolist() for role, ids in roles.items()}
    (folder / "role.json").write_text(json.dumps(roles))
    return folder


@pytest.fixture(scope="module")
def task():
    return block_model(200, 4, 6, avg_degree=6.0)


@pytest.fixture
def sources(tmp_path, task):
    """The data of each script."""
    (tmp_path / "saint").mkdir()
    saint = write_graphsaint(tmp_path / "saint", task)
    return {
        "ogbn_arxiv": write_ogb(tmp_path / "dataset", task),
        "flickr": saint,
        "reddit": saint,
    }


SCRIPTS = pytest.mark.parametrize("name", ["ogbn_arxiv", "flickr", "reddit"])


@SCRIPTS
def test_every_model_of_a_script_trains(script, sources, capsys, name):
    module = script(EXAMPLES / f"{name}.py")
    for model in module.BEST:
        args = module.parse_args(few(sources[name], "--model", model))
        assert 0 <= module.main(args) <= 1
        printed = capsys.readouterr().out
        assert f"{model} on" in printed
        assert "best of 2 epochs" in printed


@SCRIPTS
def test_a_script_reads_an_npz_file(script, task, tmp_path, name):
    save_npz(task, tmp_path / "task.npz")
    module = script(EXAMPLES / f"{name}.py")
    args = module.parse_args(few(tmp_path / "task.npz", "--memory", "1GiB"))
    assert 0 <= module.main(args) <= 1


@SCRIPTS
def test_flags_go_before_the_best_parameters(
    script, sources, monkeypatch, name
):
    module = script(EXAMPLES / f"{name}.py")
    asked = {}

    def spy(model, *inputs, **options):
        asked.update(options, model=model)
        return fit(model, *inputs, **options)

    fit = module.fit
    monkeypatch.setattr(module, "fit", spy)
    flags = ["--model", "LCJKNet", "--dropout", "0.25", "--lr", "0.5"]
    module.main(module.parse_args(few(sources[name], *flags)))
    assert asked["lr"] == 0.5
    best = module.BEST["LCJKNet"]
    assert asked["weight_decay"] == best["weight_decay"]
    assert asked["model"].config["dropout"] == 0.25

    flags = ["--model", "FSGNN", "--lr", "0.5"]
    module.main(module.parse_args(few(sources[name], *flags)))
    groups = asked["optimizer"].param_groups
    count = sum(len(group["params"]) for group in groups)
    assert count == len(list(asked["model"].parameters()))
    assert {group["lr"] for group in groups} == {0.5}
    assert [group["weight_decay"] for group in groups] == list(
        module.BEST["FSGNN"]["weight_decay"].values()
    )


@pytest.mark.parametrize("name", ["flickr", "reddit"])
@pytest.mark.parametrize("model", ["LCGPRGNN", "FSGNN", "JKNet"])
def test_training_sees_the_training_graph_alone(
    script, sources, task, monkeypatch, name, model
):
    module = script(EXAMPLES / f"{name}.py")
    kept = {}

    def spy(made, seen, *rest, valid_inputs, **options):
        kept.update(model=made, seen=seen, unseen=valid_inputs)
        return fit(made, seen, *rest, valid_inputs=valid_inputs, **options)

    fit = module.fit
    monkeypatch.setattr(module, "fit", spy)
    module.main(module.parse_args(few(sources[name], "--model", model)))
    data = module.load(sources[name])
    graphs = {"seen": data.train_graph, "unseen": data.graph}
    nodes = {"seen": data.train, "unseen": data.test}
    assert data.train_graph.num_edges() < data.graph.num_edges()
    for which, graph in graphs.items():
        found = kept[which]
        if not isinstance(kept["model"], HopModel):
            assert found[0].num_edges() == graph.num_edges() + 200
            continue
        expected = kept["model"].precompute(graph, data.feat)
        # Only the rows that are read, which are those of the whole.
        others = len(data.valid) + len(data.test)
        count = len(data.train) if which == "seen" else others
        assert found.shape[0] == count
        torch.testing.assert_close(
            found.rows(nodes[which]).stack, expected.rows(nodes[which]).stack
        )


def test_arxiv_is_read_in_both_directions(script, sources, task, tmp_path):
    module = script(EXAMPLES / "ogbn_arxiv.py")
    edges = task.graph.num_edges()
    assert module.load_data(sources["ogbn_arxiv"]).graph.num_edges() == edges
    source, target = (ends.numpy() for ends in task.graph.edges())
    once = source < target
    np.savez(
        tmp_path / "once.npz",
        edges=np.stack([source[once], target[once]]),
        feat=task.feat.numpy(),
        labels=task.labels.numpy(),
        train=task.train.numpy(),
        valid=task.valid.numpy(),
        test=task.test.numpy(),
    )
    read = module.load_data(str(tmp_path / "once.npz"))
    assert read.graph.num_edges() == edges


def test_the_training_loop_of_own_loop_learns(script):
    module = script(EXAMPLES / "own_loop.py")
    flags = ["--data", "synthetic:1000", "--num-epochs", "10"]
    assert module.main(module.parse_args(flags)) > 0.5


# ogbn_papers100m.py


@pytest.mark.parametrize(
    "model", ["SGC", "FSGNN", "LCGCN", "LCJKNet", "LCGPRGNN"]
)
def test_papers100m_from_raw_files_to_a_model(script, model, tmp_path, capsys):
    module = script(EXAMPLES / "ogbn_papers100m.py")
    flags = ["--root", str(tmp_path), "--synthetic", "2e-5", "--feat-dim",
             "6", "--memory", "256MiB", "--epochs", "2", "--model", model,
             "--runs", "2"]  # fmt: skip
    found = module.main(module.parse_args(flags))
    assert len(found) == 2
    assert all(0 <= score <= 1 for run in found for score in run)
    text = capsys.readouterr().out
    assert f"{module.PAPER[model][0]:.3f}" in text
    assert "says nothing about papers100M" in text
    # Again: every stage is there already, training included.
    assert module.main(module.parse_args(flags)) == found
