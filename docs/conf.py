"""The settings of the site; ``make docs`` builds it."""

import dgl_lc  # isort: skip  # first: it makes DGL importable
import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "dgl-lc"
author = "the authors of dgl-lc"
project_copyright = author
version = release = dgl_lc.__version__

extensions = [
    "command_pages",
    "links_to_files",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_*", "tutorials/*", "Thumbs.db", "gallery/**/*.md5"]
nitpicky = True
# Types of other packages are not looked up: the site builds offline.
nitpick_ignore_regex = [
    (kind, r"(?!dgl_lc\.).*")
    for kind in ("py:class", "py:exc", "py:func", "py:meth")
]
highlight_language = "none"

# Pages are written for GitHub as well.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

# Docstrings of modules that can go to DGL follow its template.
napoleon_google_docstring = False
napoleon_custom_sections = [("Description", "notes_style"), "Note"]
napoleon_use_rtype = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"dgl-lc {release}"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static", "../build/mathjax"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
# SVG needs no fonts, so that one file is the whole of MathJax.
mathjax_path = "tex-svg-full.js"
mathjax3_config = {"svg": {"fontCache": "global"}}

#: Where files of the repository are on the web, as the metadata say; empty as
#: long as they do not say it.
repository_url = next(
    (
        entry.split(", ")[1]
        for entry in metadata.metadata("dgl-lc").get_all("Project-URL") or []
        if entry.startswith("Source, ")
    ),
    "",
)
html_theme_options = {}
if repository_url:
    html_theme_options = {
        "source_repository": repository_url,
        "source_branch": "main",
        "source_directory": "docs/",
    }


sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 600,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_", "__repr__"),
    "remove_config_comments": True,
}
