"""The steps of a row program, and their arguments as JSON.

JSON has fewer kinds of values than the arguments of a call. A list is a JSON
list; every other kind that JSON lacks is an object with one key, its kind.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

import torch

#: Integers that torch takes.
_LARGEST = 2**63 - 1
#: Containers in containers; arguments of functions of torch have two or three.
_DEEPEST = 20
#: Modules in modules; torch goes through them by recursion.
_DEEPEST_PATH = 100
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float16, torch.bfloat16, torch.float32, torch.float64,
        torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
        torch.bool, torch.complex64, torch.complex128,
    )
}  # fmt: skip
_LONGEST_NAME = 200
_KEYWORD = re.compile(r"_?[a-z][a-z0-9_]{0,40}", re.ASCII)


@dataclass(frozen=True)
class Result:
    """Stands for an input, or for the result of an earlier step."""

    number: int


@dataclass(frozen=True)
class Training:
    """Stands for the module's training flag."""


@dataclass(frozen=True)
class Step:
    """A call in a row program.

    Attributes
    ----------
    call : str
        Name of an allowed function; "module" to call a submodule, "tensor" to
        read a parameter or buffer.
    target : str
        Path of the submodule or of the tensor; else empty.
    args, kwargs
        Arguments: plain values, results and the training flag.
    """

    call: str
    target: str
    args: tuple
    kwargs: dict[str, Any]


class BadValueError(ValueError):
    """Raised for a value that a file can't hold, or should not."""


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a data type in a file."""
    name = str(dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise BadValueError(f"numbers of type {dtype} can't be written")
    return name


def find_dtype(name: Any) -> torch.dtype:
    """Return the data type of a name."""
    if not isinstance(name, str) or name not in _DTYPES:
        raise BadValueError(f"{shown(name)} is not a type of numbers")
    return _DTYPES[name]


def check_path(path: Any) -> str:
    """Return a path of names with dots, or refuse it."""
    if not isinstance(path, str) or path.count(".") > _DEEPEST_PATH:
        raise BadValueError(f"{shown(path)} is not a name")
    if not all(map(_is_name, path.split("."))):
        raise BadValueError(f"{shown(path)} is not a name that a file may have")
    return path


def _is_name(name: str) -> bool:
    """Return whether a submodule or tensor of a file may have a name."""
    short = 0 < len(name) <= _LONGEST_NAME
    return short and name.isprintable() and not name.startswith("__")


def check_keyword(name: Any) -> str:
    """Return the name of a keyword argument, or refuse it."""
    if not isinstance(name, str) or not _KEYWORD.fullmatch(name):
        raise BadValueError(f"{shown(name)} is not the name of an argument")
    if name == "out":
        raise BadValueError("a step writes into out=")
    return name


def shown(value: Any) -> str:
    """Show a value of a file in a message, in few characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def to_json(value: Any) -> Any:
    """Turn an argument into what JSON holds; refuse any other object."""
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        if abs(value) > _LARGEST:
            raise BadValueError("an integer of more than 64 bits")
        return value
    if isinstance(value, float) and kind.__module__ in ("builtins", "numpy"):
        number = float(value)
        return number if math.isfinite(number) else {"float": str(number)}
    if kind is complex:
        return {"complex": [to_json(value.real), to_json(value.imag)]}
    if isinstance(value, list):
        return [to_json(part) for part in value]
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return {"tuple": [to_json(part) for part in value]}
    if isinstance(value, dict):
        if not all(type(key) in (str, int, bool) for key in value):
            raise BadValueError("a dict with keys that are not texts")
        pairs = [[key, to_json(part)] for key, part in value.items()]
        return {"dict": pairs}
    if kind is slice:
        ends = (value.start, value.stop, value.step)
        return {"slice": [to_json(end) for end in ends]}
    if value is Ellipsis:
        return {"ellipsis": None}
    if kind is Result:
        return {"result": value.number}
    if kind is Training:
        return {"training": None}
    if kind is torch.dtype:
        return {"dtype": dtype_name(value)}
    if kind is torch.device and value.type == "cpu":
        return {"device": "cpu"}
    named = f" ({value})" if kind is torch.device else ""
    raise BadValueError(f"a {kind.__module__}.{kind.__qualname__}{named}")


def from_json(found: Any, results: int, depth: int = 0) -> Any:
    """Turn JSON into an argument; refuse what :func:`to_json` never writes.

    ``results`` is the number of results that there are before this step.
    """
    if depth > _DEEPEST:
        raise BadValueError("its values are nested too deeply")
    if found is None or type(found) in (bool, str):
        return found
    if type(found) is int:
        if abs(found) > _LARGEST:
            raise BadValueError("an integer has more than 64 bits")
        return found
    if type(found) is float:
        if not math.isfinite(found):
            raise BadValueError("a number is too large")
        return found

    def parts(items: Any, count: int | None = None) -> list:
        if not isinstance(items, list) or count not in (None, len(items)):
            raise BadValueError(f"{shown(items)} is not a list of values")
        return [from_json(item, results, depth + 1) for item in items]

    if isinstance(found, list):
        return parts(found)
    if not isinstance(found, dict) or len(found) != 1:
        raise BadValueError(f"{shown(found)} is not a value")
    ((kind, inner),) = found.items()
    if kind == "tuple":
        return tuple(parts(inner))
    if kind == "slice":
        return slice(*parts(inner, 3))
    if kind == "dict":
        return _dict([parts(pair, 2) for pair in parts_of(inner)])
    if kind == "result":
        if type(inner) is not int or not 0 <= inner < results:
            raise BadValueError(
                f"a step reads the result {shown(inner)}, and there are "
                f"{results} before it"
            )
        return Result(inner)
    if kind == "dtype":
        return find_dtype(inner)
    if kind == "float" and inner in ("inf", "-inf", "nan"):
        return float(inner)
    if kind == "complex":
        real, imaginary = parts(inner, 2)
        if type(real) is float and type(imaginary) is float:
            return complex(real, imaginary)
    if kind == "device" and inner == "cpu":
        return torch.device("cpu")
    if kind == "training" and inner is None:
        return Training()
    if kind == "ellipsis" and inner is None:
        return Ellipsis
    raise BadValueError(f"{shown(found)} is not a value")


def parts_of(items: Any) -> list:
    """Return a list as it is, or refuse anything else."""
    if not isinstance(items, list):
        raise BadValueError(f"{shown(items)} is not a list")
    return items


def _dict(pairs: list[list]) -> dict:
    made: dict = {}
    for key, value in pairs:
        if type(key) not in (str, int, bool) or key in made:
            raise BadValueError(f"{shown(key)} is not the key of a dict")
        made[key] = value
    return made
