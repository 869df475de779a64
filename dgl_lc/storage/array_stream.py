"""Arrays in files that are read in slices and never loaded whole.

Slices are read into buffers of the caller, which are used in turn. So memory
is allocated once, whatever the size of the file, and files are read instead
of mapped: one that becomes shorter is an error, where a map would end the
process.
"""

import itertools
import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from dgl import DGLError

from .keys import file_stamp
from .npy_header import (
    HEADER_BYTES,
    UNREADABLE,
    NpyHeader,
    as_bytes,
    open_file,
    read_into,
    unreadable,
)

#: Bytes of a slice from which on a second thread reads the second half.
_WORTH_A_THREAD = 1 << 20


class Reader:
    """Bytes of an array's file, read one after another.

    Attributes
    ----------
    crc : int
        The CRC-32 of what was read so far, where there is one to compare.
    """

    crc = 0

    def __init__(self, file: BinaryIO):
        self._file = file

    def fill(self, view: memoryview) -> None:
        """Read as many bytes as the buffer has room for."""
        read_into(self._file, view)

    def check(self) -> None:
        """Compare the checksum, after the last byte was read."""

    def close(self) -> None:
        self._file.close()


class ArrayStream:
    """An array that is read in slices.

    Attributes
    ----------
    what : str
        Names the array in messages.
    path : Path
        The file.
    shape, dtype, fortran
        As in the array's header; ``fortran`` if its columns lie behind each
        other, not its rows.
    header : int
        Bytes before the numbers.
    """

    what: str
    path: Path

    def _set_header(self, found: NpyHeader) -> None:
        self.shape, self.fortran, self.dtype, self.header = found
        self.num_values = found.num_values
        self.num_bytes = found.num_bytes

    def reader(self, place: int) -> Reader:
        """Open the file at a byte, counted from the header's first one."""
        raise NotImplementedError

    def made_from(self) -> dict[str, Any]:
        """What stands for the content, without reading it."""
        raise NotImplementedError

    def values(
        self,
        buffers: Sequence[np.ndarray],
        begin: int = 0,
        end: int | None = None,
    ) -> Iterator[np.ndarray]:
        """Read values begin to end as they lie in the file.

        A checksum is compared if all are read; see :meth:`halves` for two
        readers.

        Parameters
        ----------
        buffers : sequence of array
            Each slice is a part of one of these, in turn: it holds until the
            buffer's next turn.
        begin, end : int
            The values to read. Default: all.
        """
        place = self._place(begin)
        yield from self._values(buffers, begin, end, self.reader(place))

    def _place(self, begin: int) -> int:
        # A checksum includes the header.
        return self.header + begin * self.dtype.itemsize if begin else 0

    def _values(
        self,
        buffers: Sequence[np.ndarray],
        begin: int,
        end: int | None,
        reader: Reader,
    ) -> Generator[np.ndarray, None, None]:
        end = self.num_values if end is None else end
        try:
            if not begin:
                reader.fill(memoryview(bytearray(self.header)))
            for buffer in itertools.cycle(buffers):
                if begin >= end:
                    break
                values = buffer[: end - begin]
                reader.fill(as_bytes(values))
                begin += len(values)
                if begin == self.num_values:
                    reader.check()
                yield values
        except UNREADABLE as error:
            raise unreadable(self.what, error) from None
        finally:
            reader.close()

    def halves(
        self, first: Sequence[np.ndarray], second: Sequence[np.ndarray]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Read the first and the second half of the values in step.

        Their slices are in buffers of the same sizes, as in :meth:`values`.
        The checksum is compared at the end.
        """
        half = self.num_values // 2
        readers: list[Reader] = []
        try:
            for begin in (0, half):
                readers.append(self.reader(self._place(begin)))
            sources = self._values(first, 0, half, readers[0])
            targets = self._values(second, half, 2 * half, readers[1])
            yield from _in_step(sources, targets, first[0].nbytes)
            self._check_halves(*readers)
        finally:
            for reader in readers:
                reader.close()

    def _check_halves(self, first: Reader, second: Reader) -> None:
        """Compare the checksum of a file that two readers read."""

    def rows(
        self, buffers: Sequence[np.ndarray], begin: int = 0
    ) -> Iterator[np.ndarray]:
        """Read rows from ``begin`` on, into buffers that hold whole rows."""
        if self.fortran and len(self.shape) > 1:
            raise DGLError(
                f"{self.what} is stored column by column: save it with "
                f"np.ascontiguousarray."
            )
        width = row_values(self.shape)
        flat = [buffer.reshape(-1) for buffer in buffers]
        for part in self.values(flat, begin * width):
            yield part.reshape(-1, *self.shape[1:])

    def whole(self) -> np.ndarray:
        """Read all of it: for arrays that fit into memory."""
        order: Any = "F" if self.fortran else "C"
        if self.num_bytes == 0:
            return np.zeros(self.shape, self.dtype)
        try:
            flat = np.empty(self.num_values, self.dtype)
        except UNREADABLE as error:
            raise unreadable(self.what, error) from None
        for _ in self.values([flat]):
            pass
        return flat.reshape(self.shape, order=order)


def _in_step(
    first: Iterator[np.ndarray], second: Iterator[np.ndarray], num_bytes: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Give what two readers read, at the same time if slices are large.

    A disk reads two places faster than one, and checksums take a while. None
    of them is ahead of the other: buffers are used in turn.
    """
    if num_bytes < _WORTH_A_THREAD:
        yield from zip(first, second, strict=True)
        return
    with ThreadPoolExecutor(1, "dgl-lc read") as other:
        while True:
            coming = other.submit(next, second, None)
            found = next(first, None)
            also = coming.result()
            if found is None or also is None:
                return
            yield found, also


class NpyFile(ArrayStream):
    """The array of an npy file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dgl_lc.storage.array_stream import NpyFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/a.npy", np.ones((5, 2)))
    ...     a = NpyFile(f"{folder}/a.npy")
    ...     a.shape, [len(rows) for rows in a.rows([np.empty((2, 2))])]
    ((5, 2), [2, 2, 1])
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.what = str(path)
        with open_file(path) as file:
            try:
                found = NpyHeader.parse(file.read(HEADER_BYTES))
                size = os.fstat(file.fileno()).st_size
                wanted = found.size + found.num_bytes
                if size < wanted:
                    raise ValueError(
                        f"its header says {wanted} bytes, there are {size}"
                    )
            except UNREADABLE as error:
                raise unreadable(self.what, error) from None
        self._set_header(found)

    def made_from(self) -> dict[str, Any]:
        return file_stamp(self.path)

    def reader(self, place: int) -> Reader:
        file = open_file(self.path)
        file.seek(place)
        return Reader(file)

    def rows(
        self, buffers: Sequence[np.ndarray], begin: int = 0
    ) -> Iterator[np.ndarray]:
        if not self.fortran or len(self.shape) != 2:
            yield from super().rows(buffers, begin)
            return
        count, width = self.shape
        for buffer in itertools.cycle(buffers):
            if begin >= count:
                break
            size = min(len(buffer), count - begin)
            columns = buffer.reshape(-1)[: width * size].reshape(width, size)
            with open_file(self.path) as file:
                for column in range(width):
                    place = column * count + begin
                    file.seek(self.header + place * self.dtype.itemsize)
                    try:
                        read_into(file, as_bytes(columns[column]))
                    except UNREADABLE as error:
                        raise unreadable(self.what, error) from None
            begin += size
            yield columns.T


def row_values(shape: Sequence[int]) -> int:
    """How many values a row has."""
    count = 1
    for length in shape[1:]:
        count *= length
    return count
