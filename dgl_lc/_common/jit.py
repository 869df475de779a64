"""Compiling the kernels, and keeping the machine code."""

import hashlib
import os
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numba as nb
from dgl import DGLError
from numba.core.caching import IndexDataCacheFile

from .file_access import open_regular

_DIGEST_BYTES = 32

#: All kernels that this process has made with :func:`jit`.
_kernels: list[Any] = []


class _CacheFile(IndexDataCacheFile):
    """Numba's cache, with a file for each key instead of an index of files.

    Numba writes the index that names a data file first, and the file after
    it. If two processes do so at once, or one is killed in between, a key can
    lead to the code of another kernel: a wrong result or a crash. Here the
    name of a file follows from its key and its source, and it is written in
    one step, with a digest: machine code that was damaged on the disk is
    compiled again. A disk that is full only means that nothing is kept.
    """

    def save(self, key: Any, data: Any) -> None:
        content = self._dump(data)
        try:
            with self._open_for_write(self._data_path(self._name(key))) as file:
                file.write(hashlib.sha256(content).digest() + content)
        except OSError:
            return

    def load(self, key: Any) -> Any:
        try:
            with open_regular(self._data_path(self._name(key))) as file:
                found = file.read(os.fstat(file.fileno()).st_size)
        except (OSError, DGLError):
            return None
        digest, content = found[:_DIGEST_BYTES], found[_DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != digest:
            return None
        # Numba's own format. The folder holds code, as that of .pyc files.
        return pickle.loads(content)

    def _name(self, key: Any) -> str:
        whole = repr((self._version, self._source_stamp, key))
        digest = hashlib.sha256(whole.encode()).hexdigest()
        return self._index_name.removesuffix("nbi") + digest[:24] + ".nbc"


def jit(function: Callable) -> Callable:
    """Compile without the GIL; keep the machine code where it can be kept.

    It is stored beside the source file, or in the user's cache folder where
    that is read-only, or in ``NUMBA_CACHE_DIR``. Where none of these can be
    written, every process compiles again (a few seconds).

    Kernels are run from ordinary threads (:mod:`dgl_lc._common.threads`),
    not by Numba's own pool: that one is a second pool next to torch's, and
    its default layer aborts the process when two threads call at once.
    """
    try:
        compiled: Any = nb.njit(nogil=True, cache=True)(function)
        compiled._cache._cache_file.__class__ = _CacheFile
    except RuntimeError:
        compiled = nb.njit(nogil=True)(function)
    _kernels.append(compiled)
    return compiled


class KernelCounts(NamedTuple):
    """What became of the kernels that this process has used.

    Attributes
    ----------
    compiled, loaded : int
        Kernels, once for each combination of types.
    kept : bool
        Whether machine code can be kept.
    unused : list of str
        Names of the kernels that were not used.
    """

    compiled: int
    loaded: int
    kept: bool
    unused: list[str]


def count_kernels() -> KernelCounts:
    """Count the kernels that were compiled and loaded so far."""
    stats = [kernel.stats for kernel in _kernels]
    return KernelCounts(
        sum(sum(each.cache_misses.values()) for each in stats),
        sum(sum(each.cache_hits.values()) for each in stats),
        all(each.cache_path is not None for each in stats),
        [
            f"{kernel.py_func.__module__}.{kernel.py_func.__name__}"
            for kernel in _kernels
            if not kernel.signatures
        ],
    )
