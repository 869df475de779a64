"""The scripts of examples/: they run, and their models are what they say."""

import difflib
import gzip
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch

from dgl_lc import block_aggregate
from dgl_lc.data import block_model, save_npz
from dgl_lc.data.ogb import load_ogb
from dgl_lc.nn.model import HopModel
from dgl_lc.precompute import label_features
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
    beside = {"common", "datasets", "disk_run", "loop", "products_like"}

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


@SCRIPTS
@pytest.mark.parametrize("model", ["GAMLP", "FSGNN"])
def test_a_script_takes_label_features(
    script, sources, monkeypatch, name, model
):
    module = script(EXAMPLES / f"{name}.py")
    kept = {}

    def spy(made, seen, *rest, **options):
        kept.update(model=made, seen=seen)
        kept["unseen"] = options.get("valid_inputs", seen)
        groups = getattr(options.get("optimizer"), "param_groups", [])
        kept["trained"] = sum(len(group["params"]) for group in groups)
        return fit(made, seen, *rest, **options)

    fit = module.fit
    monkeypatch.setattr(module, "fit", spy)
    flags = few(sources[name], "--model", model, "--labels", "2")
    assert 0 <= module.main(module.parse_args(flags)) <= 1
    assert kept["model"].config["label_hops"] == 2
    if model == "FSGNN":
        assert kept["trained"] == len(list(kept["model"].parameters()))
    data = kept["seen"]
    # Rows of training nodes are those of the graph that training sees.
    loaded = getattr(module, "load_data", module.load)(sources[name])
    graph = loaded.graph if name == "ogbn_arxiv" else loaded.train_graph
    expected = label_features(
        graph, loaded.labels, loaded.train, 2, num_classes=loaded.num_classes
    )
    found = data.labels.rows(loaded.train)
    assert_rows(found, expected.rows(loaded.train))
    unseen = kept["unseen"].labels.rows(loaded.test)
    expected = label_features(
        loaded.graph, loaded.labels, loaded.train, 2,
        num_classes=loaded.num_classes,
    )  # fmt: skip
    assert_rows(unseen, expected.rows(loaded.test))


def assert_rows(found, expected):
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("model", ["SAGN", "FSGNN"])
def test_arxiv_in_stages_and_smoothed(script, sources, capsys, model):
    module = script(EXAMPLES / "ogbn_arxiv.py")
    flags = few(
        sources["ogbn_arxiv"], "--model", model, "--labels", "--stages", "2",
        "--threshold", "0",
    )  # fmt: skip
    plain = module.main(module.parse_args(flags))
    assert "of 4 epochs" in capsys.readouterr().out
    flags += ["--correct-and-smooth", "0.9,0.9"]
    # Untrained models learn little in two epochs; the labels say much.
    assert module.main(module.parse_args(flags)) > plain


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


# ogbn_papers100m.py and ogbn_products.py

PAPERS = ["--synthetic", "2e-5", "--feat-dim", "6", "--memory", "256MiB",
          "--epochs", "2", "--num-hidden", "8"]  # fmt: skip
PRODUCTS = ["--synthetic", "1e-4", "--feat-dim", "6", "--memory", "256MiB",
            "--epochs", "2", "--num-hidden", "8"]  # fmt: skip
STAGES = ["--labels", "2", "--stages", "2", "--threshold", "0"]


def check_twice(module, flags, capsys):
    """Run a script two times; the second time nothing is left to do."""
    found = module.main(module.parse_args(flags))
    assert all(0 <= score <= 1 for run in found for score in run)
    text = capsys.readouterr().out
    assert len(re.findall(r": \d+\.\d s, peak memory \d\.\d+ GiB", text)) >= 5
    for name, value in module.PUBLISHED.items():
        assert re.search(rf"  {re.escape(name)} +{value:.2f} %", text)
    assert "says nothing about" in text
    # Again: every stage is there already, training included.
    assert module.main(module.parse_args(flags)) == found
    again = capsys.readouterr().out
    per_run = "test .* of training"
    assert re.findall(per_run, again) == re.findall(per_run, text)
    return found, text


@pytest.mark.parametrize(
    "model",
    ["SGC", "FSGNN", "LCGCN", "LCJKNet", "LCGPRGNN", "SIGN", "SAGN", "GAMLP"],
)
def test_papers100m_from_raw_files_to_a_model(script, model, tmp_path, capsys):
    module = script(EXAMPLES / "ogbn_papers100m.py")
    flags = ["--root", str(tmp_path), *PAPERS, "--model", model, "--runs", "2"]
    found, text = check_twice(module, flags, capsys)
    assert len(found) == 2
    if model in module.PAPER:
        assert f"{module.PAPER[model][0]:.3f}" in text


