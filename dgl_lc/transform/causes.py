"""The causes that a model is refused for, each with a stable code.

A code stands for something that a user can act on, not for a line of this
package. ``docs/lc_errors.md`` has a section for each. A code keeps its meaning:
new causes get new numbers.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """A cause of refusals: its code, and its short name."""

    code: str
    name: str

    def __str__(self) -> str:
        return f"{self.code} {self.name}"


#: All causes by their codes, in the order of this file.
CAUSES: dict[str, Cause] = {}


def _cause(code: str, name: str) -> Cause:
    return CAUSES.setdefault(code, Cause(code, name))


# The call
WRONG_CALL = _cause("LC001", "wrong arguments")
UNSUPPORTED_GRAPH = _cause("LC002", "unsupported kind of graph")

# The filter is not a constant linear function
LEARNED_EDGE_WEIGHTS = _cause("LC003", "learned edge weights")
ATTENTION = _cause("LC004", "attention over neighbours")
LEARNED_MESSAGES = _cause("LC005", "learned messages")
NOT_A_SUM = _cause("LC006", "reduction that is not a sum or a mean")
DROPPED_EDGES = _cause("LC007", "edges dropped at random")
GRAPH_MADE_IN_FORWARD = _cause("LC008", "graph made or sampled in forward")
LEARNED_ADJACENCY = _cause("LC009", "learned adjacency matrix")

# Nodes are picked, mixed or changed at random
PICKED_NODES = _cause("LC010", "nodes picked by learned scores")
RANDOM_NUMBERS = _cause("LC011", "random numbers in forward")
SHUFFLED_NODES = _cause("LC012", "nodes shuffled at random")
READOUT = _cause("LC013", "readout over nodes")
NORM_OVER_NODES = _cause("LC014", "normalisation over nodes")
ATTENTION_OF_NODES = _cause("LC015", "attention between all nodes")

# Parameters and features
SIZE_OF_THE_GRAPH = _cause("LC016", "parameters of the size of the graph")
INTEGERS = _cause("LC017", "integers that are aggregated")

# Python and torch
NUMBER_OF_THE_GRAPH = _cause("LC018", "number taken from the graph")
LEARNED_BRANCH = _cause("LC019", "learned value as a Python number")
OUTSIDE_TORCH = _cause("LC020", "values taken out of torch")
OTHER_IN_TRAINING = _cause("LC021", "other operations in training")
OTHER_ON_OTHER_GRAPHS = _cause("LC022", "other operations on other graphs")
WRITES_IN_PLACE = _cause("LC023", "tensor written in place")
SOME_ROWS = _cause("LC024", "some of the rows")
GRADIENTS = _cause("LC025", "gradients that can't be followed")
FAILS_ON_PROBE = _cause("LC026", "model fails on another graph")
NOT_COPIED = _cause("LC027", "model that can't be rebuilt")

# What the transformation can't do
NO_ROWS_IN_OUTPUT = _cause("LC028", "output without a row for each node")
MIXED_NODES = _cause("LC029", "operation that mixes nodes")
UNSUPPORTED_MESSAGES = _cause("LC030", "unsupported message passing")
NOTHING_TO_DO = _cause("LC031", "nothing to transform")
WRAPPED = _cause("LC032", "model or features to unwrap first")
TOO_MANY_INPUTS = _cause("LC033", "too many inputs")
NOT_SAVED = _cause("LC034", "can't be saved or exported")
NOT_ON_DISK = _cause("LC035", "can't be computed on disk")
FAILS_BY_ITSELF = _cause("LC036", "model fails on the given arguments")
KEEPS_STATE = _cause("LC037", "model that keeps state between calls")
INTERNAL = _cause("LC099", "defect of dgl-lc")
