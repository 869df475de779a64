"""Where the rows of a rank go: into memory, or into a store of its own."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import torch

from ..._common.rows import empty
from ...hops import HopFeatures
from ...storage.folder import is_whole
from ...storage.hop_store import find_store, open_hop_store
from ...storage.write_hops import StoreWriter
from ..request import Request


class RowTarget(Protocol):
    """Where the rows of this rank go.

    Attributes
    ----------
    done : int
        Columns that it has, from an earlier run.
    """

    @property
    def done(self) -> int: ...

    def block(self, last: int) -> contextlib.AbstractContextManager[None]:
        """Take columns up to ``last`` within."""

    def columns(
        self, hop: int, first: int, last: int
    ) -> contextlib.AbstractContextManager[torch.Tensor]:
        """Give a matrix to fill within: columns of a hop, of all rows."""


class MemoryRows:
    """Rows of this rank in memory."""

    def __init__(
        self, request: Request, places: torch.Tensor, shard: tuple[int, int]
    ):
        self._request, self._shard = request, shard
        nodes = request.nodes
        self.nodes = places if nodes is None else nodes[places]
        self.done = 0
        self._hops = {
            hop: empty(len(places), request.num_feats, request.dtype)
            for hop in request.kept
        }

    @contextlib.contextmanager
    def block(self, last: int) -> Iterator[None]:
        yield
        self.done = last

    @contextlib.contextmanager
    def columns(
        self, hop: int, first: int, last: int
    ) -> Iterator[torch.Tensor]:
        yield self._hops[hop][:, first:last]

    def __enter__(self) -> "MemoryRows":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def finish(self) -> HopFeatures:
        """Give the hop features."""
        request = self._request
        found = HopFeatures(
            list(self._hops.values()), request.kept,
            replace(request.spec, graph=request.counts()), self.nodes,
        )  # fmt: skip
        found.shard = self._shard
        return found


class StoredRows:
    """Rows of this rank in a store of its own. It is a context manager."""

    def __init__(
        self,
        request: Request,
        places: torch.Tensor,
        folder: Path,
        shard: tuple[int, int],
        resume: bool,
    ):
        self._request, self.folder = request, folder
        nodes = request.nodes
        self.nodes = places if nodes is None else nodes[places]
        head = request.store_head()
        self._resume = resume
        self._head = head = replace(
            head, rows=len(places), some_nodes=True,
            made_from=head.made_from | {"shard": list(shard)},
        )  # fmt: skip
        self._writer = StoreWriter(folder, head, self.nodes, resume)

    def __enter__(self) -> "StoredRows":
        self._writer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.__exit__(kind, error, trace)

    @property
    def done(self) -> int:
        writer = self._writer
        return writer.shape[2] if writer.finished else writer.done

    @contextlib.contextmanager
    def block(self, last: int) -> Iterator[None]:
        if last <= self.done:
            # Others lack these columns; this rank only helps.
            yield
            return
        with self._writer.block(last):
            yield

    @contextlib.contextmanager
    def columns(
        self, hop: int, first: int, last: int
    ) -> Iterator[torch.Tensor]:
        rows = empty(len(self.nodes), last - first, self._request.dtype)
        yield rows
        known = max(0, self.done - first)
        if known < rows.shape[1]:
            self._writer.keep(hop, first + known, rows[:, known:], None)

    def finish(self) -> HopFeatures:
        """Make the store whole and open it."""
        if not self._writer.finished:
            self._writer.finish(self._request.counts())
        return self.open()

    def is_finished(self) -> bool:
        """Tell whether an earlier call has made this store."""
        if not self._resume or not is_whole(self.folder):
            StoreWriter.check(self.folder)
            return False
        return find_store(self.folder, self._head) is not None

    def open(self) -> HopFeatures:
        """Open the store, when it is whole."""
        return open_hop_store(self.folder)
