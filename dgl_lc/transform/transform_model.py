"""lc_transform: trace, compare, push, emit and check a model."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from . import causes
from .check import check
from .collect_problems import collect_problems
from .compare_traces import unify
from .emit import emit
from .equal_words import EqualWords
from .evaluate import Evaluator, check_guards
from .joined_rows import split_joined_rows
from .lc_version import LCVersion
from .model_inputs import name_inputs, needs_of
from .options import Options, check_options
from .own_failure import own_failure
from .push import push
from .recognise import OperationKinds
from .refusals import LCError, Problem, first_line, refusal
from .report import find_commuted, make_report
from .rewrite_messages import rewrite_messages
from .simplify import simplify
from .tracing.dgl_hooks import transforming
from .tracing.graph_transforms import keeping_edges
from .tracing.model_call import ModelCall, read_call
from .tracing.probes import copy_model, make_probe
from .tracing.trace_model import trace
from .tracing.values import Trace
from .training_dropout import add_training_dropout

#: Codes of refusals that may be errors of the model on the user's own graph.
_FAILURES = (
    causes.FAILS_ON_PROBE.code, causes.OTHER_ON_OTHER_GRAPHS.code,
    causes.INTERNAL.code,
)  # fmt: skip


def lc_transform(
    model: nn.Module,
    *args: Any,
    fold: bool = False,
    bias: str = "outside",
    ignore_edge_dropout: bool = False,
    copy: bool = False,
    max_inputs: int = 256,
    **kwargs: Any,
) -> LCVersion:
    r"""Transform a model so that it needs no graph.

    Aggregations are swapped with everything that acts on each node's row,
    :math:`S\,\sigma(h) \to \sigma(S h)`, until they act on the features
    alone. What remains is a module of rows, to be trained in mini-batches.

    Parameters
    ----------
    model : nn.Module
        A model of a homogeneous graph.
    *args, **kwargs
        Arguments of the model's forward: ``lc_transform(model, g, x)`` for
        a model that is called as ``model(g, x)``.
    fold : bool, optional
        Whether a sum of filters with constant coefficients (as in APPNP)
        becomes one filter where it acts on learned values. This needs fewer
        inputs, and gives another function. Default: False.
    bias : str, optional
        "outside": a bias stays as it is, as in the published models.
        "exact": a bias is aggregated too, with one more column for each
        word. Default: "outside".
    ignore_edge_dropout : bool, optional
        Whether a model that drops edges is transformed as if it did not.
        Default: False.
    copy : bool, optional
        Whether the LC version gets parameters of its own. Default: False,
        it shares those of the model.
    max_inputs : int, optional
        Number of inputs above which a model is refused: it can grow
        exponentially with the layers of a model. Default: 256.

    Returns
    -------
    LCVersion
        The LC version, with ``inputs``, ``module``, ``precompute``,
        ``rows``, ``loader`` and ``report``.

    Raises
    ------
    LCError
        If an operation can't be shown to commute with aggregation. The
        error names the submodule and the operation, and says why.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_lc
    >>> from dgl.nn import GraphConv
    >>> class GCN(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.conv1 = GraphConv(8, 16)
    ...         self.conv2 = GraphConv(16, 3)
    ...
    ...     def forward(self, g, x):
    ...         return self.conv2(g, self.conv1(g, x).relu())
    >>> g = dgl.add_self_loop(dgl.rand_graph(50, 200))
    >>> x = torch.randn(50, 8)
    >>> lc = dgl_lc.lc_transform(GCN(), g, x)
    >>> print(*lc.inputs)
    S² x
    >>> inputs = lc.precompute(g, x)
    >>> lc.module(*lc.rows(inputs, torch.tensor([4, 2]))).shape
    torch.Size([2, 3])
    """
    options = check_options(fold, bias, ignore_edge_dropout, copy, max_inputs)
    call = read_call(model, args, kwargs)
    with (
        transforming(),
        torch.random.fork_rng(devices=[]),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
        warnings.catch_warnings(),
        _one_thread(),
    ):
        # DGL would repeat warnings that it gave when the model was made.
        warnings.simplefilter("ignore")
        try:
            return _transform(call, 1, options)
        except LCError as error:
            # A width in the model may be equal to a size of the probes.
            try:
                return _transform(call, 4, options)
            except LCError:
                if error.code in _FAILURES:
                    failed = own_failure(call, error.submodule)
                    if failed is not None:
                        raise failed from failed.__cause__
                    # Degrees of the probes may be larger than a table.
                    limited = replace(call, limits_degrees=True)
                    # Branches on self-loops, for instance, may be others.
                    alike = replace(call, resembles=True)
                    for reading in (*call.other_readings(), limited, alike):
                        try:
                            return _transform(reading, 1, options)
                        except LCError as other:
                            if other.code not in _FAILURES:
                                call, error = reading, other
                                break
                problems = _all_problems(call, options, error)
                raise LCError(problems) from error.__cause__


def _all_problems(
    call: ModelCall, options: Options, first: LCError
) -> list[Problem]:
    """Return all problems of a model that was refused."""
    how = options.exact_bias, options.ignore_edge_dropout
    try:
        return collect_problems(call, 1, *how, first)
    except Exception:
        # An explanation that fails must not hide the error.
        return first.problems


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: on tiny probes, threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _transform(call: ModelCall, seed: int, options: Options) -> LCVersion:
    """Transform a model, with probes made from a seed."""
    try:
        probe = make_probe(call, seed)
        traced = _trace(call, probe, seed, options)
        with torch.no_grad():
            probes = [Evaluator(make_probe(call, k)) for k in (seed + 1, 3)]
            real = Evaluator(call)
            rows = split_joined_rows(traced, probe.model)
            simplified = simplify(rows, [*probes, real])
            kinds = OperationKinds(probe.model, probe.num_nodes)
            words = EqualWords([Evaluator(probe), *probes], real)
            pushed = push(
                simplified,
                kinds,
                words,
                options.fold,
                options.exact_bias,
                options.max_inputs,
            )
            check_guards(pushed.trace.guards, real)
        inputs = name_inputs(pushed.inputs)
        model = copy_model(call) if options.copy else call.model
        module = emit(model, pushed, [entry.name for entry in inputs])
        commuted = find_commuted(pushed)
        exact = all(entry.is_exact for entry in commuted)
        with keeping_edges(options.ignore_edge_dropout):
            checked = check(call, module, inputs, pushed, exact)
        report = make_report(
            pushed, inputs, commuted, call.num_nodes, checked, probes[0]
        )
        module._row_needs = needs_of(inputs, report.filters)
        return LCVersion(
            call, module, inputs, pushed.trace.guards, report, pushed
        )
    except LCError:
        raise
    except Exception as error:
        raise refusal(
            causes.INTERNAL, "", type(error).__name__,
            f"lc_transform failed in a way that it does not expect "
            f"({first_line(error)})",
            "Please report it, with the model",
        ) from error  # fmt: skip


def _trace(
    call: ModelCall, probe: ModelCall, seed: int, options: Options
) -> Trace:
    """Run the model on two probes and in training; make one trace of it."""
    how = options.exact_bias, options.ignore_edge_dropout
    traces = (
        trace(probe, False, *how),
        trace(make_probe(call, seed + 1), False, *how),
        trace(make_probe(call, seed), True, *how),
    )
    add_training_dropout(*traces, probe.model)
    unified = unify(*traces)
    rewrite_messages(unified, probe)
    return unified
