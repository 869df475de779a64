"""Numbers that remember where they come from."""

import operator
import statistics

from dgl_lc.transform.tracing.followed_numbers import Real, Whole, plain


def follow(number):
    seen = []

    def record(function, operands, result):
        seen.append((function, result))
        if isinstance(result, bool):
            return result
        kind = Whole if isinstance(result, int) else Real
        return kind(result, None, record)

    return Whole(number, None, record), seen


def test_arithmetic_is_followed():
    n, seen = follow(10)
    result = 3 * (n + 1) ** 0.5 / 2
    assert isinstance(result, Real)
    assert result == 3 * 11**0.5 / 2
    assert [f for f, _ in seen][:4] == [
        operator.add, operator.pow, operator.mul, operator.truediv,
    ]  # fmt: skip


def test_comparisons_are_noticed():
    n, seen = follow(10)
    assert n < 500
    assert not n == 3  # noqa: SIM201
    assert max(n, 1) is n
    assert seen == [
        (operator.lt, True), (operator.eq, False), (operator.lt, False),
    ]  # fmt: skip


def test_they_are_numbers_like_others():
    n, _ = follow(10)
    assert isinstance(n, int)
    assert list(range(n)) == list(range(10))
    assert {n: 1}[10] == 1
    assert type(plain(n)) is int
    assert type(plain(n / 2)) is float


def test_a_number_made_by_their_type_is_a_plain_one():
    n, _ = follow(10)
    assert type(type(n)(3)) is int
    assert type(type(n / 4)(3)) is float
    assert statistics.mean([n, 2]) == 6
