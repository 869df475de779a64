"""Pages of the site whose links work on GitHub as well.

A link to a file outside of docs/ leads to the repository on the web, or is its
path as long as the metadata do not say where that is. Files of the
repository's root, such as CONTRIBUTING.md, are pages of the site.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

#: Pages whose content is a file of the root.
PAGES = {"contributing": "CONTRIBUTING.md", "changelog": "CHANGELOG.md"}

_LINK = re.compile(r"\[([^][]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def _read(app: Sphinx, name: str, content: list[str]) -> None:
    if app.env.doc2path(name, base=False).suffix != ".md":
        return
    root = Path(app.srcdir).parent
    folder = PurePosixPath("docs", name).parent
    if name in PAGES:
        content[0] = (root / PAGES[name]).read_text()
        app.env.note_dependency(str(root / PAGES[name]))
        folder = PurePosixPath()

    def relink(found: re.Match) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        path = _normal(folder / target)
        if not (root / path).exists():
            raise ExtensionError(f"{name}: {target} does not exist")
        if path.parts[:1] == ("docs",):
            up = "../" * name.count("/")
            return f"[{text}]({up}{path.relative_to('docs')}{anchor})"
        for page, file in PAGES.items():
            if str(path) == file:
                return f"[{text}]({page}.md{anchor})"
        if not app.config.repository_url:
            named = text.strip("`").rstrip("/") in (str(path), target)
            return f"`{path}`" if named else f"{text} (`{path}`)"
        kind = "tree" if (root / path).is_dir() else "blob"
        url = f"{app.config.repository_url}/{kind}/main/{path}"
        return f"[{text}]({url}{anchor})"

    content[0] = _LINK.sub(relink, content[0])


def _normal(path: PurePosixPath) -> PurePosixPath:
    """Resolve ``..`` without looking at the disk."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return PurePosixPath(*parts)


def setup(app: Sphinx) -> dict[str, Any]:
    """Let Sphinx rewrite links when it reads a page."""
    app.add_config_value("repository_url", "", "env", str)
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
