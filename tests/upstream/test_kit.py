"""The files that would go to DGL: same code, DGL's format, right results."""

import ast
import doctest
import importlib.util
import sys
import types
from pathlib import Path

import check
import dgl
import generate
import make
import pytest
import torch

from dgl_lc.nn import plain

ROOT = Path(__file__).parents[2]
PLAIN = sorted((ROOT / "dgl_lc" / "nn" / "plain").glob("*.py"))
FILES = {
    path: text
    for request in make.pull_requests()
    for path, text in request.files.items()
    if path.endswith(".py")
}
LAYER = FILES[f"{make.CONV}/lcgraphconv.py"]
MODELS = FILES[f"{make.LC}/model.py"]


def code(text):
    """The classes and functions of a file by name, without docstrings."""
    found = {}
    for node in ast.parse(text).body:
        if hasattr(node, "name"):
            for inner in ast.walk(node):
                named = hasattr(inner, "name") and hasattr(inner, "body")
                if named and ast.get_docstring(inner):
                    inner.body = inner.body[1:]
            found[node.name] = ast.dump(node)
    return found


def load(name, path):
    """Load a module from a file by the name that it has in DGL."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def layer(tmp_path):
    """LCGraphConv as it would be in DGL, within the installed DGL."""
    path = tmp_path / "lcgraphconv.py"
    path.write_text(LAYER)
    return load("dgl.nn.pytorch.conv.lcgraphconv", path).LCGraphConv


def test_what_goes_to_dgl_is_the_code_that_we_run():
    plain_code = [code(path.read_text()) for path in PLAIN]
    ours = {name: text for found in plain_code for name, text in found.items()}
    for text, names in (
        (LAYER, {"LCGraphConv"}),
        (MODELS, {"LCJKNet", "LCGPRGNN"}),
    ):
        theirs = code(text)
        assert names <= set(theirs)
        assert theirs == {name: ours[name] for name in theirs}


def test_the_layer_brings_no_code_that_it_does_not_need():
    """Helpers of other layers do not belong into its module."""
    tree = ast.parse(LAYER)
    used = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name)
    } | {"LCGraphConv"}
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported | set(code(LAYER)) <= used


def test_no_file_for_dgl_names_this_package():
    for text in FILES.values():
        assert "dgl_lc" not in text


@pytest.mark.parametrize("norm", ["both", "right", "left", "none"])
def test_the_layer_computes_as_ours_and_loads_dgls_parameters(layer, norm):
    assert layer.__module__ == "dgl.nn.pytorch.conv.lcgraphconv"
    assert layer is not plain.LCGraphConv
    g = dgl.add_self_loop(dgl.rand_graph(30, 90))
    x = torch.randn(30, 5)
    aggregate = dgl.nn.GraphConv(5, 5, norm=norm, weight=False, bias=False)
    hops = [x, aggregate(g, x), aggregate(g, aggregate(g, x))]
    original = dgl.nn.GraphConv(5, 4, norm=norm, activation=torch.tanh)
    torch.nn.init.normal_(original.bias)
    ours, theirs = [
        kind(5, 4, norm=norm, activation=torch.tanh)
        for kind in (plain.LCGraphConv, layer)
    ]
    for module in (ours, theirs):
        module.load_state_dict(original.state_dict())
        assert str(module) == str(ours)
    for feat in (hops, torch.stack(hops)):
        for expected, found in zip(ours(g, feat), theirs(g, feat), strict=True):
            assert torch.equal(expected, found)
    torch.testing.assert_close(theirs(g, hops)[0], original(g, x))
    with pytest.raises(dgl.DGLError, match="too few hops"):
        theirs(None, hops[:1])


@pytest.mark.parametrize(
    "path", [*PLAIN, *FILES], ids=lambda path: Path(path).name
)
def test_the_syntax_is_that_of_python_38(path):
    text = FILES[path] if path in FILES else path.read_text()
    ast.parse(text, feature_version=(3, 8))


def test_newer_syntax_would_be_found():
    with pytest.raises(SyntaxError):
        ast.parse("match x:\n    case 1: pass\n", feature_version=(3, 8))


def ufmt(text):
    """Format with DGL's formatter and settings."""
    core = pytest.importorskip("ufmt.core", reason="ufmt is not installed")
    import black
    from usort import Config

    mode = black.Mode(line_length=80)
    path = Path("dgl.py")
    return core.ufmt_string(path, text, Config(), black_config=mode)


# The formatter takes a second for a hundred lines.
@pytest.mark.parametrize(
    "path",
    [*(pytest.param(path, marks=pytest.mark.slow) for path in PLAIN), *FILES],
    ids=lambda path: Path(path).name,
)
def test_the_format_is_that_of_dgl(path):
    text = FILES[path] if path in FILES else path.read_text()
    assert ufmt(text) == text


