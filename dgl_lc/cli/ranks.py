"""Commands under ``torchrun``: their process group, and who prints.

Every rank runs the whole command. Rank 0 alone prints, and writes files.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from .flags import refuse

if TYPE_CHECKING:
    from ..ranks.group import Ranks

Result = TypeVar("Result")

#: What ``torchrun`` sets, and other launchers of torch as well.
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@contextlib.contextmanager
def ranks_of_launcher() -> Iterator["Ranks | None"]:
    """Initialise the default process group for the time of a command.

    Gives None where no launcher has started several processes.
    """
    size = _number("WORLD_SIZE")
    if size is None and "TORCHELASTIC_RUN_ID" in os.environ:
        refuse("torchrun has not set WORLD_SIZE: start the command again.")
    if size is None or size == 1:
        yield None
        return
    missing = [name for name in _NEEDED if not os.environ.get(name)]
    if missing:
        refuse(
            f"WORLD_SIZE is {size}, but {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not set: start the ranks "
            f"with torchrun, or unset WORLD_SIZE for one process."
        )
    rank = _number("RANK")
    _number("MASTER_PORT")
    if rank is None or rank >= size:
        refuse(f"RANK should be below WORLD_SIZE, got {rank} and {size}.")

    import torch.distributed as dist

    from ..ranks.group import find_ranks

    if not dist.is_available():
        refuse("this torch has no torch.distributed: use one process.")
    begins = not dist.is_initialized()
    if begins:
        _initialise(rank, size)
    try:
        with _silent() if rank else contextlib.nullcontext():
            yield find_ranks()
    finally:
        if begins:
            dist.destroy_process_group()


def _initialise(rank: int, size: int) -> None:
    import torch
    import torch.distributed as dist

    from ..ranks.fresh_store import fresh_store

    backend = "gloo"
    if torch.cuda.is_available():
        backend = "cpu:gloo,cuda:nccl"
        # Each rank of a machine has a GPU of its own.
        local = _number("LOCAL_RANK") or 0
        torch.cuda.set_device(local % torch.cuda.device_count())
    try:
        store, _, _ = next(dist.rendezvous("env://"))
        dist.init_process_group(
            backend, store=fresh_store(store, rank, size), rank=rank,
            world_size=size,
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        refuse(
            f"rank {rank} can't reach the other ranks at "
            f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}: "
            f"{str(error).splitlines()[0]}"
        )


def check_on_first(
    ranks: "Ranks | None", name: str, check: Callable[[], object]
) -> None:
    """Check what only rank 0 writes; if that is refused, so are the others."""
    if ranks is None:
        check()
        return
    from ..ranks.first_rank import on_first_rank

    on_first_rank(ranks.group, name, check, lambda: None)


def one_after_the_other(
    ranks: "Ranks | None", name: str, load: Callable[[], Result]
) -> Result:
    """Load data on rank 0, then on one rank of each machine, then on others.

    Loading may download the data, or prepare it in a folder, which machines
    may share.
    """
    if ranks is None:
        return load()
    from ..ranks.call import RankCall

    turn = 2 if _number("LOCAL_RANK") else min(1, ranks.rank)
    with RankCall(ranks, name) as call:
        for own in range(3):
            if own == turn:
                call.stage("loading the data", watched=False)
                found = load()
            call.barrier(f"data {own}")
    return found


def rank_for_errors() -> str:
    """Return how an error names the rank; nothing for rank 0, or one process.

    >>> rank_for_errors()
    ''
    """
    several = os.environ.get("WORLD_SIZE", "1") != "1"
    rank = os.environ.get("RANK", "0")
    return f"rank {rank}: " if several and rank != "0" else ""


def _number(name: str) -> int | None:
    """Read a variable of the environment that is a number, if it is set."""
    text = os.environ.get(name)
    if not text:
        return None
    if not text.isdecimal():
        refuse(f"{name}={text!r} in the environment should be a number.")
    return int(text)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        yield
