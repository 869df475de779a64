"""An order of samples that a disk reads in large pieces.

Samples that lie together are a chunk. RowChunks are shuffled, as many as a
buffer holds are read, and the samples in the buffer are shuffled again.
"""

from dataclasses import dataclass

import torch

#: Bytes of rows that lie together.
_CHUNK = 1 << 20
#: RowChunks in a buffer, at least.
_LEAST_CHUNKS = 32
#: The part of half a buffer that rows fill: the rest is for whole pages.
_FILLED = 0.96
#: Bytes that it takes to know where a row is.
_PLACES = 64


@dataclass(frozen=True)
class RowChunks:
    """How samples are shuffled in chunks.

    Attributes
    ----------
    rows : int
        Samples in a chunk.
    mixed : int
        Samples that are shuffled together.
    """

    rows: int
    mixed: int

    @classmethod
    def of(cls, row_bytes: int, buffer: int, batch: int) -> "RowChunks":
        """Choose sizes for rows of so many bytes.

        One half of the buffer is read while batches are taken from the other
        one. It holds whole batches, at least one.

        >>> RowChunks.of(2048, 2**30, 4096)
        RowChunks(rows=512, mixed=241664)
        """
        fits = int(_FILLED * (buffer // 2) // (row_bytes + _PLACES))
        mixed = max(1, fits // batch) * batch
        rows = min(_CHUNK // max(1, row_bytes), mixed // _LEAST_CHUNKS)
        return cls(max(1, rows), mixed)

    def __str__(self) -> str:
        return f"chunks of {self.rows:,}, of which {self.mixed:,} rows mix"

    @classmethod
    def parse(cls, text: str) -> "RowChunks | None":
        """Read what ``str`` has written; None if it is something else.

        >>> RowChunks.parse(str(RowChunks(512, 249856)))
        RowChunks(rows=512, mixed=249856)
        """
        words = text.replace(",", "").split()
        try:
            found = cls(int(words[2]), int(words[5]))
        except (IndexError, ValueError):
            return None
        good = found.rows > 0 and found.mixed > 0 and str(found) == text
        return found if good else None

    def order(
        self, places: torch.Tensor, generator: torch.Generator
    ) -> torch.Tensor:
        """Return an order of samples whose rows have these places.

        >>> order = RowChunks(2, 4).order(torch.arange(6), torch.Generator())
        >>> sorted(order.tolist())
        [0, 1, 2, 3, 4, 5]
        """
        count = len(places)
        if not count:
            return torch.arange(0)
        chunks = torch.randperm(-(-count // self.rows), generator=generator)
        within = torch.arange(min(self.rows, count))
        order = chunks[:, None] * self.rows + within
        order = order.view(-1)
        if count % self.rows:
            # The last chunk is shorter.
            order = order[order < count]
        for mixed in order.split(self.mixed):
            drawn = torch.randperm(len(mixed), generator=generator)
            mixed.copy_(mixed[drawn])
        if bool((places[1:] >= places[:-1]).all()):
            return order
        return places.argsort(stable=True).index_select(0, order)
