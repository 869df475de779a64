"""Vector code that converts between float16 and float32.

Nearly all machines have an instruction for that. Where there is none, the
compiler would call a function that Numba does not have, and the process would
end, so that the bits are converted here by hand.
"""

import platform
from typing import Any

from llvmlite import ir

_X86 = ("x86_64", "AMD64", "i386", "i686")


def has_half(context: Any) -> bool:
    """Tell whether the machine that is compiled for converts float16."""
    if platform.machine() not in _X86:
        return True
    _, _, features = context.codegen().magic_tuple()
    return "+f16c" in features.split(",")


def half_to_float(b: ir.IRBuilder, bits: ir.Value, native: bool) -> ir.Value:
    """Convert the bits of float16, a vector of i16, to float32."""
    lanes = bits.type.count
    f32, i32 = _vector(ir.FloatType(), lanes), _vector(ir.IntType(32), lanes)
    if native:
        half = b.bitcast(bits, _vector(ir.HalfType(), lanes))
        return b.fpext(half, f32)
    wide = b.zext(bits, i32)
    sign = b.shl(b.and_(wide, _splat(i32, 0x8000)), _splat(i32, 16))
    size = b.shl(b.and_(wide, _splat(i32, 0x7FFF)), _splat(i32, 13))
    # The exponent's bias is 127 instead of 15. A product is right for
    # subnormal numbers as well.
    number = b.fmul(b.bitcast(size, f32), _splat(f32, 2.0**112))
    special = b.icmp_unsigned(">=", size, _splat(i32, 0x7C00 << 13))
    infinite = b.or_(size, _splat(i32, 0x7F800000))
    found = b.select(special, infinite, b.bitcast(number, i32))
    return b.bitcast(b.or_(found, sign), f32)


def float_to_half(b: ir.IRBuilder, value: ir.Value, native: bool) -> ir.Value:
    """Round float32 to nearest even, to the bits of float16."""
    lanes = value.type.count
    f32, i32 = _vector(ir.FloatType(), lanes), _vector(ir.IntType(32), lanes)
    i16 = _vector(ir.IntType(16), lanes)
    if native:
        half = b.fptrunc(value, _vector(ir.HalfType(), lanes))
        return b.bitcast(half, i16)
    bits = b.bitcast(value, i32)
    size = b.and_(bits, _splat(i32, 0x7FFFFFFF))
    sign = b.lshr(b.xor(bits, size), _splat(i32, 16))
    odd = b.and_(b.lshr(size, _splat(i32, 13)), _splat(i32, 1))
    # The bias becomes 15; half of the last bit that is kept is added.
    normal = b.add(size, _splat(i32, 0x0FFF - (112 << 23)))
    normal = b.lshr(b.add(normal, odd), _splat(i32, 13))
    # Numbers below 2 ** -14 are multiples of 2 ** -24, as are those around
    # one half in float32: the addition rounds.
    half = _splat(f32, 0.5)
    small = b.bitcast(b.fadd(b.bitcast(size, f32), half), i32)
    small = b.sub(small, b.bitcast(half, i32))
    is_small = b.icmp_unsigned("<", size, _splat(i32, 113 << 23))
    found = b.select(is_small, small, normal)
    too_large = b.icmp_unsigned(">=", size, _splat(i32, 143 << 23))
    found = b.select(too_large, _splat(i32, 0x7C00), found)
    is_nan = b.icmp_unsigned(">", size, _splat(i32, 0x7F800000))
    found = b.select(is_nan, _splat(i32, 0x7E00), found)
    return b.trunc(b.or_(found, sign), i16)


def _vector(element: ir.Type, lanes: int) -> ir.VectorType:
    return ir.VectorType(element, lanes)


def _splat(kind: ir.VectorType, value: float) -> ir.Constant:
    if isinstance(kind.element, ir.IntType):
        value = int(value) % 2**kind.element.width
    constant = ir.Constant(kind.element, value)
    return ir.Constant(kind, [constant] * kind.count)
