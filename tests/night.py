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


def pairwise(*values):
    """Combinations in which any two values of two parameters meet.

    At night, these are all combinations. By day, they are chosen greedily,
    and are the same in every run.
    """
    whole = list(itertools.product(*map(list, values)))
    if NIGHT or len(values) < 3:
        return whole
    sizes = [range(len(list(v))) for v in values]
    rows = list(itertools.product(*sizes))
    missing = {pair for row in rows for pair in _pairs(row)}
    chosen = []
    while missing:
        best = max(rows, key=lambda row: len(missing & _pairs(row)))
        missing -= _pairs(best)
        chosen.append(best)
    return [whole[rows.index(row)] for row in sorted(chosen)]


def _pairs(row):
    return set(itertools.combinations(enumerate(row), 2))
