"""The part of each rank in predictions that several ranks write together."""

from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import torch
from torch import nn

from .._common.bytes import parse_bytes
from ..node_rows import NodeRows
from ..ranks.collectives import Collectives
from .description import describe_prediction
from .rank_inputs import check_shard
from .task_store import has_row


class PredictionParts:
    """Who predicts which nodes: this process alone, or several ranks.

    Parameters
    ----------
    collectives : Collectives or None
        The ranks; None for this process alone.
    """

    def __init__(self, collectives: Collectives | None):
        self._collectives = collectives
        self.size = 1 if collectives is None else collectives.ranks.size
        self._rank = 0 if collectives is None else collectives.ranks.rank
        #: Whether this process writes the file.
        self.writes = self._rank == 0
        self._error: Exception | None = None

    def check_rows(self, rows: NodeRows | None) -> None:
        """Refuse the row shard of another rank."""
        if self._collectives is not None:
            check_shard(self._collectives.ranks, rows, "rows")

    def agree(
        self,
        model: nn.Module,
        rows: NodeRows | None,
        nodes: torch.Tensor | None,
        **options: Any,
    ) -> None:
        """Refuse models, data or options that differ between ranks."""
        if self._collectives is None:
            return
        call = self._collectives.call
        call.stage("comparing the arguments of all ranks")
        known = torch.as_tensor(nodes) if nodes is not None else None
        described = describe_prediction(model, rows, known)
        call.agree({**described, **options})

    def budget(self, memory: int | str | None) -> int:
        """Return the bytes that computing hop features may take."""
        if memory is not None:
            return parse_bytes(memory)
        free = psutil.virtual_memory().available // 2
        if self._collectives is None:
            return free
        # All ranks have to cut the nodes into the same blocks.
        call = self._collectives.call
        beside = call.hosts.count(call.hosts[self._rank])
        return min(call.gather(free // beside))

    def mine(self, source: NodeRows, ids: torch.Tensor) -> torch.Tensor:
        """Tell for each node whether this rank predicts it from a source."""
        if source.shard is not None and self._collectives is not None:
            return has_row(source, ids)
        low, high = (
            len(ids) * place // self.size
            for place in (self._rank, self._rank + 1)
        )
        found = torch.zeros(len(ids), dtype=torch.bool)
        found[low:high] = True
        return found

    def wait_for_file(self) -> None:
        """Begin when the file can be written."""
        if self._collectives is not None:
            self._collectives.call.barrier("file")
            self._collectives.call.stage("predicting")

    def put_together(self, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Add up what ranks compute: each row is computed by one of them.

        If this fails on one rank, it fails on all.
        """
        if self._collectives is None:
            return compute()
        found = np.empty(0)
        if self._error is None:
            try:
                found = compute()
            except Exception as error:
                self._error = error
        self._collectives.check(self._error)
        self._collectives.add_rows(torch.from_numpy(found))
        self._collectives.call.progress()
        return found

    def attempt(self, work: Callable[[], object]) -> None:
        """Do what one rank alone does; others learn later if it failed."""
        if self._collectives is None:
            work()
            return
        try:
            if self._error is None:
                work()
        except Exception as error:
            self._error = error

    def finish(self) -> None:
        """Raise an error on all ranks, if one has failed."""
        if self._collectives is not None:
            self._collectives.check(self._error)
