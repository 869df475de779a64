"""Where hop features go: to memory, or to a store on disk.

An executor computes column block after column block; a sink takes the rows
that were asked for, from whichever executor. Nothing is allocated and no
folder is made before the work was planned.
"""

import contextlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import dgl
import torch
from dgl.base import DGLWarning

from .._common.rows import copy_rows, empty
from ..hops import HopFeatures
from ..storage.folder import is_whole
from ..storage.hop_store import (
    StoredHops,
    StoreHead,
    find_store,
    open_hop_store,
)
from ..storage.keys import is_unread
from ..storage.write_hops import StoreWriter
from .overflow import OverflowCheck
from .request import Request


class Sink(Protocol):
    """What an executor gives hop features to.

    Attributes
    ----------
    first, last : int
        The columns that it takes, of all columns of the features.
    done : int
        The column up to which they are complete, from an earlier run or try.
    """

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...

    @property
    def done(self) -> int: ...

    def finished(self) -> HopFeatures | None:
        """Give the result of an earlier call, if all of it exists."""

    def __enter__(self) -> "Sink": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def columns(
        self, first: int, last: int
    ) -> contextlib.AbstractContextManager[None]:
        """Take these columns within; they are complete if nothing fails."""

    def target(self, hop: int) -> torch.Tensor | None:
        """Give where a hop at all rows can be written, if that is possible.

        It still has to be given to :meth:`keep`, which then copies nothing.
        """

    def keep(
        self, hop: int, values: torch.Tensor, places: torch.Tensor | None
    ) -> None:
        """Take a hop: the rows at these places, or for None all."""

    def keep_features(self) -> None:
        """Take hop 0 from the features."""

    def write(self, hop: int, low: int, rows: torch.Tensor) -> None:
        """Take some of the rows asked for, in their order, from low on."""

    def finish(self) -> HopFeatures:
        """Give the hop features, when all columns were taken."""


class MemorySink:
    """Hop features in memory. Hop 0 shares the features' where it can."""

    def __init__(self, request: Request):
        self._request = request
        self._overflow = OverflowCheck(request)
        self._hops: dict[int, torch.Tensor] = {}
        self._block: dict[int, torch.Tensor] = {}
        self._first = self._last = 0
        self.first = self.done = 0
        self.last = request.num_feats

    def finished(self) -> HopFeatures | None:
        return None

    def __enter__(self) -> "MemorySink":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def _allocate(self) -> None:
        request = self._request
        for hop in request.kept:
            if hop == 0 and request.shares_result:
                self._hops[0] = request.columns(0, request.num_feats)
            else:
                self._hops[hop] = empty(
                    request.kept_rows, request.num_feats, request.dtype
                )

    @contextlib.contextmanager
    def columns(self, first: int, last: int) -> Iterator[None]:
        if not self._hops:
            self._allocate()
        self._first, self._last = first, last
        self._block = {k: t[:, first:last] for k, t in self._hops.items()}
        yield
        self._block = {}
        self.done = last

    def target(self, hop: int) -> torch.Tensor | None:
        return self._block.get(hop) if self._request.nodes is None else None

    def keep(
        self, hop: int, values: torch.Tensor, places: torch.Tensor | None
    ) -> None:
        own = self._block[hop]
        if own.data_ptr() != values.data_ptr():
            copy_rows(values, places, own)
        self._check(hop, 0, own)

    def keep_features(self) -> None:
        if not self._request.shares_result:
            own = self._block[0]
            self._request.copy_columns(
                self._first, self._last, self._request.nodes, own
            )
            self._check(0, 0, own)

    def write(self, hop: int, low: int, rows: torch.Tensor) -> None:
        own = self._block[hop][low : low + len(rows)]
        copy_rows(rows, None, own)
        self._check(hop, low, own)

    def _check(self, hop: int, low: int, rows: torch.Tensor) -> None:
        self._overflow.check(hop, low, rows, None, self._first, self._last)

    def finish(self) -> HopFeatures:
        request = self._request
        return HopFeatures(
            list(self._hops.values()), request.kept,
            replace(request.spec, graph=request.counts()), request.nodes,
        )  # fmt: skip


