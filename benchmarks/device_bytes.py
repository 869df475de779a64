"""Count bytes over the bus to a GPU for ogbn-papers100M, without a GPU.

    python benchmarks/device_bytes.py

The pipeline runs on tensors that have a shape and no data, so that every byte
that is copied or allocated is counted and not only planned. The bytes of the
published scheme follow from its schedule, with the block counts that the
paper's optimiser finds for each size. Times are a roofline model: an estimate,
not a measurement.
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
#: Shares of rows and edges that hops 1 to 3 need for the labelled nodes, as
#: on a generated graph of this shape (scale 0.05; at scale 0.25 the shares of
#: rows are the same).
ROWS, ENTRIES = (1.0, 0.320, LABELLED / NODES), (1.0, 0.415, 0.0139)
#: The share of a card's memory that we may use.
SHARE = 0.95
#: GB/s of the card's memory, and GB/s that its bus reaches in practice.
CARDS = {
    "V100S (1134 GB/s, PCIe 3 at 12 GB/s)": (1134, 12),
    "A100 (1555 GB/s, PCIe 4 at 24 GB/s)": (1555, 24),
}
#: Bytes that a GPU reads at least, however few of them are needed.
SECTOR = 32


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[16, 24, 32, 80],
        help="sizes of the card's memory in GB (default: %(default)s)",
    )  # fmt: skip
    return parser.parse_args()


def work_of(frontier):
    """Describe the work, at the rows that are needed or at all rows."""
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
        # The graph has both directions, so that both diagonals are equal.
        num_diagonals=1,
    )


def lower_bound():
    """Count the bytes of S and X, each sent once, and of the result."""
    edges = 4 * (EDGES + NODES) + 4 * (NODES + 1)
    return edges + 4 * COLUMNS * (NODES + HOPS * LABELLED)


def gathered(plan):
    """Count the bytes that products read and write in the card's memory."""
    row = -(-plan.column_width * 4 // SECTOR) * SECTOR
    total = 0
    for matrix in hop_matrices(plan.work, plan.frontier):
        each = matrix.entries * (row + 4) + 2 * matrix.rows * row
        total += matrix.hops * each
    return plan.num_column_blocks * total


def estimate(plan, moved):
    """Estimate seconds for each card; copying and computing overlap."""
    return [
        max(moved / bus, gathered(plan) / memory) / 1e9
        for memory, bus in CARDS.values()
    ]


def line(name, cut, peak, moved, times=()):
    """Print a line of the table."""
    ratio = moved / lower_bound()
    seconds = "".join(f"{t:9.0f} s" for t in times)
    print(
        f"{name:<30}{cut:>26}{peak / 1e9:>9.1f} GB{moved / 1e9:>11.1f} GB"
        f"{ratio:>8.2f}x{seconds}",
        flush=True,
    )


def show(size):
    """Print the lines for a card of so many GB; return the bytes we may use."""
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
            print("    (computed at all rows: all edges stay on the card, so "
                  "they are sent once)")  # fmt: skip
    line("lower bound", "", 0, lower_bound())
    ratio = theirs.bytes_moved / min(counted)
    print(f"    published / dgl-lc: {ratio:.1f}")
    return budget


def narrower(budget):
    """Print plans with fewer columns at a time, and more room for edges."""
    print("\nnarrower rows at this size (a gathered row takes at least one "
          f"sector of {SECTOR} bytes)")  # fmt: skip
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
        f"Assumed: the library's workspace is as large as the model in "
        f"csr_spmm.workspace_bytes says; nobody has measured it.\n"
        f"Estimated seconds are for {', '.join(CARDS)}: the longer of sending "
        f"and gathering, both at full bandwidth, without cache hits and with "
        f"a host that is fast enough."
    )
    print(f"{'':<30}{'':>26}{'peak':>12}{'over the bus':>14}{'':>8} "
          f"{'estimated':>16}")  # fmt: skip
    for size in args.sizes:
        budget = show(size)
        if size == min(args.sizes):
            narrower(budget)


if __name__ == "__main__":
    main()
