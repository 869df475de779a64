"""Python numbers that remember that they came from the graph.

``g.num_nodes()`` of a probe is a number like any other, and once it is part
of a formula nobody can tell. So while a model is traced, sizes are
:class:`Whole` numbers (and what is computed from them :class:`Real` ones):
arithmetic on them is recorded, and so is every comparison, since a branch
taken on a probe has to be taken on the real graph too.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

#: ``record(function, operands, result)``: gives the result back, followed.
Record = Callable[[Callable, tuple, Any], Any]


class Whole(int):
    """An integer that is followed."""

    value: Any
    record: Record

    def __new__(cls, number: int, value: Any, record: Record) -> "Whole":
        made = super().__new__(cls, number)
        made.value, made.record = value, record
        return made

    def __reduce__(self):
        return int, (int(self),)

    def __deepcopy__(self, memo: dict) -> "Whole":
        return self

    __hash__ = int.__hash__


class Real(float):
    """A float that is followed."""

    value: Any
    record: Record

    def __new__(cls, number: float, value: Any, record: Record) -> "Real":
        made = super().__new__(cls, number)
        made.value, made.record = value, record
        return made

    def __reduce__(self):
        return float, (float(self),)

    def __deepcopy__(self, memo: dict) -> "Real":
        return self

    def __int__(self) -> int:
        # Python makes a plain integer of whatever this gives.
        return self.record(int, (self,), int(plain(self)))

    __hash__ = float.__hash__


def is_followed(number: Any) -> bool:
    return isinstance(number, (Whole, Real))


def plain(number: Any) -> Any:
    """The number itself, no longer followed."""
    if isinstance(number, Whole):
        return int.__int__(number)
    if isinstance(number, Real):
        return float.__float__(number)
    return number


def _binary(function: Callable, reflected: bool) -> Callable:
    def operate(self, other):
        if not isinstance(other, (int, float)):
            return NotImplemented
        operands = (other, self) if reflected else (self, other)
        result = function(*map(plain, operands))
        return self.record(function, operands, result)

    return operate


def _unary(function: Callable) -> Callable:
    def operate(self):
        return self.record(function, (self,), function(plain(self)))

    return operate


def _divmod(self, other):
    return self // other, self % other


def _rounded(self, digits=None):
    operands = (self,) if digits is None else (self, digits)
    return self.record(round, operands, round(*map(plain, operands)))


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_BITWISE = ("lshift", "rshift", "and_", "or_", "xor")
#: Functions of numbers in :mod:`math`, which would lose track of them.
MATH = ("log", "log2", "log10", "log1p", "sqrt", "isqrt", "exp", "cbrt")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")

for _class in (Whole, Real):
    for _name in _ARITHMETIC:
        _function = getattr(operator, _name)
        setattr(_class, f"__{_name}__", _binary(_function, False))
        setattr(_class, f"__r{_name}__", _binary(_function, True))
    for _name in _COMPARISONS:
        _function = getattr(operator, _name)
        setattr(_class, f"__{_name}__", _binary(_function, False))
    setattr(_class, "__neg__", _unary(operator.neg))  # noqa: B010
    setattr(_class, "__abs__", _unary(operator.abs))  # noqa: B010
    setattr(_class, "__bool__", _unary(bool))  # noqa: B010
    for _function in (math.floor, math.ceil, math.trunc):
        setattr(_class, f"__{_function.__name__}__", _unary(_function))
    _class.__round__ = _rounded  # type: ignore[method-assign]
    _class.__divmod__ = _divmod  # type: ignore[method-assign]

for _name in _BITWISE:
    _function = getattr(operator, _name)
    _name = _name.strip("_")
    setattr(Whole, f"__{_name}__", _binary(_function, False))
    setattr(Whole, f"__r{_name}__", _binary(_function, True))
