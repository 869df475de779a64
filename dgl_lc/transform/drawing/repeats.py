"""Repeated parts of the steps of a model, such as equal layers."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from .boxes import AGGREGATION, OPERATIONS
from .model_steps import NUMBER, ModelStep

#: A part is folded if it is repeated at least so often.
_FEWEST_TIMES = 4

#: The longest part that is looked for.
_LONGEST_PART = 64


@dataclass(frozen=True)
class Repeat:
    """A part of the steps that is done several times in a row.

    Attributes
    ----------
    first, length, times : int
        Number of its first step, of steps in it, and of repetitions.
    entries : dict
        For each step of the part whose result the next repetition takes, the
        earlier step whose result the first repetition takes.
    used : frozenset of int
        Steps of the part whose results later steps use.
    all_used : bool
        Whether later steps use the results of all repetitions, and not only
        that of the last one.
    """

    first: int
    length: int
    times: int
    entries: dict[int, int]
    used: frozenset[int]
    all_used: bool

    @property
    def end(self) -> int:
        """The number of the first step after it."""
        return self.first + self.length * self.times


def find_repeats(
    steps: Sequence[ModelStep], outputs: Sequence[int]
) -> list[Repeat]:
    """Find parts that are repeated, each on the results of the one before.

    Parameters
    ----------
    steps : list of ModelStep
        All steps, in order.
    outputs : list of int
        Steps whose results are those of the model.

    Examples
    --------
    >>> chain = [ModelStep("source", "x")]
    >>> for n in range(5):
    ...     chain.append(ModelStep("operations", f"layer {n}", args=(n,)))
    >>> repeat, = find_repeats(chain, [5])
    >>> repeat.first, repeat.length, repeat.times, repeat.entries
    (1, 1, 5, {0: 0})
    """
    # Features and inputs are different things, even if they look alike.
    patterns: list[Hashable] = [
        step.pattern if step.kind in (OPERATIONS, AGGREGATION) else number
        for number, step in enumerate(steps)
    ]
    candidates = sorted(
        _candidates(patterns),
        key=lambda part: (_cost(steps, *part), part),
    )
    found: list[Repeat] = []
    for first, length, times in candidates:
        whole = Repeat(first, length, times, {}, frozenset(), False)
        if any(_overlap(whole, other) for other in found):
            continue
        for fewer in range(times, _FEWEST_TIMES - 1, -1):
            repeat = _check(steps, outputs, first, length, fewer)
            if repeat is not None:
                turned = _turned(steps, outputs, repeat)
                free = not any(_overlap(turned, other) for other in found)
                found.append(turned if free else repeat)
                break
    return sorted(found, key=lambda repeat: repeat.first)


def _overlap(a: Repeat, b: Repeat) -> bool:
    return a.first < b.end and b.first < a.end


def _turned(
    steps: Sequence[ModelStep], outputs: Sequence[int], repeat: Repeat
) -> Repeat:
    """Begin a repeated part later if fewer of its results are then used.

    "add, aggregate, multiply" becomes "aggregate, multiply, add".
    """
    best = repeat
    for shift in range(1, repeat.length):
        first, length, times = repeat.first + shift, repeat.length, repeat.times
        if first + length * times > len(steps) or any(
            steps[first + n].pattern != steps[first + n + length].pattern
            for n in range(length * (times - 1))
        ):
            break
        other = _check(steps, outputs, first, length, times)
        if other is not None and _results(other) < _results(best):
            best = other
    return best


def _results(repeat: Repeat) -> tuple[int, int]:
    """Count the results that a part takes of itself, and that leave it."""
    return len(repeat.entries), len(repeat.used | set(repeat.entries))


def _candidates(patterns: list[Hashable]) -> list[tuple[int, int, int]]:
    """Return (first, length, times) of all parts with equal patterns."""
    found = []
    count = len(patterns)
    for length in range(1, min(_LONGEST_PART, count // _FEWEST_TIMES) + 1):
        run = 0  # steps in a row that are equal to those one part later
        for place in range(count - length, -1, -1):
            same = place + length < count and (
                patterns[place] == patterns[place + length]
            )
            run = run + 1 if same else 0
            times = run // length + 1
            if times >= _FEWEST_TIMES:
                found.append((place, length, times))
    return found


def _cost(
    steps: Sequence[ModelStep], first: int, length: int, times: int
) -> tuple[int, int]:
    """Return how bad a fold is: steps that remain, submodules cut apart."""
    part = [NUMBER.findall(s.where) for s in steps[first : first + length]]
    cut = len({tuple(numbers) for numbers in part if numbers})
    return 2 * max(cut - 1, 0) - length * (times - 1), cut


def _check(
    steps: Sequence[ModelStep], outputs: Sequence[int], first: int, length: int,
    times: int,
) -> Repeat | None:  # fmt: skip
    """Return the repeat if all repetitions are connected in the same way."""
    entries = _entries(steps, first, length, times)
    if entries is None:
        return None
    end = first + length * times
    later = [step.args for step in steps[end:]]
    used: set[int] = set()
    all_used = False
    for args in [*later, *((number,) for number in outputs)]:
        mine = {arg for arg in args if first <= arg < end}
        used |= mine
        repetitions = {(arg - first) // length for arg in mine}
        if not repetitions - {times - 1}:
            continue
        # Whoever uses not only the last one has to use all of them, since it
        # could not be seen which ones it uses.
        if len(repetitions) < times:
            return None
        all_used = True
    offsets = frozenset((number - first) % length for number in used)
    return Repeat(first, length, times, entries, offsets, all_used)


def _entries(
    steps: Sequence[ModelStep], first: int, length: int, times: int
) -> dict[int, int] | None:
    """Return what the first repetition takes instead of earlier results.

    None if repetitions do not take their arguments from the same places.
    """
    entries: dict[int, int] = {}
    for offset in range(length):
        # The second repetition has its arguments as all later ones do.
        for place, arg in enumerate(steps[first + length + offset].args):
            for time in range(times):
                mine = steps[first + time * length + offset].args[place]
                if arg < first:  # from above, the same every time
                    right = mine == arg
                elif time or arg >= first + length:
                    # from the same repetition, or from the one before
                    right = mine == arg + (time - 1) * length
                else:
                    right = mine < first
                    right &= entries.setdefault(arg - first, mine) == mine
                if not right:
                    return None
    return entries


def merge_times(steps: Sequence[ModelStep]) -> ModelStep:
    """Write the same step of all repetitions as one.

    >>> times = [ModelStep("operations", f"@ layers.{k}") for k in (1, 2, 3)]
    >>> merge_times(times).text
    '@ layers.1…3'
    """
    return replace(
        steps[0],
        text=_span([step.text for step in steps]),
        where=_span([step.where for step in steps]),
        rows=tuple(row for step in steps for row in step.rows),
        marks=tuple(mark for step in steps for mark in step.marks),
        changed=any(step.changed for step in steps),
    )


def _span(texts: Sequence[str]) -> str:
    """Write texts that differ in their numbers as one: "layers.0…5"."""
    numbers = [NUMBER.findall(text) for text in texts]
    columns = iter(zip(*numbers, strict=True))

    def range_of(match: re.Match) -> str:
        found = next(columns)
        if len(set(found)) == 1:
            return found[0]
        return f"{found[0]}…{found[-1]}"

    return NUMBER.sub(range_of, texts[0])
