"""The reference of the site has every public name, and no other."""

import ast
import re
from pathlib import Path

import pytest

from dgl_lc.cli import COMMANDS

ROOT = Path(__file__).parents[1]
API = ROOT / "docs" / "api"
MODULES = {
    "dgl_lc": "dgl_lc",
    "dgl_lc.data": "data",
    "dgl_lc.nn": "nn",
    "dgl_lc.nn.plain": "plain",
    "dgl_lc.precompute": "precompute",
    "dgl_lc.training": "training",
    "dgl_lc.transform": "transform",
}


def public_names(path):
    """Read ``__all__`` of a file without importing it."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and "__all__" in map(
            ast.unparse, node.targets
        ):
            return ast.literal_eval(node.value)
    return None


def documented(page):
    """Find what a page documents of its own module."""
    kinds = "(?:auto)?(?:class|function|exception|data)"
    directive = rf"^\.\. {kinds}:: (\S+?)(?:\(.*)?$"
    names = re.findall(directive, page, re.M)
    return [name for name in names if "." not in name]


@pytest.mark.parametrize("module", MODULES)
def test_a_page_has_every_public_name(module):
    names = public_names(ROOT / module.replace(".", "/") / "__init__.py")
    page = (API / f"{MODULES[module]}.rst").read_text()
    assert f".. module:: {module}\n" in page
    assert sorted(documented(page)) == sorted(names)


def test_every_module_with_public_names_has_a_page():
    found = [
        ".".join(path.relative_to(ROOT).parent.parts)
        for path in (ROOT / "dgl_lc").rglob("__init__.py")
        if public_names(path) is not None
    ]
    assert sorted(found) == sorted(MODULES)
    index = (API / "index.md").read_text()
    for page in MODULES.values():
        assert f"({page}.rst)" in index


def test_every_command_is_shown():
    page = (API / "commands.md").read_text()
    shown = re.findall(r"^```\{command-help\} (\w+)$", page, re.M)
    assert shown == list(COMMANDS)


def test_every_page_is_in_a_list_of_pages():
    """Sphinx says so as well, but only when the site is built."""
    listed = set()
    for page in ("index", "user_guide"):
        text = (ROOT / "docs" / f"{page}.md").read_text()
        for block in re.findall(r"^```\{toctree\}(.*?)^```", text, re.S | re.M):
            names = re.findall(r"^(?!:)(?:.*<)?([\w/]+)>?$", block, re.M)
            listed |= {name for name in names if name}
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages - listed == {"index"}
