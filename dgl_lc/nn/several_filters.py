"""Base class of the models that read inputs of several filters."""

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import Any

import dgl
import torch as th
from dgl import DGLError

from ..labelled_rows import LabelledRows
from ..node_rows import ModelInputs, NodeRows
from ..precompute.request import Request
from ..precompute.sinks import warn_if_unread
from ..ranks.call import RankCall
from ..ranks.group import find_ranks
from ..storage.input_store import (
    InputsWriter,
    StoredInputs,
    open_inputs,
    write_inputs,
)
from .model import HopModel, Hops
from .plain.model_on_hops import stack_hops

#: The name of the input that is the features themselves.
FEATURES = "features"
#: What the names of inputs of a weighted filter end in.
_WEIGHTED = ", with edge weights"


class SeveralFilters(HopModel):
    """A model that reads features to which words of several filters are
    applied.

    It precomputes :class:`~dgl_lc.node_rows.ModelInputs`. A subclass says
    what its inputs are (:attr:`input_names`).
    """

    @property
    def input_names(self) -> list[str]:
        """What each input is; inputs of other names are refused."""
        raise NotImplementedError

    @property
    def num_inputs(self) -> int:
        """The number of feature matrices the model reads."""
        return len(self.input_names)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        found = super().config
        # The model itself says which of its filters have self-loops.
        del found["self_loop"]
        return found

    def weighted_of(self, feat: Any) -> bool | None:
        """Tell whether inputs were made with edge weights; None if unknown."""
        if isinstance(feat, LabelledRows):
            feat = feat.features
        if isinstance(feat, ModelInputs):
            return any(name.endswith(_WEIGHTED) for name in feat.names)
        return None

    def _names(self, weighted: bool | None) -> list[str]:
        """Name the inputs; the features are the same with any filter."""
        ending = _WEIGHTED if weighted else ""
        return [
            name if name == FEATURES else name + ending
            for name in self.input_names
        ]

    def _inputs(
        self,
        tensors: Sequence[th.Tensor],
        nodes: th.Tensor | None,
        weighted: bool = False,
    ) -> ModelInputs:
        return ModelInputs(tensors, self._names(weighted), nodes)

    def _store_inputs(
        self,
        graph: dgl.DGLGraph,
        feat: th.Tensor,
        out: str | os.PathLike,
        folders: Sequence[str],
        write_part: Callable[[InputsWriter, str], object],
        options: dict[str, Any],
    ) -> StoredInputs:
        """Have the parts of the inputs written that are not finished yet.

        ``options`` are those of :func:`dgl_lc.block_aggregate`. Several ranks
        write each part together, unless ``process_group`` is False.
        """
        head = Request.of(
            graph, feat, 0, weight=options.get("edge_weight"),
            nodes=options.get("nodes"), dtype=options.get("dtype"),
        ).store_head()  # fmt: skip
        ranks = find_ranks(options.get("process_group"))
        with (
            nullcontext() if ranks is None else RankCall(ranks, "precompute")
        ) as call, write_inputs(
            out, self._names(head.spec.weighted), folders,
            {**head.made_from, "dtype": head.kind},
            resume=options.get("resume", True), call=call,
        ) as writer:  # fmt: skip
            if writer.finished:
                warn_if_unread(Path(out), head.made_from, stacklevel=4)
            else:
                for folder in folders:
                    if folder not in writer.done:
                        write_part(writer, folder)
                        writer.commit(folder)
                writer.finish()
        return open_inputs(out)

    def _from_rows(self, feat: NodeRows) -> th.Tensor:
        """Return the stack of the inputs."""
        if not isinstance(feat, ModelInputs):
            raise DGLError(
                f"{type(self).__name__} reads {self.num_inputs} inputs of "
                f"several filters, but feat is {type(feat).__name__}: "
                f"precompute with model.precompute(g, x)."
            )
        self.check_weighted(feat)
        names = self._names(self.weighted_of(feat))
        for needed, found in zip_longest(names, feat.names):
            if needed != found:
                raise DGLError(
                    f"feat has the inputs of another model: where "
                    f"{type(self).__name__} reads {needed!r}, it has "
                    f"{found!r}. Precompute with model.precompute(g, x)."
                )
        return feat.stack

    def _from_sequence(self, feat: Hops) -> th.Tensor:
        """Stack the inputs."""
        if len(feat) != self.num_inputs:
            raise DGLError(
                f"feat is a sequence of {len(feat)} tensors, but "
                f"{type(self).__name__} reads {self.num_inputs}: precompute "
                f"them with model.precompute(g, x)."
            )
        return stack_hops(feat, list(range(self.num_inputs)))
