"""Which problems follow from others, and which come first."""

from . import causes
from .refusals import Problem

#: Causes that a model's author knows by name come first, in this order, then
#: those of Python and torch, then those that may follow from others.
_LATER = (
    causes.NUMBER_OF_THE_GRAPH, causes.LEARNED_BRANCH, causes.OUTSIDE_TORCH,
    causes.GRADIENTS, causes.INTEGERS, causes.OTHER_IN_TRAINING,
    causes.OTHER_ON_OTHER_GRAPHS,
    causes.MIXED_NODES, causes.NO_ROWS_IN_OUTPUT, causes.KEEPS_STATE,
    causes.FAILS_ON_PROBE, causes.INTERNAL,
)  # fmt: skip
RANK = {cause.code: place for place, cause in enumerate(_LATER, 1)}


#: Causes that a problem follows from, if one of them was found.
_FOLLOWS_FROM = {
    causes.FAILS_ON_PROBE: (
        causes.SIZE_OF_THE_GRAPH, causes.LEARNED_ADJACENCY,
        causes.PICKED_NODES, causes.GRAPH_MADE_IN_FORWARD,
    ),
    causes.NUMBER_OF_THE_GRAPH: (
        causes.PICKED_NODES, causes.OUTSIDE_TORCH, causes.LEARNED_BRANCH,
    ),
    causes.OTHER_ON_OTHER_GRAPHS: (
        causes.LEARNED_BRANCH, causes.OUTSIDE_TORCH, causes.RANDOM_NUMBERS,
        causes.GRAPH_MADE_IN_FORWARD, causes.DROPPED_EDGES,
        causes.PICKED_NODES,
    ),
    causes.OTHER_IN_TRAINING: (
        causes.RANDOM_NUMBERS, causes.LEARNED_BRANCH, causes.DROPPED_EDGES,
        causes.GRAPH_MADE_IN_FORWARD,
    ),
}  # fmt: skip


#: Causes after which sizes and constants differ from graph to graph.
_UNKNOWN_SIZES = frozenset({
    causes.GRAPH_MADE_IN_FORWARD.code, causes.PICKED_NODES.code,
})  # fmt: skip


def without_consequences(problems: list[Problem]) -> list[Problem]:
    """Drop problems that follow from others, and repeated ones."""
    codes = {problem.code for problem in problems}
    dropped = {
        effect.code
        for effect, reasons in _FOLLOWS_FROM.items()
        if any(cause.code in codes for cause in reasons)
    }
    kept = [p for p in problems if p.code not in dropped]
    if causes.GRADIENTS.code in codes:
        # What such a function returns may not be a tensor of its own.
        kept = [p for p in kept if "some of the rows alone" not in p.reason]
    if codes & _UNKNOWN_SIZES:
        kept = [p for p in kept if not _differs(p)]
    picking = {p.submodule for p in kept if p.code == causes.PICKED_NODES.code}
    after = (causes.MIXED_NODES.code, causes.GRAPH_MADE_IN_FORWARD.code)
    kept = [
        p for p in kept if p.code not in after or p.submodule not in picking
    ]
    named = {(p.file, p.line) for p in kept if p.file and p.code not in RANK}
    found: dict[tuple, Problem] = {}
    for p in kept:
        failed = p.code == causes.FAILS_ON_PROBE.code
        key = (p.code,) if failed else (p.code, p.submodule, p.file, p.line)
        # A line with a cause that has a name needs no other explanation.
        if p.code not in RANK or (p.file, p.line) not in named:
            found.setdefault(key, p)
    return list(found.values())


def _differs(problem: Problem) -> bool:
    """Return whether all that is known is that something differs."""
    texts = ("from graph to graph", "on one graph and")
    return any(text in problem.reason for text in texts)


def in_order(problems: list[Problem]) -> list[Problem]:
    """Put what a model's author can act on first, else keep the order."""
    return sorted(problems, key=lambda p: RANK.get(p.code, 0))
