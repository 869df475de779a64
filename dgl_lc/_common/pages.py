"""Having memory before it is used."""

from .jit import jit

#: Bytes in the smallest page there is.
PAGE = 4096


@jit
def touch(data, first, last):
    """Write to pages first to last of an array of bytes."""
    for page in range(first, last):
        data[page * PAGE] = 0
