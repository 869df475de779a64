"""Having memory before it is used."""

import numpy as np

from .jit import jit

#: Bytes in the smallest page there is.
PAGE = 4096


@jit
def touch(data: np.ndarray, first: int, last: int) -> None:
    """Write to pages first to last of an array of bytes."""
    for page in range(first, last):
        data[page * PAGE] = 0
