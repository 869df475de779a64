"""Inserting lines into files of DGL, by what stands there."""

import ast
import re


class NotUnderstoodError(Exception):
    """A checkout that is not as expected. Nothing was written."""


def import_line(text: str, module: str, name: str) -> str:
    """Import a name from a module of the same package, in sorted order."""
    line = f"from .{module} import {name}\n"
    if line in text.splitlines(keepends=True):
        return text
    found = [
        node
        for node in _parse(text).body
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
    ]
    if not found:
        raise NotUnderstoodError("has no imports such as 'from .module import'")
    if any(node.module == module for node in found):
        raise NotUnderstoodError(f"imports something else from .{module}")
    places = [node.lineno - 1 for node in found if str(node.module) > module]
    places.append(found[-1].end_lineno or 0)
    return _insert(text, places[0], line)


def name_in_all(text: str, name: str) -> str:
    """Add a name at the end of ``__all__``."""
    for node in _parse(text).body:
        if not isinstance(node, ast.Assign):
            continue
        if [ast.unparse(target) for target in node.targets] != ["__all__"]:
            continue
        if not isinstance(node.value, ast.List) or not node.value.elts:
            break
        if name in [ast.literal_eval(entry) for entry in node.value.elts]:
            return text
        last = node.value.elts[-1]
        lines = text.splitlines(keepends=True)
        line = lines[last.lineno - 1]
        whole = re.fullmatch(r"""(\s+)(["']).*\2,\n""", line)
        if whole is None:
            break
        indent, quote = whole.groups()
        return _insert(text, last.lineno, f"{indent}{quote}{name}{quote},\n")
    raise NotUnderstoodError("has no __all__ = [...] with one name per line")


def line_of_list(text: str, line: str, of: str) -> str:
    """Add a line at the end of the indented list that has the line ``of``."""
    lines = text.splitlines(keepends=True)
    if line in [found.strip() for found in lines]:
        return text
    places = [
        number for number, found in enumerate(lines) if found.strip() == of
    ]
    if len(places) != 1:
        raise NotUnderstoodError(f"should list {of} once")
    (place,) = places
    indent = lines[place][: lines[place].index(of)]
    while place < len(lines) and lines[place].strip():
        if not lines[place].startswith(indent):
            raise NotUnderstoodError(f"has a list of {of} with other indents")
        place += 1
    return _insert(text, place, f"{indent}{line}\n")


def entry_of_section(text: str, entry: str, heading: str) -> str:
    """Add an entry at the end of a section of a Markdown file."""
    if entry in text:
        return text
    lines = text.splitlines(keepends=True)
    places = [n for n, line in enumerate(lines) if line.strip() == heading]
    if len(places) != 1:
        raise NotUnderstoodError(f"should have the heading '{heading}' once")
    if entry.splitlines()[0] in text:
        raise NotUnderstoodError("has our entry, but with other lines")
    level = heading.split()[0] + " "
    end = places[0] + 1
    while end < len(lines) and not lines[end].startswith(level):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return _insert(text, end, entry)


def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise NotUnderstoodError(f"is not Python: {error.msg}") from None


def _insert(text: str, place: int, new: str) -> str:
    """Insert before the line with this number, counted from 0."""
    lines = text.splitlines(keepends=True)
    if place and not lines[place - 1].endswith("\n"):
        lines[place - 1] += "\n"
    return "".join([*lines[:place], new, *lines[place:]])
