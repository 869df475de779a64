"""Reading a row program: everything in it is checked before it is made.

The text may come from anybody. Names of functions and of classes are keys of
the allow-lists, paths lead to submodules that the program itself declares,
and a step reads only results of earlier steps. Modules are made without
memory for tensors, so that a large number costs nothing.
"""

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .allowed_calls import find_call
from .allowed_modules import make_module
from .needs import NeededInput, Needs
from .row_module import find_owner
from .row_program import RowProgram
from .steps import (
    BadValueError,
    Step,
    check_keyword,
    check_path,
    find_dtype,
    from_json,
    parts_of,
    shown,
)
from .write_program import VERSION

_KEYS = {
    "version", "name", "inputs", "filters", "no_weight_decay", "modules",
    "parameters", "buffers", "steps", "output",
}  # fmt: skip


def read_program(text: Any, tensors: Any) -> RowProgram:
    """Make the module of a row program; a bad program is a ValueError."""
    content = _parse(text)
    if content.get("version") != VERSION:
        raise BadValueError(
            f"its program has version {shown(content.get('version'))}, and "
            f"this version of dgl-lc reads version {VERSION}"
        )
    if content.keys() != _KEYS:
        raise BadValueError("its program has other entries than it should")
    needs = _read_needs(content)
    steps = _read_steps(content["steps"], len(needs.inputs))
    total = len(needs.inputs) + len(steps)
    output = from_json(content["output"], total)
    name = content["name"]
    if not isinstance(name, str) or not name.isidentifier():
        raise BadValueError(f"{shown(name)} is not the name of a model")
    program = RowProgram(name, needs, steps, output)
    _PartsReader(program, content, tensors).build()
    _check_targets(program, steps)
    names = dict(program.named_parameters())
    for parameter in parts_of(content["no_weight_decay"]):
        if not isinstance(parameter, str) or parameter not in names:
            raise BadValueError(f"{shown(parameter)} is not a parameter")
    program.no_weight_decay = frozenset(content["no_weight_decay"])
    return program


