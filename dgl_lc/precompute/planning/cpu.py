"""Planning for the CPU: how to cut the work.

The plan is the cut that moves the fewest bytes within the memory. Column
blocks are outside, hops inside: a column block stays where it is for all
hops, so that features are read once. Edges are read once for each hop and
column block. :mod:`.device` is for a device with memory of its own.
"""

import psutil
from dgl import DGLError

from ..._common.bytes import format_bytes, require_memory
from .cost import cost_of
from .plans import Item, Plan, beside_published, check_sizes
from .published import Coefficients
from .work import Work

#: Work space that is taken without being asked for.
_SPACE = 1 << 27
#: Edge blocks smaller than this would spend their time on overhead.
LEAST_BLOCK = 1 << 16


class MemoryTooSmall(DGLError):
    """A budget is too small for the work.

    Attributes
    ----------
    enough : int
        Bytes that would be enough.
    """

    def __init__(self, message: str, enough: int):
        super().__init__(message)
        self.enough = enough

    def __reduce__(self) -> tuple:
        # Processes send errors to each other.
        return type(self), (str(self), self.enough)


def make_plan(
    work: Work,
    budget: int | None = None,
    coefficients: Coefficients | None = None,
    available: int | None = None,
) -> Plan:
    """Make the plan for the CPU that moves the fewest bytes in the budget.

    All widths are tried, each with the fewest edge blocks that fit; of equal
    bytes moved the fewest column blocks win. Without a budget the work space
    is kept to twice the size of the features (or 128 MiB), or to what is
    ``available`` if that is less.
    """
    if budget is None:
        budget = _default_budget(work)
        if available is not None:
            budget = min(budget, available)
    best = None
    for width in work.widths():
        blocks = fewest_edge_blocks(work, width, budget)
        if blocks is None:
            continue
        found = plan_for(work, blocks, width, budget)
        if best is None or found.bytes_moved < best.bytes_moved:
            best = found
    if best is None:
        raise too_small(work, budget)
    return beside_published(best, coefficients)


def plan_for(work: Work, blocks: int, width: int, budget: int) -> Plan:
    """Make the plan for the CPU with given edge blocks and column width."""
    cost = cost_of(work, blocks, width)
    columns = -(-work.num_feats // width)
    return Plan(
        work, "cpu", budget, blocks, columns, width, cost.resident,
        cost.items, cost.bytes_moved,
    )  # fmt: skip


def choose_plan(
    given: Plan | None,
    work: Work,
    budget: int | None,
    coefficients: Coefficients | None = None,
) -> Plan:
    """Take the plan that the user gave, or make one."""
    if given is not None:
        check_sizes(given, work)
    if given is None or given.device != "cpu":
        # The second was made for a GPU that cannot be used.
        available = psutil.virtual_memory().available
        return make_plan(work, budget, coefficients, available)
    budget = given.budget if budget is None else budget
    found = plan_for(work, given.num_edge_blocks, given.column_width, budget)
    if found.peak_bytes > budget:
        raise DGLError(
            f"plan needs {format_bytes(found.peak_bytes)} here, more than "
            f"memory={format_bytes(budget)}: make it again, or omit it."
        )
    return found


def check_available(plan: Plan) -> None:
    """Refuse a plan that needs more memory than is available now."""
    require_memory(
        plan.peak_bytes,
        "the precomputation",
        "end other programs, or give less with memory= (--memory in the shell)",
    )


def least_bytes(work: Work) -> int:
    """Count the bytes of the smallest plan."""
    return min(
        cost_of(work, blocks, width).peak_bytes
        for width in work.widths()
        for blocks in _cuts(work, width)
    )


def too_small(work: Work, budget: int, extra: int = 0) -> MemoryTooSmall:
    """Say how much memory would be enough for this work.

    ``extra`` are bytes that are taken beside it.
    """
    # Rounded up, so that what is said is really enough.
    enough = -(-(least_bytes(work) + extra) // 2**20)
    return MemoryTooSmall(
        f"memory={format_bytes(budget)} is too small: {enough} MiB would be "
        f"enough (memory='{enough}MiB'). The result takes "
        f"{format_bytes(work.result_bytes)} of that; fewer nodes, fewer "
        f"hops or a smaller dtype make it smaller.",
        enough << 20,
    )


def _fewest_bytes(work: Work, width: int) -> int:
    """Find the number of edge blocks with the lowest peak, but for one.

    More blocks take less memory until what each block adds, a few chunks
    and slots, is more than the edges that it saves.
    """
    low, high = 2, max(2, work.num_edges // LEAST_BLOCK)
    while high - low > 2:
        third = (high - low) // 3
        left, right = low + third, high - third
        if (
            cost_of(work, left, width).peak_bytes
            <= cost_of(work, right, width).peak_bytes
        ):
            high = right
        else:
            low = left
    return min(
        range(low, high + 1),
        key=lambda blocks: cost_of(work, blocks, width).peak_bytes,
    )


def _cuts(work: Work, width: int) -> list[int]:
    """List the number of edge blocks that may be the smallest to fit."""
    if work.num_edges < 2 * LEAST_BLOCK or not work.owned:
        return [1]
    return [1, _fewest_bytes(work, width)]


def fewest_edge_blocks(work: Work, width: int, budget: int) -> int | None:
    """Find the smallest number of edge blocks that fits."""

    def fits(blocks: int) -> bool:
        return cost_of(work, blocks, width).peak_bytes <= budget

    high = next((blocks for blocks in _cuts(work, width) if fits(blocks)), None)
    if high is None or high == 1:
        return high
    low = 1
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def _default_budget(work: Work) -> int:
    features = work.num_nodes * work.num_feats * work.itemsize
    # Enough for two hops at all rows. Narrow column blocks would take less,
    # but rows of few columns are gathered more slowly.
    space = max(2 * features, _SPACE)
    peaks = []
    for width in work.widths():
        cost = cost_of(work, 1, width)
        rest = cost.peak_bytes - cost.items[Item.COLUMN_BUFFERS]
        peaks.append((cost.peak_bytes, rest + space))
    return max(min(most for most, _ in peaks), max(cap for _, cap in peaks))