class StoreSink:
    """Hop features in a store on disk, which knows what was done before.

    Parameters
    ----------
    path : path
        The folder.
    resume : bool
        Resume an unfinished store of the same.
    head : StoreHead, optional
        What the store holds, where that is not the result of the request but
        a part of it: some of the columns, from ``first`` on.
    held : int64 tensor, optional
        The places of the rows of a part among those that were asked for.
        Default: it has all of them.
    """

    def __init__(
        self,
        request: Request,
        path: str | os.PathLike,
        resume: bool,
        head: StoreHead | None = None,
        first: int = 0,
        held: torch.Tensor | None = None,
    ):
        self._request, self._folder = request, Path(path)
        self._resume = resume
        self._part = head
        self.first = first
        columns = request.num_feats if head is None else head.columns
        self.last = first + columns
        self._overflow = OverflowCheck(request, held)
        self._staged: dict[int, torch.Tensor] = {}
        self._first = self._last = 0

    @cached_property
    def _head(self) -> StoreHead:
        # Its keys read graph and features: it is made once, and late.
        return self._part or self._request.store_head()

    @cached_property
    def _writer(self) -> StoreWriter:
        nodes = self._request.nodes if self._part is None else None
        return StoreWriter(self._folder, self._head, nodes, self._resume)

    @property
    def done(self) -> int:
        return self.first + self._writer.done

    def finished(self) -> StoredHops | None:
        if not self._resume or not is_whole(self._folder):
            StoreWriter.check(self._folder)
            return None
        found = find_store(self._folder, self._head)
        if found is not None:
            warn_if_unread(self._folder, self._head.made_from, stacklevel=5)
            graph = self._request.graph
            known = found.filter.graph
            if isinstance(graph, dgl.DGLGraph) and (
                known is None or known.degrees is None
            ):
                # A store of an earlier version, of this graph. One on disk
                # would have to be read for it.
                found.filter = replace(
                    found.filter, graph=self._request.counts()
                )
        return found

    def __enter__(self) -> "StoreSink":
        self._writer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.__exit__(kind, error, trace)

    @contextlib.contextmanager
    def columns(self, first: int, last: int) -> Iterator[None]:
        self._first, self._last, self._staged = first, last, {}
        with self._writer.block(last - self.first):
            yield
            for hop, rows in self._staged.items():
                self.keep(hop, rows, None)
        self._staged = {}

    def target(self, hop: int) -> torch.Tensor | None:
        return None

    def keep(
        self, hop: int, values: torch.Tensor, places: torch.Tensor | None
    ) -> None:
        self._overflow.check(hop, 0, values, places, self._first, self._last)
        self._writer.keep(hop, self._first - self.first, values, places)

    def keep_features(self) -> None:
        request, first, last = self._request, self._first, self._last
        if request.shares_features:
            self.keep(0, request.columns(first, last), request.nodes)
            return
        request.copy_columns(first, last, request.nodes, self._stage(0))

    def write(self, hop: int, low: int, rows: torch.Tensor) -> None:
        copy_rows(rows, None, self._stage(hop)[low : low + len(rows)])

    def _stage(self, hop: int) -> torch.Tensor:
        """Give memory for all rows of a hop: a store takes them together."""
        if hop not in self._staged:
            self._staged[hop] = empty(
                self._request.kept_rows, self._last - self._first,
                self._request.dtype,
            )  # fmt: skip
        return self._staged[hop]

    def finish(self) -> StoredHops:
        if not self._writer.finished:
            counts = self._request.counts() if self._part is None else None
            self._writer.finish(counts)
        return open_hop_store(self._folder)


def warn_if_unread(
    folder: Path, made_from: dict[str, Any], stacklevel: int
) -> None:
    """Warn that a finished folder is used on the strength of a file's time."""
    if is_unread(made_from["features"]):
        warnings.warn(
            f"{folder} is used again: the features are a memory map of a file "
            f"whose size, time and inode are the same as then. Its content "
            f"was not compared; resume=False computes the hop features again.",
            DGLWarning,
            stacklevel=stacklevel,
        )


def make_sink(
    request: Request, out: str | os.PathLike | None, resume: bool
) -> Sink:
    """Choose where the hop features go. Nothing is touched yet."""
    if out is None:
        return MemorySink(request)
    return StoreSink(request, out, resume)


def staged_bytes(rows: int, width: int, itemsize: int, num_hops: int) -> int:
    """Count the bytes of rows that :meth:`StoreSink.write` collects."""
    return num_hops * rows * width * itemsize
