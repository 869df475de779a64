"""What one rank computes for all of them."""

from collections.abc import Callable
from typing import TypeVar

from .call import RankCall
from .group import Group, find_ranks

Result = TypeVar("Result")


def on_first_rank(
    process_group: Group,
    name: str,
    make: Callable[[], Result],
    read: Callable[[], Result],
) -> Result:
    """Make something on rank 0, while the others wait, and read it there.

    Without a group, it is made. ``name`` is the function that was called.
    """
    ranks = find_ranks(process_group)
    if ranks is None:
        return make()
    with RankCall(ranks, name) as call:
        if ranks.rank == 0:
            # It may take hours, and tells nobody how far it is.
            call.stage("computing for all ranks", watched=False)
            found = make()
        call.barrier("computed")
        return found if ranks.rank == 0 else read()
