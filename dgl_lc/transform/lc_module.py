"""The module of an LC version: how it is built, copied and pickled."""

import copy
import keyword
import re
from dataclasses import dataclass
from typing import Any

from torch import fx, nn

from ..row_programs.needs import Needs
from ..row_programs.row_module import RowModule, find_owner
from . import causes
from .computed_weights import computed_weights
from .refusals import refuse
from .tracing.values import replace

#: Attributes that torch.fx sets on a module.
_FX = ("meta", "_graph", "_code")


_KINDS = ("_modules", "_parameters", "_buffers")

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*|[0-9]+", re.ASCII | re.IGNORECASE)


class LCModule(RowModule, fx.GraphModule):
    """The LC version as a module: ``module(*rows)``, without a graph."""

    def recompile(self) -> Any:
        """Generate the code from the graph, as torch.fx does.

        torch.fx writes paths of submodules and parameters into the code as
        they are. A key of a ModuleDict may be a keyword (``"in"``), or any
        text, from data even: such a path gets a plain name in the code, and
        :meth:`__getattr__` finds what it stands for.
        """
        others = {
            node: node.target
            for node in self._graph.nodes
            if node.op in ("get_attr", "call_module")
            and not _is_plain_path(node.target)
        }
        named: dict[str, str] = {}
        for target in others.values():
            named.setdefault(target, f"_lc_part_{len(named)}")
        self.__dict__["_part_paths"] = {n: path for path, n in named.items()}
        try:
            for node, target in others.items():
                node.target = named[target]
            return super().recompile()
        finally:
            for node, target in others.items():
                node.target = target

    def __getattr__(self, name: str) -> Any:
        path = self.__dict__.get("_part_paths", {}).get(name)
        if path is None:
            return super().__getattr__(name)
        owner, last = find_owner(self, path)
        kinds = (getattr(owner, kind) for kind in _KINDS)
        return next(kind[last] for kind in kinds if last in kind)

    def __reduce__(self) -> tuple:
        # torch.fx would pickle the code and trace it again, which would fix
        # the training flag to its value at that time.
        def named(leaf: Any) -> Any:
            return _Name(leaf.name) if isinstance(leaf, fx.Node) else leaf

        nodes = [
            (n.op, n.target, replace((n.args, n.kwargs), named), n.name)
            for n in self.graph.nodes
        ]
        parts = [dict(getattr(self, kind)) for kind in _KINDS]
        unsaved = set(self._non_persistent_buffers_set)
        state = type(self).__name__, self.training, self.no_weight_decay
        return _from_parts, (nodes, parts, unsaved, *state, self._row_needs)

    def __deepcopy__(self, memo: dict) -> "LCModule":
        root = nn.Module()
        share_parts(self, root)
        memo.update(computed_weights(self))
        for kind in _KINDS:
            setattr(root, kind, copy.deepcopy(getattr(self, kind), memo))
        graph = copy.deepcopy(self.graph)
        name = type(self).__name__
        made = build_module(root, graph, name, self.training)
        made.no_weight_decay = self.no_weight_decay
        made._row_needs = self._row_needs
        memo[id(self)] = made
        return made


def _is_plain_path(path: str) -> bool:
    """Return whether torch.fx can write a path into the code."""
    return all(
        _PLAIN_NAME.fullmatch(name) and not keyword.iskeyword(name)
        for name in path.split(".")
    )


@dataclass(frozen=True)
class _Name:
    """Stands for a node of the graph in a pickle."""

    name: str


def _from_parts(
    nodes: list[tuple], parts: list[dict[str, Any]], unsaved: set[str],
    name: str, training: bool, no_weight_decay: frozenset[str],
    needs: Needs | None = None,
) -> LCModule:  # fmt: skip
    """Rebuild an LC version from a pickle."""
    graph = fx.Graph()
    made: dict[str, fx.Node] = {}

    def node(leaf: Any) -> Any:
        return made[leaf.name] if isinstance(leaf, _Name) else leaf

    for op, target, arguments, variable in nodes:
        args, kwargs = replace(arguments, node)
        made[variable] = graph.create_node(op, target, args, kwargs, variable)
    root = nn.Module()
    for kind, part in zip(_KINDS, parts, strict=True):
        getattr(root, kind).update(part)
    root._non_persistent_buffers_set |= unsaved
    module = build_module(root, graph, name, training)
    module.no_weight_decay = no_weight_decay
    module._row_needs = needs
    return module


def build_module(
    root: nn.Module, graph: fx.Graph, name: str, training: bool
) -> LCModule:
    """Make an LC version of a graph of torch.fx, with all parts of a root."""
    made = LCModule(root, graph, name)
    # torch.fx drops what no operation uses; the state_dict keeps it.
    share_parts(root, made)
    made.training = training
    return made


def share_parts(model: nn.Module, onto: nn.Module) -> None:
    """Share submodules, parameters and buffers under their names."""
    for kind in _KINDS:
        getattr(onto, kind).clear()
        for name, item in getattr(model, kind).items():
            if name in _FX or hasattr(LCModule, name):
                refuse(
                    causes.NOT_COPIED, "", f"the attribute {name!r}",
                    "has a name that torch.fx uses itself",
                    "Rename it",
                )  # fmt: skip
            getattr(onto, kind)[name] = item
    onto._non_persistent_buffers_set |= model._non_persistent_buffers_set
