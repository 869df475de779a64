"""The report: what the transformation did, and what its inputs cost."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .._common.bytes import format_bytes
from .describe_filters import describe_filters
from .drawing.report_html import report_html
from .drift import Drift, LazyDrift
from .evaluate import Evaluator
from .filter_words import degree
from .linearity import AFFINE, LINEAR
from .model_inputs import FilterNames, Input
from .pushed import Pushed
from .recognise import DROPOUT
from .tracing.values import Value


@dataclass(frozen=True)
class Commuted:
    """An operation that aggregations were swapped with.

    Attributes
    ----------
    submodule, operation : str
        Name of the submodule, and of the operation.
    kind : str
        "linear", "bias", "non-linear", "dropout" or "batch norm".
    words : int
        Number of words it is needed at.
    hops : int
        Largest number of aggregations that were swapped with it.
    """

    submodule: str
    operation: str
    kind: str
    words: int
    hops: int

    @property
    def is_exact(self) -> bool:
        """Return whether swapping changes nothing (dropout: in evaluation)."""
        return self.kind in (LINEAR, DROPOUT)

    def __str__(self) -> str:
        named = self.submodule and self.submodule != self.operation
        where = f" in {self.submodule}" if named else ""
        return f"{self.kind}: {self.operation}{where}"


@dataclass(frozen=True)
class Report:
    """What the transformation did, before anything is computed.

    Attributes
    ----------
    inputs : list of Input
        Inputs that have to be precomputed.
    filters : list of str
        Lines that say what the names of filters in the formulas mean.
    commuted : list of Commuted
        Operations that aggregations were swapped with.
    folded : int
        Number of sums of filters that became one filter.
    exact : bool
        Whether the LC version computes the same as the original on every
        graph (in evaluation).
    columns : int
        Number of columns of all inputs together.
    bytes : int
        Size of all inputs, for all nodes of the graph.
    checked : str
        Comparisons with the model that the LC version passed.
    output : str
        What the model returns, if it is not one tensor of shape (rows,
        classes), which ``fit`` and ``predict`` need; else empty.
    drift : Drift
        How much the outputs differ from those of the model, on the graph and
        the features that lc_transform was given. It is measured when it is
        first read, and again if the parameters have changed since.
    """

    inputs: list[Input]
    filters: list[str]
    commuted: list[Commuted]
    folded: int
    columns: int
    bytes: int
    num_nodes: int
    checked: str
    output: str = ""
    lazy_drift: LazyDrift | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def drift(self) -> Drift:
        """The difference of the outputs, measured when it is asked for."""
        assert self.lazy_drift is not None
        return self.lazy_drift.measure()

    @property
    def exact(self) -> bool:
        """Whether the LC version computes the same as the original."""
        return not self.inexact

    @property
    def inexact(self) -> list[Commuted]:
        """The operations that make the LC version another function."""
        return [entry for entry in self.commuted if not entry.is_exact]

    def __str__(self) -> str:
        formulas = ", ".join(map(str, self.inputs))
        several = len(self.inputs) > 1
        lines = [
            f"inputs: {formulas}",
            *(f"  {line}" for line in self.filters),
            f"cost: {len(self.inputs)} {'inputs' if several else 'input'}, "
            f"{self.columns} columns, "
            f"{format_bytes(self.bytes)} for {self.num_nodes:,} nodes",
        ]
        if self.folded:
            lines.append(f"folded: {self.folded} sums of filters")
        kinds = Counter(entry.kind for entry in self.commuted)
        if kinds:
            counted = (f"{count} {kind}" for kind, count in kinds.items())
            lines.append("commuted: " + ", ".join(counted))
        if self.exact:
            lines.append("exact: computes the same as the original")
        else:
            lines.append("not exact; aggregation was swapped with:")
            lines.extend(f"  {line}" for line in _counted(self.inexact))
        lines.append(f"checked: {self.checked}")
        if self.output:
            lines.append(f"output: {self.output}")
        drift = self.lazy_drift.known() if self.lazy_drift else None
        if drift is not None:
            lines.append(str(drift))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Show tables in a notebook."""
        return report_html(self)


def find_commuted(pushed: Pushed) -> list[Commuted]:
    """List the operations that aggregations were swapped with."""
    found = []
    for value, words in pushed.needs.items():
        # A word without aggregations counts too if it has a diagonal.
        if not any(words):
            continue
        kind = pushed.kinds[value]
        if kind == AFFINE and value in pushed.exact_biases:
            kind = LINEAR
        hops = max(map(degree, words))
        found.append(Commuted(value.where, value.name, kind, len(words), hops))
    return found


def make_report(
    pushed: Pushed,
    inputs: list[Input],
    commuted: list[Commuted],
    num_nodes: int,
    checked: str,
    evaluate: Evaluator,
) -> Report:
    """Write the report of a transformation that was checked.

    ``evaluate`` evaluates static values on a random probe.
    """
    filters = describe_filters(FilterNames(pushed.inputs), evaluate)
    columns = sum(entry.columns for entry in inputs)
    size = sum(
        entry.columns * entry.value.example.element_size() for entry in inputs
    )
    return Report(
        inputs, filters, commuted, len(pushed.folded),
        columns, size * num_nodes, num_nodes, checked,
        _output_of(pushed.trace.output),
    )  # fmt: skip


#: Lines of operations above which those of the same kind share one.
_MOST_LINES = 12


def _counted(entries: list[Commuted]) -> list[str]:
    """Write a line for each operation, or for each kind if there are many."""
    if len(entries) <= _MOST_LINES:
        return [str(entry) for entry in entries]
    groups: dict[str, list[Commuted]] = {}
    for entry in entries:
        parts = entry.submodule.split(".")
        name = ".".join("*" if part.isdigit() else part for part in parts)
        operation = entry.operation
        if operation == entry.submodule:
            operation = name
        alike = Commuted(name, operation, entry.kind, 0, 0)
        groups.setdefault(str(alike), []).append(entry)
    return [
        str(found[0]) if len(found) == 1 else f"{text} ({len(found)} times)"
        for text, found in groups.items()
    ]


def _output_of(output: Any) -> str:
    """Describe an output that is not one tensor of shape (rows, classes)."""
    if isinstance(output, Value):
        if len(output.dims) == 2 and output.row_dim == 0:
            return ""
        sizes = ["rows" if d == "N" else str(d) for d in output.dims]
        comma = "," if len(sizes) == 1 else ""
        what = f"a tensor of shape ({', '.join(sizes)}{comma})"
    else:
        what = f"a {type(output).__name__} of {len(output)} items"
    return f"{what}; fit and predict need one tensor of shape (rows, classes)"