def test_another_format_would_be_found():
    text = "from torch import nn\nimport torch\n\nx = nn.Linear( 1, 2 )\n"
    wanted = "import torch\nfrom torch import nn\n\nx = nn.Linear(1, 2)\n"
    assert ufmt(text) == wanted


@pytest.mark.slow
def test_the_new_tests_pass_on_the_installed_dgl(checkout, tmp_path, capsys):
    """And tests that fail only with our lines are told from the others."""
    assert make.main([str(checkout)]) == 0
    other = checkout / make.TEST.replace("test_lcgraphconv", "test_other")
    other.write_text("""\
import dgl


def test_fails():
    assert False


def test_fails_with_ours():
    assert not hasattr(dgl.nn, "LCGraphConv")
""")
    check.lay_over(tmp_path / "overlay")
    wrong = check.check_tests(checkout, tmp_path / "overlay")
    name = other.relative_to(checkout)
    assert wrong == [f"test failed: {name}::test_fails_with_ours (1 cases)"]
    said = capsys.readouterr().out
    assert f"fails without ours too: {name}::test_fails (1 cases)" in said


def test_the_examples_of_the_layer_run(layer, monkeypatch):
    monkeypatch.setattr(dgl.nn, "LCGraphConv", layer, raising=False)
    test = doctest.DocTestFinder().find(layer)[0]
    found = doctest.DocTestRunner().run(test)
    assert found.attempted > 5
    assert found.failed == 0


def test_lines_of_code_are_counted_without_documentation():
    text = '''\
x = 1


def f():
    """One.

    Two.
    """
    # Why
    return x  # x
'''
    assert generate.core_lines(text) == 3


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The example's script, and a dataset of two groups of nodes."""
    for path, text in FILES.items():
        if path.startswith(make.LC):
            (tmp_path / Path(path).name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "model", raising=False)
    module = load("lc_main", tmp_path / "main.py")
    monkeypatch.delitem(sys.modules, "model")

    class TwoGroups:
        num_classes = 2

        def __init__(self, verbose):
            assert verbose is False

        def __getitem__(self, index):
            rng = torch.Generator().manual_seed(3)
            label = torch.arange(60) % 2
            src = torch.randint(60, (300,), generator=rng)
            dst = (src + 2 * torch.randint(30, (300,), generator=rng)) % 60
            g = dgl.graph((src, dst), num_nodes=60)
            noise = torch.randn(60, 4, generator=rng)
            g.ndata["feat"] = label[:, None] + noise
            g.ndata["label"] = label
            for place, part in enumerate(("train", "val", "test")):
                g.ndata[f"{part}_mask"] = torch.arange(60) // 20 == place
            return g

    monkeypatch.setitem(module.DATASETS, "cora", TwoGroups)
    return module


@pytest.mark.parametrize("model", ["gprgnn", "jknet"])
def test_the_example_learns(example, capsys, model):
    words = f"--model {model} --num-epochs 30 --num-runs 2 --batch-size 7"
    example.main(example.parse_args(words.split()))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 2 * 31
    assert lines[0].startswith("Computed 5 hops in")
    assert lines[1].startswith("Epoch 00000 | Loss")
    assert lines[31].startswith("Seed 0 | Val")
    mean = float(lines[-1].split("mean ")[1].split(",")[0])
    assert mean > 0.8


def test_the_example_computes_hops_with_one_self_loop_per_node(example):
    g = dgl.graph(([0, 1, 2, 2], [1, 2, 0, 2]))
    adj = torch.eye(3)
    adj[[1, 2, 0], [0, 1, 2]] = 1
    x = torch.randn(3, 2)
    hops = example.compute_hops(g, x, 2)
    S = adj / 2
    torch.testing.assert_close(hops, torch.stack([x, S @ x, S @ S @ x]))


def test_the_example_reads_datasets_of_ogb(example, monkeypatch):
    class Dataset:
        num_classes = 3

        def __init__(self, name):
            assert name == "ogbn-arxiv"

        def __getitem__(self, index):
            g = dgl.graph(([0, 1], [1, 2]))
            g.ndata["feat"] = torch.randn(3, 2)
            return g, torch.tensor([[0], [1], [2]])

        def get_idx_split(self):
            return {
                part: torch.tensor([place])
                for place, part in enumerate(("train", "valid", "test"))
            }

    fake = types.SimpleNamespace(DglNodePropPredDataset=Dataset)
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", fake)
    g, feat, label, num_classes, split = example.load_data("ogbn-arxiv")
    # Both directions, as DGL's other examples on this graph.
    assert (g.num_edges(), feat.shape, num_classes) == (4, (3, 2), 3)
    assert label.tolist() == [0, 1, 2]
    assert [nodes.tolist() for nodes in split] == [[0], [1], [2]]
