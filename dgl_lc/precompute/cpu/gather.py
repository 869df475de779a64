r"""The gather-sum: what :math:`S X` costs, as vector code for the CPU.

One output row is a weighted sum of source rows that lie anywhere in memory.
The time goes into waiting for them, so the code asks for rows a few entries
ahead and keeps the sum of a whole tile in vector registers. It exists once
for each width of a fixed menu and each data type, whatever the filter is:
:mod:`.chunks` has resolved self-loops, weights and relabelling before.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from ..._common.bytes import CACHE_LINE
from ..._common.dtypes import VALUE_TYPES
from ..._common.jit import jit
from .half_code import float_to_half, half_to_float, has_half

#: The widths the gather-sum is compiled for. Other widths are tiled.
WIDTHS = (128, 64, 32, 16, 8, 4, 2, 1)

# Literals of the kernel are numbers: the places of the table of types.
_KINDS = {name: place for place, name in enumerate(VALUE_TYPES)}
_SIZES = [found.itemsize for found in VALUE_TYPES.values()]
_FLOAT32, _FLOAT64 = _KINDS["float32"], _KINDS["float64"]
_FLOAT16, _BFLOAT16 = _KINDS["float16"], _KINDS["bfloat16"]
# What a prefetch names as "locality".
_L1, _L2 = 3, 2


def tiles(width: int, kind: str) -> list[tuple[int, int]]:
    """Cut ``width`` columns into ``(first column, width)`` tiles of the menu.

    The last tile overlaps the one before it where the rest is not on the
    menu: its columns share cache lines that are read anyway, and writing a
    value twice does no harm.

    >>> tiles(100, "float32")
    [(0, 64), (64, 32), (92, 8)]
    """
    widest = max_width(kind)
    narrowest = next(w for w in WIDTHS if w <= min(8, width))
    found = []
    column = 0
    while column < width:
        rest = width - column
        if rest < narrowest:
            column, rest = width - narrowest, narrowest
        tile = next(w for w in WIDTHS if w <= min(rest, widest))
        found.append((column, tile))
        column += tile
    return found


def max_width(kind: str) -> int:
    """The widest tile of ``kind``: what keeps its sums in registers."""
    return 64 if kind == "float64" else 128


def distances(row_bytes: int) -> tuple[int, int]:
    """Return how many entries ahead rows are asked for, into L2 and into L1.

    L1 takes few outstanding lines: asking for rows of 512 bytes there, alone
    or after L2, is slower. Rows of 256 bytes are faster if they are asked
    for twice, and further ahead; docs/benchmarks.md has what was tried.
    """
    if row_bytes > 256:
        return 16, 0
    return (32, 8) if row_bytes > 128 else (32, 0)


@intrinsic
def _row_sum(
    typingctx, x, entries, coefs, start, stop, limit, column, scale,
    out, row, width, kind_in, kind_out, ahead, near, lines, stream,
):  # fmt: skip
    """``out[row] = scale * sum(coefs[e] * x[entries[e]])``, start <= e < stop.

    ``width``, the kinds, ``ahead`` and ``near`` (how many entries ahead rows
    are prefetched into L2, and into L1, or 0), ``lines`` (tiles of x are whole
    cache lines) and ``stream`` (write past the cache) are literals.
    """
    literals = (width, kind_in, kind_out, ahead, near, lines, stream)
    if not all(isinstance(t, types.IntegerLiteral) for t in literals):
        return None
    w, k_in, k_out, *how = (t.literal_value for t in literals)
    signature = types.void(
        x, entries, coefs, types.int64, types.int64, types.int64,
        types.int64, scale, out, types.int64, *literals,
    )  # fmt: skip

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        emit = _RowSum(builder, has_half(context), w, k_in, k_out, *how)
        arrays = [
            context.make_array(sig.args[i])(context, builder, args[i])
            for i in (0, 1, 2, 8)
        ]
        x_array, entry_array, coef_array, out_array = arrays
        emit.run(
            x_array, entry_array, coef_array, out_array, args[3:8], args[9]
        )
        return context.get_dummy_value()

    return signature, codegen


class _RowSum:
    """Emits the LLVM code of one output row (see :func:`_row_sum`)."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        has_half: bool,
        width: int,
        k_in: int,
        k_out: int,
        ahead: int,
        near: int,
        lines: int,
        stream: int,
    ):
        self.b, self.has_half = builder, has_half
        self.width, self.k_in, self.k_out = width, k_in, k_out
        self.ahead, self.near = ahead, near
        self.lines, self.stream = lines, stream
        self.acc = ir.DoubleType() if k_in == _FLOAT64 else ir.FloatType()
        # Sums of bfloat16 are in pairs of vectors: of even, of odd columns.
        self.in_pairs = k_in == _BFLOAT16 and width > 1
        lanes = 8 if k_in == _FLOAT64 else 16
        self.lanes = min(lanes, width // (2 if self.in_pairs else 1))
        self.vectors = width // self.lanes
        self.size = _SIZES

    def run(
        self,
        x: Any,
        entries: Any,
        coefs: Any,
        out: Any,
        scalars: Sequence[ir.Value],
        row: ir.Value,
    ) -> None:
        start, stop, limit, column, scale = scalars
        b = self.b
        zero = ir.Constant(self._vector(self.acc), None)
        before = b.block
        head = b.append_basic_block("entry.head")
        body = b.append_basic_block("entry.body")
        done = b.append_basic_block("entry.done")
        b.branch(head)

        b.position_at_end(head)
        e = b.phi(ir.IntType(64))
        e.add_incoming(start, before)
        sums = []
        for _ in range(self.vectors):
            phi = b.phi(self._vector(self.acc))
            phi.add_incoming(zero, before)
            sums.append(phi)
        b.cbranch(b.icmp_signed("<", e, stop), body, done)

        b.position_at_end(body)
        for distance, cache in ((self.ahead, _L2), (self.near, _L1)):
            if distance:
                later = b.add(e, self._i64(distance))
                later = b.select(b.icmp_signed("<", later, limit), later, e)
                row_ahead = self._source_row(x, entries, later, column)
                self._prefetch(row_ahead, cache)
        source = self._source_row(x, entries, e, column)
        coef = self._broadcast(b.load(b.gep(coefs.data, [e])))
        for value, phi in zip(self._load(source), sums, strict=True):
            phi.add_incoming(self._fma(coef, value, phi), b.block)
        e.add_incoming(b.add(e, self._i64(1)), b.block)
        b.branch(head)

        b.position_at_end(done)
        target = self._address(out, row, column, self.k_out)
        factor = self._broadcast(scale)
        self._store([b.fmul(phi, factor) for phi in sums], target)

    def _i64(self, value: int) -> ir.Constant:
        return ir.Constant(ir.IntType(64), value)

    def _vector(self, element: ir.Type) -> ir.VectorType:
        return ir.VectorType(element, self.lanes)

    def _address(
        self, array: Any, row: ir.Value, column: ir.Value, kind: int
    ) -> ir.Value:
        """Pointer to ``array[row, column]`` of a row-major array, as bytes."""
        b = self.b
        stride = cgutils.unpack_tuple(b, array.strides)[0]
        offset = b.add(
            b.mul(row, stride), b.mul(column, self._i64(self.size[kind]))
        )
        data = b.bitcast(array.data, ir.IntType(8).as_pointer())
        return b.gep(data, [offset])

    def _source_row(
        self, x: Any, entries: Any, e: ir.Value, column: ir.Value
    ) -> ir.Value:
        index = self.b.load(self.b.gep(entries.data, [e]))
        index = self.b.sext(index, ir.IntType(64))
        return self._address(x, index, column, self.k_in)

    def _prefetch(self, row: ir.Value, cache: int) -> None:
        """Ask for every cache line of the row once, the last one first.

        Asking twice for a line cost a tenth of the time on rows of one line.
        """
        i32 = ir.IntType(32)
        kind = ir.FunctionType(
            ir.VoidType(), [ir.IntType(8).as_pointer(), i32, i32, i32]
        )
        prefetch = cgutils.get_or_insert_function(
            self.b.module, kind, "llvm.prefetch.p0"
        )
        length = self.width * self.size[self.k_in]
        offsets = [*range(0, length, CACHE_LINE)]
        if not self.lines:
            offsets.append(length - 1)
        for offset in reversed(offsets):
            self.b.call(
                prefetch,
                [
                    self.b.gep(row, [self._i64(offset)]),
                    ir.Constant(i32, 0),
                    ir.Constant(i32, cache),
                    ir.Constant(i32, 1),
                ],
            )

    def _broadcast(self, scalar: ir.Value) -> ir.Value:
        b = self.b
        vector = self._vector(self.acc)
        undefined = ir.Constant(vector, ir.Undefined)
        first = b.insert_element(
            undefined, scalar, ir.Constant(ir.IntType(32), 0)
        )
        mask = ir.Constant(self._vector(ir.IntType(32)), [0] * self.lanes)
        return b.shuffle_vector(first, undefined, mask)

    def _fma(self, a: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        vector = self._vector(self.acc)
        letter = "f64" if self.k_in == _FLOAT64 else "f32"
        kind = ir.FunctionType(vector, [vector] * 3)
        fma = cgutils.get_or_insert_function(
            self.b.module, kind, f"llvm.fmuladd.v{self.lanes}{letter}"
        )
        return self.b.call(fma, [a, x, y])

    def _load(self, row: ir.Value) -> list[ir.Value]:
        """Vectors of a stored row, widened to the accumulator's type."""
        if self.in_pairs:
            return self._load_pairs(row)
        return [self._load_vector(row, k) for k in range(self.vectors)]

    def _load_pairs(self, row: ir.Value) -> list[ir.Value]:
        """Vectors of a row of bfloat16: of even and of odd columns in turn.

        Two columns are a word of 32 bits. One operation widens a vector of
        them, where taking columns in order needs two.
        """
        b, words = self.b, self._vector(ir.IntType(32))
        found = []
        for k in range(self.vectors // 2):
            bits = self._load_bits(row, k, words, 4)
            even = b.shl(bits, self._splat(16))
            odd = b.and_(bits, self._splat(0xFFFF0000))
            found += [b.bitcast(v, self._vector(self.acc)) for v in (even, odd)]
        return found

    def _load_vector(self, row: ir.Value, k: int) -> ir.Value:
        b = self.b
        if self.k_in in (_FLOAT32, _FLOAT64):
            size = self.size[self.k_in]
            return self._load_bits(row, k, self._vector(self.acc), size)
        bits = self._load_bits(row, k, self._vector(ir.IntType(16)), 2)
        if self.k_in == _FLOAT16:
            return half_to_float(b, bits, self.has_half)
        wide = b.zext(bits, self._vector(ir.IntType(32)))
        wide = b.shl(wide, self._splat(16))
        return b.bitcast(wide, self._vector(self.acc))

    def _load_bits(
        self, row: ir.Value, k: int, kind: ir.VectorType, size: int
    ) -> ir.Value:
        value = self.b.load(self._pointer(row, k, kind, size))
        value.align = self.size[self.k_in]
        return value

    def _pointer(
        self, row: ir.Value, k: int, kind: ir.VectorType, size: int
    ) -> ir.Value:
        """Pointer to vector ``k`` of a row; ``size`` is that of an element."""
        offset = self._i64(k * kind.count * size)
        return self.b.bitcast(self.b.gep(row, [offset]), kind.as_pointer())

    def _store(self, sums: list[ir.Value], row: ir.Value) -> None:
        size = self.size[self.k_out]
        if self.in_pairs:
            pairs = zip(sums[::2], sums[1::2], strict=True)
            if self.k_out == _BFLOAT16:
                sums, size = [self._pack(*pair) for pair in pairs], 4
            else:
                sums = [self._interleave(*pair) for pair in pairs]
        elif self.k_out not in (_FLOAT32, _FLOAT64):
            sums = [self._narrow(value) for value in sums]
        for k, value in enumerate(sums):
            self._store_vector(value, row, k, size)

    def _store_vector(
        self, value: ir.Value, row: ir.Value, k: int, size: int
    ) -> None:
        b, kind = self.b, value.type
        store = b.store(value, self._pointer(row, k, kind, size))
        store.align = self.size[self.k_out]
        if self.stream:
            store.align = min(CACHE_LINE, kind.count * size)
            one = ir.Constant(ir.IntType(32), 1)
            store.set_metadata("nontemporal", b.module.add_metadata([one]))

    def _interleave(self, even: ir.Value, odd: ir.Value) -> ir.Value:
        """Put the columns of a pair of vectors in their order."""
        lanes = range(self.lanes)
        places = [at for k in lanes for at in (k, self.lanes + k)]
        mask = ir.Constant(
            ir.VectorType(ir.IntType(32), 2 * self.lanes), places
        )
        return self.b.shuffle_vector(even, odd, mask)

    def _pack(self, even: ir.Value, odd: ir.Value) -> ir.Value:
        """Round a pair of vectors to words of two bfloat16."""
        b = self.b
        even = b.lshr(self._round(even), self._splat(16))
        odd = b.and_(self._round(odd), self._splat(0xFFFF0000))
        return b.or_(even, odd)

    def _narrow(self, value: ir.Value) -> ir.Value:
        """Round to nearest even, to the bits of a half or a bfloat16."""
        b = self.b
        if self.k_out == _FLOAT16:
            return float_to_half(b, value, self.has_half)
        rounded = b.lshr(self._round(value), self._splat(16))
        return b.trunc(rounded, self._vector(ir.IntType(16)))

    def _round(self, value: ir.Value) -> ir.Value:
        """Round to bfloat16, which is the upper half of the bits."""
        b = self.b
        bits = b.bitcast(value, self._vector(ir.IntType(32)))
        odd = b.and_(b.lshr(bits, self._splat(16)), self._splat(1))
        rounded = b.add(b.add(bits, self._splat(0x7FFF)), odd)
        is_nan = b.fcmp_unordered("uno", value, value)
        return b.select(is_nan, self._splat(0x7FC00000), rounded)

    def _splat(self, value: int) -> ir.Constant:
        return ir.Constant(
            self._vector(ir.IntType(32)),
            [ir.Constant(ir.IntType(32), value)] * self.lanes,
        )


@functools.cache
def sum_rows(
    width: int, kind_in: str, kind_out: str, lines: bool, stream: bool
) -> Callable[..., None]:
    """The compiled gather-sum of one tile of ``width`` columns.

    ``sum_rows(...)(offsets, entries, coefs, scales, x, column, out, first)``
    writes ``scales[i] * sum_e coefs[e] * x[entries[e], tile]`` to the tile of
    ``out[first + i]``, for entries e of row i. ``x`` and ``out`` are
    row-major; halves are passed as int16. ``lines``: tiles of ``x`` are whole
    cache lines. ``stream``: write past the cache, which requires rows of
    ``out`` to be whole cache lines.
    """
    w, k_in, k_out = width, _KINDS[kind_in], _KINDS[kind_out]
    whole, nt = int(lines), int(stream)
    ahead, near = distances(width * _SIZES[k_in])

    def sum_tile(
        offsets: Any, entries: Any, coefs: Any, scales: Any, x: Any,
        column: int, out: Any, first: int,
    ) -> None:  # fmt: skip
        rows = len(offsets) - 1
        limit = offsets[rows]
        for i in range(rows):
            _row_sum(x, entries, coefs, offsets[i], offsets[i + 1], limit,
                     column, scales[i], out, first + i,
                     w, k_in, k_out, ahead, near, whole, nt)  # type: ignore[call-arg]  # fmt: skip

    return jit(sum_tile)
