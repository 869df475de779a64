"""Compiling the kernels."""

import numba as nb


def jit(function):
    """Compile without the GIL; keep the machine code where it can be kept.

    Numba stores it beside the source file, or in the user's cache folder
    where that is read-only, or in ``NUMBA_CACHE_DIR``. Where none of these
    can be written, every process compiles anew (about a second).

    Kernels are run from ordinary threads (:mod:`dgl_lc.precompute.threads`),
    not by Numba's own pool: that one is a second pool next to torch's, and
    its default layer aborts the process when two threads call at once.
    """
    try:
        return nb.njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return nb.njit(nogil=True)(function)
