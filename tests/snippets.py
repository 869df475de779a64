"""The code of a Markdown page, as a reader would paste it.

Blocks of one page run in their order, in one namespace and in a new folder.
What a reader has already (a model, files) comes from a comment in the page,
which readers do not see::

    <!-- test: setup
    data = block_model(300)
    -->

``<!-- test: skip REASON -->`` before a block says why it can't run.
"""

import doctest
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

_FENCE = re.compile(r"^```(\w*).*?\n(.*?)^```$", re.DOTALL | re.M)
_COMMENT = re.compile(r"^<!-- test: (\w+)(.*?)-->$", re.DOTALL | re.M)
_INDENTED = re.compile(r"(?:^\n|\A)((?:^ {4}.*\n|^\n(?= {4}))+)", re.M)


@dataclass(frozen=True)
class Block:
    """Something of a page that is run.

    Attributes
    ----------
    kind : str
        "python", "pycon", "shell", "setup" or "skip".
    text : str
        The code, or the reason why the next block is skipped.
    line : int
        Where it begins in the page.
    """

    kind: str
    text: str
    line: int


def read_blocks(page: str) -> list[Block]:
    """Find the code of a page, in the order of the page."""
    found, covered = [], []
    for match in _COMMENT.finditer(page):
        kind, text = match[1], match[2].strip()
        if kind not in ("setup", "skip") or not text:
            raise ValueError(f"<!-- test: {kind} … --> is not known")
        found.append((match.start(2), kind, match[2].lstrip(" ")))
        covered.append(match.span())
    for match in _FENCE.finditer(page):
        language, code = match[1], match[2]
        covered.append(match.span())
        if language in ("python", "pycon"):
            found.append((match.start(2), language, code))
        elif language in ("", "shell", "bash", "console"):
            found.append((match.start(2), "shell", code))
    for match in _INDENTED.finditer(page):
        if any(a <= match.start(1) < b for a, b in covered):
            continue
        code = re.sub(r"^ {4}", "", match[1], flags=re.M)
        kind = "pycon" if code.startswith(">>> ") else "shell"
        found.append((match.start(1), kind, code))
    return [
        Block(kind, text, page.count("\n", 0, start) + 1)
        for start, kind, text in sorted(found)
    ]


def run_python(page: str, name: str, scope: dict) -> list[str]:
    """Run the Python code of a page; return the reasons of skipped blocks."""
    skipped: list[str] = []
    skip = False
    for block in read_blocks(page):
        if block.kind == "skip":
            skipped.append(block.text.strip())
            skip = True
        elif block.kind != "setup" and skip:
            skip = False
        elif block.kind in ("python", "setup"):
            # The numbers of lines in an error are those of the page.
            code = "\n" * (block.line - 1) + block.text
            exec(compile(code, name, "exec"), scope)
        elif block.kind == "pycon":
            _run_session(block, name, scope)
    return skipped


def _run_session(block: Block, name: str, scope: dict) -> None:
    """Run a block with prompts; compare the output that it shows, if any."""
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    parser = doctest.DocTestParser()
    test = parser.get_doctest(block.text, {}, name, name, block.line - 1)
    if not any(example.want for example in test.examples):
        for example in test.examples:
            exec(compile(example.source, name, "exec"), scope)
        return
    test.globs = scope
    runner = doctest.DocTestRunner(optionflags=flags)
    runner.run(test, clear_globs=False)
    if runner.failures:
        raise AssertionError(f"{name}: the session shows another output")


def shell_commands(page: str) -> list[tuple[int, list[str]]]:
    """Find the commands of a page: the line, and the words of each."""
    commands = []
    for block in read_blocks(page):
        if block.kind != "shell":
            continue
        text = block.text.replace("\\\n", " ")
        for line in text.splitlines():
            first = line.split(maxsplit=1)[:1]
            if first in (["dgl-lc"], ["torchrun"], ["python"], ["make"]):
                words = shlex.split(line, comments=True)
                commands.append((block.line, words))
    return commands
