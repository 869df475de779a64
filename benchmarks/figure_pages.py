"""Pages and charts with figures: writing them, and comparing them."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib
from figure_blocks import fill, find_blocks
from figures_file import machine_text, read_figures, rows_digest, runs_text
from section import Row, Section
from study_tables import study_tables

#: The file with all figures, within the repository. Charts are beside it.
FIGURES = Path("docs") / "figures" / "figures.json"
#: The records of a study that takes hours, which ``make bench`` does not run.
STUDY = Path("docs") / "results" / "today"


class Pages:
    """The pages and charts of a repository, as its figures make them.

    Attributes
    ----------
    root : Path
        Folder with README.md and docs/.
    sections : dict
        The sections of ``make bench``, by name.
    """

    def __init__(self, root: Path, sections: dict[str, Section]):
        self.root, self.sections = root, sections
        self._collected = read_figures(root / FIGURES)
        self._study = study_tables(root / STUDY)

    def text_of(self, table: str, page: Path) -> str | None:
        """Return what stands in a block of a page; None without figures.

        The name of a chart gives a picture, with its path from the page.
        """
        if table == "machine":
            return machine_text(self._collected) or None
        if table == "runs":
            return runs_text(self._collected)
        if table in self._study:
            return self._study[table]
        for name, section in self.sections.items():
            rows = self._collected.get(name, {}).get("rows")
            if table in section.tables:
                return section.tables[table](rows) if rows else None
            if table in section.charts:
                if not rows:
                    return None
                path = (self.root / FIGURES).with_name(table)
                target = os.path.relpath(path, page.parent)
                return f"![Chart of the section {name}]({target})"
        raise LookupError(table)

    @property
    def _names(self) -> list[str]:
        """The names of all tables and charts."""
        return ["machine", "runs", *self._study] + [
            name
            for section in self.sections.values()
            for name in (*section.tables, *section.charts)
        ]

    def filled(self) -> dict[Path, str]:
        """Return the pages that have blocks, as they should be."""
        found = {}
        docs = sorted((self.root / "docs").rglob("*.md"))
        for path in (self.root / "README.md", *docs):
            page, where = path.read_text(), str(path.relative_to(self.root))
            names = [name for name, _, _ in find_blocks(page, where)]
            for name in names:
                if name not in self._names:
                    raise ValueError(
                        f"{where}: there is no table '{name}'; there are "
                        f"{', '.join(self._names)}"
                    )
            if names:
                found[path] = fill(
                    page, partial(self.text_of, page=path), where
                )
        return found

    def charts(self) -> dict[Path, tuple[Callable, list[Row]]]:
        """Return what draws each chart that has figures, and its rows."""
        return {
            (self.root / FIGURES).with_name(file): (
                draw, self._collected[name]["rows"]
            )
            for name, section in self.sections.items()
            if self._collected.get(name, {}).get("rows")
            for file, draw in section.charts.items()
        }  # fmt: skip


def write_pages(pages: Pages) -> list[Path]:
    """Write what differs from the figures, and return it."""
    changed = []
    for path, text in pages.filled().items():
        if path.read_text() != text:
            path.write_text(text)
            changed.append(path)
    for path, (draw, rows) in pages.charts().items():
        if not shows(path, rows):
            save_chart(draw, rows, path)
            changed.append(path)
    return changed


def check_pages(pages: Pages) -> list[str]:
    """Return what differs from the figures, in a sentence each."""
    advice = "run python benchmarks/figures.py write"
    differ = [
        path for path, text in pages.filled().items()
        if path.read_text() != text
    ] + [
        path for path, (_, rows) in pages.charts().items()
        if not shows(path, rows)
    ]  # fmt: skip
    return [
        f"{path.relative_to(pages.root)} differs from {FIGURES}: {advice}"
        for path in differ
    ]


def save_chart(draw: Callable, rows: list[Row], path: Path) -> None:
    """Draw rows as SVG. The file says which rows it shows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "figures"}):
        draw(rows).savefig(
            path, metadata={"Date": None, "Description": _mark(rows)}
        )


def shows(path: Path, rows: list[Row]) -> bool:
    """Tell whether a chart was drawn of these rows."""
    return path.exists() and _mark(rows) in path.read_text()


def _mark(rows: list[Row]) -> str:
    return f"rows {rows_digest(rows)}"
