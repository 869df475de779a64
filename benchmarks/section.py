"""What a section of ``make bench`` is: its rows, its options, its tables.

A script of this folder takes part in ``make bench`` if it has a dict
``SECTIONS_OF_BENCH``::

    from section import Options, Section, row, table

    def fresh(options):
        '''Yield a row for each figure.'''
        for name, call in ...:
            seconds, _ = fastest(call, options.runs)     # of measure.py
            yield row("1M nodes, 16M edges", name, "fresh", seconds, "s",
                      runs=options.runs)

    def fresh_table(rows):
        return table(rows, what="fresh")

    SECTIONS_OF_BENCH = {
        "fresh": Section(fresh, {"fresh": fresh_table}, minutes=2),
    }

- ``run(options)`` yields plain dicts, made by :func:`row`. Each is one measured
  figure: the ``case`` (graph, K, columns), the ``name`` of who was measured
  ("dgl-lc" or the peer), ``what`` was measured ("fresh", "peak"),
  the ``value`` with its ``unit``, and the number of ``runs`` of which it is the
  minimum. More keywords are kept as they are. Ratios are never stored: tables
  compute them.
- ``options.size`` is "tiny" (tests: seconds, and no real graphs), "default"
  (``make bench``, 18 minutes in all) or "all" (``make bench-all``).
- A table is a function of a section's rows that returns Markdown, or a few
  words. ``figures.py write`` puts it into the README and into pages of docs/,
  between ``<!-- figures: NAME -->`` and ``<!-- end figures -->``, which may be
  in one line. Names of tables are unique over all scripts.
- Each section runs in a process of its own, one after another, with torch's
  threads set. Standard output is for people: ``figures.py`` collects what is
  yielded.

A script that is called by hand ends with ``print_rows(fresh(options))``.
"""

import argparse
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from dgl_lc._common.bytes import format_bytes

Row = dict[str, Any]

#: Who is compared with the others.
OURS = "dgl-lc"
#: Units of values, and whether more is better. None: ratios make no sense.
UNITS = {
    "s": False, "ns": False, "B": False, "B/s": True, "rows/s": True,
    "edges/s": True, "x": None, "%": None, "rows": None, "edges": None,
}  # fmt: skip
#: Sizes of a run, from small to large.
SIZES = ("tiny", "default", "all")


