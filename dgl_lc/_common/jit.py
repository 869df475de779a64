"""Compiling the kernels, and keeping the machine code."""

import hashlib

import numba as nb
from numba.core.caching import IndexDataCacheFile


class _CacheFile(IndexDataCacheFile):
    """Numba's cache, with a file for each key instead of an index of files.

    Numba writes the index that names a data file first, and the file after
    it. If two processes do so at once, or one is killed in between, a key can
    lead to the code of another kernel: a wrong result or a crash. Here the
    name of a file follows from its key and its source, and it is written in
    one step.
    """

    def save(self, key, data):
        self._save_data(self._name(key), data)

    def load(self, key):
        try:
            return self._load_data(self._name(key))
        except OSError:
            return None

    def _name(self, key):
        whole = repr((self._version, self._source_stamp, key))
        digest = hashlib.sha256(whole.encode()).hexdigest()
        return self._index_name.removesuffix("nbi") + digest[:24] + ".nbc"


def jit(function):
    """Compile without the GIL; keep the machine code where it can be kept.

    It is stored beside the source file, or in the user's cache folder where
    that is read-only, or in ``NUMBA_CACHE_DIR``. Where none of these can be
    written, every process compiles anew (a few seconds).

    Kernels are run from ordinary threads (:mod:`dgl_lc._common.threads`),
    not by Numba's own pool: that one is a second pool next to torch's, and
    its default layer aborts the process when two threads call at once.
    """
    try:
        compiled = nb.njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return nb.njit(nogil=True)(function)
    compiled._cache._cache_file.__class__ = _CacheFile
    return compiled
