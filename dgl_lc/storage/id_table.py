"""A hash table from ids to node numbers, of 16 bytes per slot.

An integer is stored itself, through a permutation of the 64-bit integers. Of
a text 96 bits of a hash are stored: the values of two polynomials modulo
2^61 - 1, whose coefficients are the words of the text, at random places that
every table chooses for itself. Two given texts of L bytes share them with a
probability below (L + 14)^2 / 2^96, whatever the texts are.
"""

import secrets
from collections.abc import Callable, Sequence

import numpy as np

from .._common.jit import jit
from .._common.threads import num_threads, ranges, run_parallel
from .texts import Texts
from .work_space import WorkSpace

#: Ids of one batch: integers, or texts.
Ids = np.ndarray | Texts

#: Slots for each id, if memory allows, and at least.
_ROOMY, _TIGHT = 1.6, 1.2
_SLOT_BYTES = 16
#: What becomes of an id that the table lacks, and that another part has.
UNKNOWN, ELSEWHERE = -1, -2
_PRIME = np.uint64(2**61 - 1)
#: Of the second word of a slot: bits of the hash, and the number.
_TAG, _NUMBER = np.uint64(0xFFFFFFFF00000000), np.uint64(0xFFFFFFFF)


class IdTable:
    """Finds the numbers of ids.

    Parameters
    ----------
    num_ids : int
        How many ids will be added, at most.
    room : int
        Bytes that it may take.
    part, parts : int
        Ids are dealt out to so many parts by their hash; a table holds those
        of one part. :func:`num_parts` says how many are needed.
    keys : sequence of int, optional
        What the hash depends on: the same for all parts. Default: those of
        :func:`random_keys`.

    Examples
    --------
    >>> import numpy as np
    >>> from dgl_lc.storage.id_table import IdTable
    >>> from dgl_lc.storage.texts import Texts
    >>> table = IdTable(2)
    >>> table.add(Texts.of(["a", "b"]), first=0).tolist()
    [0, 1]
    >>> table.find(Texts.of(["b", "a", "c"])).tolist()
    [1, 0, -1]
    """

    def __init__(
        self,
        num_ids: int,
        room: int | None = None,
        part: int = 0,
        parts: int = 1,
        keys: Sequence[int] | None = None,
    ):
        slots = int(_ROOMY * num_ids / parts) + 64
        if room is not None:
            slots = min(slots, room // _SLOT_BYTES)
        space = WorkSpace(slots * _SLOT_BYTES)
        self._slots = space.array(2 * slots, np.uint64).reshape(slots, 2)
        self._part, self._parts = np.uint64(part), np.uint64(parts)
        self._keys = np.array(
            random_keys() if keys is None else keys, np.uint64
        )

    def add(self, ids: Ids, first: int) -> np.ndarray:
        """Add ids that get the numbers from ``first`` on.

        Returns
        -------
        ndarray
            The number of each id: that of the first one that is equal to it,
            or ELSEWHERE. int32.
        """
        low, high = self._hash(ids)
        numbers = np.empty(len(ids), np.int32)
        parts = (self._part, self._parts)
        if not _add(low, high, first, *parts, self._slots, numbers):
            raise MemoryError("the table of ids is full")
        return numbers

    def find(self, ids: Ids) -> np.ndarray:
        """The numbers of ids as int32, or UNKNOWN, or ELSEWHERE."""
        low, high = self._hash(ids)
        out = np.empty(len(ids), np.int32)

        def look(first: int, last: int) -> None:
            part = slice(first, last)
            _find(
                low[part], high[part], self._part, self._parts, self._slots,
                out[part],
            )  # fmt: skip

        _in_threads(look, len(ids))
        return out

    def _hash(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
        low = np.empty(len(ids), np.uint64)
        high = np.zeros(len(ids), np.uint32)

        def work(first: int, last: int) -> None:
            part = slice(first, last)
            if isinstance(ids, Texts):
                begins = ids.begins[first : last + 1]
                _hash_texts(ids.data, begins, self._keys, low[part], high[part])
            else:
                _hash_integers(ids[part], self._keys[0], low[part])

        _in_threads(work, len(ids))
        return low, high


def random_keys() -> list[int]:
    """Places at which the polynomials of a table are evaluated."""
    return [secrets.randbelow(2**61 - 3) + 2 for _ in range(2)]


def num_parts(num_ids: int, room: int) -> int:
    """How many parts the ids have to be dealt out to, to fit the room."""
    # The parts of a random deal differ in size.
    spare = 64 * _SLOT_BYTES + int(8 * _SLOT_BYTES * num_ids**0.5)
    most = max(room - spare, _SLOT_BYTES)
    return -(-int(_TIGHT * num_ids) * _SLOT_BYTES // most)


def least_room(num_ids: int, parts: int) -> int:
    """Bytes for a table of one of so many parts."""
    spare = 64 * _SLOT_BYTES + int(8 * _SLOT_BYTES * num_ids**0.5)
    return spare - (-int(_TIGHT * num_ids) * _SLOT_BYTES // parts)


def _in_threads(work: Callable[[int, int], None], count: int) -> None:
    threads = num_threads() if count >= 1 << 14 else 1
    parts = ranges(count, threads)
    run_parallel(lambda _, part: work(*parts[part]), len(parts), threads)


@jit
def _times(a: np.uint64, b: np.uint64) -> np.uint64:
    """a * b modulo 2^61 - 1, for a and b below 2^61."""
    mask = np.uint64(2**31 - 1)
    a_high, a_low = a >> np.uint64(31), a & mask
    b_high, b_low = b >> np.uint64(31), b & mask
    middle = a_low * b_high + a_high * b_low
    rest = (middle & np.uint64(2**30 - 1)) << np.uint64(31)
    total = (
        a_high * b_high * np.uint64(2)
        + (middle >> np.uint64(30))
        + rest
        + a_low * b_low
    )
    total = (total >> np.uint64(61)) + (total & _PRIME)
    return total - _PRIME if total >= _PRIME else total


@jit
def _hash_texts(
    data: np.ndarray,
    begins: np.ndarray,
    keys: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> None:
    for i in range(len(low)):
        place, end = begins[i], begins[i + 1]
        # The length goes first, so that zeros at the end count.
        a = b = np.uint64(end - place)
        while place < end:
            word = np.uint64(0)
            for j in range(place, min(place + 7, end)):
                word = (word << np.uint64(8)) | np.uint64(data[j])
            place += 7
            a = _times(a, keys[0]) + word
            b = _times(b, keys[1]) + word
            a = a - _PRIME if a >= _PRIME else a
            b = b - _PRIME if b >= _PRIME else b
        # The last word is still as it was: multiply once more.
        a, b = _times(a, keys[0]), _times(b, keys[1])
        low[i] = (a << np.uint64(3)) | (b >> np.uint64(58))
        high[i] = np.uint32(b & np.uint64(0xFFFFFFFF))


@jit
def _hash_integers(values: np.ndarray, key: np.uint64, low: np.ndarray) -> None:
    """Permute the integers of 64 bits, as MurmurHash ends."""
    for i in range(len(low)):
        x = np.uint64(values[i]) ^ key
        x = (x ^ (x >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        x = (x ^ (x >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
        low[i] = x ^ (x >> np.uint64(33))


@jit
def _is_elsewhere(low: np.uint64, part: np.uint64, parts: np.uint64) -> bool:
    own = ((low & np.uint64(0xFFFFFFFF)) * parts) >> np.uint64(32)
    return own != part


@jit
def _first_slot(low: np.uint64, count: int) -> np.int64:
    high = low >> np.uint64(32)
    return np.int64((high * np.uint64(count)) >> np.uint64(32))


@jit
def _add(
    low: np.ndarray,
    high: np.ndarray,
    first: int,
    part: np.uint64,
    parts: np.uint64,
    slots: np.ndarray,
    numbers: np.ndarray,
) -> bool:
    """Add ids and write their numbers; whether there were slots for them."""
    count = len(slots)
    for i in range(len(low)):
        if _is_elsewhere(low[i], part, parts):
            numbers[i] = ELSEWHERE
            continue
        slot = _first_slot(low[i], count)
        tag = np.uint64(high[i]) << np.uint64(32)
        number = np.int64(first + i)
        steps = 0
        while slots[slot, 1] != 0:
            other = slots[slot, 1]
            if slots[slot, 0] == low[i] and (other & _TAG) == tag:
                number = np.int64(other & _NUMBER) - 1
                break
            slot = slot + 1 if slot + 1 < count else 0
            steps += 1
            # A slot stays empty, at which every search ends.
            if steps + 1 >= count:
                return False
        if number == first + i:
            slots[slot, 0] = low[i]
            # Zero stands for an empty slot, so that numbers begin with one.
            slots[slot, 1] = tag | np.uint64(number + 1)
        numbers[i] = number
    return True


@jit
def _find(
    low: np.ndarray,
    high: np.ndarray,
    part: np.uint64,
    parts: np.uint64,
    slots: np.ndarray,
    out: np.ndarray,
) -> None:
    count = len(slots)
    for i in range(len(low)):
        if _is_elsewhere(low[i], part, parts):
            out[i] = ELSEWHERE
            continue
        slot = _first_slot(low[i], count)
        tag = np.uint64(high[i]) << np.uint64(32)
        found = np.int64(UNKNOWN)
        while slots[slot, 1] != 0:
            other = slots[slot, 1]
            if slots[slot, 0] == low[i] and (other & _TAG) == tag:
                found = np.int64(other & _NUMBER) - 1
                break
            slot = slot + 1 if slot + 1 < count else 0
        out[i] = found
