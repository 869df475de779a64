"""Writing a transformed model as a row program: a text and its tensors."""

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from dgl import DGLError
from torch import fx, nn

from .._common.nested import replace
from .allowed_calls import find_call, name_of_function
from .allowed_modules import class_name, difference, make_module, settings_of
from .row_module import RowModule
from .row_program import RowProgram
from .steps import (
    BadValueError,
    Result,
    Step,
    Training,
    check_keyword,
    check_path,
    dtype_name,
    to_json,
)

VERSION = 1
_HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
    "_backward_pre_hooks",
)  # fmt: skip


@dataclass(frozen=True)
class WrittenProgram:
    """A row program as a file holds it.

    Attributes
    ----------
    text : str
        The program as JSON.
    tensors : dict of str to Tensor
        The parameters and buffers, by their names.
    """

    text: str
    tensors: dict[str, torch.Tensor]


def write_program(module: RowModule) -> WrittenProgram:
    """Write a transformed model as a row program, or refuse it in words."""
    if module._row_needs is None:
        raise _refusal("it does not know its inputs; transform it again")
    if any(getattr(module, kind) for kind in _HOOKS):
        raise _refusal("it has hooks, which are functions of your own")
    try:
        steps, output = _steps_of(module)
        parts = _Parts(module, {s.target for s in steps if s.call == "module"})
        needs = module._row_needs
        content = {
            "version": VERSION,
            "name": _class_name(module),
            "inputs": [
                {
                    "name": entry.name,
                    "formula": entry.formula,
                    "shape": list(entry.shape),
                    "dtype": dtype_name(entry.dtype),
                }
                for entry in needs.inputs
            ],
            "filters": list(needs.filters),
            "no_weight_decay": sorted(module.no_weight_decay),
            "modules": parts.modules,
            "parameters": parts.parameters,
            "buffers": parts.buffers,
            "steps": [
                [s.call, s.target, to_json(s.args), to_json(s.kwargs)]
                for s in steps
            ],
            "output": to_json(output),
        }
    except BadValueError as error:
        raise _refusal(str(error)) from None
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    return WrittenProgram(text, parts.tensors)


def _class_name(module: RowModule) -> str:
    """Return the name that a module is shown with."""
    name = module._get_name()
    return name if name.isidentifier() else "LCVersion"


def _refusal(reason: str) -> DGLError:
    return DGLError(
        f"LC034: this LC version can't be written to a file: {reason}. Save "
        f"its weights with torch.save(lc.module.state_dict(), path), and load "
        f"them into a new lc_transform of the model."
    )


# Steps


def _steps_of(module: RowModule) -> tuple[list[Step], Any]:
    """Return the steps of a module, and what it returns."""
    if isinstance(module, RowProgram):
        return module._steps, module._output
    assert isinstance(module, fx.GraphModule)
    steps: list[Step] = []
    done: dict[fx.Node, Result | Training] = {}

    def known(leaf: Any) -> Any:
        return done[leaf] if isinstance(leaf, fx.Node) else leaf

    inputs = sum(node.op == "placeholder" for node in module.graph.nodes)
    for node in module.graph.nodes:
        args, kwargs = replace((node.args, node.kwargs), known)
        if node.op == "output":
            return steps, args[0]
        if node.op == "placeholder":
            done[node] = Result(len(done))
        elif node.op == "get_attr" and node.target == "training":
            done[node] = Training()
        else:
            done[node] = Result(inputs + len(steps))
            steps.append(_step(node, args, dict(kwargs)))
    raise _refusal("it returns nothing")


def _step(node: fx.Node, args: tuple, kwargs: dict[str, Any]) -> Step:
    """Return the step of a node, if all in it may be written."""
    target: Any = node.target
    if kwargs.get("out", 0) is None:
        del kwargs["out"]
    for key in kwargs:
        check_keyword(key)
    try:
        to_json((args, kwargs))
    except BadValueError as error:
        raise _refusal(f"{node.name} is called with {error}") from None
    if node.op in ("get_attr", "call_module"):
        call = "tensor" if node.op == "get_attr" else "module"
        return Step(call, check_path(target), args, kwargs)
    name: str | None
    if node.op == "call_method":
        name = _name_of_method(target)
    elif target is getattr:
        name, args = f"property.{args[1]}", args[:1]
    else:
        name = name_of_function(target)
    if find_call(name) is None:
        text = getattr(target, "__qualname__", str(target))
        owner = getattr(target, "__module__", None)
        raise _refusal(
            f"{node.name} calls {f'{owner}.' if owner else ''}{text}, and a "
            f"file can only name common functions of torch"
        )
    assert name is not None
    return Step(name, "", args, kwargs)


