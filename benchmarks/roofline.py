"""Compare the CPU kernel with the bandwidth of the memory.

    python benchmarks/roofline.py [--size default] [--columns 8 32 128]

A hop gathers a row of the features for each edge and each self-loop. This
script measures how many bytes per second the kernel gathers, and beside it, by
programs that only read: the memory in order, rows of that size at random, and
the very rows that the kernel gathers, in its order. The last one is the limit
of the kernel on this graph: it profits from rows that are still in the cache.
Reading tries several ways to ask for rows beforehand, and the fastest counts.
Arithmetic is no limit: a multiplication and an addition for each value.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import dgl_lc  # isort: skip  # first: it makes DGL importable
import dgl
import numba as nb
import numpy as np
import torch
from llvmlite import ir
from measure import seconds_of
from numba.core import cgutils, types
from numba.extending import intrinsic
from section import Options, Row, Section, print_rows, row, select, value

from dgl_lc._common.bytes import CACHE_LINE
from dgl_lc._common.rows import empty
from dgl_lc._common.threads import ranges, run_parallel
from dgl_lc.data import power_law_graph
from dgl_lc.precompute.cpu.engine import Engine
from dgl_lc.precompute.planning.cpu import plan_for
from dgl_lc.precompute.request import Request
from dgl_lc.precompute.survey import survey

#: Nodes and edges of the graph, by the size of the run.
SIZES = {
    "tiny": (2_000, 20_000),
    "default": (4_000_000, 65_000_000),
    "all": (4_000_000, 65_000_000),
}
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
COLUMNS = (8, 32, 128)
#: How many rows ahead a program that reads asks for one; 0: it does not.
AHEAD = (0, 8, 16, 32, 64)


@intrinsic
def _ask(typingctx, address):
    """Ask for the cache line at an address, into the second-level cache."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        i32 = ir.IntType(32)
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
        prefetch = cgutils.get_or_insert_function(
            builder.module, kind, "llvm.prefetch.p0"
        )
        how = [ir.Constant(i32, number) for number in (0, 2, 1)]
        builder.call(prefetch, [builder.inttoptr(args[0], pointer), *how])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@nb.njit(nogil=True)
