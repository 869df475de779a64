"""Running out of memory, whoever says so."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import torch

#: torch.OutOfMemoryError since torch 2.5.
OutOfMemoryError: Any = getattr(
    torch, "OutOfMemoryError", getattr(torch._C, "_OutOfMemoryError", None)
)

_NO_MEMORY = re.compile("out of memory|ALLOC_FAILED|INSUFFICIENT_RES", re.I)


@contextlib.contextmanager
def memory_errors() -> Iterator[None]:
    """Errors of libraries that mean "out of memory", as torch's own."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except RuntimeError as error:
        if _NO_MEMORY.search(str(error)):
            raise OutOfMemoryError(str(error)) from error
        raise
