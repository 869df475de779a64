"""The report as tables, for notebooks."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..._common.bytes import format_bytes
from .svg import escape

if TYPE_CHECKING:
    from ..report import Report


def report_html(report: "Report") -> str:
    """Write a report as tables of HTML."""
    rows = [
        (entry.formula, entry.name, str(entry.columns))
        for entry in report.inputs
    ]
    parts = [
        _table(("input", "argument of the module", "columns"), rows),
        *(f"<p>{escape(line)}</p>" for line in report.filters),
        f"<p>{report.columns:,} columns, {format_bytes(report.bytes)} for "
        f"{report.num_nodes:,} nodes</p>",
    ]
    if report.exact:
        parts.append("<p>Exact: computes the same as the original.</p>")
    else:
        parts.append("<p>Not exact; aggregation was swapped with:</p>")
        changed = [
            (entry.operation, entry.submodule, entry.kind, str(entry.hops))
            for entry in report.inexact
        ]
        head = ("operation", "submodule", "kind", "aggregations swapped")
        parts.append(_table(head, changed))
    parts.append(f"<p>Checked: {escape(report.checked)}</p>")
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["<table>", _row("th", head)]
    lines += [_row("td", row) for row in rows]
    return "\n".join([*lines, "</table>"])


def _row(tag: str, cells: Sequence[str]) -> str:
    inner = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)
    return f"<tr>{inner}</tr>"