def _read_rows(
    words: np.ndarray, address: int, ids: np.ndarray, ahead: int
) -> int:
    """Read a word of each cache line of some rows."""
    total = 0
    count = len(ids)
    length = words.shape[1] * 8
    for e in range(count):
        if ahead:
            later = address + ids[min(e + ahead, count - 1)] * length
            for offset in range(0, length, CACHE_LINE):
                _ask(later + offset)
        for word in range(0, words.shape[1], CACHE_LINE // 8):
            total += words[ids[e], word]
    return total


@nb.njit(nogil=True)
def _read_in_order(words: np.ndarray, first: int, last: int) -> int:
    total = 0
    # A place that may be negative, for Python's sake, is not read in vectors.
    part = words[first:last]
    for at in range(len(part)):
        total += part[at]
    return total


def _on_threads(work: Callable[[int, int], Any], count: int, size: int) -> None:
    """Let threads work on pieces of ``range(count)`` of about this size."""
    parts = ranges(count, max(1, count // size))
    run_parallel(lambda _, part: work(*parts[part]), len(parts))


def _fastest(call: Callable[[], Any], runs: int) -> float:
    """Return the minimum seconds of some runs after a warm-up."""
    call()
    return min(seconds_of(call) for _ in range(runs))


def _order_bandwidth(x: torch.Tensor, runs: int) -> float:
    words = x.view(torch.int64).numpy().reshape(-1)

    def read() -> None:
        _on_threads(
            lambda a, b: _read_in_order(words, a, b), len(words), 1 << 22
        )

    return x.numel() * x.element_size() / _fastest(read, runs)


def _row_bandwidth(x: torch.Tensor, ids: np.ndarray, runs: int) -> float:
    """Return bytes per second of the fastest way to read some rows."""
    words = x.view(torch.int64).numpy()
    size = len(ids) * x.shape[1] * x.element_size()

    def seconds(ahead: int) -> float:
        def read() -> None:
            _on_threads(
                lambda a, b: _read_rows(words, x.data_ptr(), ids[a:b], ahead),
                len(ids), 1 << 15,
            )  # fmt: skip

        return _fastest(read, runs)

    return size / min(seconds(ahead) for ahead in AHEAD)


def _hop(g: dgl.DGLGraph, x: torch.Tensor) -> tuple[Engine, Callable]:
    """Prepare a hop of all columns, and return what computes it."""
    request = Request.of(g, x, 1, hops=[1])
    found = survey(request, None, False)
    engine = Engine(request, found, plan_for(found.work, 1, x.shape[1], 0))
    target = empty(len(x), x.shape[1], x.dtype)
    place = engine.places.of_rows(0)

    def compute() -> None:
        engine.product.write(1, x, place, target, False, lambda size: None)

    return engine, compute


def roofline(
    options: Options, columns: Iterable[int] = COLUMNS
) -> Iterator[Row]:
    """Yield bytes per second, of the kernel and of reading."""
    nodes, edges = SIZES[options.size]
    runs = options.runs
    g = power_law_graph(nodes, edges)
    rng = np.random.default_rng(0)
    # Some of the rows are as good as all of them.
    some = max(1, edges // 8)
    uniform = rng.integers(0, nodes, some).astype(np.int32)
    yield row(
        "the memory", "in order", "read",
        _order_bandwidth(empty(nodes, 128, torch.float32).fill_(1), runs),
        "B/s", runs=runs,
    )  # fmt: skip
    for kind, dtype in TYPES.items():
        for width in columns:
            case = f"{width} columns of {kind}"
            x = empty(nodes, width, dtype).fill_(1)
            engine, compute = _hop(g, x)
            block = next(iter(engine.filter.blocks()))
            same = block.indices[:some]
            gathered = (nodes + edges) * width * x.element_size()
            found = {
                "kernel": gathered / _fastest(compute, runs),
                "random rows": _row_bandwidth(x, uniform, runs),
                "the same rows": _row_bandwidth(x, same, runs),
            }
            for name, speed in found.items():
                yield row(
                    case, name, "read", speed, "B/s", runs=runs,
                    row_bytes=width * x.element_size(),
                )  # fmt: skip


def roofline_table(rows: list[Row]) -> str:
    """Make a table of bytes per second and of shares of the limits."""
    order = value(rows, case="the memory", name="in order")
    lines = [
        f"The memory is read in order at {order / 1e9:.1f} GB/s.\n",
        "| gathered rows | bytes | kernel | random rows are read at | the same "
        "rows are read at | kernel, of that | of reading in order |",
        "| --- " * 7 + "|",
    ]
    for kernel in select(rows, name="kernel"):
        case, speed = kernel["case"], kernel["value"]
        uniform = value(rows, case=case, name="random rows")
        same = value(rows, case=case, name="the same rows")
        lines.append(
            f"| {case} | {kernel['row_bytes']} | {speed / 1e9:.1f} GB/s | "
            f"{uniform / 1e9:.1f} GB/s | {same / 1e9:.1f} GB/s | "
            f"{100 * speed / same:.0f} % | {100 * speed / order:.0f} % |"
        )
    return "\n".join(lines)


SECTIONS_OF_BENCH = {
    "roofline": Section(roofline, {"roofline": roofline_table}, minutes=2),
}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--size", choices=list(SIZES), default="default",
        help="size of the generated graph (default: %(default)s)",
        )  # fmt: skip
    add("--columns", type=int, nargs="+", default=list(COLUMNS),
        help="columns of the features, multiples of 4 (default: %(default)s)",
        )  # fmt: skip
    add("--runs", type=int, default=3,
        help="number of timed runs (default: %(default)s)")  # fmt: skip
    add("--threads", type=int, default=2,
        help="number of threads (default: %(default)s)")  # fmt: skip
    args = parser.parse_args()
    if any(width < 1 or width % 4 for width in args.columns):
        parser.error("--columns takes positive multiples of 4")
    return args


def main(args):
    torch.set_num_threads(args.threads)
    print(f"dgl-lc {dgl_lc.__version__}, torch {torch.__version__}, "
          f"{args.threads} threads")  # fmt: skip
    options = Options(args.size, args.runs, args.threads)
    print("\n" + roofline_table(print_rows(roofline(options, args.columns))))


if __name__ == "__main__":
    main(parse_args())
