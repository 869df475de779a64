"""Check the pull requests to DGL: `make upstream-check DGL=path/to/dgl`.

The checkout itself is not touched. A clone of its last commit is made in a
temporary folder, make.py writes into it, and then run there

- DGL's formatter and pylint with DGL's settings, at the versions that the
  checkout names;
- the new tests and DGL's own tests of its nn modules. The code that they run
  is the installed DGL with our module and lines added, as the checkout has
  no compiled library. Of tests that fail, those that fail without our lines
  as well are listed and do not count;
- the examples of the new module's docstrings.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import make
from insert import NotUnderstoodError

NN_TESTS = "tests/python/pytorch/nn"
# What is cloned: the rest of DGL is C++ and third-party code.
FOLDERS = ["/python", "/tests", "/docs/source", "/examples", "/docker", "/*.*"]


def clone(checkout: Path, copy: Path) -> None:
    """Clone the last commit of a checkout."""
    make.refuse_no_checkout(checkout)
    source = checkout.resolve().as_uri()
    git = ["git", "-C", str(copy)]
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", "--no-checkout", source, str(copy)],
        check=True,
    )
    subprocess.run(
        [*git, "sparse-checkout", "set", "--no-cone", *FOLDERS], check=True
    )
    subprocess.run([*git, "checkout", "-q"], check=True)


def lay_over(target: Path) -> None:
    """Make a copy of the installed DGL that has our module and lines.

    Parameters
    ----------
    target : Path
        The folder that gets the package, to be put on the path of Python.
    """
    spec = importlib.util.find_spec("dgl")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parent
    # Links, as DGL's compiled libraries are large.
    shutil.copytree(
        installed, target / "dgl", copy_function=os.symlink,
        ignore=shutil.ignore_patterns("__pycache__"),
    )  # fmt: skip
    (layer,) = make.pull_requests("A")
    inside = Path(make.CONV).relative_to("python")
    init = target / inside / "__init__.py"
    text = layer.edits[make.INIT](init.read_text())
    init.unlink()
    init.write_text(text)
    module = target / Path(layer.module).relative_to("python")
    module.write_text(layer.files[layer.module])


def check_linters(copy: Path, pylint: str) -> list[str]:
    """Run DGL's linters on our files and say what they find."""
    found = _compare_versions(copy, pylint)
    requests = make.pull_requests()
    ours = [path for request in requests for path in request.files]
    ours = [*filter(lambda path: path.endswith(".py"), ours), make.INIT]
    done = _run(
        [sys.executable, "tests/lint/ufmt_linter.py", "--", *ours], copy
    )
    for line in done.stdout.splitlines():
        message = json.loads(line)
        where = f"{message['path']}:{message['line']}"
        found.append(f"ufmt: {where}: {message['description']}")
    if done.returncode:
        found.append(f"ufmt: {done.stderr.strip()}")
    modules = [requests[0].module, make.INIT]
    done = _run([pylint, "--rcfile=tests/lint/pylintrc", *modules], copy)
    if done.returncode:
        found.append(f"pylint: {done.stdout}{done.stderr}")
    return found


def _compare_versions(copy: Path, pylint: str) -> list[str]:
    """Say which linters have another version than DGL names."""
    asked = (copy / ".lintrunner.toml").read_text()
    asked += (copy / "docker" / "Dockerfile.ci_lint").read_text()
    line = _run([pylint, "--version"], copy).stdout
    have = {"pylint": (re.findall(r"pylint ([\d.]+)", line) or ["none"])[0]}
    for name in ("black", "ufmt", "usort"):
        have[name] = importlib.metadata.version(name)
    print("  " + ", ".join(f"{name} {have[name]}" for name in sorted(have)))
    wrong = []
    for name, version in have.items():
        named = re.findall(rf"\b{name}==([\d.]+)", asked)
        if named != [version]:
            wrong.append(f"{name} is {version}, but DGL uses {named}.")
    return wrong


