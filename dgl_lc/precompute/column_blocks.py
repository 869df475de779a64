"""One column block after the other, with a progress bar."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from tqdm.auto import tqdm

from .planning.plans import Plan
from .request import Request
from .sinks import Sink

#: Is told of bytes that were gathered.
Done = Callable[[int], object]


class Executor(Protocol):
    """Computes what was planned.

    Attributes
    ----------
    total : int
        What it tells ``done`` when all is done.
    """

    total: int

    def run(self, sink: Sink, done: Done) -> None:
        """Give all columns that it does not have yet to the sink."""


def run_column_blocks(
    request: Request,
    plan: Plan,
    sink: Sink,
    compute: Callable[[int, int], None],
) -> None:
    """Compute the column blocks that the sink does not have yet.

    Features on disk are read one block ahead.
    """
    blocks = plan.column_blocks(sink.done, sink.last)
    with ThreadPoolExecutor(1, "dgl-lc read") as reader:
        for place, (first, last) in enumerate(blocks):
            for following in blocks[place + 1 : place + 2]:
                if request.reads_ahead:
                    reader.submit(request.ask_ahead, *following)
            with sink.columns(first, last):
                compute(first, last)


def progress_bar(total: int, progress: bool | None) -> tqdm:
    """Show bytes gathered; for None only in a terminal and after a while."""
    return tqdm(
        total=total, desc="hop features", unit="B", unit_scale=True,
        disable=None if progress is None else not progress,
        delay=2 if progress is None else 0,
    )  # fmt: skip
