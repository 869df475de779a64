"""Evaluating static values: degrees, norms, edge weights, features."""

from typing import Any, NoReturn

import dgl
import torch
from dgl.base import ALL

from . import causes
from .matrix_filters import graph_of_matrix
from .refusals import refuse, refuse_value
from .tracing.graph_tracer import edge_softmax, gsddmm, gspmm
from .tracing.graph_transforms import COMPUTED, compute_graph
from .tracing.model_call import ModelCall
from .tracing.values import (
    Guard,
    Value,
    after_parts,
    arguments_of,
    callable_of,
    in_evaluation,
    replace,
)


class Evaluator:
    """Evaluates static values for one call of the model, each once."""

    def __init__(self, call: ModelCall) -> None:
        self.call = call
        self._values: dict[int, Any] = {}
        self._graphs: dict[Any, dgl.DGLGraph] = {}
        self._params = {
            **dict(call.model.named_parameters(remove_duplicate=False)),
            **dict(call.model.named_buffers(remove_duplicate=False)),
        }

    def graph(self, key: Any) -> dgl.DGLGraph:
        """Return a graph of the call, or one derived from it."""
        if isinstance(key, str):
            return self.call.graphs[key]
        if key not in self._graphs:
            name, base, args, kwargs = key
            if name == "matrix":
                self._graphs[key] = graph_of_matrix(self(args))
            elif name in COMPUTED:
                self._graphs[key] = compute_graph(name, args, self.graph(base))
            else:
                self._graphs[key] = getattr(dgl, name)(
                    self.graph(base), *args, **dict(kwargs)
                )
        return self._graphs[key]

    def __call__(self, value: Value) -> Any:
        """Evaluate a static value, and its arguments before it."""
        return after_parts(value, self._values, arguments_of, self._evaluate)

    def forget(self) -> None:
        """Drop all values that are kept."""
        self._values.clear()

    def _evaluate(self, value: Value) -> Any:
        """Compute a value from the values of its arguments."""
        if value.trouble:
            refuse_trouble(value)
        args, kwargs = replace((value.args, value.kwargs), self._argument)
        if value.op in ("aggregate", "edges", "softmax"):
            args = [arg if arg is None else arg.contiguous() for arg in args]
        target = value.target
        if value.op == "input":
            return self._input(target)
        if value.op == "number":
            if target == "N":
                return self.call.num_nodes
            return self.graph(target[1]).num_edges()
        if value.op == "const":
            return value.example
        if value.op == "param":
            return self._params[target].detach()
        if value.op == "graph":
            return getattr(self.graph(target[0]), target[1])(*args, **kwargs)
        if value.op == "aggregate":
            index = self.graph(target[0])._graph
            return gspmm(index, target[1], target[2], *args)
        if value.op == "edges":
            index = self.graph(target[0])._graph
            return gsddmm(index, target[1], *args, *target[2:])
        if value.op == "softmax":
            index = self.graph(target[0])._graph
            return edge_softmax(index, args[0], ALL, target[1])
        return callable_of(value, self.call.model)(*args, **kwargs)

    def _argument(self, leaf: Any) -> Any:
        if isinstance(leaf, Value):
            return self._values[leaf.id]
        return in_evaluation(leaf)

    def _input(self, target: Any) -> torch.Tensor:
        """Return an argument of the call, or a feature of a graph."""
        if isinstance(target, str):
            return self.call.inputs[target]
        kind, key, name = target
        features = getattr(self.graph(key), kind)
        if name not in features:
            refuse(
                causes.WRONG_CALL, "",
                f"g.{kind}[{name!r}]", "does not exist, but the model "
                "reads it",
                "Assign the features that the graph had when lc_transform "
                "was called",
            )  # fmt: skip
        return features[name]


def refuse_trouble(value: Value) -> NoReturn:
    """Refuse a value that differs from probe to probe."""
    refuse_value(
        causes.NUMBER_OF_THE_GRAPH, value, str(value.trouble),
        "Store it as a fixed attribute of the model, or compute it "
        "with torch from the graph's features and degrees",
    )  # fmt: skip


def check_guards(guards: list[Guard], evaluate: Evaluator) -> None:
    """Refuse a graph on which the model would take another branch."""
    for guard in guards:
        value = guard.value
        if value.learned or value.random:
            continue
        found = evaluate(value)
        found = found.item() if isinstance(found, torch.Tensor) else found
        if found != guard.result:
            refuse_value(
                causes.OTHER_ON_OTHER_GRAPHS, value,
                f"is {found} on this graph, but was {guard.result} on the "
                f"graphs that the model was traced on, so that the model "
                f"would take another branch, or stop with an error (because "
                f"of nodes without incoming edges, for instance)",
                "Write forward without this branch, or change the graph "
                "(dgl.add_self_loop) so that the branch is not taken",
            )  # fmt: skip