def _name_of_method(method: str) -> str:
    """Return the name of a method; ``__invert__`` is an operator."""
    if not method.startswith("__"):
        return f"tensor.{method}"
    name = f"operator.{method.strip('_')}"
    return name if find_call(name) else f"{name}_"


# Modules and tensors


class _Parts:
    """Submodules, parameters and buffers, each described once."""

    def __init__(self, module: nn.Module, called: set[str]) -> None:
        self.modules: dict[str, Any] = {}
        self.parameters: dict[str, Any] = {}
        self.buffers: dict[str, Any] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        self._paths: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._called = {id(module.get_submodule(path)) for path in called}
        self._add(module, "")
        _check_memory(self.tensors)

    def _add(self, module: nn.Module, path: str) -> None:
        """Describe a module, and all modules inside it."""
        self._paths[id(module)] = path
        if id(module) in self._called:
            self.modules[path] = self._leaf(module, path)
        elif path:
            self.modules[path] = None
        before = f"{path}." if path else ""
        for name, parameter in module._parameters.items():
            self._add_tensor(before + name, parameter, self.parameters)
        unsaved = module._non_persistent_buffers_set
        for name, buffer in module._buffers.items():
            self._add_tensor(before + name, buffer, self.buffers)
            if buffer is not None and name in unsaved:
                self.buffers[before + name]["unsaved"] = True
        for name, child in module._modules.items():
            if child is None:
                continue
            inner = check_path(before + name)
            if id(child) in self._paths:
                self.modules[inner] = {"same_as": self._paths[id(child)]}
            else:
                self._add(child, inner)

    def _leaf(self, module: nn.Module, path: str) -> dict[str, Any]:
        """Describe a module that is called."""
        name = class_name(module)
        if name is None:
            kind = type(module)
            raise _refusal(
                f"{path} is a {kind.__module__}.{kind.__qualname__}, and a "
                f"file can only name common modules of torch.nn"
            )
        settings = settings_of(module)
        try:
            made = make_module(name, settings)
        except (ValueError, TypeError, RuntimeError) as error:
            raise _refusal(f"{path} can't be made again ({error})") from None
        different = difference(module, made)
        if different is not None:
            raise _refusal(
                f"{path} is not a {name} as torch makes it: its "
                f"{different!r} is another"
            )
        return {
            "class": name,
            "settings": {k: to_json(v) for k, v in settings.items()},
        }

    def _add_tensor(
        self, name: str, tensor: torch.Tensor | None, into: dict[str, Any]
    ) -> None:
        if tensor is None:
            return
        check_path(name)
        if id(tensor) in self._names:
            into[name] = {"same_as": self._names[id(tensor)]}
            return
        hooks = ("_backward_hooks", "_post_accumulate_grad_hooks")
        if any(getattr(tensor, kind, None) for kind in hooks):
            raise _refusal(f"{name} has hooks, which are functions of your own")
        if tensor.layout != torch.strided or tensor.is_meta:
            raise _refusal(f"{name} is not a plain tensor")
        dtype_name(tensor.dtype)
        self._names[id(tensor)] = name
        into[name] = {}
        if into is self.parameters and not tensor.requires_grad:
            into[name]["frozen"] = True
        self.tensors[name] = tensor.detach()


def _check_memory(tensors: dict[str, torch.Tensor]) -> None:
    """Refuse tensors that share memory, and would have their own later."""
    spans = []
    for name, tensor in tensors.items():
        if tensor.numel():
            strides = zip(tensor.shape, tensor.stride(), strict=True)
            last = sum((size - 1) * step for size, step in strides)
            begin = tensor.data_ptr()
            end = begin + (last + 1) * tensor.element_size()
            spans.append((str(tensor.device), begin, end, name))
    spans.sort()
    for one, other in pairwise(spans):
        kind, _, end, name = one
        its_kind, begin, _, its = other
        if kind == its_kind and begin < end:
            raise _refusal(f"{name} and {its} are views of the same memory")
