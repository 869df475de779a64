"""Models of the zoo, transformed once for all the tests of a process."""

import contextlib
import copy
import functools
from typing import NamedTuple

import dgl
import torch
from torch import nn

from dgl_lc.transform import LCError, LCVersion, lc_transform

from .cases import REFUSED, TAKEN
from .inputs import features, permutation_graph, random_graph, randomised


def _graph_of_loops():
    nodes = torch.arange(60)
    return dgl.graph((nodes, nodes))


GRAPHS = {
    "random": random_graph,
    "permutation": permutation_graph,
    "loops": _graph_of_loops,
}


class Ready(NamedTuple):
    """A model, the arguments of its call, and its LC version.

    Tests share those of :func:`ready`: what a test changes, it changes back
    (see :func:`lent`).
    """

    model: nn.Module
    args: tuple
    kwargs: dict
    lc: LCVersion


def ready(name: str, graph: str = "random", training: bool = False) -> Ready:
    """A model of the zoo and its LC version, made once."""
    return _ready(name, graph, training)


@functools.cache
def _ready(name, graph, training):
    return transformed(name, graph, training)


def transformed(name, graph="random", training=False, **options) -> Ready:
    """A model of the zoo with random parameters, and its LC version.

    It computes in float64, and the model is in evaluation unless it is said
    to be in training when it is transformed.
    """
    with _in_float64():
        case = TAKEN[name].make()
        args, kwargs = case.call(GRAPHS[graph](), features())
        randomised(case.model).double().train(training)
        lc = lc_transform(
            case.model, *args, **kwargs, **{**case.options, **options}
        )
    return Ready(case.model, args, kwargs, lc)


@functools.cache
def refusal(name: str) -> LCError:
    """The error that refuses a model of the zoo, made once."""
    with _in_float64():
        case = REFUSED[name].make()
        args, kwargs = case.call(random_graph(), features())
        try:
            lc_transform(case.model, *args, **kwargs, **case.options)
        except LCError as error:
            # Without what the traceback would hold in memory.
            return error.with_traceback(None)
    raise AssertionError(f"{name} is transformed")


@contextlib.contextmanager
def _in_float64():
    """Make and transform models as in every other process."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(0)
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def lent(module: nn.Module):
    """Give a shared module back with its state, in evaluation."""
    state = copy.deepcopy(module.state_dict())
    try:
        yield module
    finally:
        module.load_state_dict(state)
        module.zero_grad(set_to_none=True)
        module.eval()
