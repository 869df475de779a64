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
_FLOAT16 = _KINDS["float16"]


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


@intrinsic
def _row_sum(
    typingctx, x, entries, coefs, start, stop, limit, column, scale,
    out, row, width, kind_in, kind_out, ahead, lines, stream,
):  # fmt: skip
    """``out[row] = scale * sum(coefs[e] * x[entries[e]])``, start <= e < stop.

    ``width``, the kinds, ``ahead`` (how many entries ahead rows are
    prefetched), ``lines`` (tiles of x are whole cache lines) and ``stream``
    (write past the cache) are literals.
    """
    literals = (width, kind_in, kind_out, ahead, lines, stream)
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
        lines: int,
        stream: int,
    ):
        self.b, self.has_half = builder, has_half
        self.width, self.k_in, self.k_out = width, k_in, k_out
        self.ahead, self.lines, self.stream = ahead, lines, stream
        self.acc = ir.DoubleType() if k_in == _FLOAT64 else ir.FloatType()
        self.lanes = min(8 if k_in == _FLOAT64 else 16, width)
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
        if self.ahead:
            later = b.add(e, self._i64(self.ahead))
            later = b.select(b.icmp_signed("<", later, limit), later, e)
            self._prefetch(self._source_row(x, entries, later, column))
        source = self._source_row(x, entries, e, column)
        coef = self._broadcast(b.load(b.gep(coefs.data, [e])))
        for k, phi in enumerate(sums):
            value = self._load(source, k)
            phi.add_incoming(self._fma(coef, value, phi), b.block)
        e.add_incoming(b.add(e, self._i64(1)), b.block)
        b.branch(head)

        b.position_at_end(done)
        target = self._address(out, row, column, self.k_out)
        factor = self._broadcast(scale)
        for k, phi in enumerate(sums):
            self._store(b.fmul(phi, factor), target, k)

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

    def _prefetch(self, row: ir.Value) -> None:
        """Ask for every cache line of the row, into L2 (locality 2).

        L1 takes far fewer outstanding lines: asking for it there was 1.5
        times slower on rows of 512 bytes. Nor is a line asked for twice,
        which cost a tenth of the time on rows of one line.
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
        for offset in offsets:
            self.b.call(
                prefetch,
                [
                    self.b.gep(row, [self._i64(offset)]),
                    ir.Constant(i32, 0),
                    ir.Constant(i32, 2),
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

    def _pointer(
        self, row: ir.Value, k: int, element: ir.Type, size: int
    ) -> ir.Value:
        offset = self._i64(k * self.lanes * size)
        return self.b.bitcast(
            self.b.gep(row, [offset]), self._vector(element).as_pointer()
        )

    def _load(self, row: ir.Value, k: int) -> ir.Value:
        """Vector ``k`` of a stored row, widened to the accumulator's type."""
        b = self.b
        if self.k_in in (_FLOAT32, _FLOAT64):
            size = self.size[self.k_in]
            value = b.load(self._pointer(row, k, self.acc, size))
            value.align = size
            return value
        bits = b.load(self._pointer(row, k, ir.IntType(16), 2))
        bits.align = 2
        if self.k_in == _FLOAT16:
            return half_to_float(b, bits, self.has_half)
        wide = b.zext(bits, self._vector(ir.IntType(32)))
        wide = b.shl(wide, self._splat(16))
        return b.bitcast(wide, self._vector(self.acc))

    def _store(self, value: ir.Value, row: ir.Value, k: int) -> None:
        b = self.b
        size = self.size[self.k_out]
        if self.k_out in (_FLOAT32, _FLOAT64):
            element = self.acc
        else:
            element = ir.IntType(16)
            value = self._narrow(value)
        store = b.store(value, self._pointer(row, k, element, size))
        store.align = size
        if self.stream:
            store.align = min(CACHE_LINE, self.lanes * size)
            one = ir.Constant(ir.IntType(32), 1)
            store.set_metadata("nontemporal", b.module.add_metadata([one]))

    def _narrow(self, value: ir.Value) -> ir.Value:
        """Round to nearest even, to the bits of a half or a bfloat16."""
        b = self.b
        i16 = self._vector(ir.IntType(16))
        if self.k_out == _FLOAT16:
            return float_to_half(b, value, self.has_half)
        i32 = self._vector(ir.IntType(32))
        bits = b.bitcast(value, i32)
        odd = b.and_(b.lshr(bits, self._splat(16)), self._splat(1))
        rounded = b.add(b.add(bits, self._splat(0x7FFF)), odd)
        rounded = b.lshr(rounded, self._splat(16))
        is_nan = b.fcmp_unordered("uno", value, value)
        rounded = b.select(is_nan, self._splat(0x7FC0), rounded)
        return b.trunc(rounded, i16)

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
    ahead = 16 if width >= 64 else 32

    def sum_tile(
        offsets: Any, entries: Any, coefs: Any, scales: Any, x: Any,
        column: int, out: Any, first: int,
    ) -> None:  # fmt: skip
        rows = len(offsets) - 1
        limit = offsets[rows]
        for i in range(rows):
            _row_sum(x, entries, coefs, offsets[i], offsets[i + 1], limit,
                     column, scales[i], out, first + i,
                     w, k_in, k_out, ahead, whole, nt)  # type: ignore[call-arg]  # fmt: skip

    return jit(sum_tile)
