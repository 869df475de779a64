"""The files for DGL that are made from the modules of ``dgl_lc/nn/plain``.

What goes to DGL is the code that this package runs. Only imports change,
and the imports in docstrings' examples.
"""

import ast
import re
import sys
from pathlib import Path

PLAIN = Path(__file__).parents[1] / "dgl_lc" / "nn" / "plain"

_PACKAGE = re.compile(r"\bdgl_lc\.nn(\.plain)?\b")


def layer(name: str) -> str:
    """Make a layer's module for the folder ``python/dgl/nn/pytorch/conv``.

    Within DGL, the error class is imported from its own module.
    """
    text = (PLAIN / f"{name}.py").read_text()
    outside = "from dgl import DGLError\n"
    if text.count(outside) != 1:
        raise ValueError(f"{name}.py should import DGLError from dgl once.")
    text = text.replace(outside, "")
    last = _imports(text)[-1]
    lines = text.splitlines(keepends=True)
    lines.insert(last.end_lineno or 0, "\nfrom ....base import DGLError\n")
    text = _PACKAGE.sub("dgl.nn", "".join(lines))
    _refuse_imports_of(text, ("dgl", "dgl_lc"), local={"base"})
    return text


def models(names: list[str], docstring: str) -> str:
    """Join modules to one file, ``model.py`` of an example.

    Parameters
    ----------
    names : list of str
        Modules of the plain layer; one imports only from those before it.
    docstring : str
        What the file is.

    Returns
    -------
    str
        The source.
    """
    imports: dict[str, set[str]] = {}
    bodies: list[str] = []
    defined: set[str] = set()
    for name in names:
        text = (PLAIN / f"{name}.py").read_text()
        tree = ast.parse(text)
        for node in _imports(text):
            if isinstance(node, ast.ImportFrom) and node.level:
                if node.module not in names[: names.index(name)]:
                    raise ValueError(
                        f"{name}.py imports from .{node.module}, which is "
                        f"not one of the modules before it: {names}."
                    )
            elif isinstance(node, ast.ImportFrom):
                found = imports.setdefault(f"from {node.module} import", set())
                found |= {ast.unparse(alias) for alias in node.names}
            else:
                imports.setdefault(ast.unparse(node), set())
        own = {node.name for node in tree.body if hasattr(node, "name")}
        if own & defined:
            raise ValueError(f"{own & defined} is defined in two of {names}.")
        defined |= own
        lines = text.splitlines(keepends=True)
        bodies.append("".join(lines[_imports(text)[-1].end_lineno :]).strip())
    statements = [
        " ".join([begin, ", ".join(sorted(found, key=str.lower))]).strip()
        for begin, found in imports.items()
    ]
    head = (
        f'"""{docstring}"""\n'
        f"# pylint: disable= no-member, arguments-differ, invalid-name\n"
        + _sorted(statements)
    )
    text = "\n\n\n".join([head, *bodies]) + "\n"
    text = _PACKAGE.sub("model", text)
    _refuse_imports_of(text, ("dgl_lc",), local=set())
    return text


def core_lines(text: str) -> int:
    """Count lines of code: no blank lines, comments and docstrings.

    >>> core_lines('def f():\\n    "Add."\\n\\n    # Why.\\n    return 1\\n')
    2
    """
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documented |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return sum(
        bool(line.strip())
        and not line.strip().startswith("#")
        and number not in documented
        for number, line in enumerate(text.splitlines(), start=1)
    )


def _imports(text: str) -> list[ast.Import | ast.ImportFrom]:
    """Find the imports at the top level of a module, in their order."""
    return [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def _sorted(statements: list[str]) -> str:
    """Sort imports as usort does: the standard library first."""

    def place(statement: str) -> tuple[bool, bool, str]:
        module = statement.split()[1]
        other = module.partition(".")[0] not in sys.stdlib_module_names
        return other, statement.startswith("from"), module

    ordered = sorted(statements, key=place)
    blocks = ["", ""]
    for statement in ordered:
        blocks[place(statement)[0]] += statement + "\n"
    return "\n".join(block for block in blocks if block).rstrip()


def _refuse_imports_of(
    text: str, packages: tuple[str, ...], local: set[str]
) -> None:
    """Check that all imports were rewritten, those in examples included."""
    for node in _imports(text):
        if isinstance(node, ast.ImportFrom) and node.level:
            names, wrong = [node.module or ""], node.module not in local
        else:
            names = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            wrong = any(name.partition(".")[0] in packages for name in names)
        if wrong:
            raise ValueError(f"The import of {names[0]} cannot go to DGL.")
    if "dgl_lc" in text:
        raise ValueError("The text names dgl_lc, which DGL does not have.")