@pytest.mark.parametrize("model", ["FSGNN", "GAMLP"])
@pytest.mark.parametrize("soft", [[], ["--soft-labels"]])
def test_papers100m_with_labels_in_stages(
    script, model, soft, tmp_path, capsys
):
    module = script(EXAMPLES / "ogbn_papers100m.py")
    flags = ["--root", str(tmp_path), *PAPERS, *STAGES, "--model", model, *soft]
    _, text = check_twice(module, flags, capsys)
    assert "  stage 2: 4 nodes joined, 2 epochs" in text
    stores = [path.name for path in (tmp_path / "prepared").glob("*labels*")]
    assert "labels-2" in stores
    assert any("labels-stage2" in name for name in stores) == bool(soft)


def test_soft_labels_need_labels_and_stages(script, capsys):
    module = script(EXAMPLES / "ogbn_papers100m.py")
    with pytest.raises(SystemExit):
        module.parse_args(["--soft-labels", "--stages", "2"])
    assert "--soft-labels also needs --labels" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["SAGN", "LCGPRGNN", "SGC"])
def test_products_from_raw_files_to_a_model(script, model, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    module = script(EXAMPLES / "ogbn_products.py")
    flags = ["--root", str(tmp_path), *PRODUCTS, *STAGES, "--model", model]
    plain, text = check_twice(module, flags, capsys)
    assert "ogbn_products" in os.listdir(tmp_path)
    assert "  stage 2: 221 nodes joined, 2 epochs" in text
    smoothed, _ = check_twice(module, [*flags, "--correct-and-smooth"], capsys)
    assert smoothed[0][0] > plain[0][0]


def test_files_like_products_are_read_as_they_were_generated(script, tmp_path):
    pytest.importorskip("pyarrow")
    module = script(EXAMPLES / "products_like.py")
    home = module.write_products_like(tmp_path, 1e-4, 6)
    data = load_ogb("ogbn-products", tmp_path)
    expected = block_model(
        245, 47, 6, avg_degree=2 * module.NUM_EDGES / module.NUM_NODES,
        homophily=0.6, signal=1.7,
        split=[size / module.NUM_NODES for size in module.SPLIT.values()],
    )  # fmt: skip
    assert data.graph.num_edges() == expected.graph.num_edges()
    assert torch.equal(data.labels, expected.labels)
    torch.testing.assert_close(data.feat, expected.feat, atol=1e-4, rtol=0)
    for split in ("train", "valid", "test"):
        assert torch.equal(getattr(data, split), getattr(expected, split))
    # What is finished is kept; what is not is written again.
    file = home / "raw" / "edge.csv.gz"
    before = file.stat().st_mtime_ns
    module.write_products_like(tmp_path, 1e-4, 6)
    assert file.stat().st_mtime_ns == before
    note = home / "generated.txt"
    note.write_text(note.read_text().replace("finished\n", ""))
    module.write_products_like(tmp_path, 1e-4, 6)
    assert file.stat().st_mtime_ns > before
    with pytest.raises(SystemExit, match="another task"):
        module.write_products_like(tmp_path, 2e-4, 6)
    note.unlink()
    with pytest.raises(SystemExit, match="was not generated"):
        module.write_products_like(tmp_path, 1e-4, 6)


#: A line that a script prints when a stage begins, and seconds until a kill.
MOMENTS = [
    ("generate", 0.0),
    ("sort edges", 0.05),
    ("precompute hop", 0.05),
    ("precompute label", 0.1),
    ("train", 1.0),
    ("predict", 0.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ogbn_papers100m", "ogbn_products"])
def test_a_killed_script_resumes_to_the_same_result(name, tmp_path):
    """Kill a script once in each stage, each time where it then is."""
    given = PAPERS if name == "ogbn_papers100m" else PRODUCTS

    def start(root):
        flags = ["--root", str(root), *given, *STAGES, "--model", "GAMLP"]
        return subprocess.Popen(
            [sys.executable, str(EXAMPLES / f"{name}.py"), *flags],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    expected, _ = start(tmp_path / "whole").communicate()
    for word, delay in MOMENTS:
        process = start(tmp_path / "killed")
        for line in process.stdout:
            if word in line and line.endswith("…\n"):
                time.sleep(delay)
                break
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    found, _ = start(tmp_path / "killed").communicate()
    assert "Here, on a generated graph" in expected
    assert found.splitlines()[-2:] == expected.splitlines()[-2:]
    scores = "run 0: test [^,]*, validation [^,]*,"
    assert re.findall(scores, found) == re.findall(scores, expected)
