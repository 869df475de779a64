"""Which hops a model needs, for errors where other hops were precomputed.

Values that are computed from hop features remember how often they were
aggregated: once for each layer that a hop passed through. A sum or
concatenation of several such values has the counts of all of them.
"""

from collections.abc import Iterable, Sequence

from dgl import DGLError

#: How often the values were aggregated that something was computed from.
Shifts = frozenset[int]

#: What was precomputed was not aggregated by any layer.
NOT_SHIFTED: Shifts = frozenset({0})


def precompute_with(hops: Iterable[int]) -> str:
    """Return the arguments of block_aggregate that give these hops.

    >>> precompute_with({0, 1, 2}), precompute_with({3, 1})
    ('K=2', 'K=3, hops=[1, 3]')
    """
    found = sorted(set(hops))
    if found == list(range(found[-1] + 1)):
        return f"K={found[-1]}"
    return f"K={found[-1]}, hops={found}"


def too_many_hops(name: str, hops: Sequence[int], shifts: Shifts) -> DGLError:
    """Return the error for an output that has hops left over.

    Parameters
    ----------
    name : str
        What was called with the output.
    hops : sequence of int
        The hops of the output, ascending.
    shifts : frozenset of int
        How often the values were aggregated that it was computed from.
    """
    first = f", or take hop 0, h[0], for {name}" if hops[0] == 0 else ""
    if shifts == NOT_SHIFTED:
        return DGLError(
            f"{name}: these are hop features with hops {list(hops)}, which no "
            f"layer has aggregated. Use a layer of dgl_lc.nn{first}."
        )
    times = max(shifts)
    return DGLError(
        f"{name}: hops {list(hops)} are left after the model has aggregated "
        f"{times} {'time' if times == 1 else 'times'}, so K is too large by "
        f"{hops[-1]}: precompute with {precompute_with(shifts)}{first}."
    )


def no_common_hop(
    name: str,
    hops: Sequence[Sequence[int]],
    shifts: Sequence[Shifts],
    plain: bool,
) -> DGLError:
    """Return the error for values that meet and have no hop in common.

    Parameters
    ----------
    name : str
        The function in which they meet.
    hops : sequence of sequence of int
        The hops of each hop features, ascending.
    shifts : sequence of frozenset of int
        How often each of them was aggregated.
    plain : bool
        Whether they meet a plain tensor, which is hop 0.
    """
    # The layers that follow can aggregate as often as the last hop of each
    # value allows: this hop of every value has to exist.
    target = 0 if plain else min(numbers[-1] for numbers in hops)
    needed = {target + by for counts in shifts for by in counts}
    have = " and ".join(str(list(numbers)) for numbers in hops)
    if not plain:
        return DGLError(
            f"{name}: hop features with hops {have} meet, and have no hop in "
            f"common: precompute with {precompute_with(needed)}, or all hops "
            f"with K={max(needed)} if the model has more such connections."
        )
    return DGLError(
        f"{name}: hop features with hops {have} meet a plain tensor, which is "
        f"hop 0, and have no hop in common. If the tensor is data, such as "
        f"labels or zeros, join it to the features before block_aggregate. If "
        f"it is an output of the model, precompute hops {sorted(needed)} as "
        f"well."
    )
