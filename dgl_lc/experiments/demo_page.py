"""The demo's results on a page of HTML that is one file."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from .._common.file_access import open_regular, replace_buffered
from .environment import environment

#: Is written at the beginning of the page, so that it is known as ours.
_GENERATOR = '<meta name="generator" content="dgl-lc demo">'
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1c2226; margin: 0 auto;
  max-width: 60rem; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid #d5dade; }
th:first-child, td:first-child { text-align: left; }
tr.lc { background: #eef5ec; }
img { max-width: 100%; height: auto; }
pre { background: #f4f6f7; padding: .8rem; overflow-x: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; }
pre.commands { white-space: pre; }
li { margin: .4rem 0; }
footer { color: #5b6770; font-size: .85rem; margin-top: 2rem; }
"""


def write_page(
    path: Path, subject: str, parts: Sequence[tuple[str, Any]]
) -> None:
    """Write the page, with all that it shows inside.

    Parameters
    ----------
    path : Path
        The file.
    subject : str
        What was compared, for the title; may be empty.
    parts : sequence of (str, Any)
        "p", "h2" or "pre" with a text, "notes" or "commands" with a list of
        lines, "table" with a frame of texts, or "figure" with the path of a
        PNG file.
    """
    title = "dgl-lc demo" + (f": {subject}" if subject else "")
    body = "\n".join(_part(kind, content) for kind, content in parts)
    found = environment()
    versions = ", ".join(
        f"{name} {found[name]}" for name in ("dgl_lc", "dgl", "torch", "python")
    )
    footer = f"{versions}; {found['threads']} threads, {found['machine']}"
    text = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"{_GENERATOR}\n"
        f'<meta name="viewport" content="width=device-width, '
        f'initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n"
        f"<footer>{escape(footer)}</footer>\n</body>\n</html>\n"
    )

    def write(file: BinaryIO) -> None:
        file.write(text.encode())

    replace_buffered(path, write)


def is_demo_page(path: Path) -> bool:
    """Return whether a file is a page that the demo wrote."""
    if not path.is_file():
        return False
    with open_regular(path) as file:
        return _GENERATOR.encode() in file.read(1000)


def _part(kind: str, content: Any) -> str:
    if kind == "table":
        return _table(content)
    if kind == "notes":
        items = (f"<li>{escape(line.strip())}</li>" for line in content)
        return "<ul>\n" + "\n".join(items) + "\n</ul>"
    if kind == "commands":
        return f'<pre class="commands">{escape(chr(10).join(content))}</pre>'
    if kind == "figure":
        data = base64.b64encode(content.read_bytes()).decode()
        return (
            f'<p><img src="data:image/png;base64,{data}" '
            f'alt="validation accuracy of every model over time"></p>'
        )
    return f"<{kind}>{escape(content)}</{kind}>"


def _table(frame: pd.DataFrame) -> str:
    """Write a frame of texts; rows of LC versions are coloured."""
    head = "".join(f"<th>{escape(name)}</th>" for name in frame.columns)
    rows = []
    for row in frame.itertuples(index=False):
        cells = "".join(f"<td>{escape(str(value))}</td>" for value in row)
        mark = ' class="lc"' if str(row[0]).startswith("LC") else ""
        rows.append(f"<tr{mark}>{cells}</tr>")
    return (
        f"<div><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(rows)
        + "\n</tbody>\n</table></div>"
    )
