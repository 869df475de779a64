"""The types of numbers that features can have: one table for all uses."""

from dataclasses import dataclass

import numpy as np
import torch as th


@dataclass(frozen=True)
class ValueType:
    """A type of numbers, as each library names it.

    Attributes
    ----------
    name : str
        Such as "float32": in plans, manifests and on the command line.
    torch : torch.dtype
        The type of tensors.
    stored : numpy.dtype
        The type in npy files and in kernels' arguments. NumPy has no
        bfloat16, so its bits are stored.
    bits : numpy.dtype
        Unsigned integers of the same size.
    sums : numpy.dtype
        The type in which values are added up.
    """

    name: str
    torch: th.dtype
    stored: np.dtype
    bits: np.dtype
    sums: np.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of a value."""
        return self.stored.itemsize

    @property
    def torch_sums(self) -> th.dtype:
        """The type in which torch adds values up."""
        return th.float64 if self.sums == np.float64 else th.float32


def _make(name: str, stored: str, bits: str, sums: str) -> ValueType:
    types = (np.dtype(letters) for letters in (stored, bits, sums))
    return ValueType(name, getattr(th, name), *types)


VALUE_TYPES: dict[str, ValueType] = {
    found.name: found
    for found in (
        _make("float32", "<f4", "<u4", "<f4"),
        _make("float64", "<f8", "<u8", "<f8"),
        _make("float16", "<f2", "<u2", "<f4"),
        _make("bfloat16", "<i2", "<u2", "<f4"),
    )
}
#: Types of rows in stores: integers are stored as well, but not computed with.
STORED_TYPES: dict[str, ValueType] = {
    **VALUE_TYPES,
    "int64": _make("int64", "<i8", "<u8", "<i8"),
    "int32": _make("int32", "<i4", "<u4", "<i4"),
}
_BY_TORCH = {found.torch: found for found in VALUE_TYPES.values()}

#: All of them, for messages.
NAMES = ", ".join(VALUE_TYPES)


def find_type(dtype: th.dtype | str) -> ValueType | None:
    """The type of this name or torch dtype; None if it is not in the table.

    >>> find_type(th.bfloat16).stored
    dtype('int16')
    >>> find_type("int64") is None
    True
    """
    if isinstance(dtype, str):
        return VALUE_TYPES.get(dtype)
    return _BY_TORCH.get(dtype)


def find_stored_type(dtype: th.dtype | str) -> ValueType | None:
    """As :func:`find_type`, with the integers that stores have.

    >>> find_stored_type(th.int64).name
    'int64'
    """
    if isinstance(dtype, str):
        return STORED_TYPES.get(dtype)
    named = {found.torch: found for found in STORED_TYPES.values()}
    return named.get(dtype)


def type_of(dtype: th.dtype | str) -> ValueType:
    """As :func:`find_stored_type`, for a type that was checked before."""
    found = find_stored_type(dtype)
    if found is None:
        raise KeyError(dtype)
    return found


def bits_of(tensor: th.Tensor) -> np.ndarray:
    """The bits of a tensor's values as unsigned integers, without a copy."""
    kind = type_of(tensor.dtype)
    integers = {2: th.int16, 4: th.int32, 8: th.int64}
    return tensor.view(integers[kind.itemsize]).numpy().view(kind.bits)
