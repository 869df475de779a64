"""Every section of make bench runs on small graphs, and fills its tables.

By day, those that take no seconds do; at night, all of them. The tables and
charts of the measured figures are made by day as well: test_figures.py
compares them with the pages.
"""

from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MARK = "\nSECTIONS_OF_BENCH"
#: Sections that only real graphs have rows for.
REAL_ALONE = {"shuffling"}
#: Scripts whose sections take no seconds.
QUICK = {"shuffling", "store"}


def scripts_with_sections():
    for path in sorted(BENCHMARKS.glob("*.py")):
        # Others are run by test_end_to_end.py and test_scripts.py.
        others = (
            "end_to_end", "figures", "section", "narrow", "reorder", "roofline"
        )  # fmt: skip
        if path.stem not in others and MARK in path.read_text():
            marks = () if path.stem in QUICK else pytest.mark.slow
            yield pytest.param(path.stem, marks=marks)


@pytest.mark.parametrize("name", scripts_with_sections())
def test_small_runs_fill_the_tables(script, tmp_path, name):
    for section_name, section in script(name).SECTIONS_OF_BENCH.items():
        check(script, section, tmp_path / section_name, section_name)


def check(script, section, folder, name):
    options = script("section").Options(
        size="tiny", runs=1, threads=torch.get_num_threads(),
        data=folder / "none", scratch=folder / "scratch",
    )  # fmt: skip
    options.scratch.mkdir(parents=True)
    rows = list(section.run(options))
    if name in REAL_ALONE:
        assert rows == []
        return
    assert rows
    for r in rows:
        assert script("section").row(**r) == r
    for make in section.tables.values():
        assert make(rows).strip()
    for draw in section.charts.values():
        assert draw(rows).axes
    assert list(options.scratch.rglob("*")) == []
