"""What is drawn: the steps of a model, and those of its LC version."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx, nn

from ..filter_words import Aggregate, NormedAggregate
from ..model_inputs import FilterNames, Input
from ..stacked_rows import stack_words, take_words
from ..tracing.values import Trace, Value, arguments_of, values_in
from .boxes import AGGREGATION, INPUTS, OPERATIONS, SOURCE
from .operation_texts import operation_text, shape_text
from .steps import Step


@dataclass
class Steps:
    """Steps in order, and those whose results are the model's."""

    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)


class ModelReader:
    """Reads the steps of a model and of its LC version."""

    def __init__(self, model: nn.Module, pusher: Any, graph: fx.Graph, inputs: Sequence[Input]) -> None:
        self._model = model
        self._pusher = pusher
        self._trace: Trace = pusher.pushed.trace
        self._names = FilterNames(pusher.pushed.inputs)
        self._graph = graph
        self._inputs = inputs
        self._emitted = {n.meta["value"] for n in graph.nodes if "value" in n.meta}
        self.numbers: dict[Value, int] = {}

    def original(self) -> Steps:
        outputs = [v for v in values_in(self._trace.output)]
        seen = set()
        stack = list(outputs)
        while stack:
            v = stack.pop()
            if v in seen: continue
            seen.add(v)
            stack.extend(self._sources(v))
        found = Steps()
        place = {}
        for v in sorted(seen, key=lambda v: v.id):
            args = tuple(place[s] for s in self._sources(v))
            place[v] = len(found.steps)
            if v.op == "aggregate":
                self.numbers[v] = len(self.numbers) + 1
            found.steps.append(self._original_step(v, args))
        found.outputs = [place[v] for v in outputs]
        return found

    def _original_step(self, v, args):
        more = dict(where=v.where, args=args, shape=shape_text(v), rows=("N",) if "N" in v.dims else ())
        if v.op == "aggregate":
            return Step(AGGREGATION, self._filter_name(v), marks=(self.numbers[v],), **more)
        if not args:
            text = v.target if isinstance(v.target, str) else v.target[-1] if isinstance(v.target, tuple) else v.name
            return Step(SOURCE, text, **more)
        return Step(OPERATIONS, self._text(v), **more)

    def _text(self, v):
        if v not in self._emitted:
            found = self._pusher._filters.letter(v)
            if found is not None:
                return "÷ norm" if found[1].inverse else "\u00d7 norm"
        return operation_text(v, self._model)

    def _filter_name(self, v):
        found = self._pusher._filters.letter(v)
        if found is None: return v.name
        names = [n for u, n in self._names.units.items() if isinstance(u, NormedAggregate) and u.aggregate == found[1]]
        return " / ".join(names) or "A"

    def _sources(self, v):
        if v not in self._emitted:
            found = self._pusher._filters.letter(v)
            if found is not None:
                return [found[0]]
        return list(dict.fromkeys(a for a in arguments_of(v) if a.data and a.op not in ("number",) and "E" not in a.dims))

    def transformed(self) -> Steps:
        found = Steps()
        place: dict[fx.Node, tuple[int, ...]] = {}
        words: dict[fx.Node, int] = {}
        marks = self._marks()
        sources = {}
        for entry in self._inputs:
            for v in self._origin(entry.value):
                if v not in sources:
                    sources[v] = len(found.steps)
                    found.steps.append(self._original_step(v, ()))
        entries = iter(self._inputs)
        for node in self._graph.nodes:
            if node.op == "placeholder":
                entry = next(entries)
                formula = entry.formula.split(" ")
                base = formula[-1]
                args = tuple(sources[v] for v in self._origin(entry.value))
                place[node] = (len(found.steps),)
                words[node] = 1
                found.steps.append(Step(INPUTS, base, where=f"{entry.columns} columns", args=args, marks=marks.get((entry.value, entry.word), ()), filter=" ".join(formula[:-1])))
            elif node.op == "output":
                for leaf in node.all_input_nodes:
                    found.outputs += place[leaf]
            elif node.target is stack_words:
                place[node] = tuple(p for n in node.all_input_nodes for p in place[n])
                words[node] = sum(words[n] for n in node.args[0])
            elif node.target is take_words:
                place[node] = place[node.args[0]]
                words[node] = len(node.args[1])
            else:
                args = tuple(dict.fromkeys(p for n in node.all_input_nodes for p in place.get(n, ())))
                v = node.meta.get("value")
                if not args:
                    continue
                words[node] = max(words.get(n, 0) for n in node.all_input_nodes)
                place[node] = (len(found.steps),)
                changed = v is not None and self._changed(v)
                text = operation_text(v, self._model) if v is not None else str(node.name)
                k = words[node]
                found.steps.append(Step(OPERATIONS, ("≈ " if changed else "") + text, where=v.where if v else "", args=args, shape=shape_text(v) if v else "", rows=("B" if k == 1 else f"{k}B",), changed=changed))
        return found

    def _changed(self, v):
        p = self._pusher.pushed
        if not any(p.needs.get(v, [])): return False
        return p.kinds.of(v) not in ("linear", "dropout")

    def _origin(self, value):
        seen, stack, ends = set(), [value], []
        while stack:
            v = stack.pop()
            if v in seen: continue
            seen.add(v)
            s = self._sources(v)
            if not s: ends.append(v)
            stack.extend(s)
        return ends

    def _marks(self):
        p = self._pusher.pushed
        found: dict = {}
        for v in values_in(self._trace.output):
            self._reach(found, v, (), frozenset())
        for v in reversed(self._trace.values):
            for word in p.needs.get(v, ()):
                so_far = found.get((v, word), frozenset())
                for arg in arguments_of(v):
                    self._reach(found, arg, word, so_far)
        return {k: tuple(sorted(self.numbers[a] for a in s if a in self.numbers)) for k, s in found.items()}

    def _reach(self, found, v, word, so_far):
        kind, end, w = self._pusher.resolve(v, word)
        if kind == "shared": return
        passed = set(so_far)
        seen, stack = set(), [v]
        while stack:
            u = stack.pop()
            if u in seen: continue
            seen.add(u)
            if u is end and kind == "op": continue
            if u.op == "aggregate": passed.add(u)
            if u is not end: stack.extend(self._sources(u))
            elif kind == "input": stack.extend(self._sources(u))
        found[end, w] = found.get((end, w), frozenset()) | passed
