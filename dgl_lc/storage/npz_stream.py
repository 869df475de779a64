"""Arrays of an npz file, read in slices and never loaded whole."""

import os
import zipfile
import zlib
from collections.abc import Generator, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from dgl import DGLError

from .numpy_files import _unreadable

#: Compressed bytes that are read at a time, and bytes that are skipped.
_CHUNK = 1 << 20
_BROKEN = (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error)


class Member:
    """One array of an npz file.

    Stored members are read from any place. Compressed ones are unpacked
    from their beginning; a place where a reader began once is remembered,
    so that the next one begins there at once.

    Parameters
    ----------
    path : path
        The npz file.
    name : str
        The array's name.

    Attributes
    ----------
    shape, dtype, fortran
        As in the array's header; ``fortran`` if its columns lie behind each
        other, not its rows.
    stored : bool
        Whether it is not compressed.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dgl_lc.storage.npz_stream import Member
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez_compressed(f"{folder}/a.npz", a=np.ones((5, 2)))
    ...     a = Member(f"{folder}/a.npz", "a")
    ...     a.shape, [len(rows) for rows in a.rows(2)]
    ((5, 2), [2, 2, 1])
    """

    def __init__(self, path: str | os.PathLike, name: str):
        self.path = Path(path)
        self.name = name
        self.what = f"{self.path}: {name}"
        if not self.path.is_file():
            raise DGLError(f"{self.path} is not there.")
        try:
            self._find()
            self._read_header()
        except _BROKEN as error:
            raise _unreadable(self.what, error) from None
        #: Where compressed readers began: place in the file, unpacker.
        self._marks: dict[int, tuple[int, Any]] = {}

    def _find(self) -> None:
        with zipfile.ZipFile(self.path) as archive:
            names = archive.namelist()
            if f"{self.name}.npy" not in names:
                there = ", ".join(n.removesuffix(".npy") for n in names)
                raise DGLError(
                    f"{self.path} has no {self.name}; it has "
                    f"{there or 'nothing'}."
                )
            info = archive.getinfo(f"{self.name}.npy")
        if info.flag_bits & 1:
            raise DGLError(f"{self.what} is encrypted.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DGLError(
                f"{self.what} is compressed in a way that NumPy does not use: "
                f"write it with np.savez or np.savez_compressed."
            )
        self.stored = info.compress_type == zipfile.ZIP_STORED
        self.crc = info.CRC
        self._size = info.file_size
        self._packed = info.compress_size
        # The header before the data may be longer than the directory says.
        with open(self.path, "rb") as file:
            file.seek(info.header_offset)
            local = file.read(30)
            if local[:4] != b"PK\x03\x04":
                raise DGLError(f"{self.what} is damaged: it does not begin.")
            names_size = int.from_bytes(local[26:28], "little")
            extra_size = int.from_bytes(local[28:30], "little")
            self._offset = info.header_offset + 30 + names_size + extra_size
            end = file.seek(0, os.SEEK_END)
        if self._offset + self._packed > end:
            raise DGLError(f"{self.what} is cut off: the file is too short.")

    def _read_header(self) -> None:
        head = bytearray(min(self._size, 1 << 16))
        reader = self._reader(0)
        try:
            reader.fill(memoryview(head))
        finally:
            reader.close()
        file = BytesIO(head)
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            found = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            found = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"version {version} of the npy format")
        self.shape, self.fortran, self.dtype = found
        if self.dtype.hasobject:
            raise ValueError("pickled Python objects")
        #: Bytes before the numbers.
        self.header = file.tell()
        wanted = self.header + self.num_values * self.dtype.itemsize
        if wanted != self._size:
            raise ValueError(
                f"its header says {wanted} bytes, there are {self._size}"
            )

    @property
    def num_values(self) -> int:
        count = 1
        for length in self.shape:
            count *= length
        return count

    @property
    def num_bytes(self) -> int:
        """Bytes of the numbers, unpacked."""
        return self._size - self.header

    @property
    def span(self) -> tuple[int, int]:
        """Where the member's data begins and ends in the file."""
        return self._offset, self._offset + self._packed

    def made_from(self) -> dict[str, Any]:
        """What stands for the content, without reading it."""
        return {
            "file": self.path.name,
            "member": self.name,
            "crc32": self.crc,
            "bytes": self._size,
        }

    def values(
        self, size: int, begin: int = 0, end: int | None = None
    ) -> Iterator[np.ndarray]:
        """Values begin to end as they lie in the file, so many at a time.

        The checksum is compared if all are read; see :meth:`halves` for
        two readers.
        """
        yield from self._values(size, begin, end, self._reader)

    def rows(self, size: int, begin: int = 0) -> Iterator[np.ndarray]:
        """Rows from ``begin`` on, so many at a time."""
        if self.fortran and len(self.shape) > 1:
            raise DGLError(
                f"{self.what} is stored column by column: save it with "
                f"np.ascontiguousarray."
            )
        width = 1
        for length in self.shape[1:]:
            width *= length
        for part in self.values(size * width, begin * width):
            yield part.reshape(-1, *self.shape[1:])

    def whole(self) -> np.ndarray:
        """All of it: for small ones."""
        parts = list(self.values(max(self.num_values, 1)))
        flat = parts[0] if parts else np.empty(0, self.dtype)
        return flat.reshape(self.shape, order="F" if self.fortran else "C")

    def _values(
        self, size, begin, end, open_reader
    ) -> Generator[np.ndarray, None, None]:
        end = self.num_values if end is None else end
        # From the header on, where everything is wanted: for the checksum.
        place = self.header + begin * self.dtype.itemsize if begin else 0
        reader = open_reader(place)
        try:
            if not begin:
                reader.fill(memoryview(bytearray(self.header)))
            while begin < end:
                values = np.empty(min(size, end - begin), self.dtype)
                reader.fill(values.view(np.uint8).data)
                begin += len(values)
                if begin == self.num_values:
                    reader.check()
                yield values
        except _BROKEN as error:
            raise _unreadable(self.what, error) from None
        finally:
            reader.close()

    def halves(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The first and the second half of the values, read in step.

        The checksum is compared at the end.
        """
        half = self.num_values // 2
        readers = []

        def open_reader(place):
            readers.append(self._reader(place))
            return readers[-1]

        first = self._values(size, 0, half, open_reader)
        second = self._values(size, half, 2 * half, open_reader)
        try:
            yield from zip(first, second, strict=True)
        finally:
            first.close()
            second.close()
        if self.stored and half:
            one, two = (reader.crc for reader in readers)
            length = half * self.dtype.itemsize
            if crc32_of_both(one, two, length) != self.crc:
                raise _wrong_checksum(self.what)

    def _reader(self, place: int) -> "_Stored | _Deflated":
        return (_Stored if self.stored else _Deflated)(self, place)


class _Stored:
    """The bytes of a member that is not compressed."""

    def __init__(self, member: Member, place: int):
        self._member = member
        self._from_start = place == 0
        self._file = open(member.path, "rb", buffering=0)  # noqa: SIM115
        self._file.seek(member._offset + place)
        self.crc = 0

    def fill(self, view: memoryview) -> None:
        rest = view
        while len(rest):
            count = self._file.readinto(rest)
            if not count:
                raise EOFError("the file ends too early")
            rest = rest[count:]
        self.crc = zlib.crc32(view, self.crc)

    def check(self) -> None:
        if self._from_start and self.crc != self._member.crc:
            raise _wrong_checksum(self._member.what)

    def close(self) -> None:
        self._file.close()


class _Deflated:
    """The bytes of a compressed member."""

    def __init__(self, member: Member, place: int):
        self._member = member
        self._file = open(member.path, "rb", buffering=0)  # noqa: SIM115
        marks = getattr(member, "_marks", {})
        self._from_start = place not in marks
        self.crc = 0
        if place in marks:
            at, unpacker = marks[place]
            self._unpacker = unpacker.copy()
            self._file.seek(at)
            return
        self._file.seek(member._offset)
        self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        if place:
            skipped = memoryview(bytearray(_CHUNK))
            left = place
            try:
                while left:
                    self.fill(skipped[: min(left, _CHUNK)])
                    left -= min(left, _CHUNK)
            except BaseException:
                self._file.close()
                raise
            marks[place] = (self._file.tell(), self._unpacker.copy())

    def fill(self, view: memoryview) -> None:
        rest = view
        while len(rest):
            packed = self._unpacker.unconsumed_tail
            if not packed:
                left = self._member.span[1] - self._file.tell()
                packed = self._file.read(min(left, _CHUNK))
            data = self._unpacker.decompress(packed, len(rest))
            if not data and (self._unpacker.eof or not packed):
                raise EOFError("the compressed data ends too early")
            rest[: len(data)] = data
            rest = rest[len(data) :]
        self.crc = zlib.crc32(view, self.crc)

    def check(self) -> None:
        if self._from_start and self.crc != self._member.crc:
            raise _wrong_checksum(self._member.what)

    def close(self) -> None:
        self._file.close()


def _wrong_checksum(what: str) -> DGLError:
    return DGLError(
        f"{what} is damaged: its checksum is wrong. Get the file again."
    )


def crc32_of_both(first: int, second: int, length: int) -> int:
    """The CRC-32 of two pieces behind each other; the second is so long.

    >>> import zlib
    >>> whole = crc32_of_both(zlib.crc32(b"ab"), zlib.crc32(b"cde"), 3)
    >>> whole == zlib.crc32(b"abcde")
    True
    """
    # A zero bit behind the data is a linear map of the checksum: a matrix
    # of bits, squared over and over.
    matrix = [0xEDB88320, *(1 << bit for bit in range(31))]
    length *= 8
    while length:
        if length & 1:
            first = _times(matrix, first)
        matrix = [_times(matrix, column) for column in matrix]
        length >>= 1
    return first ^ second


def _times(matrix: list[int], vector: int) -> int:
    result = 0
    for column in matrix:
        if not vector:
            break
        if vector & 1:
            result ^= column
        vector >>= 1
    return result
