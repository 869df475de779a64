"""The module of an LC version: how it is built, copied and pickled."""

import copy
from dataclasses import dataclass
from typing import Any

from torch import fx, nn

from ..row_programs.needs import Needs
from ..row_programs.row_module import RowModule
from . import causes
from .computed_weights import computed_weights
from .refusals import refuse
from .tracing.values import replace

#: Attributes that torch.fx sets on a module.
_FX = ("meta", "_graph", "_code")


_KINDS = ("_modules", "_parameters", "_buffers")


class LCModule(RowModule, fx.GraphModule):
    """The LC version as a module: ``module(*rows)``, without a graph."""

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
