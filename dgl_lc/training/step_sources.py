"""The steps of epochs: outputs of a model, with the targets of their rows."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import torch
from dgl import DGLError
from torch import nn

from ..node_rows import NodeRows
from .consistency import Outputs
from .epochs import Source
from .loader import HopLoader, as_rows
from .model_rows import check_output, is_full_graph
from .precision import call_model, widened
from .targets import Targets


def rows_of(inputs: Any) -> NodeRows:
    """Return the rows of inputs; of a graph, those of its features."""
    if not is_full_graph(inputs):
        return as_rows(inputs)
    graph, feat = inputs
    if feat.shape[0] != graph.num_nodes():
        raise DGLError(
            f"feat has {feat.shape[0]} rows, but the graph has "
            f"{graph.num_nodes()} nodes."
        )
    return NodeRows([feat])


def whole_graph(
    inputs: Any,
    targets: Targets,
    ids: torch.Tensor,
    device: torch.device,
    precision: str,
    unlabelled: torch.Tensor | None = None,
    in_passes: bool = False,
) -> Source:
    """Make one step of a graph with its features.

    Parameters
    ----------
    inputs : tuple
        The graph and its features.
    targets, ids
        The nodes whose output counts, and their targets.
    device, precision
        Where and how the model computes.
    unlabelled : Tensor, optional
        Nodes without a label.
    in_passes : bool, optional
        Whether the model is called several times, by ``Passes``.
    """
    graph, feat = inputs
    rows_of(inputs).positions(ids)
    graph, feat = graph.to(device), feat.to(device)
    target, ids = targets.to(device), ids.to(device)
    others = None if unlabelled is None else unlabelled.to(device)

    def whole(model: nn.Module, epoch: int) -> Iterator:
        output = call_model(model, precision, device, graph, feat)
        if not in_passes:
            yield widened(check_output(output)[ids]), target
            return
        (passes,) = output
        passes = [check_output(own) for own in passes]
        yield (
            Outputs(
                [widened(own[ids]) for own in passes],
                []
                if others is None
                else [widened(own[others]) for own in passes],
            ),
            target,
        )

    return whole


def batches(
    loader: HopLoader,
    device: torch.device,
    precision: str,
    unlabelled: HopLoader | None = None,
    in_passes: bool = False,
) -> Source:
    """Make the steps of mini-batches.

    Parameters
    ----------
    loader : HopLoader
        Gives batches and their targets.
    device, precision, in_passes
        As for :func:`whole_graph`.
    unlabelled : HopLoader, optional
        Gives as many batches of nodes without a label.
    """

    def plain(model: nn.Module, epoch: int) -> Iterator:
        loader.set_epoch(epoch)
        # Closed at once after an error, whose traceback keeps this frame: a
        # thread of the loader ends here.
        with closing(iter(loader)) as given:
            for batch, target in given:
                output = call_model(model, precision, device, None, batch)
                yield widened(check_output(output)), target

    def several(model: nn.Module, epoch: int) -> Iterator:
        loader.set_epoch(epoch)
        others: Iterator = iter(())
        with ExitStack() as stack:
            if unlabelled is not None:
                unlabelled.set_epoch(epoch)
                others = stack.enter_context(closing(iter(unlabelled)))
            labelled = stack.enter_context(closing(iter(loader)))
            for batch, target in labelled:
                given = [batch] if unlabelled is None else [batch, next(others)]
                output = call_model(model, precision, device, None, *given)
                rows = [
                    [widened(check_output(o)) for o in own] for own in output
                ]
                yield Outputs(rows[0], rows[1] if rows[1:] else []), target

    return several if in_passes else plain
