"""The layout of the package: one name for one thing, arrows down only."""

import ast
import collections
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "dgl_lc").rglob("*.py"))


def twice(names):
    counts = collections.Counter(names)
    return sorted(name for name, count in counts.items() if count > 1)


def test_no_two_files_have_one_name():
    # A command is named after what it does, wherever that is done.
    files = [path.name for path in FILES if path.parent.name != "cli"]
    assert twice(name for name in files if name != "__init__.py") == []


def test_no_two_classes_have_one_name():
    found = [
        node.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    assert twice(found) == []


def test_every_function_has_annotations():
    """Kernels have none: Numba reads their types from the arguments."""
    lacking = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            marks = [ast.unparse(mark) for mark in node.decorator_list]
            if any(m.split("(")[0].split(".")[-1] in _COMPILED for m in marks):
                continue
            arguments = [
                a
                for a in node.args.posonlyargs + node.args.args
                if a.arg not in ("self", "cls")
            ] + node.args.kwonlyargs
            if arguments and not any(a.annotation for a in arguments):
                lacking.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert lacking == []


_COMPILED = ("jit", "intrinsic")


def test_arrows_go_down_only():
    pytest.importorskip("importlinter")
    found = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-2000:]
