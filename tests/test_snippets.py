"""Every snippet of the README and of docs/ runs as it is written."""

import contextlib
import io
import os
import re
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch
import torch.distributed as dist
from dgl.nn import GraphConv
from snippets import ROOT, read_blocks, run_python, shell_commands
from torch import nn

from dgl_lc import cli
from dgl_lc.data import block_model
from dgl_lc.training import fit

PAGES = ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
PAGES += ["CONTRIBUTING.md", "examples/README.md", "examples/swap/README.md"]
#: Pages that other tests run, which look at the results as well.
ELSEWHERE = {"docs/serving.md": "tests/transform/test_exports.py"}
#: What is left of a page whose other parts are run by other tests.
PARTS = {
    # tests/test_docs.py runs what is between, and looks at its calls.
    "docs/train_and_predict.md": lambda page: (
        page.partition("\n## Losses")[0]
        + "\n## Predict"
        + page.partition("\n## Predict")[2]
    ),
    # tests/transform/test_lc_errors_doc.py runs the sections of the codes.
    "docs/lc_errors.md": lambda page: page.partition("\n## LC001")[0],
}
SLOW = {"README.md"}
#: Pages with blocks that can't run here, and how many there are.
SKIPPED: dict[str, int] = {}


class GCN(nn.Module):
    """A model as readers have one."""

    def __init__(self, in_feats, out_feats):
        super().__init__()
        self.conv1 = GraphConv(in_feats, 16)
        self.conv2 = GraphConv(16, out_feats)

    def forward(self, g, x):
        return self.conv2(g, self.conv1(g, x).relu())


def what_readers_have():
    """Make the objects that pages speak of, and no imports."""
    data = block_model(300, num_feats=16)
    g = dgl.add_self_loop(dgl.remove_self_loop(data.graph))
    np.save("edges.npy", torch.stack(g.edges()).numpy())
    np.save("features.npy", data.feat.numpy())
    model = GCN(16, data.num_classes)
    return {
        "data": data,
        "g": g,
        "my_graph": g,
        "x": data.feat,
        "my_features": data.feat,
        "feat": data.feat,
        "labels": data.labels,
        "train": data.train,
        "valid": data.valid,
        "test": data.test,
        "labelled": torch.cat([data.train, data.valid]),
        "num_nodes": g.num_nodes(),
        "model": model,
        "my_model": model,
    }


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A folder and the names of a reader; all else is put back.

    Where a snippet does not say how many epochs, they are few.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(fit.__kwdefaults__, "epochs", 3)
    before = dict(os.environ)
    yield what_readers_have()
    if dist.is_initialized():
        dist.destroy_process_group()
    os.environ.clear()
    os.environ.update(before)


def pages_with(kinds):
    """Mark the pages that have blocks of these kinds, for pytest."""
    for name in PAGES:
        page = (ROOT / name).read_text()
        if name not in ELSEWHERE and any(
            block.kind in kinds for block in read_blocks(page)
        ):
            marks = [pytest.mark.slow] if name in SLOW else []
            yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", pages_with({"python", "pycon"}))
def test_python_of_pages_runs(name, reader):
    page = (ROOT / name).read_text()
    page = PARTS.get(name, str)(page)
    skipped = run_python(page, name, reader)
    assert len(skipped) == SKIPPED.get(name, 0)


@pytest.mark.parametrize("name", PAGES)
def test_commands_of_pages_can_be_called(name):
    for line, words in shell_commands((ROOT / name).read_text()):
        try:
            check_command(words, (ROOT / name).parent)
        except (AssertionError, SystemExit) as error:
            pytest.fail(f"{name}:{line}: {' '.join(words)}: {error}")


def check_command(words, folder=ROOT):
    """Parse a command, or look for its script, flags and target.

    Scripts are named from the folder of the page, or from the root.
    """
    if words[0] == "torchrun" and "dgl_lc" in words:
        words = ["dgl-lc", *words[words.index("dgl_lc") + 1 :]]
    if words[0] == "dgl-lc":
        # "…" stands for more, and MODEL for a name.
        words = [{"MODEL": "LCGCN"}.get(word, word) for word in words[1:]]
        while words[-1] == "…":
            del words[-2:]
        heard = io.StringIO()
        with contextlib.redirect_stderr(heard):
            try:
                cli._make_parser(words).parse_args(words)
                code = 0
            except SystemExit as end:
                code = end.code
        assert code == 0, heard.getvalue()
    elif words[0] == "make":
        made = (ROOT / "Makefile").read_text()
        for target in words[1:]:
            assert "=" in target or re.search(rf"^{target}:", made, re.M)
    elif words[1:] and words[1].endswith(".py"):
        path = next(
            (p / words[1] for p in (folder, ROOT) if (p / words[1]).is_file()),
            ROOT / words[1],
        )
        assert path.is_file(), "the script does not exist"
        # Scripts of examples/ share flags.
        code = "".join(p.read_text() for p in path.parent.glob("*.py"))
        for word in words[2:]:
            if word.startswith("--") and word != "--help":
                assert f'"{word.partition("=")[0]}"' in code, word


def test_pages_that_other_tests_run_exist():
    for name, test in ELSEWHERE.items():
        assert Path(name).name in (ROOT / test).read_text()


def test_a_broken_snippet_fails(reader):
    good = "```python\na = 1\n```\n"
    assert run_python(good, "page", {}) == []
    with pytest.raises(NameError):
        run_python(f"{good}\n```python\nprint(a, missing)\n```\n", "page", {})
    with pytest.raises(AssertionError, match="another output"):
        run_python("    >>> 1 + 1\n    3\n", "page", {})


def test_setup_and_skipped_blocks():
    page = """
<!-- test: setup
a = 1
-->

```python
b = a + 1
```

<!-- test: skip needs a GPU -->

```python
b = missing
```
"""
    scope = {}
    assert run_python(page, "page", scope) == ["needs a GPU"]
    assert scope["b"] == 2
    with pytest.raises(ValueError, match="not known"):
        read_blocks("<!-- test: skpi this -->\n")


@pytest.mark.parametrize(
    "command",
    [
        "dgl-lc precompute --data task --hop-count 3",
        "torchrun -m dgl_lc train --data",
        "python benchmarks/precompute.py --no-such-flag",
        "python benchmarks/no_such_script.py",
        "make no-such-target",
    ],
)
def test_a_wrong_command_is_found(command):
    ((_, words),) = shell_commands(f"\n    {command}\n")
    with pytest.raises(AssertionError):
        check_command(words)
