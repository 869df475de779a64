"""Arrays of an npz file, read in slices and never loaded whole."""

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from dgl import DGLError

from .array_stream import ArrayStream, Reader
from .npy_header import (
    HEADER_BYTES,
    UNREADABLE,
    NpyHeader,
    open_file,
    read_into,
    unreadable,
)

#: Bytes that are read from a compressed member, and unpacked, at a time.
_PIECE = 1 << 16
#: Deflate makes nothing smaller than by this factor.
_MOST_RATIO = 1032


class Member(ArrayStream):
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
    stored : bool
        Whether it is not compressed.
    span : tuple of int
        Where the member's data begins and ends in the file.
    crc : int
        The checksum of the array and its header.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dgl_lc.storage.npz_stream import Member
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez_compressed(f"{folder}/a.npz", a=np.ones((5, 2)))
    ...     a = Member(f"{folder}/a.npz", "a")
    ...     a.shape, [len(rows) for rows in a.rows([np.empty((2, 2))])]
    ((5, 2), [2, 2, 1])
    """

    def __init__(self, path: str | os.PathLike, name: str):
        self.path = Path(path)
        self.name = name
        self.what = f"{self.path}: {name}"
        #: Where compressed readers began: place in the file, unpacker.
        self._marks: dict[int, tuple[int, Any]] = {}
        try:
            self._find()
            self._set_header(self._read_header())
        except UNREADABLE as error:
            raise unreadable(self.what, error) from None

    def _find(self) -> None:
        with open_file(self.path) as file:
            with zipfile.ZipFile(file) as archive:
                names = archive.namelist()
                if f"{self.name}.npy" not in names:
                    there = ", ".join(n.removesuffix(".npy") for n in names)
                    raise DGLError(
                        f"{self.path} has no {self.name}; it has "
                        f"{there or 'nothing'}."
                    )
                info = archive.getinfo(f"{self.name}.npy")
            known = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            if info.flag_bits & 1:
                raise DGLError(f"{self.what} is encrypted.")
            if info.compress_type not in known:
                raise DGLError(
                    f"{self.what} is compressed in a way that NumPy does not "
                    f"use: write it with np.savez or np.savez_compressed."
                )
            self.stored = info.compress_type == zipfile.ZIP_STORED
            self.crc = info.CRC
            self._size = info.file_size
            begin = _data_begin(file, info.header_offset)
            self.span = (begin, begin + info.compress_size)
            most = info.compress_size * (1 if self.stored else _MOST_RATIO)
            if self.span[1] > os.fstat(file.fileno()).st_size:
                raise ValueError("the file is too short")
            if self._size > most:
                raise ValueError(
                    f"it says that it has {self._size} bytes, which is more "
                    f"than {info.compress_size} bytes can stand for"
                )

    def _read_header(self) -> NpyHeader:
        head = bytearray(min(self._size, HEADER_BYTES))
        reader = self.reader(0)
        try:
            reader.fill(memoryview(head))
        finally:
            reader.close()
        found = NpyHeader.parse(bytes(head))
        wanted = found.size + found.num_bytes
        if wanted != self._size:
            raise ValueError(
                f"its header says {wanted} bytes, there are {self._size}"
            )
        return found

    def made_from(self) -> dict[str, Any]:
        return {
            "file": self.path.name,
            "member": self.name,
            "crc32": self.crc,
            "bytes": self._size,
        }

    def reader(self, place: int) -> "_Stored | _Deflated":
        return (_Stored if self.stored else _Deflated)(self, place)

    def _check_halves(self, first: Reader, second: Reader) -> None:
        length = self.num_bytes // 2
        if self.stored and length:
            whole = crc32_of_both(first.crc, second.crc, length)
            if whole != self.crc:
                raise _wrong_checksum(self.what)


def _data_begin(file: BinaryIO, offset: int) -> int:
    """Where a member's data begins, given where its own header does."""
    # That header may be longer than the directory says.
    local = bytearray(30)
    file.seek(offset)
    read_into(file, memoryview(local))
    if local[:4] != b"PK\x03\x04":
        raise ValueError("its data does not begin where the directory says")
    names_size = int.from_bytes(local[26:28], "little")
    extra_size = int.from_bytes(local[28:30], "little")
    return offset + 30 + names_size + extra_size


def member_names(path: Path) -> list[str]:
    """The names of the arrays in an npz file."""
    with open_file(path) as file:
        try:
            if file.read(6) == b"\x93NUMPY":
                raise DGLError(
                    f"{path} is a single array: put all arrays into one npz "
                    f"file, or give the folder of the npy files."
                )
            with zipfile.ZipFile(file) as archive:
                names = archive.namelist()
        except UNREADABLE as error:
            raise DGLError(
                f"{path} cannot be read as an npz file: {error}. Write it "
                f"with np.savez, from plain arrays."
            ) from None
    return [name.removesuffix(".npy") for name in names]


class _MemberReader(Reader):
    """What readers of a member share: the checksum."""

    def __init__(self, member: Member, from_start: bool):
        super().__init__(open_file(member.path))
        self._member = member
        self._from_start = from_start

    def check(self) -> None:
        if self._from_start and self.crc != self._member.crc:
            raise _wrong_checksum(self._member.what)


class _Stored(_MemberReader):
    """The bytes of a member that is not compressed."""

    def __init__(self, member: Member, place: int):
        super().__init__(member, place == 0)
        self._file.seek(member.span[0] + place)

    def fill(self, view: memoryview) -> None:
        super().fill(view)
        self.crc = zlib.crc32(view, self.crc)


class _Deflated(_MemberReader):
    """The bytes of a compressed member."""

    def __init__(self, member: Member, place: int):
        mark = member._marks.get(place)
        super().__init__(member, mark is None)
        if mark is not None:
            at, unpacker = mark
            self._unpacker = unpacker.copy()
            self._file.seek(at)
            return
        self._file.seek(member.span[0])
        self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        if place:
            try:
                self._skip(place)
            except BaseException:
                self.close()
                raise
            member._marks[place] = (self._file.tell(), self._unpacker.copy())

    def _skip(self, count: int) -> None:
        skipped = memoryview(bytearray(_PIECE))
        while count:
            self.fill(skipped[:count])
            count -= min(count, _PIECE)

    def fill(self, view: memoryview) -> None:
        rest = view
        while len(rest):
            packed = self._unpacker.unconsumed_tail
            if not packed:
                left = self._member.span[1] - self._file.tell()
                packed = self._file.read(min(left, _PIECE))
            # Never all at once: what is unpacked is copied to the buffer.
            most = min(len(rest), _PIECE)
            data = self._unpacker.decompress(packed, most)
            if not data and (self._unpacker.eof or not packed):
                raise EOFError("the compressed data ends too early")
            rest[: len(data)] = data
            rest = rest[len(data) :]
        self.crc = zlib.crc32(view, self.crc)


def _wrong_checksum(what: str) -> DGLError:
    return DGLError(
        f"{what} is damaged: its checksum is wrong. Get the file again."
    )


def crc32_of_both(first: int, second: int, length: int) -> int:
    """The CRC-32 of two pieces behind each other, of which the second has
    ``length`` bytes.

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
    """Multiply a matrix of bits by a vector of bits."""
    result = 0
    for column in matrix:
        if not vector:
            break
        if vector & 1:
            result ^= column
        vector >>= 1
    return result
