"""How what a folder was made from differs from what is asked for, in words."""

from typing import Any

#: What stands for the content of a file, and what that is called in messages.
_STAMPS = {
    "bytes": "size",
    "modified": "time",
    "inode": "inode",
    "crc32": "content",
}


def describe_differences(old: Any, new: Any, name: str = "") -> list[str]:
    """Say in what two descriptions of a folder differ.

    >>> old = {"file": "a.csv", "bytes": 10, "modified": 1}
    >>> new = {"file": "a.csv", "bytes": 12, "modified": 2}
    >>> describe_differences({"edges": old, "K": 2}, {"edges": new, "K": 3})
    ['it was made with K=2, asked for is 3',
     'the file a.csv has changed (size, time)']

    Parameters
    ----------
    old, new : object
        What the folder was made from, and what is asked for: values of JSON.
    name : str
        What they are called.
    """
    if old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        keys = {*old, *new}
        texts: list[str] = []
        if "file" in old and "file" in new:
            texts = _file_differences(old, new)
            keys -= {"file", *_STAMPS}
        for key in sorted(keys):
            inner = f"{name}.{key}" if name else key
            texts += describe_differences(old.get(key), new.get(key), inner)
        return texts
    if _are_dicts(old) and _are_dicts(new) and len(old) == len(new):
        pairs = zip(old, new, strict=True)
        return [t for pair in pairs for t in describe_differences(*pair, name)]
    if name == "inputs" and _are_pairs(old) and _are_pairs(new):
        return _input_differences(old, new)
    return [
        f"it was made with {name}={_short(old)}, asked for is {_short(new)}"
    ]


def _are_pairs(items: Any) -> bool:
    """Return whether these are inputs: features, and filters on them."""
    return isinstance(items, list) and all(
        isinstance(item, list) and len(item) == 2 for item in items
    )


def _input_differences(old: list, new: list) -> list[str]:
    """Say in what inputs of an LC version differ, of which digests are kept."""
    if len(old) != len(new):
        return [f"it has {len(old)} inputs, asked for are {len(new)}"]
    texts = []
    if [source for source, _ in old] != [source for source, _ in new]:
        texts.append("the features differ from those it was made with")
    if [word for _, word in old] != [word for _, word in new]:
        texts.append(
            "the graph, its weights or the filters differ from those it was "
            "made with"
        )
    return texts


def _file_differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    if old["file"] != new["file"]:
        return [
            f"it was made from the file {old['file']}, asked for is "
            f"{new['file']}"
        ]
    changed = [w for key, w in _STAMPS.items() if old.get(key) != new.get(key)]
    if not changed:
        return []
    return [f"the file {new['file']} has changed ({', '.join(changed)})"]


def _are_dicts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, dict) for v in value)


def _short(value: Any) -> str:
    """A value for a message; files by their names alone."""
    match value:
        case {"file": str(name)}:
            return name
        case {"files": [*files]} if _are_dicts(files):
            return ", ".join(str(file.get("file")) for file in files)
        case {"array": _}:
            return "an array"
    return repr(value)
