"""The state of the random generators of Python and NumPy."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def random_state() -> tuple:
    """Return the state of Python's and NumPy's global generators."""
    state: Any = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    return random.getstate(), state["key"].tobytes(), state["pos"]


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Restore the global generators after this block."""
    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002
