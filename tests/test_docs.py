"""The pages of docs/: their code runs, and their tables agree with the code."""

import os
import re
import runpy
import sys
import types
from pathlib import Path

import dgl
import pytest
import torch
from dgl.nn import GraphConv

from dgl_lc.swaps import SWAPS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("loops", [[], [0, 3], [0, 1, 2, 3], [0, 0, 1, 3, 3]])
@pytest.mark.parametrize("page", ["README.md", "docs/swap.md"])
def test_the_lines_of_a_swap_give_the_model_of_the_script(page, loops):
    """Two linear layers, so that the filter alone makes a difference."""
    text = (ROOT / page).read_text()
    (swapped_layer,) = set(
        re.findall(r"from dgl_lc.nn import LCGraphConv as GraphConv", text)
    )
    call = re.search(r"x = block_aggregate\(g, x, .*?\)", text)[0]
    lines = f"from dgl_lc import block_aggregate\n{swapped_layer}\n{call}"
    g = dgl.graph(
        ([0, 1, 2, 3, 0, 2, *loops], [1, 2, 3, 0, 2, 1, *loops]), num_nodes=4
    )
    x, weights = torch.randn(4, 5), [torch.randn(5, 5), torch.randn(5, 5)]
    swapped = {"g": g, "x": x}
    exec(lines, swapped)
    found = []
    for layer, h in ((GraphConv, x), (swapped["GraphConv"], swapped["x"])):
        for weight in weights:
            h = layer(5, 5, weight=False, bias=False)(g, h, weight=weight)
        found.append(h)
    torch.testing.assert_close(*found)
    assert swapped["GraphConv"] is not GraphConv


def test_pictures_are_what_the_command_draws(tmp_path):
    scope = runpy.run_path(str(DOCS / "images" / "draw.py"))
    drawn = scope["draw"](tmp_path)
    assert [path.name for path in drawn] == ["gcn.svg", "jknet.svg"]
    for path in drawn:
        assert path.read_bytes() == (DOCS / "images" / path.name).read_bytes()
        assert path.stat().st_size < 50_000


def test_every_picture_is_on_a_page():
    pages = [*DOCS.glob("*.md"), ROOT / "README.md"]
    text = "".join(page.read_text() for page in pages)
    kept = [*DOCS.glob("images/*.svg"), *DOCS.glob("results/*.png")]
    assert len(kept) > 2
    for path in kept:
        name = str(path.relative_to(DOCS))
        assert f"{name})" in text or f'"docs/{name}"' in text


def test_the_code_on_losses_and_stages_runs(tmp_path, monkeypatch):
    """TensorBoard and Weights & Biases are replaced by lists of calls."""
    calls = []

    class Writer:
        def __init__(self, folder):
            calls.append(folder)

        def add_scalar(self, name, value, step):
            calls.append((name, step))

    board = types.ModuleType("torch.utils.tensorboard")
    board.SummaryWriter = Writer
    biases = types.ModuleType("wandb")
    biases.init = lambda project: calls.append(project)
    biases.log = lambda row: calls.append(row["valid_accuracy"])
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
    monkeypatch.setitem(sys.modules, "wandb", biases)
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "train_and_predict.md").read_text()
    page = page[page.index("## Losses") : page.index("## Predict")]
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.M)
    assert len(blocks) == 10
    scope = {}
    for block in blocks:
        # Fewer epochs show the same.
        block = block.replace("epochs=20", "epochs=3").replace("0.6", "0.1")
        exec(compile(block, "docs/train_and_predict.md", "exec"), scope)
    assert calls[:2] == ["runs/first", ("train_loss", 1)]
    assert calls[10] == "papers"
    assert len(calls) == 14
    assert os.listdir(tmp_path) == ["stages.pt"]


def test_the_code_of_the_page_on_labels_runs():
    page = (DOCS / "labels.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.M)
    assert len(blocks) == 3
    scope = {}
    for block in blocks:
        exec(compile(block, "docs/labels.md", "exec"), scope)
    assert scope["found"].shape == (len(scope["data"].test), 4)


def test_the_page_on_swapping_has_a_row_for_every_convolution(docs_table):
    rows = docs_table("swap.md", "## Which layer")
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    expected = [name for name in SWAPS if name.endswith("Conv")]
    assert sorted(listed) == sorted(expected)


def test_the_page_on_swapping_says_what_the_errors_say(docs_table):
    for layers, instead, _, reason in docs_table("swap.md", "## Which layer"):
        for name in re.findall(r"`(\w+)`", layers):
            advice = SWAPS[name]
            if instead == "none":
                assert f"it has no LC version, because {reason}." in advice
            elif instead == "`lc_transform`":
                assert "dgl_lc.lc_transform" in advice
            else:
                first, layer = re.fullmatch(
                    r"(?:`(.*)`, then )?`(\w+)`", instead
                ).groups()
                assert f"dgl.nn.{first} on" in advice or first is None
                assert f"use dgl_lc.nn.{layer} in its place" in advice


def headings(path):
    """The anchors of a page, as GitHub makes them of its headings."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    found = []
    for title in re.findall(r"^#+ (.*)$", text, re.M):
        title = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).lower()
        anchor = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        same = found.count(anchor)
        found.append(anchor)
        yield f"{anchor}-{same}" if same else anchor


@pytest.mark.parametrize(
    "page",
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
        *sorted(DOCS.rglob("*.md")),
        *sorted((ROOT / "examples").rglob("*.md")),
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_links_lead_to_files_and_sections(page):
    for target, anchor in re.findall(
        r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text()
    ):
        if target == "gallery/index.rst":
            continue  # Sphinx makes it of the tutorials
        path = page if target == "" else page.parent / target
        assert path.exists(), target
        if anchor:
            assert anchor in list(headings(path)), f"{target}#{anchor}"
