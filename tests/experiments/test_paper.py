"""Compare the paper's numbers with its source, entry by entry.

Where the source is not at hand, a digest says whether the numbers are still
those that were compared with it.
"""

import hashlib
import re
from decimal import Decimal

import pytest

from dgl_lc.experiments import paper
from dgl_lc.experiments.named_models import MODELS


@pytest.fixture
def tex(shared_data):
    source = shared_data.parent / "paper" / "lc_transformation.tex"
    if not source.exists():
        pytest.skip(f"{source.name} is not at hand")
    return source.read_text()


#: What the numbers had when they were equal to those of the source.
DIGESTS = {
    "COMMON": "e4bb9c9922e58fbe",
    "SPACES": "d07ea53a36ba820c",
    "BEST": "e11727867f3f7a75",
    "ACCURACY": "547b646adfe250a0",
    "TIMES": "99e5e4e0047e2605",
    "PAPERS100M": "a4a5ae75d36827ec",
    "DATASETS": "96f58476dee824da",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_the_numbers_are_those_that_were_compared(name):
    """After a correction: run this file with the source, then change it."""
    text = repr(getattr(paper, name)).encode()
    assert hashlib.sha256(text).hexdigest()[:16] == DIGESTS[name]


def our_name(name):
    name = plain(name).replace("\\_", "_")
    return f"LC{name.removesuffix('_LC')}" if name.endswith("_LC") else name


def plain(text):
    """Remove the marks of formulas, braces and spaces."""
    return re.sub(r"[${}\s]", "", text)


def value(text):
    text = plain(text)
    return text if text in ("concat", "max") else float(text)


def section(tex, start, end):
    (found,) = re.findall(
        re.escape(start) + "(.*?)" + re.escape(end), tex, re.S
    )
    return found


def table(tex, label):
    """Return the cells of a table: its header, and its groups of rows."""
    (found,) = (
        text
        for text in re.findall(r"\\begin\{table.*?\\end\{table", tex, re.S)
        if f"\\label{{{label}}}" in text
    )
    # The lines of a tabular within a cell are joined by semicolons.
    found = re.sub(
        r"\\begin\{tabular\}\{c\}(.*?)\\end\{tabular\}",
        lambda inner: inner[1].replace("\\\\", ";"),
        found,
        flags=re.S,
    )
    found = found.replace("\\toprule", "\n\\toprule\n")
    head, body = section(found, "\\toprule", "\\bottomrule").split("\\midrule")
    return rows(head)[0], [rows(group) for group in body.split("\\hline")]


def rows(text):
    return [
        [cell.strip() for cell in line.split("&")]
        for line in text.split("\\\\")
        if line.strip()
    ]


def models(tex, label):
    """Return the names of the columns, and the cells of each model."""
    head, groups = table(tex, label)
    lines = [line for group in groups for line in group]
    assert all(len(line) == len(head) for line in lines)
    found = {our_name(line[0]): line[1:] for line in lines}
    assert len(found) == len(lines)
    return [plain(name) for name in head[1:]], found


def items(text):
    lines = re.findall(r"\\item (.+?): (.+)", text)
    return dict(lines)


LABELS = {
    "Weight decay": "weight_decay",
    "Learning rate": "lr",
    "Dropout": "dropout",
    "Dropout for MLP": "dropout",
    "Dropout before propagation": "dprate",
    "Parameter initializing attention": "alpha",
    "Number of propagation layer": "K",
    "Number of layer of MLP": "mlp_layers",
    "Number of layer": "num_layers",
    "Number of layers": "num_layers",
    "Pooling": "pooling",
    "Weight decay for attention": "wd_att",
    "Learning rate for attention": "lr_att",
    **{f"Weight decay{i}": f"wd{i}" for i in (1, 2, 3)},
    **{f"Learning rate{i}": f"lr{i}" for i in (1, 2, 3)},
    **{f"Dropout{i}": f"dp{i}" for i in (1, 2)},
}


def parameter(label, model):
    name = LABELS[label]
    if name == "num_layers" and model in ("SGC", "FSGNN"):
        return "K"
    return name


def test_what_all_models_have_in_common(tex):
    found = items(section(tex, "similarly to", "We show hyperparameter"))
    assert plain(found.pop("Activation")) == "ReLU"
    found = {name: int(plain(number)) for name, number in found.items()}
    (trials,) = re.findall(r"for \$(\d+)\$ trials", tex)
    assert {
        "batch_size": found.pop("Batch size for precomputation-based GNNs"),
        "patience": found.pop("Patience"),
        "epochs": found.pop("Maximum number of epochs"),
        "hid_feats": found.pop("Hidden dimension"),
        "trials": int(trials),
    } == paper.COMMON
    assert not found


def test_the_search_spaces(tex):
    part = section(tex, "We show hyperparameter", "We choose the best")
    found = {}
    for name, text in re.findall(
        r"\\textbf\{(\S+)\. \}(.*?)\\end\{itemize\}", part, re.S
    ):
        model = our_name(name)
        lines = items(text)
        assert len(lines) == text.count("\\item ")
        found[model] = {
            parameter(label, model): [
                value(one) for one in plain(listed).strip("[]").split(",")
            ]
            for label, listed in lines.items()
        }
        assert len(found[model]) == len(lines)
    assert len(found) == part.count("\\begin{itemize}") == 8
    assert found == paper.SPACES


def best_parameters(model, cells):
    """Read a line of the table of the best parameters."""
    if cells == ["OOM"] * 6:
        return None
    wd, lr, dropout, layers, pooling, alpha = cells
    single = {
        "weight_decay": wd, "lr": lr, "dropout": dropout,
        "num_layers": layers, "pooling": pooling, "alpha": alpha,
    }  # fmt: skip
    found = {}
    for name, cell in single.items():
        cell = plain(cell).replace("\\_", "_")
        for line in cell.split(";"):
            label, _, text = line.rpartition(":")
            label = {
                ("dropout", "MLP"): "dropout",
                ("dropout", "Propagation"): "dprate",
                ("num_layers", "MLP"): "mlp_layers",
                ("num_layers", "Propagation"): "K",
            }.get((name, label), label)
            if text != "-":
                assert (label or name) not in found
                found[label or name] = value(text)
    if model in ("SGC", "FSGNN"):
        found["K"] = found.pop("num_layers")
    return found


def test_the_best_parameters(tex):
    head, groups = table(tex, "tb:best_param")
    assert [plain(cell) for cell in head] == [
        "", "Dataset", "Weight;decay", "Learning;rate", "Dropout",
        "Numberoflayers", "Pooling", "Attention;initialingparameter",
    ]  # fmt: skip
    found: dict = {}
    for group in groups:
        (name,) = (line[0] for line in group if line[0])
        model = our_name(name)
        for _, data, *cells in group:
            assert model not in found.setdefault(data, {})
            found[data][model] = best_parameters(model, cells)
    assert sum(map(len, found.values())) == 32
    assert found == paper.BEST


def test_best_parameters_lie_in_their_spaces_but_for_two():
    outside = [
        (data, model, name)
        for data, best in paper.BEST.items()
        for model, params in best.items()
        for name, chosen in (params or {}).items()
        if chosen not in paper.SPACES[model][name]
    ]
    assert outside == [
        ("Flickr", "FSGNN", "wd_att"),
        ("Reddit", "GPRGNN", "lr"),
    ]
    for best in paper.BEST.values():
        assert list(best) == list(paper.SPACES)
        for model, params in best.items():
            space = paper.SPACES[model]
            assert params is None or list(params) == list(space)
            for name, chosen in (params or {}).items():
                assert {type(v) for v in space[name]} == {type(chosen)}


def test_the_accuracies(tex):
    names, found = models(tex, "tb:04_accuracy")
    expected = {
        data: {model: accuracy(cells[i]) for model, cells in found.items()}
        for i, data in enumerate(names)
    }
    assert sum(map(len, expected.values())) == 27
    assert expected == paper.ACCURACY


def accuracy(cell):
    mean, deviation = re.fullmatch(r"(.+)\((.+)\)", plain(cell)).groups()
    return float(mean), float(deviation)


def seconds(cell):
    epoch, total = re.fullmatch(
        r"([\d.e]+)\[ms\]/([\d.]+)\[s\]", plain(cell)
    ).groups()
    return float(Decimal(epoch) / 1000), float(total)


def test_the_times(tex):
    names, found = models(tex, "tb:04_runtime")
    expected = {
        data: {model: seconds(cells[i]) for model, cells in found.items()}
        for i, data in enumerate(names)
    }
    assert sum(map(len, expected.values())) == 27
    assert expected == paper.TIMES


def test_the_results_on_papers100m(tex):
    names, found = models(tex, "tb:04_papers")
    assert names == ["Testaccuracy", "Valaccuracy", "Time(epoch/total)"]
    expected = {
        model: None
        if cells == ["OOM"] * 3
        else (accuracy(cells[0]), accuracy(cells[1]), *seconds(cells[2]))
        for model, cells in found.items()
    }
    assert len(expected) == 9
    assert expected == paper.PAPERS100M


def test_the_datasets(tex):
    names, found = models(tex, "tb:04_dataset")
    assert len(found) == 4
    assert {
        data: {
            name.lower(): int(plain(cell).replace(",", ""))
            for name, cell in zip(names, cells, strict=True)
        }
        for data, cells in found.items()
    } == paper.DATASETS


def test_every_model_has_one_space():
    ours, theirs = set(paper.OUR_SPACES), set(paper.SPACES)
    assert not ours & theirs
    assert ours | theirs == {*MODELS, "ShaDow-GAT"}
