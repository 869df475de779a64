"""A call of ``block_aggregate`` that many ranks make together."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version

import torch

from ...hops import HopFeatures
from ...ranks.call import RankCall
from ...storage.assemble_hops import Part
from ...storage.keys import is_unread
from ...storage.row_shard_folders import shard_folder
from ..column_blocks import Done, progress_bar
from ..device.protocol import Device
from ..planning.rank_traffic import RankResult
from ..request import Request
from ..sinks import StoreSink
from ..survey import Survey
from .layout import RankLayout, check_split
from .plan import choose_layout
from .rank_work import RankOptions, RankWork, make_work
from .row_shards import (
    NoRows,
    RowShardSink,
    check_rows,
    exchange_bytes,
    shard_places,
)
from .row_targets import MemoryRows, StoredRows
from .shared_store import SharedStore

#: Finds out how much is to be computed.
SurveyOf = Callable[[Request, int | None, bool], Survey]


def aggregate_on_ranks(
    call: RankCall,
    request: Request,
    device: Device | None,
    survey: SurveyOf,
    options: RankOptions,
) -> HopFeatures:
    """Compute hop features together with the other ranks of a call."""
    layout = check_split(options.split, call.ranks.size)
    _agree_on_call(call, request, options)
    if layout is None:
        result = RankResult(options.out is not None, options.shared)
        layout = choose_layout(
            call, request, device is not None, result, options.budget
        )
    elif request.last == 0:
        layout = RankLayout(call.ranks.size, 1)
    if options.out is None or not options.shared:
        return _to_row_shards(call, request, device, survey, options, layout)
    return _to_shared_store(call, request, device, survey, options, layout)


def _agree_on_call(
    call: RankCall, request: Request, options: RankOptions
) -> None:
    """Refuse different calls on ranks, before any work."""
    head = request.store_head()
    features = head.made_from["features"]
    call.agree(
        {
            "the version of dgl-lc": version("dgl-lc"),
            "the version of torch": torch.__version__.split("+")[0],
            "hops": list(head.hops),
            "norm": head.spec.norm,
            "self_loop": head.spec.self_loop,
            "whether edges have weights": head.spec.weighted,
            "dtype": head.kind,
            "the shape of feat": [request.graph.num_nodes(), head.columns],
            "nodes (a digest)": head.made_from["nodes"],
            "g (a digest of its edges)": head.made_from["graph"],
            # A memory map is known by its file, which may be another one on
            # each host.
            "feat (a digest)": None if is_unread(features) else features,
            "split": options.split,
            "shared": options.shared,
            "whether out is given": options.out is not None,
            "resume": options.resume,
        }
    )


def _to_shared_store(
    call: RankCall,
    request: Request,
    device: Device | None,
    survey: SurveyOf,
    options: RankOptions,
    layout: RankLayout,
) -> HopFeatures:
    """Write one store, in a folder that all ranks see."""
    assert options.out is not None
    # All parts say that they are of the request that rank 0 has made: the
    # key of a memory map may be another one on each host.
    head = request.store_head()
    head = replace(head, made_from=call.gather(head.made_from)[0])
    finished = None
    if call.ranks.rank == 0:
        finished = StoreSink(request, options.out, options.resume).finished()
    work, whole = None, call.gather(finished is not None)[0]
    if not whole:
        work = make_work(call, request, device, survey, options, layout)
    with SharedStore(
        call, options.out, head, request.nodes, layout, options.resume, whole
    ) as store:
        if work is not None and not store.finished:
            units = work.cut(store.known_width(), layout)
            _write_parts(call, request, store, layout, work, units, options)
    return store.open() if finished is None else finished


def _write_parts(
    call: RankCall,
    request: Request,
    store: SharedStore,
    layout: RankLayout,
    work: RankWork,
    units: list[tuple[int, int]],
    options: RankOptions,
) -> None:
    """Compute the columns that this rank claims, and put all together."""
    held, shard = work.held, layout.shard(call.ranks.rank)
    rows = [request.kept_rows if own is None else len(own) for own in held]
    missing = store.missing(units, rows)
    with _bar_of_all(call, work.total, options.progress) as done:
        if call.ranks.rank == 0:
            left = sum(
                units[number][1] - units[number][0] for number in missing
            )
            ready = request.num_feats - left
            done(work.total * ready // request.num_feats)
        for number in store.claims(missing):
            first, last = units[number]
            call.stage(f"computing columns {first} to {last}")
            head = store.part_head(first, last, shard, rows[shard])
            folder = store.part_folder(first, last, shard)
            if rows[shard] == 0 or store.has_part(folder):
                # Other ranks of the group need what this one computes.
                work.run(NoRows(first, last), done)
                continue
            sink = StoreSink(request, folder, True, head, first, held[shard])
            with sink:
                work.run(sink, done)
                sink.finish()
    work.close()
    parts = [
        Part(store.part_folder(first, last, number), first, last, own)
        for first, last in units
        for number, own in enumerate(held)
        if rows[number]
    ]
    counts = request.counts() if call.ranks.rank == 0 else None
    store.finish(parts, counts, lambda amount: call.progress(0))


def _to_row_shards(
    call: RankCall,
    request: Request,
    device: Device | None,
    survey: SurveyOf,
    options: RankOptions,
    layout: RankLayout,
) -> HopFeatures:
    """Give each rank its rows, in memory or in a store of its own."""
    rank, size = call.ranks.rank, call.ranks.size
    check_rows(request.kept_rows, size)
    places = shard_places(request.kept_rows, rank, size)
    itemsize = request.value_type.itemsize
    result = 0
    if options.out is None:
        result = len(places) * request.num_feats * itemsize * len(request.kept)

    def extra(width: int) -> int:
        kept = request.kept_rows
        stored = options.out is not None
        return result + exchange_bytes(kept, width, itemsize, size, stored)

    target: MemoryRows | StoredRows
    if options.out is not None:
        folder = shard_folder(options.out, rank, size)
        target = StoredRows(
            request, places, folder, (rank, size), options.resume
        )
        if all(call.gather(target.is_finished())):
            return target.open()
    work = make_work(call, request, device, survey, options, layout, extra)
    if options.out is None:
        target = MemoryRows(request, places, (rank, size))
    with target:
        begin = min(call.gather(target.done))
        if begin < request.num_feats:
            units = work.cut(None, layout, begin)
            _exchange_rows(call, request, target, layout, work, units, options)
        work.close()
        return target.finish()


def _exchange_rows(
    call: RankCall,
    request: Request,
    target: MemoryRows | StoredRows,
    layout: RankLayout,
    work: RankWork,
    units: list[tuple[int, int]],
    options: RankOptions,
) -> None:
    """Compute a unit of columns on each group of ranks, turn by turn."""
    rank, size = call.ranks.rank, call.ranks.size
    sink = RowShardSink(
        call, request, layout, target, work.held[layout.shard(rank)]
    )
    with _bar_of_all(call, work.total, options.progress) as done:
        for turn in range(0, len(units), layout.columns):
            now = units[turn : turn + layout.columns]
            mine = [
                now[group] if (group := layout.group(own)) < len(now) else None
                for own in range(size)
            ]
            with target.block(now[-1][1]):
                if 0 in request.kept:
                    _keep_features(request, target, now[0][0], now[-1][1])
                sink.begin(mine)
                if mine[rank] is not None:
                    work.run(sink, done)
                sink.end()


def _keep_features(
    request: Request, target: MemoryRows | StoredRows, first: int, last: int
) -> None:
    """Read the features of this rank's rows."""
    with target.columns(0, first, last) as rows:
        request.copy_columns(first, last, target.nodes, rows)


@contextmanager
def _bar_of_all(
    call: RankCall, total: int, progress: bool | None
) -> Iterator[Done]:
    """Show what all ranks have done, on rank 0."""
    if call.ranks.rank > 0:
        yield call.progress
        return
    with progress_bar(total, progress) as bar:
        looked = time.monotonic()

        def done(amount: int) -> None:
            nonlocal looked
            call.progress(amount)
            if time.monotonic() - looked < 1:
                return
            looked = time.monotonic()
            signs = map(call.sign_of, range(1, call.ranks.size))
            others = sum(sign["progress"] for sign in signs)
            bar.update(min(total, call.done + others) - bar.n)

        yield done