def check_tests(copy: Path, overlay: Path) -> list[str]:
    """Run the new tests and DGL's nn tests, and say which fail with ours."""
    failed, passed = run_tests(copy, [NN_TESTS], overlay)
    new = sum(passed[name] for name in passed if make.TEST in name)
    print(f"  {passed.total()} tests passed, {new} of them new")
    wrong = [] if new else [f"No test of {make.TEST} passed."]
    ours = [name for name in failed if make.TEST in name]
    others = [name for name in failed if name not in ours]
    before = run_tests(copy, others, None)[0] if others else Counter[str]()
    # Some tests get their graphs in a random order, so that cases are counted.
    for name in others:
        if failed[name] > before[name]:
            ours.append(name)
        else:
            print(f"  fails without ours too: {name} ({before[name]} cases)")
    wrong += [f"test failed: {name} ({failed[name]} cases)" for name in ours]
    return wrong


def run_tests(
    copy: Path, tests: list[str], overlay: Path | None
) -> tuple[Counter[str], Counter[str]]:
    """Run tests of DGL and count the cases that fail and that pass.

    Parameters
    ----------
    copy : Path
        The clone of DGL.
    tests : list of str
        Folders, or functions as ``path::name``.
    overlay : Path or None
        The folder with the DGL to test. None: the installed one.

    Returns
    -------
    tuple of Counter
        The functions with cases that failed, and with cases that passed.
    """
    report = copy / "report.xml"
    done = _run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
            "-o", "junit_family=xunit1", f"--junitxml={report}", *tests,
        ],
        copy, overlay,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest cannot run:\n{done.stdout}{done.stderr}")
    failed, passed = Counter[str](), Counter[str]()
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('file')}::{case.get('name', '').partition('[')[0]}"
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed[name] += 1
        elif "skipped" not in kinds:
            passed[name] += 1
    report.unlink()
    return failed, passed


def check_doctests(copy: Path, overlay: Path) -> list[str]:
    """Run the examples in the docstrings of the new module."""
    code = (
        "import doctest, sys; from dgl.nn.pytorch.conv import lcgraphconv; "
        "found = doctest.testmod(lcgraphconv); print(found); "
        "sys.exit(bool(found.failed or not found.attempted))"
    )
    done = _run([sys.executable, "-c", code], copy, overlay)
    print("  " + (done.stdout.splitlines() or [""])[-1])
    return [f"{done.stdout}{done.stderr}"] if done.returncode else []


def _run(
    command: list[str], folder: Path, overlay: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command with DGL's test environment."""
    folders = [] if overlay is None else [str(overlay)]
    path = os.pathsep.join([*folders, str(folder / "tests")])
    env = os.environ | {
        "DGLBACKEND": "pytorch",
        "DGLTESTDEV": "cpu",
        "CUDA_VISIBLE_DEVICES": "-1",
        "PYTHONPATH": path,
    }
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True
    )


def check(checkout: Path, pylint: str, folder: Path) -> int:
    """Check a checkout within an empty folder and return the exit code."""
    copy, overlay = folder / "dgl", folder / "overlay"
    clone(checkout, copy)
    commit = _run(["git", "log", "-1", "--format=%h of %cs"], copy).stdout
    installed = importlib.metadata.version("dgl")
    print(f"DGL commit {commit.strip()}; tests run on DGL {installed}.")
    refused = make.main([str(copy)])
    if refused:
        return refused
    if any(make.compare(copy, request) for request in make.pull_requests()):
        print("WRONG make.py would write again what it has written.")
        return 1
    lay_over(overlay)
    wrong = []
    for name, step in (
        ("Linters", lambda: check_linters(copy, pylint)),
        ("Tests", lambda: check_tests(copy, overlay)),
        ("Doctests", lambda: check_doctests(copy, overlay)),
    ):
        print(f"{name}:", flush=True)
        found = step()
        print("\n".join(f"  WRONG {line}" for line in found) or "  fine")
        wrong += found
    print(f"{len(wrong)} problems." if wrong else "Everything is fine.")
    return int(bool(wrong))


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="check.py", description="Check the pull requests to DGL."
    )
    parser.add_argument("checkout", type=Path, help="A checkout of DGL.")
    parser.add_argument(
        "--pylint", default="pylint", help="The command pylint to use."
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            # The linters run in another folder.
            pylint = shutil.which(args.pylint)
            if pylint is None:
                raise NotUnderstoodError(f"{args.pylint} does not exist.")
            return check(args.checkout, os.path.abspath(pylint), Path(folder))
        except NotUnderstoodError as error:
            print(f"check.py: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
