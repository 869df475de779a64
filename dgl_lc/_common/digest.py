"""Digests of arrays: every byte is read, at the speed of memory.

The bytes of an array, in C order, are cut into blocks of 4 MiB, which threads
hash one by one. A block is read as words of 64 bits that are dealt out to 64
lanes. Each lane runs two chains of "combine with the word, multiply by an odd
number, rotate". Every step can be undone, so a change of a single word always
changes both chains of its lane. A chain depends on the order of its words.
The shape, the data type and the last states of all chains of all blocks go
through BLAKE2b.

The digest protects against accidents: other data, a swap, a damaged file. It
does not protect against someone who constructs two arrays with one digest.
"""

import hashlib
import math

import numpy as np
import torch
from dgl import DGLError

from ..precompute.kernels.jit import jit
from ..precompute.threads import run_parallel

#: Part of every digest. Raise it when the function changes, so that an old
#: digest can't be taken for a new one.
_VERSION = 1
_BLOCK_BYTES = 1 << 22
#: With 64 lanes LLVM keeps the inner loop in vector registers.
_LANES = 64
_LANE_BYTES = 8 * _LANES


def digest(array: np.ndarray | torch.Tensor) -> str:
    """Compute 32 hexadecimal digits that stand for an array's content.

    Equal shape, data type and bits give an equal digest, whatever the memory
    layout, the number of threads or the process, and whether the array is a
    NumPy array, a memory map or a tensor. An array that is not contiguous is
    copied block by block. 0.0 and -0.0 differ.

    Parameters
    ----------
    array : ndarray or Tensor
        Numbers or booleans, of any shape.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from dgl_lc._common.digest import digest
    >>> digest(np.arange(6, dtype=np.float32)) == digest(torch.arange(6.0))
    True
    >>> digest(torch.zeros(2, 3)) == digest(torch.zeros(3, 2))
    False
    """
    bits, name = _bits_and_type(array)
    contiguous = bits.flags.c_contiguous
    flat = bits.reshape(-1) if contiguous else bits
    size = _BLOCK_BYTES // bits.itemsize
    count = -(-bits.size // size)
    states = np.empty((count, 2, _LANES), np.uint64)

    def hash_block(_worker: int, block: int) -> None:
        first = block * size
        last = min(first + size, bits.size)
        if contiguous:
            piece = flat[first:last]
        else:
            piece = np.empty(last - first, bits.dtype)
            _copy_range(flat, first, last, piece)
        _hash_bytes(piece.view(np.uint8), states[block])

    run_parallel(hash_block, count)
    found = hashlib.blake2b(digest_size=16)
    found.update(repr((_VERSION, name, tuple(bits.shape))).encode())
    found.update(states.astype("<u8", copy=False).tobytes())
    return found.hexdigest()


def _bits_and_type(array: np.ndarray | torch.Tensor) -> tuple[np.ndarray, str]:
    """Return an array of the same bits, and the name of the data type."""
    if isinstance(array, torch.Tensor):
        if array.layout != torch.strided or array.is_quantized:
            raise DGLError(
                "a digest can't be computed of a sparse or quantized tensor: "
                "convert it with to_dense() or dequantize()."
            )
        tensor = array.detach().cpu().resolve_conj().resolve_neg()
        try:
            array = tensor.numpy()
        except TypeError:
            # NumPy lacks bfloat16 and others: their bits are read.
            integer = {1: torch.uint8, 2: torch.int16}[tensor.element_size()]
            name = str(tensor.dtype).removeprefix("torch.")
            return tensor.view(integer).numpy(), name
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufc":
        kind = getattr(array, "dtype", type(array).__name__)
        raise DGLError(
            f"a digest can be computed of an array or tensor of numbers, got "
            f"{kind}."
        )
    return np.asarray(array), array.dtype.str


def _copy_range(
    array: np.ndarray, first: int, last: int, out: np.ndarray
) -> None:
    """Copy the values at places first to last, in C order, to ``out``."""
    if array.ndim == 1:
        out[:] = array[first:last]
        return
    row = math.prod(array.shape[1:])
    # Rows that lie in the range as a whole; parts of rows are before and
    # after them.
    low, high = -(-first // row), last // row
    if low > high:
        _copy_range(array[high], first - high * row, last - high * row, out)
        return
    head = low * row - first
    tail = last - high * row
    if head:
        _copy_range(array[low - 1], row - head, row, out[:head])
    if low < high:
        whole = out[head : len(out) - tail]
        whole.reshape(high - low, *array.shape[1:])[...] = array[low:high]
    if tail:
        _copy_range(array[high], 0, tail, out[len(out) - tail :])


def _hash_bytes(piece: np.ndarray, states: np.ndarray) -> None:
    """Hash a piece of up to one block into the states of its chains."""
    states[:] = 1
    whole = len(piece) - len(piece) % _LANE_BYTES
    _mix(piece[:whole].view("<u8").reshape(-1, _LANES), *states)
    if whole < len(piece):
        # Zeros fill up the last words. They can't be taken for data, because
        # the shape is part of the digest.
        rest = np.zeros(_LANE_BYTES, np.uint8)
        rest[: len(piece) - whole] = piece[whole:]
        _mix(rest.view("<u8").reshape(1, _LANES), *states)


@jit
def _mix(words: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
    """Run both chains of every lane over the words of its column.

    The chains differ in all they do, so that changes of several words that
    cancel out in one do not in the other.
    """
    # The inner loop becomes vector code as it stands. It does not if the
    # chains are rows of one array, or if it takes two rows of words at once.
    for i in range(len(words)):
        for lane in range(_LANES):
            word = words[i, lane]
            x = (first[lane] ^ word) * np.uint64(0x9E3779B97F4A7C15)
            first[lane] = (x << np.uint64(32)) | (x >> np.uint64(32))
            y = (second[lane] + word) * np.uint64(0xC2B2AE3D27D4EB4F)
            second[lane] = (y << np.uint64(27)) | (y >> np.uint64(37))