def _parse(text: Any) -> dict[str, Any]:
    """Parse JSON in which every name occurs once in its object."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise BadValueError("a name occurs twice in its program")
        return found

    def refuse(constant: str) -> Any:
        raise BadValueError(f"{constant} is not a number of JSON")

    if not isinstance(text, str):
        raise BadValueError("its program is not a text")
    try:
        content = json.loads(
            text, object_pairs_hook=once, parse_constant=refuse
        )
    except BadValueError:
        raise
    except (ValueError, RecursionError) as error:
        kind = type(error).__name__
        raise BadValueError(f"its program is not JSON ({kind})") from None
    if not isinstance(content, dict):
        raise BadValueError("its program is not an object")
    return content


def _read_needs(content: dict[str, Any]) -> Needs:
    """Read the inputs, each with a name of its own."""
    inputs = []
    for entry in parts_of(content["inputs"]):
        _check_keys(entry, {"name", "formula", "shape", "dtype"})
        name, shape = entry["name"], parts_of(entry["shape"])
        if not isinstance(name, str) or not name.isidentifier():
            raise BadValueError(f"{shown(name)} is not the name of an input")
        if not all(type(size) is int and 0 <= size < 2**40 for size in shape):
            raise BadValueError(f"{shown(shape)} is not the shape of a row")
        if not isinstance(entry["formula"], str):
            raise BadValueError(f"{shown(entry['formula'])} is not a formula")
        inputs.append(
            NeededInput(
                name, entry["formula"], tuple(shape), find_dtype(entry["dtype"])
            )
        )
    if not inputs or len({entry.name for entry in inputs}) != len(inputs):
        raise BadValueError("its inputs do not have names of their own")
    filters = parts_of(content["filters"])
    if not all(isinstance(line, str) for line in filters):
        raise BadValueError("its filters are not texts")
    return Needs(tuple(inputs), tuple(filters))


def _read_steps(found: Any, inputs: int) -> list[Step]:
    """Read the steps; each may read the results before it."""
    steps: list[Step] = []
    for entry in parts_of(found):
        if not isinstance(entry, list) or len(entry) != 4:
            raise BadValueError(f"{shown(entry)} is not a step")
        call, target = entry[:2]
        total = inputs + len(steps)
        args, kwargs = (from_json(part, total) for part in entry[2:])
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise BadValueError(f"{shown(entry)} is not a step")
        for key in kwargs:
            check_keyword(key)
        if call in ("tensor", "module"):
            check_path(target)
        elif find_call(call) is None or target != "":
            raise BadValueError(
                f"it calls {shown(call)}, which is not a function that may be "
                f"called"
            )
        if call == "tensor" and (args or kwargs):
            raise BadValueError("a tensor is called")
        steps.append(Step(call, target, args, kwargs))
    return steps


def _check_targets(program: RowProgram, steps: list[Step]) -> None:
    """Refuse a step whose module or tensor does not exist."""
    for step in steps:
        if step.call not in ("module", "tensor"):
            continue
        try:
            owner, name = find_owner(program, step.target)
        except (KeyError, AssertionError):
            raise BadValueError(f"{step.target} does not exist") from None
        if step.call == "module":
            child = owner._modules.get(name)
            # Plain containers can't be called.
            there = child is not None and type(child) is not nn.Module
        else:
            both = {**owner._parameters, **owner._buffers}
            there = both.get(name) is not None
        if not there:
            raise BadValueError(f"{step.target} is not a {step.call}")


def _check_keys(entry: Any, keys: set[str], optional: str = "") -> None:
    """Refuse what is not an object with these names."""
    if not isinstance(entry, dict) or entry.keys() - {optional} != keys:
        raise BadValueError(f"{shown(entry)} is not what it should be")


class _PartsReader:
    """Builds the submodules of a program, and puts its tensors in."""

    def __init__(
        self, root: nn.Module, content: dict[str, Any], tensors: Any
    ) -> None:
        if not isinstance(tensors, dict):
            raise BadValueError("its tensors are missing")
        self._content = content
        self._tensors: dict[str, torch.Tensor] = dict(tensors)
        self._modules: dict[str, nn.Module] = {"": root}
        self._made: dict[str, torch.Tensor] = {}

    def build(self) -> None:
        """Make all modules, then put all tensors in."""
        stack = [""]
        for path, entry in self._section("modules"):
            parent, _, name = path.rpartition(".")
            # In this order, a module that is named again is complete: it
            # can't contain itself.
            while stack[-1] != parent:
                stack.pop()
                if not stack:
                    raise BadValueError(f"{path} comes without its parent")
            if path in self._modules:
                raise BadValueError(f"{path} occurs twice")
            owner = self._modules.get(parent)
            if type(owner) not in (nn.Module, RowProgram):
                raise BadValueError(f"{parent} has no submodules")
            assert owner is not None
            made = self._module(path, entry, stack)
            owner._modules[name] = made
            stack.append(path)
        for path, entry in self._section("parameters"):
            self._put(path, entry, self._parameter, "frozen")
        for path, entry in self._section("buffers"):
            self._put(path, entry, self._buffer, "unsaved")
        if self._tensors:
            raise BadValueError(
                f"it has a tensor {shown(min(self._tensors, key=str))} that "
                f"belongs to nothing"
            )
        self._check_complete()

    def _section(self, name: str) -> list[tuple[str, Any]]:
        found = self._content[name]
        if not isinstance(found, dict):
            raise BadValueError(f"its {name} are missing")
        return [(check_path(path), entry) for path, entry in found.items()]

    def _module(self, path: str, entry: Any, stack: list[str]) -> nn.Module:
        """Make a submodule, or return the one that it is the same as."""
        if entry is None:
            made = nn.Module()
        elif isinstance(entry, dict) and "same_as" in entry:
            _check_keys(entry, {"same_as"})
            same = check_path(entry["same_as"])
            if same in stack or same not in self._modules:
                raise BadValueError(f"{path} can't be the same as {same}")
            return self._modules[same]
        else:
            _check_keys(entry, {"class", "settings"})
            if not isinstance(entry["settings"], dict):
                raise BadValueError(f"{path} has no settings")
            settings = {
                key: from_json(value, 0)
                for key, value in entry["settings"].items()
            }
            try:
                made = make_module(entry["class"], settings)
            except Exception as error:
                # Whatever a constructor stumbles over.
                raise BadValueError(f"{path} can't be made ({error})") from None
        self._modules[path] = made
        return made

    def _put(
        self, path: str, entry: Any, put: Callable, flag: str
    ) -> None:  # fmt: skip
        """Put a tensor in its place."""
        parent, _, name = path.rpartition(".")
        owner = self._modules.get(parent)
        if owner is None or path in self._made:
            raise BadValueError(f"{path} has no place")
        if isinstance(entry, dict) and "same_as" in entry:
            _check_keys(entry, {"same_as"}, flag)
            found = self._made.get(check_path(entry["same_as"]))
            if found is None:
                raise BadValueError(f"{path} is the same as nothing")
        else:
            _check_keys(entry, set(), flag)
            found = self._tensors.pop(path, None)
            if type(found) is not torch.Tensor or found.is_meta:
                raise BadValueError(f"it has no tensor {path}")
            if found.layout != torch.strided or found.is_quantized:
                raise BadValueError(f"{path} is not a plain tensor")
        marked = entry.get(flag, False)
        if type(marked) is not bool:
            raise BadValueError(f"{path}: {flag} should be true or false")
        self._made[path] = put(owner, name, found, marked)

    def _parameter(
        self, owner: nn.Module, name: str, tensor: torch.Tensor, frozen: bool
    ) -> torch.Tensor:
        if isinstance(tensor, nn.Parameter):
            made = tensor
        else:
            made = nn.Parameter(tensor, requires_grad=not frozen)
        self._check_place(owner, name, made, owner._parameters)
        if type(owner) in (nn.Module, RowProgram):
            owner._parameters[name] = made
        else:
            # Recurrent modules have a list of their parameters as well.
            setattr(owner, name, made)
        return made

    def _buffer(
        self, owner: nn.Module, name: str, tensor: torch.Tensor, unsaved: bool
    ) -> torch.Tensor:
        self._check_place(owner, name, tensor, owner._buffers)
        owner._buffers[name] = tensor
        if unsaved:
            owner._non_persistent_buffers_set.add(name)
        return tensor

    @staticmethod
    def _check_place(
        owner: nn.Module, name: str, tensor: torch.Tensor, places: dict
    ) -> None:
        """Refuse a tensor that a module has no place for."""
        if type(owner) in (nn.Module, RowProgram):
            if name in {
                **owner._parameters,
                **owner._buffers,
                **owner._modules,
            }:
                raise BadValueError(f"{name} occurs twice in a module")
            return
        place = places.get(name)
        if place is None or place.shape != tensor.shape:
            raise BadValueError(
                f"{name} has no place in {type(owner).__name__}"
            )

    def _check_complete(self) -> None:
        """Refuse modules that lack some of their tensors."""
        for path, module in self._modules.items():
            own = {**module._parameters, **module._buffers}
            for name, tensor in own.items():
                if tensor is not None and tensor.is_meta:
                    raise BadValueError(f"it has no tensor {path}.{name}")
