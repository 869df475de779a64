"""Try whether other orders of the nodes make the hops faster.

    python benchmarks/reorder.py [--graphs arxiv power-law papers-like]

Rows that are gathered one after another may lie together, or still be in the
cache, if nodes that are neighbours have ids that are close. Orders: by degree,
by first appearance in a breadth-first search (bfs), and by communities, found
by label propagation. On the papers-like graph also by its classes, which no
one knows beforehand: the best that communities could give.

Counted, from a fresh graph (COO) to all hops with K=3 and 128 columns: sorting
the edges, finding the order, giving the sorted edges and the rows of the
features their new places, and the hops. Putting the rows of the result back
into the old order is shown apart, and so are the hops of a second call.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import dgl_lc  # isort: skip  # first: it makes DGL importable
import dgl
import numba as nb
import numpy as np
import torch
from measure import seconds_of
from section import Options, Row, Section, print_rows, row, value

from dgl_lc._common.rows import copy_rows, empty
from dgl_lc._common.threads import num_threads, ranges, run_parallel
from dgl_lc.data import load, power_law_graph
from dgl_lc.data.papers_like import NUM_EDGES, NUM_NODES
from dgl_lc.data.papers_rule import NUM_CLASSES, cite, make_rule, place_of
from dgl_lc.precompute import block_aggregate
from dgl_lc.precompute.graph.in_edges import in_edges

COLUMNS, K = 128, 3
#: Rounds of label propagation.
ROUNDS = 4
#: Nodes and edges of the power-law graph, and the scale of the papers-like
#: one, by the size of the run.
SIZES = {
    "tiny": ((2_000, 20_000), 2e-5),
    "default": ((1_000_000, 16_000_000), 0.0125),
    "all": ((4_000_000, 65_000_000), 0.025),
}
Order = Callable[[np.ndarray, np.ndarray], np.ndarray]


# Orders: the old ids in the new order


def by_degree(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Order nodes by their in-degree, the highest first."""
    return np.argsort(-np.diff(indptr), kind="stable")


