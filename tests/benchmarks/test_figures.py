"""Figures in pages: collected, written, and compared with the pages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
PAGE = """# Page

It takes <!-- figures: seconds -->?<!-- end figures --> in all.

<!-- figures: times -->
old
<!-- end figures -->

<!-- figures: fresh.svg -->
<!-- end figures -->

The end.
"""


@pytest.fixture
def blocks(script):
    return script("figure_blocks")


@pytest.fixture
def pages(script, tmp_path):
    """A repository with one section, and pages that show it."""
    section, files = script("section"), script("figures_file")
    found = script("figure_pages")
    (tmp_path / "docs" / "more").mkdir(parents=True)
    (tmp_path / "README.md").write_text("nothing here\n")
    (tmp_path / "docs" / "more" / "page.md").write_text(PAGE)

    def draw(rows):
        figure = Figure(figsize=(2, 2))
        figure.add_subplot().bar([1], [rows[0]["value"]])
        return figure

    tables = {
        "times": lambda rows: section.table(rows, what="fresh"),
        "seconds": lambda rows: f"{section.value(rows, name='dgl-lc'):g} s",
    }
    sections = {
        "fresh": section.Section(list, tables, charts={"fresh.svg": draw})
    }

    def collect(value):
        rows = [
            section.row("1M", "dgl-lc", "fresh", value, "s"),
            section.row("1M", "DGL", "fresh", 6, "s"),
        ]
        files.merge_section(
            tmp_path / found.FIGURES,
            "fresh",
            files.describe_run(rows, section.Options(), 1, 0.0),
        )

    def look():
        return found.Pages(tmp_path, sections)

    look.collect, look.root, look.sections = collect, tmp_path, sections
    look.write = lambda: found.write_pages(look())
    look.check = lambda: found.check_pages(look())
    return look


def test_pages_agree_once_they_are_written(pages):
    pages.collect(2)
    problems = pages.check()
    assert [p.partition(" differs")[0] for p in problems] == [
        "docs/more/page.md",
        "docs/figures/fresh.svg",
    ]
    assert "figures.py write" in problems[0]
    assert len(pages.write()) == 2
    assert pages.check() == []
    page = (pages.root / "docs/more/page.md").read_text()
    assert "<!-- figures: seconds -->2 s<!-- end figures --> in all" in page
    assert "\n\n| DGL | 6.00 s (3.0x) |" not in page  # one table
    assert "\n| DGL | 6.00 s (3.0x) |\n\n<!-- end figures -->" in page
    assert page.startswith("# Page\n")
    assert page.endswith("\n\nThe end.\n")
    assert "old" not in page
    assert "![Chart of the section fresh](../figures/fresh.svg)" in page
    # Nothing is left to write.
    assert pages.write() == []


def test_a_figure_that_changes_makes_pages_and_charts_differ(pages):
    pages.collect(2)
    pages.write()
    before = (pages.root / "docs/figures/fresh.svg").read_bytes()
    pages.collect(3)
    assert len(pages.check()) == 2
    pages.write()
    assert pages.check() == []
    assert (pages.root / "docs/figures/fresh.svg").read_bytes() != before


def test_a_figure_that_is_edited_by_hand_is_found(pages):
    pages.collect(2)
    pages.write()
    path = pages.root / "docs/more/page.md"
    path.write_text(path.read_text().replace("6.00 s (3.0x)", "6.00 s (4x)"))
    assert len(pages.check()) == 1
    pages.write()
    assert "6.00 s (3.0x)" in path.read_text()


def test_what_was_not_measured_stays_or_says_so(pages):
    """Figures of before are better than none."""
    pages.write()
    page = (pages.root / "docs/more/page.md").read_text()
    assert page.count("not measured yet: run `make bench`") == 1
    assert "\nold\n" in page
    assert pages.check() == []
    assert not (pages.root / "docs/figures").exists()


def test_a_block_without_figures_is_named(pages):
    (pages.root / "README.md").write_text(
        "<!-- figures: tmies -->\n<!-- end figures -->\n"
    )
    with pytest.raises(ValueError, match=r"README.md: .*no table 'tmies'"):
        pages.check()


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("a <!-- figures: x --> b", "page: the block 'x' does not end"),
        (
            "<!-- figures: x --> <!-- figures: y --> <!-- end figures -->",
            "page: the block 'x' does not end",
        ),
        ("a <!-- end figures --> b", "ends no block"),
        (
            "<!-- end figures --> <!-- figures: x --> 1 <!-- end figures -->",
            "ends no block",
        ),
    ],
)
def test_markers_come_in_pairs(blocks, page, message):
    with pytest.raises(ValueError, match=message):
        blocks.fill(page, str, "page")


def test_markers_in_backticks_are_text(blocks):
    page = "write `<!-- figures: x -->` and `<!-- end figures -->`"
    assert blocks.fill(page, str, "page") == page


def test_a_table_does_not_go_into_a_line(blocks):
    page = "a <!-- figures: x -->1<!-- end figures --> b"
    with pytest.raises(ValueError, match="'x' has several lines"):
        blocks.fill(page, lambda name: "| a |\n| b |", "page")


def test_machine_and_runs_are_tables_as_well(pages):
    pages.collect(2)
    page = pages.root / "README.md"
    texts = [pages().text_of(name, page) for name in ("machine", "runs")]
    assert "cores" in texts[0]
    assert "torch" in texts[0]
    assert "| `fresh` |" in texts[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"format": 2, "sections": {}}, "not a file of figures"),
        ({"format": 1, "sections": {"a": {"rows": []}}}, "section 'a'"),
        ("{", "cannot be read"),
    ],
)
def test_a_damaged_file_of_figures_is_an_error(
    script, tmp_path, content, message
):
    path = tmp_path / "figures.json"
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text)
    with pytest.raises(Exception, match=message):
        script("figures_file").read_figures(path)


# The command


@pytest.fixture
def command(script, monkeypatch, tmp_path):
    """Call figures.py with one section, which is run in this process."""
    figures, section = script("figures"), script("section")
    calls = []

    def run(options):
        calls.append(options.size)
        yield section.row("1M", "dgl-lc", "fresh", len(calls), "s")

    sections = {
        "fresh": section.Section(run),
        "slow": section.Section(run, only_all=True),
    }
    monkeypatch.setattr(figures, "find_sections", lambda: sections)

    def run_here(command):
        monkeypatch.setattr(sys, "argv", command[1:])
        return subprocess.CompletedProcess(command, figures.main())

    monkeypatch.setattr(figures.subprocess, "run", run_here)
    # A commit is asked for by git.
    monkeypatch.setattr(script("figures_file"), "_commit", lambda: "abc")
    monkeypatch.setattr(figures.torch, "set_num_threads", lambda number: None)
    out = tmp_path / "figures.json"

    def call(*words):
        words = ["figures.py", "collect", *words, "--json", str(out)]
        words += ["--scratch", str(tmp_path / "scratch")]
        monkeypatch.setattr(sys, "argv", words)
        return figures.main()

    call.calls, call.out, call.sections = calls, out, sections
    return call


def test_sections_are_collected_once(command, capsys, script):
    assert command("--size", "tiny") == 0
    assert command.calls == ["tiny"]
    first = json.loads(command.out.read_text())["sections"]
    assert first["fresh"]["rows"][0]["value"] == 1
    assert first["fresh"]["commit"] == "abc"
    assert first["fresh"]["machine"]["versions"].keys() >= {"torch", "dgl"}
    # The same again: nothing is to be done. Other options: run again.
    assert command("--size", "tiny") == 0
    assert "collected before" in capsys.readouterr().out
    assert len(command.calls) == 1
    assert command("--size", "tiny", "--again") == 0
    assert len(command.calls) == 2
    assert command("--size", "all") == 0
    assert command.calls[2:] == ["all", "all"]
    # Those are enough for the default size, too.
    assert command() == 0
    assert len(command.calls) == 4


def test_other_work_on_the_machine_is_warned_of(
    command, script, monkeypatch, capsys
):
    work = script("measure").OtherWork
    monkeypatch.setattr(work, "percent", lambda self: 3.0)
    assert command("--size", "tiny") == 0
    assert "warning" not in capsys.readouterr().err
    monkeypatch.setattr(work, "percent", lambda self: 31.0)
    assert command("--size", "tiny", "--again") == 0
    assert "warning: fresh: other processes used 31 %" in (
        capsys.readouterr().err
    )
    sections = json.loads(command.out.read_text())["sections"]
    assert sections["fresh"]["others"] == 31


def test_own_work_is_not_that_of_others(script, monkeypatch):
    measure = script("measure")
    looks = iter([(0.0, 100.0, 10.0), (10.0, 112.0, 20.0)])
    monkeypatch.setattr(
        measure.OtherWork, "_look", staticmethod(lambda: next(looks))
    )
    monkeypatch.setattr(measure.os, "sched_getaffinity", lambda pid: {0, 1})
    # 12 seconds of all processes, 10 of them ours; 20 were possible.
    assert measure.OtherWork().percent() == pytest.approx(10)


def test_code_that_has_changed_is_measured_again(command, script, monkeypatch):
    assert command("--size", "tiny") == 0
    monkeypatch.setattr(
        script("figures_file"), "source_digest", lambda: "other"
    )
    assert command("--size", "tiny") == 0
    assert len(command.calls) == 2


def test_a_section_runs_alone(command):
    assert command("--size", "tiny", "--only", "slow") == 0
    assert list(json.loads(command.out.read_text())["sections"]) == ["slow"]


def test_unknown_sections_are_refused_before_any_work(command, capsys):
    assert command("--only", "fresh", "frehs") == 2
    error = capsys.readouterr().err
    assert error == (
        "error: there is no section 'frehs'; there are fresh, slow\n"
    )
    assert command.calls == []


def test_a_section_that_fails_leaves_the_others(command, monkeypatch, script):
    section = script("section")

    def fail(options):
        raise SystemExit(1)
        yield

    found = {"bad": section.Section(fail), **command.sections}
    monkeypatch.setattr(script("figures"), "find_sections", lambda: found)
    run_here = script("figures").subprocess.run

    def run(words):
        try:
            return run_here(words)
        except SystemExit as end:
            return subprocess.CompletedProcess(words, end.code)

    monkeypatch.setattr(script("figures").subprocess, "run", run)
    assert command("--size", "tiny") == 1
    assert list(json.loads(command.out.read_text())["sections"]) == ["fresh"]


def test_figures_of_tests_do_not_reach_the_pages(script, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["figures.py", "collect", "--size", "tiny"]
    )
    assert script("figures").main() == 2
    assert "give another --json" in capsys.readouterr().err


def test_names_of_tables_are_unique(script, monkeypatch):
    figures, section = script("figures"), script("section")
    module = script("end_to_end")
    monkeypatch.setattr(
        module,
        "SECTIONS_OF_BENCH",
        {
            "a": section.Section(list, {"times": str}),
            "b": section.Section(list, {"times": str}),
        },
    )
    with pytest.raises(ValueError, match=r"b .*'times'.* twice"):
        figures.find_sections(["end_to_end"])


def test_the_default_sections_take_at_most_18_minutes(script):
    sections = script("figures").find_sections()
    assert "end_to_end_arxiv" in sections
    some = script("figures").choose(sections, None, "default")
    assert sum(sections[name].minutes for name in some) <= 18


def test_the_pages_show_the_figures(script, capsys, monkeypatch):
    """If this fails: python benchmarks/figures.py write."""
    monkeypatch.setattr(sys, "argv", ["figures.py", "check"])
    assert script("figures").main() == 0, capsys.readouterr().err
