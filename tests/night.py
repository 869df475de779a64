"""How many cases a test tries: a few by day, and many at night.

With ``DGL_LC_TESTS=night`` the tests try all combinations of their
parameters, and many times as many random cases.
"""

import itertools
import os

NIGHT = os.environ.get("DGL_LC_TESTS") == "night"


def cases(day: int, night: int) -> int:
    """The number of random cases that a test tries."""
    return night if NIGHT else day


def fuzz(day: int, night: int) -> int:
    """The number of damaged files and texts, or what ``DGL_LC_FUZZ`` says."""
    return int(os.environ.get("DGL_LC_FUZZ", cases(day, night)))


def every(step: int, values) -> list:
    """One of ``step`` values, from the first one on; at night, all of them."""
    return list(values)[:: 1 if NIGHT else step]


def in_turn(values, others) -> list:
    """Each value with one of the others, in turn; at night, with all of them.

    By day, there have to be as many values as others, or more: those that are
    left over would never be tried.
    """
    if NIGHT:
        return list(itertools.product(values, others))
    if len(values) < len(others):
        raise ValueError(f"{len(others) - len(values)} others are left over")
    return list(zip(values, itertools.cycle(others), strict=False))


def pairwise(*values):
    """Combinations in which any two values of two parameters meet.

    At night, these are all combinations. By day, they are chosen greedily,
    and are the same in every run.
    """
    return _covering(2, values)


def each(*values):
    """Combinations in which every value is met; at night, all of them."""
    return _covering(1, values)


def _covering(strength, values):
    values = [list(some) for some in values]
    rows = list(itertools.product(*map(range, map(len, values))))
    if not NIGHT:
        met = {row: _parts(row, strength) for row in rows}
        missing, rows = set().union(*met.values()), []
        while missing:
            best = max(met, key=lambda row: len(missing & met[row]))
            missing -= met[best]
            rows.append(best)
    return [
        tuple(some[i] for some, i in zip(values, row, strict=True))
        for row in sorted(rows)
    ]


def _parts(row, strength):
    return set(itertools.combinations(enumerate(row), strength))
