"""The LC version of a model: what lc_transform returns."""

import dataclasses
import os
import re
from numbers import Integral
from pathlib import Path
from typing import Any

import torch
from dgl import DGLError

from ..node_rows import NodeRows
from ..precompute.checks import check_nodes
from ..ranks.first_rank import on_first_rank
from ..row_programs.by_training import if_training
from ..row_programs.in_autocast import InAutocast
from ..row_programs.stacked_rows import stack_words
from ..row_programs.written_rows import write_items
from ..storage.input_store import StoredInputs, open_inputs
from ..training.loader import HopLoader
from . import causes
from .assumptions import check_assumptions
from .drawing.draw_lc import draw_lc
from .drawing.svg_file import write_svg
from .drift import Drift, LazyDrift
from .evaluate import OTHER_GRAPH, Evaluator, check_guards
from .input_rows import InputRows
from .lc_module import LCModule
from .measure_drift import measure_drift
from .model_inputs import Input
from .on_disk.precompute_steps import precompute_steps
from .precompute_inputs import precompute_inputs
from .pushed import Pushed
from .refusals import refuse
from .report import Report
from .tracing.model_call import (
    ModelCall,
    differences,
    named_items,
    read_call,
)
from .tracing.values import Guard


class LCVersion:
    """The LC version of a model: what to precompute, and the module.

    Attributes
    ----------
    inputs : list of Input
        What has to be precomputed; ``print(*lc.inputs)`` shows formulas.
    module : LCModule
        A module that takes rows of the inputs, and no graph. It has the
        model's parameters, under their own names. ``print(lc.code)`` shows
        what it does.
    report : Report
        What was swapped, and whether the result is exact.
    """

    def __init__(
        self, call: ModelCall, module: LCModule, inputs: list[Input],
        guards: list[Guard], report: Report, pushed: Pushed,
    ) -> None:  # fmt: skip
        self.module, self.inputs = module, inputs
        lazy = LazyDrift(self.drift, module)
        self.report = dataclasses.replace(report, lazy_drift=lazy)
        self._model, self._guards = call.model, guards
        self._call, self._pushed = call, pushed
        self._names = set(call.graphs) | set(call.inputs)

    def precompute(
        self, *args: Any, nodes: Any = None, memory: int | str | None = None,
        dtype: torch.dtype | None = None, device: Any = None,
        progress: bool | None = None, out: str | os.PathLike | None = None,
        resume: bool = True, **kwargs: Any,
    ) -> InputRows | StoredInputs:  # fmt: skip
        """Compute the inputs with the block engine.

        Parameters
        ----------
        *args, **kwargs
            Arguments of the model's forward: the graph, its features. A
            :class:`dgl_lc.data.DiskGraph` may take the place of a graph, and
            :class:`dgl_lc.data.DiskFeatures` or a ``numpy.memmap`` the place
            of features.
        nodes : Tensor, optional
            Nodes whose rows are returned, in this order, as ids or as a mask.
            Default: all.
        memory : int or str, optional
            Bytes that may be allocated, as for
            :func:`dgl_lc.block_aggregate`, static values of the model and
            graphs that it derives included.
        dtype : torch.dtype, optional
            Type in which the inputs, and steps to them, are stored. Default:
            that of the features.
        device : optional
            Device that applies filters: "cpu" or "cuda", as for
            :func:`dgl_lc.block_aggregate`. Static values are computed on the
            CPU.
        progress : bool, optional
            Whether progress bars are shown.
        out : path, optional
            Folder in which the inputs are kept, and read from row by row;
            :func:`dgl_lc.precompute.open_store` opens it again. A finished
            input is not computed again after an interruption.
        resume : bool
            With ``out``: resume an interrupted call, and use the result of an
            earlier one. With False the folder is written again.

        Among ranks (``torchrun``), rank 0 writes ``out`` and all read it;
        without ``out``, each rank computes all inputs by itself.
        """
        call = self._read_call("precompute", args, kwargs, may_be_on_disk=True)
        options = nodes, memory, dtype, device, progress
        with torch.no_grad():
            if call.on_disk or out is not None:

                def on_disk() -> InputRows | StoredInputs:
                    return precompute_steps(
                        self.inputs,
                        call,
                        self._guards,
                        self._pushed.assumptions,
                        self.report.filters,
                        *options,
                        out,
                        resume,
                    )

                if out is None:
                    found = on_disk()
                else:
                    folder = out
                    found = on_first_rank(
                        None, "lc.precompute", on_disk,
                        lambda: open_inputs(folder),
                    )  # fmt: skip
            else:
                found = precompute_inputs(
                    self.inputs,
                    call,
                    self._guards,
                    self._pushed.assumptions,
                    *options,
                )
        if isinstance(found, InputRows):
            found.names = [entry.formula for entry in self.inputs]
            found.filters = tuple(self.report.filters)
        return found

    def _read_call(
        self, method: str, args: tuple, kwargs: dict,
        may_be_on_disk: bool = False,
    ) -> ModelCall:  # fmt: skip
        """Read the arguments of a method, which are those of the model."""
        call = read_call(self._model, args, kwargs, may_be_on_disk)
        lacking = self._names - set(call.graphs) - set(call.inputs)
        for name, item in named_items(self._model, args, kwargs):
            if name in lacking and len(getattr(item, "shape", ())):
                was = self._call.inputs[name]
                size = "nodes" if self._call.of_nodes(name) else "edges"
                graph = next(iter(call.graphs.values()))
                count = getattr(graph, f"num_{size}")()
                refuse(
                    causes.WRONG_CALL, "", f"the argument {name}",
                    f"has {item.shape[0]:,} rows, but the graph has "
                    f"{count:,} {size} (lc_transform was given "
                    f"{was.shape[0]:,} rows, one for each of its {size})",
                    f"Pass a row for each of the {size} of this graph",
                )  # fmt: skip
        if lacking:
            refuse(
                causes.WRONG_CALL, "", method,
                f"is called without {', '.join(sorted(lacking))}",
                "Pass the arguments of the model's forward, as to "
                "lc_transform",
            )  # fmt: skip
        for difference in differences(self._call, call):
            refuse(
                causes.WRONG_CALL, "",
                method, f"is called with another argument than "
                f"lc_transform was: {difference}",
                "Pass the arguments that lc_transform had; only the graph and "
                "the features may differ, in their values and their size",
            )  # fmt: skip
        return call

    def drift(
        self, *args: Any, nodes: Any = None, samples: int = 1000, **kwargs: Any
    ) -> Drift:
        """Compare the outputs of the LC version with those of the model.

        Both have the present parameters of :attr:`module`, in evaluation.

        Parameters
        ----------
        *args, **kwargs
            Arguments of the model's forward. Default: those that
            lc_transform had.
        nodes : Tensor, optional
            Nodes to compare. Default: all nodes, or a sample.
        samples : int, optional
            Number of nodes that are drawn from a graph that has more. They
            are computed from their exact neighbourhoods; if these are too
            large, from fewer nodes. Default: 1000.

        Returns
        -------
        Drift
            Relative difference of the outputs, share of nodes with the same
            argmax, and the difference that each operation makes.
            ``lc.report.drift`` is the one without arguments.
        """
        if not isinstance(samples, Integral) or samples < 1:
            raise DGLError(
                f"samples={samples!r}: the number of nodes to compare has to "
                f"be a whole number of at least 1, such as samples=1000."
            )
        call = self._call
        if args or kwargs:
            call = self._read_call("drift", args, kwargs)
        graph = next(iter(call.graphs.values()))
        chosen = check_nodes(graph, nodes)
        with torch.no_grad():
            evaluate = Evaluator(call)
            check_guards(self._guards, evaluate, OTHER_GRAPH)
            check_assumptions(self._pushed.assumptions, evaluate)
        return measure_drift(
            call, self.module, self.inputs, self._pushed, chosen, samples
        )

    @property
    def code(self) -> str:
        """The module's code, without the statements that free memory."""
        lines = self.module.code.strip().splitlines()
        lines = [re.sub(r";  .*= None$", "", line) for line in lines]
        text = "\n".join(lines)
        # torch.fx puts the module's path before names of functions.
        for function, shown in (
            (stack_words, ""), (write_items, ""), (if_training, ""),
            (InAutocast, "autocast_"),
        ):  # fmt: skip
            prefix = function.__module__.replace(".", "_") + "_"
            text = text.replace(prefix, shown)
        for name, path in self.module.__dict__["_part_paths"].items():
            part = f"getattr(self, {path!r})".replace("\\", r"\\")
            text = re.sub(rf"\bself\.{name}\b", part, text)
        return text

    def rows(
        self, inputs: InputRows | StoredInputs, ids: torch.Tensor
    ) -> NodeRows:
        """Return rows of some nodes: ``lc.module(*lc.rows(inputs, ids))``.

        ``ids`` may be a mask with an entry for each node of the graph.
        """
        return inputs.rows(ids)

    def loader(
        self, inputs: InputRows | StoredInputs, nids: torch.Tensor,
        labels: torch.Tensor | None = None, **options: Any,
    ) -> HopLoader:  # fmt: skip
        """Make a :class:`dgl_lc.training.HopLoader` of the inputs."""
        return HopLoader(inputs, nids, labels, **options)

    def draw(self, path: str | os.PathLike) -> Path:
        """Draw the model and its LC version side by side, as an SVG file.

        Aggregations of the model are in colour and have numbers. The numbers
        beside the inputs of the LC version say which ones were moved there.
        Parts that are repeated are drawn once.

        Parameters
        ----------
        path : path
            File to be written; its name ends in ``.svg``. A picture that was
            drawn before is replaced, any other file is an error.

        Returns
        -------
        Path
            The file.
        """
        return write_svg(path, self._picture())

    def _picture(self) -> str:
        """Write the picture as SVG."""
        return draw_lc(
            self._model, self._pushed, self.inputs, self.report.filters
        )

    def _repr_html_(self) -> str:
        """Show the picture in a notebook."""
        return f'<div style="overflow-x: auto">{self._picture()}</div>'

    def __repr__(self) -> str:
        name = type(self._model).__name__
        formulas = ", ".join(map(str, self.inputs))
        return f"LCVersion({name}: {formulas})"
