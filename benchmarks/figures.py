"""Collect the figures of all benchmarks, and put them into the pages.

    python benchmarks/figures.py list
    python benchmarks/figures.py collect [--only end_to_end] [--size all]
    python benchmarks/figures.py write
    python benchmarks/figures.py check

``collect`` runs the sections, each in a process of its own, and writes their
rows to docs/figures/figures.json, with the machine, versions, date and commit.
A section that was collected with the same code, machine and options is not run
again; after an interruption the same command resumes. ``write`` makes tables
of the rows in the README and in docs/, between ``<!-- figures: NAME -->`` and
``<!-- end figures -->``, and draws the charts. ``check`` exits with 1 if a
page or a chart is not what the rows give.
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import torch
from dgl import DGLError
from figure_pages import FIGURES, Pages, check_pages, write_pages
from figures_file import describe_run, is_current, merge_section, read_figures
from measure import OtherWork
from section import Section, add_options, options_of, print_rows

ROOT = Path(__file__).parents[1]
#: Percent of the cores that other processes may use during a measurement.
MOST_OTHERS = 5


def find_scripts(folder: Path = Path(__file__).parent) -> list[str]:
    """Return the names of the scripts that have sections."""
    return [
        path.stem for path in sorted(folder.glob("*.py"))
        if "\nSECTIONS_OF_BENCH" in path.read_text()
    ]  # fmt: skip


def find_sections(scripts: list[str] | None = None) -> dict[str, Section]:
    """Return the sections of all scripts; names of tables are unique."""
    found: dict[str, Section] = {}
    tables: set[str] = set()
    for script in find_scripts() if scripts is None else scripts:
        module = importlib.import_module(script)
        for name, section in module.SECTIONS_OF_BENCH.items():
            names = {*section.tables, *section.charts}
            if name in found or tables & names:
                raise ValueError(
                    f"{script}: {name} or {sorted(tables & names)} exists twice"
                )
            found[name] = section
            tables |= names
    return found


def check_known(sections: dict[str, Section], name: str) -> None:
    """Refuse the name of a section that does not exist."""
    if name not in sections:
        raise ValueError(
            f"there is no section '{name}'; there are {', '.join(sections)}"
        )


def choose(
    sections: dict[str, Section], only: list[str] | None, size: str
) -> list[str]:
    """Return the names of the sections to run."""
    if only is None:
        return [
            name for name, section in sections.items()
            if size == "all" or not section.only_all
        ]  # fmt: skip
    for name in only:
        check_known(sections, name)
    return [name for name in sections if name in only]


# Collecting


def collect(args: argparse.Namespace) -> int:
    """Run sections, and keep what each has found as soon as it ends."""
    sections = find_sections()
    options = options_of(args)
    if args.size == "tiny" and args.json == ROOT / FIGURES:
        raise ValueError(
            "--size tiny gives figures for tests alone: give another --json"
        )
    failed = []
    for name in choose(sections, args.only, args.size):
        known = read_figures(args.json).get(name)
        if known and is_current(known, options) and not args.again:
            print(f"{name}: collected before, on {known['date']}")
            continue
        print(
            f"\n== {name} (about {sections[name].minutes:g} minutes by "
            f"default)", flush=True,
        )  # fmt: skip
        found = _run_apart(name, args)
        if found is None:
            failed.append(name)
        else:
            merge_section(args.json, name, found)
            if found["others"] > MOST_OTHERS:
                print(
                    f"warning: {name}: other processes used "
                    f"{found['others']:.0f} % of the cores meanwhile; measure "
                    f"it again (--again) on a machine that does nothing else",
                    file=sys.stderr,
                )
    if failed:
        print(f"error: {', '.join(failed)} failed", file=sys.stderr)
    return 1 if failed else 0


def _run_apart(name: str, args: argparse.Namespace) -> dict[str, Any] | None:
    """Run a section in a process of its own; None if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "section.json"
        ended = subprocess.run([
            sys.executable, __file__, "run", name, "--out", str(out),
            "--size", args.size, "--runs", str(args.runs),
            "--threads", str(args.threads), "--data", str(args.data),
            "--scratch", str(args.scratch),
        ])  # fmt: skip
        if ended.returncode:
            return None
        return json.loads(out.read_text())


def run(args: argparse.Namespace) -> int:
    """Run one section in this process, for :func:`collect`."""
    options = options_of(args)
    options.scratch.mkdir(parents=True, exist_ok=True)
    sections = find_sections()
    check_known(sections, args.name)
    torch.set_num_threads(options.threads)
    start, others = time.perf_counter(), OtherWork()
    rows = print_rows(sections[args.name].run(options))
    seconds = time.perf_counter() - start
    found = describe_run(rows, options, seconds, others.percent())
    args.out.write_text(json.dumps(found))
    return 0


def show_list(args: argparse.Namespace) -> int:
    """Print the sections, their minutes and the names of their tables."""
    for name, section in find_sections().items():
        when = "only with --size all" if section.only_all else (
            f"about {section.minutes:g} minutes"
        )  # fmt: skip
        print(
            f"{name}: {when}; {', '.join([*section.tables, *section.charts])}"
        )
    return 0


# The command


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, call: Callable, text: str) -> Any:
        found = commands.add_parser(name, help=text, description=text)
        found.set_defaults(call=call)
        return found

    command("list", show_list, "List the sections and their tables.")
    collecting = command("collect", collect, "Run sections of the benchmarks.")
    collecting.add_argument(
        "--only", nargs="+", metavar="SECTION",
        help="sections to run (default: all)",
    )  # fmt: skip
    collecting.add_argument(
        "--again", action="store_true",
        help="run sections that were collected with this code as well",
    )  # fmt: skip
    collecting.add_argument(
        "--json", type=Path, default=ROOT / FIGURES,
        help="file of the figures (default: docs/figures/figures.json)",
    )  # fmt: skip
    running = command("run", run, "Run a section in this process.")
    running.add_argument("name", help="name of the section")
    running.add_argument(
        "--out", type=Path, required=True, help="file for its rows"
    )
    for one in (collecting, running):
        add_options(one)
    command("write", write, "Write the figures into the pages.")
    command("check", check, "Compare the pages with the figures.")
    return parser.parse_args(argv)


def write(args: argparse.Namespace) -> int:
    """Write the pages and the charts that are not what the rows give."""
    for path in write_pages(find_pages()):
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


def check(args: argparse.Namespace) -> int:
    """Exit with 1 if a page or a chart is not what the rows give."""
    found = check_pages(find_pages())
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if found else 0


def find_pages() -> Pages:
    return Pages(ROOT, find_sections())


def main() -> int:
    args = parse_args()
    try:
        return args.call(args)
    except (ValueError, DGLError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
