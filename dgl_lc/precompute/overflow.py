"""Numbers too large for a float16, refused instead of stored as infinity."""

import numpy as np
import torch
from dgl import DGLError

from .._common.jit import jit
from .._common.rows import COPY_ROWS, bits
from .._common.threads import ranges, run_parallel
from .request import Request

_NO_PLACES = np.empty(0, np.int32)


@jit
def find_infinite(
    values: np.ndarray, places: np.ndarray, low: int, high: int
) -> int:
    """Return the first row with an infinity or NaN of float16, or -1.

    ``values`` are bits; ``places`` may be empty, for rows as they are.
    """
    for i in range(low, high):
        row = i if len(places) == 0 else places[i]
        # An exponent of ones and one more is the sign's bit. Without a
        # branch for each value this is vector code, eight times faster.
        found = 0
        for j in range(values.shape[1]):
            found |= (values[row, j] & 0x7C00) + 0x0400
        if found & 0x8000:
            return i
    return -1


class OverflowCheck:
    """Looks for float16 that are not finite though the features are.

    Features and weights are looked at only once something was found: an
    infinity that was given travels along edges as in any other type.
    ``held`` are the places, among the rows asked for, of the rows that it is
    shown, if these are some only.
    """

    def __init__(self, request: Request, held: torch.Tensor | None = None):
        self._request, self._held = request, held
        self._needed = request.dtype == torch.float16
        self._allowed: set[int] = set()

    def check(
        self,
        hop: int,
        first_row: int,
        rows: torch.Tensor,
        places: torch.Tensor | None,
        first: int,
        last: int,
    ) -> None:
        """Refuse rows of a hop that hold an infinity of our making.

        Row i, or row ``places[i]``, is that of the node asked for at place
        ``first_row + i``; the columns are ``first`` to ``last``.
        """
        if not self._needed or first in self._allowed:
            return
        values = bits(rows)
        own = _NO_PLACES if places is None else places.numpy()
        count = len(rows) if places is None else len(places)
        parts = ranges(count, max(1, -(-count // COPY_ROWS)))
        found: list[int] = []

        def look(_: int, part: int) -> None:
            place = int(find_infinite(values, own, *parts[part]))
            if place >= 0:
                found.append(place)

        run_parallel(look, len(parts))
        if not found:
            return
        if not self._request.is_finite(first, last):
            self._allowed.add(first)
            return
        node = first_row + min(found)
        if self._held is not None:
            node = int(self._held[node])
        if self._request.nodes is not None:
            node = int(self._request.nodes[node])
        raise DGLError(
            f"hop {hop} of node {node} is too large for float16, whose "
            f"largest number is 65504: use dtype=torch.bfloat16 or "
            f"dtype=torch.float32."
        )
