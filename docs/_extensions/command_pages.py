"""A directive that shows the help of a command of ``dgl-lc``."""

import os
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dgl_lc import cli


def command_help(words: list[str]) -> str:
    """Write the help of a command, such as that of ``store extend``."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "80"
    try:
        parser = cli._make_parser(words)
        for word in words:
            choices = parser._subparsers._group_actions[0].choices
            parser = choices[word]
        return parser.format_help()
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


class CommandHelp(SphinxDirective):
    """``.. command-help:: train`` shows ``dgl-lc train --help``."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        text = command_help(self.arguments[0].split())
        return [nodes.literal_block(text, text, language="none")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive to Sphinx."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
