"""Python numbers that remember that they came from the graph.

``g.num_nodes()`` of a probe is a number like any other, and once it is part
of a formula nobody can tell where it came from. While a model is traced,
sizes are therefore :class:`Whole` numbers, and what is computed from them are
:class:`Whole` or :class:`Real` numbers: arithmetic on them is recorded, and
so is every comparison, since a branch taken on a probe has to be taken on the
user's graph too.
"""

import dis
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

#: ``record(function, operands, result)`` returns the result, followed.
Record = Callable[[Callable, tuple, Any], Any]

#: Functions of numbers in :mod:`math`, which would return plain numbers.
MATH = ("log", "log2", "log10", "log1p", "sqrt", "isqrt", "exp", "cbrt")


def is_followed(number: Any) -> bool:
    """Return whether a number remembers that it came from the graph."""
    return isinstance(number, _Followed)


def plain(number: Any) -> Any:
    """Return the number itself, no longer followed."""
    if isinstance(number, Whole):
        return int.__int__(number)
    if isinstance(number, Real):
        return float.__float__(number)
    return number


def without_numpy(number: Any) -> Any:
    """Return a scalar of NumPy as a number of Python."""
    return number.item() if isinstance(number, np.generic) else number


def _binary(function: Callable, reflected: bool = False) -> Callable[..., Any]:
    """Make a method for an operator of two numbers."""

    def operate(self: "_Followed", other: Any) -> Any:
        other = without_numpy(other)
        if isinstance(other, np.ndarray):
            pair = (other, plain(self))
            return function(*(pair if reflected else pair[::-1]))
        if not isinstance(other, (int, float)):
            return NotImplemented
        operands = (other, self) if reflected else (self, other)
        result = function(*map(plain, operands))
        return self.record(function, operands, result)

    return operate


def _unary(function: Callable) -> Callable[..., Any]:
    """Make a method for a function of one number."""

    def operate(self: "_Followed") -> Any:
        return self.record(function, (self,), function(plain(self)))

    return operate


class _LeftOfNumPy(type):
    """The type of followed numbers, which NumPy asks what to do with them.

    ``np.float64(3) < n`` would be computed by NumPy alone, with a plain result.
    NumPy leaves a comparison to the other operand if that has None for
    ``__array_ufunc__``, but then refuses functions of it (``np.log(n)``): None
    is therefore the answer to comparisons only.
    """

    @property
    def __array_ufunc__(cls) -> Callable | None:
        frame = sys._getframe(1)
        step = frame.f_code.co_code[frame.f_lasti]
        compares = dis.opname[step] == "COMPARE_OP"
        return None if compares else cls._apply  # type: ignore[attr-defined]


class _Followed(metaclass=_LeftOfNumPy):
    """What followed integers and floats have in common."""

    value: Any
    record: Record

    def __new__(
        cls, number: Any = 0, value: Any = None, record: Record | None = None
    ) -> Any:
        if record is None:
            # ``type(n)(2)``, as in the functions of ``statistics``.
            return (int if issubclass(cls, int) else float)(number)
        made = super().__new__(cls, number)  # type: ignore[call-arg]
        made.value, made.record = value, record
        return made

    def __reduce__(self) -> tuple:
        number = plain(self)
        return type(number), (number,)

    def __deepcopy__(self, memo: dict) -> "_Followed":
        return self

    __neg__ = _unary(operator.neg)
    __abs__ = _unary(operator.abs)
    __bool__ = _unary(bool)
    __floor__ = _unary(math.floor)
    __ceil__ = _unary(math.ceil)
    __trunc__ = _unary(math.trunc)

    def __round__(self, digits: Any = None) -> Any:
        operands = (self,) if digits is None else (self, digits)
        return self.record(round, operands, round(*map(plain, operands)))

    def _apply(
        self, ufunc: Callable, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        """Follow functions of NumPy: ``np.sqrt(g.num_nodes())``."""
        result = getattr(ufunc, method)(*map(plain, inputs), **kwargs)
        numbers = tuple(map(without_numpy, inputs))
        scalar = all(isinstance(n, (int, float)) for n in numbers)
        if method != "__call__" or kwargs or not scalar:
            return result
        return self.record(ufunc, numbers, without_numpy(result))

    # NumPy looks for methods of these names: ``np.clip(g.num_nodes(), 1, 9)``.

    def clip(
        self, low: Any = None, high: Any = None, out: Any = None, **limits: Any
    ) -> Any:
        """Follow ``np.clip``."""
        low, high = limits.get("min", low), limits.get("max", high)
        numbers = tuple(map(without_numpy, (self, low, high)))
        result = np.clip(*map(plain, numbers))
        return self.record(np.clip, numbers, without_numpy(result))

    def round(self, decimals: int = 0, out: Any = None) -> Any:
        """Follow ``np.round``."""
        result = np.round(plain(self), decimals)
        return self.record(np.round, (self, decimals), without_numpy(result))

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other  # type: ignore[operator]


class Whole(_Followed, int):
    """An integer that is followed."""

    __hash__ = int.__hash__


class Real(_Followed, float):
    """A float that is followed."""

    __hash__ = float.__hash__

    def __int__(self) -> int:
        # Python makes a plain integer of whatever this method returns.
        return self.record(int, (self,), int(plain(self)))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _function = getattr(operator, _name)
    setattr(_Followed, f"__{_name}__", _binary(_function))
    setattr(_Followed, f"__r{_name}__", _binary(_function, reflected=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(_Followed, f"__{_name}__", _binary(getattr(operator, _name)))
for _name in ("lshift", "rshift", "and", "or", "xor"):
    # ``and`` and ``or`` are keywords: operator.and_, operator.__and__.
    _function = getattr(operator, f"__{_name}__")
    setattr(Whole, f"__{_name}__", _binary(_function))
    setattr(Whole, f"__r{_name}__", _binary(_function, reflected=True))
