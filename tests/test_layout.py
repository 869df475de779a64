"""The layout of the package: one name for one thing, arrows down only."""

import ast
import collections
import functools
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLAIN = ROOT / "dgl_lc/nn/plain"
# Plain modules follow DGL's rules, and share their names with what adds hop
# features to them.
FILES = sorted(set((ROOT / "dgl_lc").rglob("*.py")) - set(PLAIN.rglob("*.py")))


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


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
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    ]
    assert twice(found) == []


def test_every_function_has_annotations():
    """Kernels have none: Numba reads their types from the arguments."""
    lacking = []
    for path in FILES:
        for node in ast.walk(parsed(path)):
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


_BLOCKED = """
import importlib, pathlib, sys, types
root = pathlib.Path(sys.argv[1])
# What the real packages would import is not what is tested here.
for name in ("dgl_lc", "dgl_lc.nn"):
    package = types.ModuleType(name)
    package.__path__ = [str(root.joinpath(*name.split(".")))]
    sys.modules[name] = package
class Blocked:
    def find_spec(self, name, path=None, target=None):
        ours = name.startswith("dgl_lc.") and not name.startswith(
            "dgl_lc.nn.plain")
        if ours or name.split(".")[0] in ("numba", "llvmlite"):
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocked())
for path in sorted((root / "dgl_lc/nn/plain").glob("*.py")):
    importlib.import_module("dgl_lc.nn.plain." + path.stem)
plain = sys.modules["dgl_lc.nn.plain"]
import torch
print(plain.LCJKNet(4, 3, 2)(None, torch.ones(4, 5, 4)).shape)
"""


def test_plain_modules_need_torch_and_dgl_alone():
    graphbolt = sys.modules.get("dgl.graphbolt")
    if graphbolt is not None and not hasattr(graphbolt, "__file__"):
        pytest.skip("this DGL can't be imported without dgl_lc")
    found = subprocess.run(
        [sys.executable, "-c", _BLOCKED, str(ROOT)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert found.stdout == "torch.Size([5, 2])\n", found.stderr[-2000:]


def test_plain_modules_are_written_for_python_3_8():
    for path in PLAIN.glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 8))
