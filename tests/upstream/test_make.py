"""Writing the pull requests into a checkout of DGL."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import check
import generate
import insert
import make
import pytest

from .conftest import commit

INIT = "python/dgl/nn/pytorch/conv/__init__.py"
MODULE = "python/dgl/nn/pytorch/conv/lcgraphconv.py"
TEST = "tests/python/pytorch/nn/conv/test_lcgraphconv.py"
API = "docs/source/api/python/nn-pytorch.rst"
INDEX = "examples/README.md"
EXAMPLE = [
    f"examples/pytorch/lc/{name}"
    for name in ("README.md", "main.py", "model.py")
]


def status(checkout):
    """The files that differ from the last commit, with git's letters."""
    done = subprocess.run(
        ["git", "-C", checkout, "status", "--porcelain", "-uall"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {line[3:]: line[:2].strip() for line in done.stdout.splitlines()}


def added(checkout, path):
    """The lines that differ from the last commit, with their signs."""
    done = subprocess.run(
        ["git", "-C", checkout, "diff", "-U1", path],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [
        line
        for line in done.stdout.splitlines()[4:]
        if not line.startswith("@@")
    ]


def run(checkout, capsys, *words):
    """Run make.py; return the exit code, the output and the error."""
    code = make.main([str(checkout), *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_both_pull_requests_are_written(checkout, capsys):
    code, out, err = run(checkout, capsys)
    assert (code, err) == (0, "")
    new = [MODULE, TEST, *EXAMPLE]
    assert status(checkout) == dict.fromkeys(new, "??") | dict.fromkeys(
        [INIT, API, INDEX], "M"
    )
    for path in status(checkout):
        assert path in out


def test_lines_are_inserted_where_they_belong(checkout, capsys):
    run(checkout, capsys)
    assert added(checkout, INIT) == [
        " )",
        "+from .lcgraphconv import LCGraphConv",
        " from .omega import Omega",
        '     "Omega",',
        '+    "LCGraphConv",',
        " ]",
    ]
    assert added(checkout, API) == [
        "     ~dgl.nn.pytorch.conv.Omega",
        "+    ~dgl.nn.pytorch.conv.LCGraphConv",
        " ",
    ]
    lines = added(checkout, INDEX)
    assert lines[0] == "     - Example code: [PyTorch](two)"
    assert [line[0] for line in lines[1:4]] == ["+"] * 3
    assert lines[4:] == [" "]
    assert "https://arxiv.org/abs/2207.12000" in lines[1]


def test_an_import_goes_to_the_end_if_all_others_come_before():
    text = "from .a import A\nfrom .b import B\n\nx = 1\n"
    assert insert.import_line(text, "c", "C") == (
        "from .a import A\nfrom .b import B\nfrom .c import C\n\nx = 1\n"
    )


def test_a_last_line_without_an_end_gets_one():
    assert insert.import_line("from .a import A", "b", "B") == (
        "from .a import A\nfrom .b import B\n"
    )


def test_a_second_run_changes_nothing(checkout, capsys):
    run(checkout, capsys)

    def written():
        paths = [checkout / path for path in status(checkout)]
        return {path: path.stat().st_mtime_ns for path in paths}

    before = written()
    code, out, _ = run(checkout, capsys)
    assert code == 0
    assert out.count("nothing to do") == 2
    assert written() == before
    # After a commit as well.
    commit(checkout)
    assert run(checkout, capsys)[0] == 0
    assert status(checkout) == {}


def test_one_pull_request_alone(checkout, capsys):
    assert run(checkout, capsys, "--only", "A")[0] == 0
    assert set(status(checkout)) == {MODULE, TEST, INIT, API}
    assert run(checkout, capsys, "--only", "B")[0] == 0
    assert set(status(checkout)) == {MODULE, TEST, INIT, API, INDEX, *EXAMPLE}


def test_check_says_what_differs_and_writes_nothing(checkout, capsys):
    code, out, _ = run(checkout, capsys, "--check")
    assert code == 1
    assert f"new    {MODULE}" in out
    assert f"edited {INIT}" in out
    assert status(checkout) == {}
    run(checkout, capsys)
    code, out, _ = run(checkout, capsys, "--check")
    assert code == 0
    assert out.count("nothing to do") == 2


def test_lines_that_are_missing_are_added_to_those_that_exist(checkout, capsys):
    text = (checkout / INIT).read_text()
    ours = "from .lcgraphconv import LCGraphConv\n"
    text = text.replace("from .omega", f"{ours}from .omega")
    (checkout / INIT).write_text(text)
    commit(checkout)
    assert run(checkout, capsys)[0] == 0
    assert added(checkout, INIT) == [
        '     "Omega",',
        '+    "LCGraphConv",',
        " ]",
    ]


def remove(path):
    return lambda checkout: (checkout / path).unlink()


def replace(path, old, new):
    def edit(checkout):
        text = (checkout / path).read_text()
        assert old in text
        (checkout / path).write_text(text.replace(old, new))

    return edit


def write(path, text):
    def add(checkout):
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text(text)

    return add


LIST = '[\n    "GraphConv",\n    "Omega",\n]'


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove(INIT), f"{INIT} does not exist"),
        (remove(API), f"{API} does not exist"),
        (remove(INDEX), f"{INDEX} does not exist"),
        (remove("python/dgl/base.py"), "base.py does not exist"),
        (remove("tests/backend/__init__.py"), "backend/__init__.py does not"),
        (replace(INIT, "__all__", "names"), "__init__.py has no __all__"),
        (replace(INIT, LIST, "[]"), "has no __all__"),
        (replace(INIT, LIST, 'make(\n    "Omega",\n)'), "has no __all__"),
        (replace(INIT, LIST, '["GraphConv"]'), "one name per line"),
        (replace(INIT, "from .", "from dgl."), "has no imports such as"),
        (replace(INIT, "(", "(("), "is not Python"),
        (
            replace(INIT, "from .omega", "from .lcgraphconv"),
            "imports something else from .lcgraphconv",
        ),
        (replace(API, "GraphConv", "Conv"), "should list ~dgl"),
        (replace(API, "Alpha", "GraphConv"), "should list ~dgl"),
        (replace(API, "    ~dgl.nn.pytorch.conv.Omega", "Omega"), "indents"),
        (replace(INDEX, "## 2022", "## then"), "heading '## 2022' once"),
        (replace(INDEX, "## 2021", "## 2022"), "heading '## 2022' once"),
        (
            replace(INDEX, "- Two", make.ENTRY.splitlines()[0]),
            "has our entry, but with other lines",
        ),
        (write(MODULE, "LCGraphConv = 1\n"), f"{MODULE} exists and is another"),
        (write(EXAMPLE[1], "print()\n"), f"{EXAMPLE[1]} exists and is another"),
    ],
)
@pytest.mark.parametrize("words", [[], ["--check"]])
def test_a_checkout_that_is_not_understood_is_refused(
    checkout, capsys, damage, message, words
):
    damage(checkout)
    commit(checkout)
    code, out, err = run(checkout, capsys, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert status(checkout) == {}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (replace(INIT, "Alpha", "Beta"), f"{INIT} has changes that are not"),
        (replace(API, "Layers", "Layer"), f"{API} has changes that are not"),
        (replace(INDEX, "One", "1"), f"{INDEX} has changes that are not"),
        (write(TEST, "mine = 1\n"), f"{TEST} exists and is another file"),
        (
            lambda checkout: (checkout / INIT).write_bytes(b"\xff"),
            f"{INIT} cannot be read",
        ),
    ],
)
def test_changes_of_others_are_kept(checkout, capsys, damage, message):
    damage(checkout)
    before = {path: (checkout / path).read_bytes() for path in status(checkout)}
    code, out, err = run(checkout, capsys)
    assert (code, out) == (2, "")
    assert message in err
    after = {path: (checkout / path).read_bytes() for path in status(checkout)}
    assert before == after


def test_changes_of_others_on_top_of_ours_are_kept(checkout, capsys):
    run(checkout, capsys)
    replace(MODULE, "class LC", "# mine\nclass LC")(checkout)
    code, _, err = run(checkout, capsys)
    assert code == 2
    assert "exists and is another file than ours" in err
    assert "# mine" in (checkout / MODULE).read_text()


def test_a_file_of_theirs_that_was_deleted_is_refused(checkout, capsys):
    write(MODULE, "theirs = 1\n")(checkout)
    commit(checkout)
    remove(MODULE)(checkout)
    code, _, err = run(checkout, capsys)
    assert code == 2
    assert "exists and is another file than ours" in err


def test_nothing_outside_is_written_through_a_link(checkout, tmp_path, capsys):
    outside = tmp_path / "outside"
    outside.mkdir()
    os.symlink(outside, checkout / "examples" / "pytorch")
    code, _, err = run(checkout, capsys)
    assert code == 2
    assert "is a link" in err
    assert list(outside.iterdir()) == []


def test_a_path_that_is_not_a_checkout_is_refused(checkout, tmp_path, capsys):
    assert "is not a folder" in run(tmp_path / "none", capsys)[2]
    message = "is not the top of a git checkout"
    assert message in run(checkout / "python", capsys)[2]
    shutil.rmtree(checkout / ".git")
    code, _, err = run(checkout, capsys)
    assert code == 2
    assert message in err


def test_a_repository_without_commits_is_refused(tmp_path, capsys):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    code, _, err = run(tmp_path, capsys)
    assert code == 2
    assert "is not the top of a git checkout" in err


def test_nothing_is_written_if_one_of_the_two_is_refused(checkout, capsys):
    remove(INDEX)(checkout)
    commit(checkout)
    assert run(checkout, capsys)[0] == 2
    assert status(checkout) == {}


@pytest.mark.parametrize("name", ["A", "B"])
def test_the_texts_say_how_small_the_pull_requests_are(name):
    (request,) = make.pull_requests(name)
    assert request.core_lines() < 200
    text = (make.FILES.parent / f"pull_request_{name.lower()}.md").read_text()
    (limit,) = re.findall(r"fewer than (\d+) lines of code", text)
    assert int(limit) - 50 < request.core_lines() < int(limit)
    if name == "B":
        (limit,) = re.findall(r"script has fewer than (\d+) more", text)
        script = generate.core_lines(request.files[f"{make.LC}/main.py"])
        assert script < int(limit)
    for path in (*request.files, *request.edits):
        assert path.rpartition("/")[2] in text


def test_the_kit_fits_a_named_checkout_of_dgl(tmp_path, capsys):
    """Set DGL_CHECKOUT to run this; a clone is written, not the checkout."""
    path = os.environ.get("DGL_CHECKOUT")
    if not path:
        pytest.skip("DGL_CHECKOUT does not name a checkout of DGL")
    copy, overlay = tmp_path / "dgl", tmp_path / "overlay"
    check.clone(Path(path), copy)
    code, _, err = run(copy, capsys)
    assert (code, err) == (0, "")
    assert set(status(copy)) == {MODULE, TEST, INIT, API, INDEX, *EXAMPLE}
    assert run(copy, capsys, "--check")[0] == 0
    check.lay_over(overlay)
    failed, passed = check.run_tests(copy, [TEST], overlay)
    assert not failed
    assert passed.total() > 100
