"""Write the two pull requests to DGL into a checkout of DGL.

    python upstream/make.py path/to/dgl            # both
    python upstream/make.py path/to/dgl --only A   # the layer alone
    python upstream/make.py path/to/dgl --check    # compare, write nothing

A checkout that is not understood is refused before anything is written. A
file that exists and differs is never overwritten.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import generate
import insert
from insert import NotUnderstoodError

FILES = Path(__file__).parent / "files"
CONV = "python/dgl/nn/pytorch/conv"
INIT = f"{CONV}/__init__.py"
API = "docs/source/api/python/nn-pytorch.rst"
TEST = "tests/python/pytorch/nn/conv/test_lcgraphconv.py"
LC = "examples/pytorch/lc"
INDEX = "examples/README.md"

ENTRY = """\
- <a name="lc"></a> Maekawa et al. GNN Transformation Framework for Improving \
Efficiency and Scalability. [Paper link](https://arxiv.org/abs/2207.12000)
    - Example code: [PyTorch](../examples/pytorch/lc)
    - Tags: efficiency, scalability, node classification, mini-batch training
"""

Edit = Callable[[str], str]


@dataclass(frozen=True)
class PullRequest:
    """What a pull request adds to DGL and what it needs there."""

    name: str
    # Texts of new files, by their path in DGL.
    files: dict[str, str]
    # Changes of DGL's files, by their path.
    edits: dict[str, Edit]
    # Paths of DGL that the new files rely on.
    needs: tuple[str, ...]
    # The new module, and the lines of code that the edits add.
    module: str
    edited_lines: int

    def core_lines(self) -> int:
        """Count the lines of code, without scripts, tests, documentation."""
        return generate.core_lines(self.files[self.module]) + self.edited_lines


@dataclass(frozen=True)
class Change:
    """One file of a checkout: its text now (None: no file) and then."""

    path: str
    now: str | None
    then: str


def pull_requests(only: str | None = None) -> list[PullRequest]:
    """Make the texts of pull requests A and B, or of one of them."""
    makers = {"A": _layer, "B": _example}
    return [make() for name, make in makers.items() if only in (None, name)]


def _layer() -> PullRequest:
    def conv_init(text: str) -> str:
        text = insert.import_line(text, "lcgraphconv", "LCGraphConv")
        return insert.name_in_all(text, "LCGraphConv")

    module = f"{CONV}/lcgraphconv.py"
    return PullRequest(
        name="A",
        files={
            module: generate.layer("lcgraphconv"),
            TEST: (FILES / TEST).read_text(),
        },
        edits={
            INIT: conv_init,
            API: partial(
                insert.line_of_list,
                line="~dgl.nn.pytorch.conv.LCGraphConv",
                of="~dgl.nn.pytorch.conv.GraphConv",
            ),
        },
        needs=(
            "python/dgl/base.py",
            f"{CONV}/graphconv.py",
            "tests/backend/__init__.py",
            "tests/utils/graph_cases.py",
        ),
        module=module,
        edited_lines=2,
    )


def _example() -> PullRequest:
    files = {
        f"{LC}/{name}": (FILES / LC / name).read_text()
        for name in ("README.md", "main.py")
    }
    files[f"{LC}/model.py"] = generate.models(
        ["model_on_hops", "lcjknet", "lcgprgnn"],
        "LC versions of JKNet and GPRGNN, which read hops of the features",
    )
    edit = partial(insert.entry_of_section, entry=ENTRY, heading="## 2022")
    return PullRequest(
        name="B",
        files=files,
        edits={INDEX: edit},
        needs=(f"{CONV}/graphconv.py",),
        module=f"{LC}/model.py",
        edited_lines=0,
    )


def compare(checkout: Path, wanted: PullRequest) -> list[Change]:
    """Find what a checkout lacks, or refuse it.

    Nothing is written. A file that git has in another form than expected,
    or that has changes which are not ours, is refused.
    """
    refuse_no_checkout(checkout)
    for path in (*wanted.edits, *wanted.needs):
        if not (checkout / path).is_file():
            raise NotUnderstoodError(
                f"{path} does not exist in {checkout}: this is not DGL, or "
                f"another version of it."
            )
    changes = []
    for path, text in wanted.files.items():
        _refuse_links(checkout, path)
        now, committed = _read(checkout, path), _committed(checkout, path)
        for found in (now, committed):
            if found not in (None, text):
                raise NotUnderstoodError(
                    f"{path} exists and is another file than ours: it is "
                    f"not overwritten. Delete it if an earlier run wrote it."
                )
        changes.append(Change(path, now, text))
    for path, edit in wanted.edits.items():
        _refuse_links(checkout, path)
        now, committed = _read(checkout, path), _committed(checkout, path)
        if now is None or committed is None:
            raise NotUnderstoodError(f"{path} is not a text file that git has.")
        try:
            then = edit(committed)
        except NotUnderstoodError as error:
            raise NotUnderstoodError(f"{path} {error}.") from None
        if now not in (committed, then):
            raise NotUnderstoodError(
                f"{path} has changes that are not ours: commit or stash them."
            )
        changes.append(Change(path, now, then))
    return [change for change in changes if change.now != change.then]


def write(checkout: Path, changes: list[Change]) -> None:
    """Write what :func:`compare` found."""
    for change in changes:
        path = checkout / change.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(change.then.encode())


def _read(checkout: Path, path: str) -> str | None:
    if not (checkout / path).exists():
        return None
    try:
        return (checkout / path).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise NotUnderstoodError(f"{path} cannot be read: {error}") from None


def _committed(checkout: Path, path: str) -> str | None:
    """Read a file of the last commit."""
    done = _git(checkout, "show", f"HEAD:{path}")
    return None if done.returncode else done.stdout.decode(errors="replace")


def _git(checkout: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", checkout, *words], capture_output=True)


def refuse_no_checkout(checkout: Path) -> None:
    """Refuse a path that is not the top of a git checkout."""
    if not checkout.is_dir():
        raise NotUnderstoodError(f"{checkout} is not a folder.")
    try:
        done = _git(checkout, "rev-parse", "--show-toplevel", "HEAD")
    except FileNotFoundError:
        raise NotUnderstoodError("the command git does not exist.") from None
    top = done.stdout.decode().partition("\n")[0]
    if done.returncode or Path(top).resolve() != checkout.resolve():
        raise NotUnderstoodError(
            f"{checkout} is not the top of a git checkout: give the path of "
            f"a clone of https://github.com/dmlc/dgl."
        )


def _refuse_links(checkout: Path, path: str) -> None:
    """Refuse links, which would let a file outside be written."""
    found = (checkout / path).resolve()
    if found != checkout.resolve() / path:
        raise NotUnderstoodError(f"{path} is a link to {found}.")


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="make.py",
        description="Write the pull requests to DGL into a checkout of DGL.",
    )
    parser.add_argument("checkout", type=Path, help="The checkout of DGL.")
    parser.add_argument(
        "--only", choices=["A", "B"],
        help="Pull request A (the layer LCGraphConv) or B (the example) "
        "alone. Default: both.",
    )  # fmt: skip
    parser.add_argument(
        "--check", action="store_true",
        help="Say what the checkout lacks and write nothing. The exit code "
        "is 1 if something differs.",
    )  # fmt: skip
    args = parser.parse_args(arguments)
    wanted = pull_requests(args.only)
    try:
        # All are compared before anything is written.
        found = [compare(args.checkout, request) for request in wanted]
    except NotUnderstoodError as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 2
    for request, changes in zip(wanted, found, strict=True):
        if not args.check:
            write(args.checkout, changes)
        print(
            f"Pull request {request.name}, {request.core_lines()} core lines:"
        )
        for change in changes:
            kind = "new   " if change.now is None else "edited"
            print(f"  {kind} {change.path}")
        if not changes:
            print("  nothing to do")
    return int(args.check and any(found))


if __name__ == "__main__":
    sys.exit(main())
