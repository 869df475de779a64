"""The pages of docs/: their code runs, and their tables agree with the code."""

import re
import runpy
from pathlib import Path

import dgl
import pytest
import torch
from dgl.nn import GraphConv

from dgl_lc.swaps import SWAPS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("loops", [[], [0, 3], [0, 1, 2, 3], [0, 0, 1, 3, 3]])
def test_the_lines_of_the_readme_give_the_model_of_the_script(loops):
    """Two linear layers, so that the filter alone makes a difference."""
    readme = (ROOT / "README.md").read_text()
    (lines,) = re.findall(
        r"^```python\n([^`]*^x = block_aggregate[^`]*)```", readme, re.M
    )
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
    kept = sorted((DOCS / "images").glob("*.svg"))
    assert [path.name for path in kept] == [path.name for path in drawn]
    for path in drawn:
        assert path.read_bytes() == (DOCS / "images" / path.name).read_bytes()
        assert path.stat().st_size < 50_000
        page = (DOCS / "lc_transform.md").read_text()
        assert f"(images/{path.name})" in page


def test_the_code_of_the_page_on_swapping_runs():
    page = (DOCS / "swap.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.M)
    assert len(blocks) == 7
    scope = {}
    for block in blocks:
        exec(compile(block, "docs/swap.md", "exec"), scope)


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
