"""Bytes over the bus to a GPU for ogbn-papers100M's shape, without a GPU.

    python benchmarks/device_bytes.py

The pipeline runs on tensors that have shapes and no data: every byte that is
copied or alive is counted, not planned. The published scheme is counted from
its schedule, with the block counts of the paper's own optimiser at each size.
Times are a roofline: an estimate, not a measurement.
"""

import argparse

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable

from dgl_lc.precompute.planning.device import (
    Cut,
    DeviceTask,
    hop_matrices,
    make_device_plan,
    plan_cut,
)
from dgl_lc.precompute.planning.published import (
    Coefficients,
    Volumes,
    published_plan,
)
from dgl_lc.precompute.planning.work import Work
from dgl_lc.testing.no_data_device import count_bytes

NODES, EDGES, LABELLED = 111_059_956, 2 * 1_615_685_872, 1_546_782
COLUMNS, HOPS = 128, 3
#: Rows and edges of hops 1 to 3 for the labelled nodes: what a generated
#: graph of this shape had (scale 0.05; 0.25 has the same fractions of rows).
ROWS, ENTRIES = (1.0, 0.320, LABELLED / NODES), (1.0, 0.415, 0.0139)
#: What is left for us of a card's memory.
SHARE = 0.95
#: GB/s of the memory, and of the bus as it is usually reached.
CARDS = {
    "V100S (1134 GB/s, PCIe 3 at 12 GB/s)": (1134, 12),
    "A100 (1555 GB/s, PCIe 4 at 24 GB/s)": (1555, 24),
}
SECTOR = 32


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[16, 24, 32, 80],
        help="GB of the card (%(default)s)",
    )  # fmt: skip
    return parser.parse_args()


def work_of(frontier):
    rows, entries = (1.0,) * HOPS, (1.0,) * HOPS
    if frontier:
        rows, entries = ROWS, ENTRIES
    return Work(
        num_nodes=NODES,
        num_edges=EDGES,
        num_feats=COLUMNS,
        kind="float32",
        hop_rows=tuple(round(NODES * share) for share in rows),
        hop_entries=tuple(round(EDGES * share) for share in entries),
        kept_rows=LABELLED,
        kept_hops=tuple(range(HOPS + 1)),
        all_rows=False,
        input_rows=NODES,
        # A graph in both directions: left and right are the same.
        num_diagonals=1,
    )


def lower_bound():
    """S once, X once, and the result."""
    edges = 4 * (EDGES + NODES) + 4 * (NODES + 1)
    return edges + 4 * COLUMNS * (NODES + HOPS * LABELLED)


def gathered(plan):
    """Bytes that the products read and write in the card's memory."""
    row = -(-plan.column_width * 4 // SECTOR) * SECTOR
    total = 0
    for matrix in hop_matrices(plan.work, plan.frontier):
        each = matrix.entries * (row + 4) + 2 * matrix.rows * row
        total += matrix.hops * each
    return plan.num_column_blocks * total


def estimate(plan, moved):
    """Seconds for each card: copying and computing overlap."""
    return [
        max(moved / bus, gathered(plan) / memory) / 1e9
        for memory, bus in CARDS.values()
    ]


def line(name, cut, peak, moved, times=()):
    ratio = moved / lower_bound()
    seconds = "".join(f"{t:9.0f} s" for t in times)
    print(
        f"{name:<30}{cut:>26}{peak / 1e9:>9.1f} GB{moved / 1e9:>11.1f} GB"
        f"{ratio:>8.2f}x{seconds}",
        flush=True,
    )


def show(size):
    budget = int(SHARE * size * 10**9)
    volumes = Volumes.of(NODES, EDGES, COLUMNS)
    theirs = published_plan(volumes, Coefficients(), budget, COLUMNS, HOPS)
    print(f"\n{size} GB, of which {budget / 1e9:.1f} GB are used")
    moved = theirs.bytes_moved
    times = [moved / bus / 1e9 for _, bus in CARDS.values()]
    line(
        "published", f"a={theirs.a} b={theirs.b} c={theirs.c}",
        theirs.peak_bytes, moved, times,
    )  # fmt: skip
    counted = []
    for name, frontier in (("all rows", False), ("rows needed", True)):
        plan = make_device_plan(work_of(frontier), budget)
        peak, moved = count_bytes(plan)
        assert peak <= budget
        stays = plan.resident[0] if len(plan.resident) > 1 else "no edges"
        cut = f"{plan.column_width} columns, {stays}"
        line(f"dgl-lc, {name}", cut, peak, moved, estimate(plan, moved))
        counted.append(moved)
        if frontier and not plan.frontier:
            print("    (computed at all rows: the edges of all stay, and "
                  "are sent once)")  # fmt: skip
    line("lower bound", "", 0, lower_bound())
    ratio = theirs.bytes_moved / min(counted)
    print(f"    published / dgl-lc: {ratio:.1f}")
    return budget


def narrower(budget):
    """Fewer columns at a time leave more room for edges."""
    print("\nnarrower rows at this size (a gathered row takes a sector of "
          f"{SECTOR} bytes at least)")  # fmt: skip
    for width in (8, 4, 2, 1):
        plans = [
            plan_cut(
                DeviceTask(work_of(True), budget),
                Cut(width, 2**power, frontier),
            )
            for power in range(24, 17, -2)
            for frontier in (True, False)
        ]  # fmt: skip
        plans = [plan for plan in plans if plan is not None]
        plan = min(plans, key=lambda plan: plan.bytes_moved)
        line(
            "dgl-lc (planned)", f"{width} columns, {plan.resident[0]}",
            plan.peak_bytes, plan.bytes_moved,
            estimate(plan, plan.bytes_moved),
        )  # fmt: skip


def main():
    args = parse_args()
    print(
        f"ogbn-papers100M's shape: {NODES:,} nodes, {EDGES:,} edges in both "
        f"directions, {COLUMNS} float32 columns, K={HOPS}, hop features of "
        f"{LABELLED:,} labelled nodes.\n"
        f"Assumed: rows {', '.join(f'{r:.1%}' for r in ROWS)} and edges "
        f"{', '.join(f'{e:.1%}' for e in ENTRIES)} are needed for hops 1 to "
        f"3, as on a generated graph of this shape.\n"
        f"Assumed: workspace of the library as in the model of "
        f"csr_spmm.workspace_bytes; nobody has measured it.\n"
        f"Estimates, for {', '.join(CARDS)}: the longer of sending and of "
        f"gathering at full bandwidth (no cache hits, the host keeps up)."
    )
    print(f"{'':<30}{'':>26}{'peak':>12}{'over the bus':>14}{'':>8} "
          f"{'estimated':>16}")  # fmt: skip
    for size in args.sizes:
        budget = show(size)
        if size == min(args.sizes):
            narrower(budget)


if __name__ == "__main__":
    main()