def by_search(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Order nodes as a search from the largest hub meets them."""
    return _search(indptr, indices, int(np.argmax(np.diff(indptr))))


@nb.njit(nogil=True)
def _search(indptr: np.ndarray, indices: np.ndarray, first: int) -> np.ndarray:
    n = len(indptr) - 1
    order = np.empty(n, np.int64)
    seen = np.zeros(n, np.bool_)
    found = done = 0
    start = first
    following = 0
    while found < n:
        order[found] = start
        seen[start] = True
        found += 1
        while done < found:
            node = order[done]
            done += 1
            for e in range(indptr[node], indptr[node + 1]):
                other = indices[e]
                if not seen[other]:
                    seen[other] = True
                    order[found] = other
                    found += 1
        while following < n and seen[following]:
            following += 1
        start = following
    return order


def by_community(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Order nodes by communities, found by label propagation."""
    n = len(indptr) - 1
    labels = np.arange(n, dtype=np.int32)
    counts = [np.zeros(n, np.int32) for _ in range(num_threads())]
    parts = ranges(n, max(1, n >> 14))
    for _ in range(ROUNDS):
        run_parallel(
            lambda worker, part: _propagate(
                indptr, indices, *parts[part], labels, counts[worker]
            ),
            len(parts),
        )
    return np.argsort(labels, kind="stable")


@nb.njit(nogil=True)
def _propagate(
    indptr: np.ndarray,
    indices: np.ndarray,
    first: int,
    last: int,
    labels: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Give nodes the label that most of their neighbours have."""
    for node in range(first, last):
        best, most = labels[node], 0
        for e in range(indptr[node], indptr[node + 1]):
            label = labels[indices[e]]
            counts[label] += 1
            if counts[label] > most:
                best, most = label, counts[label]
        for e in range(indptr[node], indptr[node + 1]):
            counts[labels[indices[e]]] = 0
        labels[node] = best


ORDERS: dict[str, Order] = {
    "degree": by_degree,
    "bfs": by_search,
    "communities": by_community,
}


# Giving nodes their new places


@nb.njit(nogil=True)
def _renumber(
    indptr: np.ndarray,
    indices: np.ndarray,
    order: np.ndarray,
    place: np.ndarray,
    first: int,
    last: int,
    new_indptr: np.ndarray,
    new_indices: np.ndarray,
) -> None:
    for new in range(first, last):
        old, to = order[new], new_indptr[new]
        for e in range(indptr[old], indptr[old + 1]):
            new_indices[to] = place[indices[e]]
            to += 1
        new_indices[new_indptr[new] : to].sort()


def renumber(
    indptr: np.ndarray, indices: np.ndarray, order: np.ndarray
) -> dgl.DGLGraph:
    """Make the graph with nodes in another order, of sorted edges."""
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    new_indptr = np.zeros_like(indptr)
    np.cumsum(np.diff(indptr)[order], out=new_indptr[1:])
    new_indices = np.empty_like(indices)
    parts = ranges(len(order), max(1, len(order) >> 14))
    run_parallel(
        lambda _, part: _renumber(
            indptr, indices, order, place, *parts[part],
            new_indptr, new_indices,
        ),
        len(parts),
    )  # fmt: skip
    ends = (torch.from_numpy(new_indptr.astype(np.int32)),
            torch.from_numpy(new_indices))  # fmt: skip
    return dgl.graph(("csc", (*ends, torch.tensor([], dtype=torch.int32))))


def _move(x: torch.Tensor, order: np.ndarray) -> torch.Tensor:
    """Copy rows to their new places, on all threads."""
    out = empty(len(x), x.shape[1], x.dtype)
    ids = torch.from_numpy(order)
    parts = ranges(len(x), max(1, len(x) >> 14))
    run_parallel(
        lambda _, part: copy_rows(
            x, ids[slice(*parts[part])], out[slice(*parts[part])]
        ),
        len(parts),
    )
    return out


# Graphs


def _papers_like(scale: float) -> tuple[dgl.DGLGraph, np.ndarray]:
    """Make a papers-like graph in both directions, and the nodes' classes."""
    n, m = int(NUM_NODES * scale), int(NUM_EDGES * scale)
    rule = make_rule(n, 0)
    ends = np.empty((2, m), np.int64)
    parts = ranges(m, max(1, m >> 16))
    for out, source in zip(ends, (True, False), strict=True):
        run_parallel(
            lambda _, part, out=out, source=source: cite(  # type: ignore[misc]
                parts[part][0], rule, source, out[slice(*parts[part])]
            ),
            len(parts),
        )
    return _both(ends, n), _classes(n, rule)


@nb.njit(nogil=True)
def _classes(n: int, rule) -> np.ndarray:
    found = np.empty(n, np.int64)
    for name in range(n):
        found[name] = place_of(name, rule) % NUM_CLASSES
    return found


def _both(ends: np.ndarray, n: int) -> dgl.DGLGraph:
    source, target = torch.from_numpy(ends)
    return dgl.graph(
        (torch.cat([source, target]), torch.cat([target, source])), num_nodes=n
    )


def graphs(
    options: Options, names: Iterable[str]
) -> Iterator[tuple[str, dgl.DGLGraph, dict[str, Order]]]:
    """Make graphs, and the orders to try on each."""
    sizes, scale = SIZES[options.size]
    path = options.data / "ogbn_arxiv.npz"
    for name in names:
        if name == "arxiv" and not path.exists():
            print(f"arxiv: skipped, {path} does not exist")
        elif name == "arxiv":
            yield "arxiv", load(path, add_reverse=True).graph, ORDERS
        elif name == "power-law":
            yield (
                f"power law, {sizes[0]:,} nodes", power_law_graph(*sizes),
                ORDERS,
            )  # fmt: skip
        else:
            g, classes = _papers_like(scale)
            known = np.argsort(classes, kind="stable")
            yield (
                f"papers-like, {g.num_nodes():,} nodes", g,
                {**ORDERS, "classes (known)": lambda *csc, known=known: known},
            )  # fmt: skip


GRAPHS = ("arxiv", "power-law", "papers-like")


# Measuring


def reorder(options: Options, names: Iterable[str] = GRAPHS) -> Iterator[Row]:
    """Yield the seconds of each step, for each graph and order."""
    _compile()
    for case, g, orders in graphs(options, names):
        x = empty(g.num_nodes(), COLUMNS, torch.float32).normal_(
            generator=torch.Generator().manual_seed(0)
        )
        expected: list[torch.Tensor] = []
        for name, order in {"as it is": None, **orders}.items():
            tries = [_steps(g, x, order, expected) for _ in range(options.runs)]
            for what in tries[0]:
                seconds = min(steps[what] for steps in tries)
                yield row(case, name, what, seconds, "s", runs=options.runs)


def _compile() -> None:
    """Have everything compiled before it is measured."""
    x = empty(70_000, COLUMNS, torch.float32).fill_(1)
    for order in (None, *ORDERS.values()):
        _steps(power_law_graph(len(x), 100_000), x, order, [])


def _steps(
    g: dgl.DGLGraph,
    x: torch.Tensor,
    order: Order | None,
    expected: list[torch.Tensor],
) -> dict[str, float]:
    """Measure the steps from a fresh graph to all hops, once."""
    g = _fresh(g)
    found: dict[str, float] = {}

    def measure(what: str, call: Callable):
        kept = []
        found[what] = seconds_of(lambda: kept.append(call()))
        return kept[0]

    def hops():
        return list(block_aggregate(g, x, K, progress=False))

    edges = in_edges(g)
    csc = measure("sort", lambda: (edges.indptr, edges.load()))
    if order is not None:
        ids = measure("find the order", lambda: order(*csc))
        g = measure("renumber", lambda: renumber(*csc, ids))
        x = measure("move features", lambda: _move(x, ids))
    result = measure("hops", hops)
    found["whole"] = sum(found.values())
    if order is not None:
        # Where each old row is now.
        back = np.argsort(ids)
        moved = result
        result = measure(
            "put back", lambda: [_move(hop, back) for hop in moved]
        )
        del moved
    _compare(result, expected)
    del result
    measure("second call", hops)
    return found


def _compare(hops: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    """Check the first rows; those of the first result are kept."""
    first = [hop[:1000].clone() for hop in hops]
    expected += first[len(expected) :]
    for mine, other in zip(first, expected, strict=True):
        error = float((mine - other).abs().max() / other.abs().max())
        assert error < 1e-5, f"another order gives another result: {error}"


def _fresh(g: dgl.DGLGraph) -> dgl.DGLGraph:
    """Give the graph as nobody has used it: its edges alone."""
    return dgl.graph(g.edges(), num_nodes=g.num_nodes())


def reorder_table(rows: list[Row]) -> str:
    """Make a table of seconds and gains."""
    steps = ("find the order", "renumber", "move features", "hops", "whole",
             "put back", "second call")  # fmt: skip
    lines = [
        "| | order | find it | renumber edges | move features | hops | whole, "
        "with sorting | put back | second call |",
        "| --- " * 9 + "|",
    ]
    for case, name in dict.fromkeys((r["case"], r["name"]) for r in rows):
        cells = []
        for what in steps:
            try:
                mine = value(rows, case=case, name=name, what=what)
            except LookupError:
                cells.append("")
                continue
            text = f"{mine:.2f} s"
            if what in ("whole", "second call") and name != "as it is":
                plain = value(rows, case=case, name="as it is", what=what)
                text += f" ({plain / mine:.2f}x)"
            cells.append(text)
        lines.append(f"| {case} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


SECTIONS_OF_BENCH = {
    "reorder": Section(
        reorder, {"reorder": reorder_table}, minutes=4, only_all=True
    ),
}  # fmt: skip


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS),
        help="graphs to try (default: all)")  # fmt: skip
    add("--size", choices=list(SIZES), default="default",
        help="size of the generated graphs (default: %(default)s)",
        )  # fmt: skip
    add("--runs", type=int, default=2,
        help="number of timed runs (default: %(default)s)")  # fmt: skip
    add("--threads", type=int, default=2,
        help="number of threads (default: %(default)s)")  # fmt: skip
    add("--data", type=Path, default=Options().data,
        help="folder with the real graphs (default: ../shared/data beside "
        "the repository)")  # fmt: skip
    return parser.parse_args()


def main(args):
    torch.set_num_threads(args.threads)
    print(f"dgl-lc {dgl_lc.__version__}, dgl {dgl.__version__}, torch "
          f"{torch.__version__}, {args.threads} threads")  # fmt: skip
    options = Options(args.size, args.runs, args.threads, args.data)
    print("\n" + reorder_table(print_rows(reorder(options, args.graphs))))


if __name__ == "__main__":
    main(parse_args())
