"""Many short texts in two arrays: their utf-8 bytes, and where each begins.

A column of a table has millions of texts. As Python objects they would take
ten times the memory and a hundred times the time.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .._common.jit import jit


@dataclass(frozen=True)
class Texts:
    """Texts behind each other.

    Attributes
    ----------
    data : ndarray
        The utf-8 bytes of all texts, uint8.
    begins : ndarray
        Where each text begins in ``data``, and where the last one ends,
        int64.

    Examples
    --------
    >>> from dgl_lc.storage.texts import Texts
    >>> texts = Texts.of(["a", "", "ü"])
    >>> len(texts), texts.begins.tolist(), texts[1:].to_list()
    (3, [0, 1, 1, 3], ['', 'ü'])
    """

    data: np.ndarray
    begins: np.ndarray

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Texts":
        """Encode Python's strings."""
        parts = [text.encode() for text in texts]
        begins = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=begins[1:])
        return cls(np.frombuffer(b"".join(parts), np.uint8), begins)

    def __len__(self) -> int:
        return len(self.begins) - 1

    def __getitem__(self, part: slice) -> "Texts":
        first, last, _ = part.indices(len(self))
        return Texts(self.data, self.begins[first : max(first, last) + 1])

    def take(self, places: np.ndarray) -> list[str]:
        """The texts at some places, as Python's strings."""
        return [
            self.data[self.begins[place] : self.begins[place + 1]]
            .tobytes()
            .decode(errors="replace")
            for place in places.tolist()
        ]

    def to_list(self) -> list[str]:
        """All texts, as Python's strings."""
        return self.take(np.arange(len(self)))

    def packed(self) -> "Texts":
        """The same texts, with no bytes before the first or behind the last."""
        first, last = int(self.begins[0]), int(self.begins[-1])
        return Texts(self.data[first:last], self.begins - first)


def parse_integers(texts: Texts) -> tuple[np.ndarray, int]:
    """Read texts as integers of 64 bits, if that loses nothing.

    An integer is written in one way only: ``007``, ``+7``, ``7.0`` and ``-0``
    are texts.

    Returns
    -------
    (ndarray, int)
        The integers, int64, and the place of the first text that is none; -1
        if all are integers.

    Examples
    --------
    >>> parse_integers(Texts.of(["12", "-3", "007"]))
    (array([12, -3,  0]), 2)
    """
    values = np.zeros(len(texts), np.int64)
    return values, int(_parse(texts.data, texts.begins, values))


@jit
def _parse(data: np.ndarray, begins: np.ndarray, out: np.ndarray) -> int:
    most = np.uint64(2**63 - 1)
    tenth = np.uint64(922337203685477580)
    for i in range(len(out)):
        place, end = begins[i], begins[i + 1]
        minus = place < end and data[place] == 45
        if minus:
            place += 1
        digits = end - place
        if digits < 1 or digits > 19:
            return i
        if data[place] == 48 and (digits > 1 or minus):
            return i
        value = np.uint64(0)
        for j in range(place, end):
            digit = np.int64(data[j]) - 48
            if digit < 0 or digit > 9 or value > tenth:
                return i
            value = value * np.uint64(10) + np.uint64(digit)
        if value > most + np.uint64(minus):
            return i
        out[i] = np.int64(~value + np.uint64(1)) if minus else np.int64(value)
    return -1
