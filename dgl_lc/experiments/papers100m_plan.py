"""What ogbn-papers100M would take on this machine: a plan, and a rate."""

import psutil
from dgl import DGLError

from .._common.bytes import format_bytes
from .._common.threads import num_threads
from ..data.papers_like import NUM_NODES, SPLIT
from ..precompute.planning.cpu import make_plan
from ..precompute.planning.estimate import hop_seconds
from ..precompute.planning.plans import Plan
from ..precompute.planning.work import Work
from ..storage.write_hops import disk_bytes

#: Edges in both directions, without duplicates; columns; hops.
NUM_EDGES = 3_231_371_744
NUM_FEATS = 128
HOPS = 3


def papers100m_work() -> Work:
    """Return the work: three hops of the labelled nodes, all on disk.

    Which rows the earlier hops need depends on the graph, which is not at
    hand, so that hops 1 and 2 are counted at all rows.
    """
    labelled = sum(SPLIT.values())
    return Work(
        num_nodes=NUM_NODES,
        num_edges=NUM_EDGES,
        num_feats=NUM_FEATS,
        kind="float32",
        hop_rows=(NUM_NODES,) * HOPS,
        hop_entries=(NUM_EDGES,) * HOPS,
        kept_rows=labelled,
        kept_hops=tuple(range(HOPS + 1)),
        all_rows=False,
        threads=num_threads(),
    ).on_disk()


def papers100m_plan(memory: int | None = None) -> str:
    """Describe what ogbn-papers100M would take, for people.

    Parameters
    ----------
    memory : int, optional
        The budget in bytes. Default: three quarters of what is available.
    """
    work = papers100m_work()
    if memory is None:
        memory = psutil.virtual_memory().available * 3 // 4
    head = (
        f"ogbn-papers100M ({work.num_nodes:,} nodes, {work.num_edges:,} edges "
        f"in both directions, {work.num_feats} columns, K={work.K}, rows of "
        f"the {work.kept_rows:,} labelled nodes) on this machine, planned and "
        f"not run:"
    )
    try:
        plan = make_plan(work, memory)
    except DGLError as error:
        return f"{head}\n  does not fit: {error}"
    return "\n".join([head, *_costs(plan)])


def _costs(plan: Plan) -> list[str]:
    """Describe memory, disk and time of a plan."""
    work = plan.work
    values = {
        "memory": f"{format_bytes(plan.peak_bytes)} of the "
        f"{format_bytes(plan.budget)} that it may take, with "
        f"{plan.column_width} columns at a time",
        "disk": f"{format_bytes(4 * work.num_edges)} for the edges, "
        f"{format_bytes(work.num_nodes * work.num_feats * work.itemsize)} for "
        f"the features, {_store_size(work)} for the hop features",
        "time": f"{hop_seconds(plan) / 60:.0f} min for the hops on "
        f"{work.threads} threads, from a sample that was measured now; "
        f"reading and sorting the files come in addition",
        "command": "python examples/ogbn_papers100m.py --root "
        "path/to/ogbn_papers100M --model LCGPRGNN --memory "
        f"{plan.budget >> 30}GiB",
    }
    return [f"  {name:<8} {text}" for name, text in values.items()]


def _store_size(work: Work) -> str:
    shape = (work.kept_rows, len(work.kept_hops), work.num_feats)
    return format_bytes(disk_bytes(shape, work.itemsize, True))