@dataclass(frozen=True)
class Options:
    """How a section is run.

    Attributes
    ----------
    size : str
        "tiny", "default" or "all".
    runs : int
        Number of timed runs of which the minimum counts.
    threads : int
        Number of threads.
    data : Path
        Folder with the real graphs; files may be missing.
    scratch : Path
        Folder for large files, which the section deletes at its end.
    """

    size: str = "default"
    runs: int = 3
    threads: int = 2
    data: Path = Path(__file__).parents[2] / "shared" / "data"
    scratch: Path = Path("build") / "bench"

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise ValueError(f"size={self.size!r} is none of {SIZES}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags of :class:`Options` to a script that is called by hand."""
    default = Options()

    def add(name: str, text: str, **kind: Any) -> None:
        parser.add_argument(
            f"--{name}", default=getattr(default, name),
            help=f"{text} (default: %(default)s)", **kind,
        )  # fmt: skip

    add("size", "size of the run", choices=SIZES)
    add("runs", "number of timed runs of each", type=_at_least_1)
    add("threads", "number of threads", type=_at_least_1)
    add("data", "folder with the real graphs", type=Path)
    add("scratch", "folder for large files", type=Path)


def options_of(args: argparse.Namespace) -> Options:
    """Return what was given by the flags of :func:`add_options`."""
    return Options(**{f.name: getattr(args, f.name) for f in fields(Options)})


def _at_least_1(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} should be at least 1")
    return number


@dataclass(frozen=True)
class Section:
    """A part of ``make bench`` that can run alone.

    Attributes
    ----------
    run : callable
        ``run(options)`` yields rows.
    tables : dict
        Functions that make Markdown of the rows, by the names in the pages.
    charts : dict
        Functions that draw the rows as a figure of matplotlib, by the name of
        the SVG file in docs/figures.
    minutes : float
        How long the default size takes on two cores.
    only_all : bool
        Whether the section is left out unless the size is "all".
    """

    run: Callable[[Options], Iterable[Row]]
    tables: dict[str, Callable[[list[Row]], str]] = field(default_factory=dict)
    charts: dict[str, Callable[[list[Row]], Any]] = field(default_factory=dict)
    minutes: float = 1
    only_all: bool = False


def row(
    case: str,
    name: str,
    what: str,
    value: float,
    unit: str,
    *,
    runs: int = 1,
    **more: Any,
) -> Row:
    """Make the row of one measured figure.

    >>> row("1M nodes", "dgl-lc", "fresh", 1.5, "s", runs=3)["value"]
    1.5
    """
    if unit not in UNITS:
        raise ValueError(f"unit={unit!r} is none of {', '.join(UNITS)}")
    value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"{case}, {name}, {what}: the value is {value}")
    return {
        "case": case, "name": name, "what": what, "value": value,
        "unit": unit, "runs": int(runs), **more,
    }  # fmt: skip


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Return the rows that have these values.

    >>> rows = [row("a", "x", "fresh", 1, "s"), row("b", "x", "fresh", 2, "s")]
    >>> [r["value"] for r in select(rows, case="b")]
    [2.0]
    """
    return [r for r in rows if all(r.get(k) == v for k, v in wanted.items())]


def value(rows: Iterable[Row], **wanted: Any) -> float:
    """Return the value of the one row that has these values."""
    found = select(rows, **wanted)
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows have {wanted}, and not one")
    return found[0]["value"]


def times_better(ours: Row, other: Row) -> float | None:
    """Return how many times as good ``ours`` is as ``other``.

    That is as fast, or as small. None where a ratio makes no sense.

    >>> mine = row("1M", "dgl-lc", "fresh", 2, "s")
    >>> times_better(mine, row("1M", "DGL", "fresh", 5, "s"))
    2.5
    """
    if ours["unit"] != other["unit"]:
        raise ValueError(f"{ours['unit']} and {other['unit']} do not compare")
    more_is_better = UNITS[ours["unit"]]
    good, bad = ours["value"], other["value"]
    if not more_is_better:
        good, bad = bad, good
    if more_is_better is None or bad <= 0:
        return None
    return good / bad


def format_value(value: float, unit: str) -> str:
    """Write a value with as many digits as a reader needs.

    >>> format_value(0.0312, "s"), format_value(12.34, "s")
    ('0.031 s', '12.3 s')
    >>> format_value(3 * 2**30, "B"), format_value(88123.4, "rows/s")
    ('3 GiB', '88,123 rows/s')
    """
    if unit == "B":
        return format_bytes(max(0, round(value)))
    if unit == "B/s":
        return f"{value / 1e9:.1f} GB/s"
    if unit in ("%", "x"):
        return f"{value:.1f} %" if unit == "%" else f"{value:.2f}x"
    if unit in ("rows", "edges", "rows/s", "edges/s"):
        return f"{value:,.0f} {unit}"
    digits = 3 if value < 0.1 else 2 if value < 10 else 1
    return f"{value:.{digits}f} {unit}"


def format_ratio(ratio: float | None) -> str:
    """Write how many times as good we are, or nothing.

    >>> format_ratio(2.512), format_ratio(13.2), format_ratio(None)
    ('2.5x', '13x', '')
    """
    if ratio is None:
        return ""
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.1f}x"


def table(
    rows: Iterable[Row],
    *,
    down: str = "name",
    across: str = "case",
    ratio_to: str | None = OURS,
    **wanted: Any,
) -> str:
    """Make a Markdown table of rows, one cell each.

    Rows and columns are in the order in which they first occur. Behind every
    value of another name stands how many times as good ``ratio_to`` is in the
    same column.

    >>> rows = [row("1M", "dgl-lc", "fresh", 2, "s"),
    ...         row("1M", "DGL", "fresh", 5, "s")]
    >>> print(table(rows, what="fresh"))
    | | 1M |
    | --- | --- |
    | **dgl-lc** | **2.00 s** |
    | DGL | 5.00 s (2.5x) |
    """
    rows = select(rows, **wanted)
    cells: dict[tuple[str, str], Row] = {}
    for r in rows:
        place = r[down], r[across]
        if place in cells:
            raise ValueError(f"two rows for {place}: name more of them")
        cells[place] = r
    tops = list(dict.fromkeys(str(r[across]) for r in rows))
    lines = [f"| | {' | '.join(tops)} |", "| --- |" + " --- |" * len(tops)]
    for left in dict.fromkeys(str(r[down]) for r in rows):
        mine = down == "name" and left == ratio_to
        texts = [left, *(_cell(cells, left, t, ratio_to, down) for t in tops)]
        if mine:
            texts = [f"**{t}**" if t else t for t in texts]
        lines.append(f"| {' | '.join(texts)} |")
    return "\n".join(lines)


def _cell(
    cells: dict[tuple[str, str], Row],
    left: str,
    top: str,
    ratio_to: str | None,
    down: str,
) -> str:
    found = cells.get((left, top))
    if found is None:
        return ""
    text = format_value(found["value"], found["unit"])
    by = (ratio_to, top) if down == "name" else (left, ratio_to)
    best = cells.get(by)  # type: ignore[arg-type]
    if best is None or best is found:
        return text
    ratio = format_ratio(times_better(best, found))
    return f"{text} ({ratio})" if ratio else text


def print_rows(rows: Iterable[Row]) -> list[Row]:
    """Print rows as they come, and return all of them."""
    case, found = None, []
    for r in rows:
        if r["case"] != case:
            case = r["case"]
            print(f"\n{case}", flush=True)
        text = format_value(r["value"], r["unit"])
        print(f"  {r['name']:32} {r['what']:24} {text:>14}", flush=True)
        found.append(r)
    return found
