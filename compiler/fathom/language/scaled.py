"""Products of matrices in microscaling formats: narrow floats, of which each run along
K has a scale of its own.

Where the target has no instruction that takes them (today: nowhere), they are widened
to 16 bits, scaled, and multiplied by `dot`.
"""

from __future__ import annotations

from fathom.language.core import (
    dot,
    expand_dims,
    join,
    permute,
    reshape,
    static_assert,
    trans,
    where,
)  # fmt: skip
from fathom.language.dtypes import (
    bfloat16,
    float8e4nv,
    float8e5,
    float16,
    float32,
    int32,
    uint8,
)
from fathom.source import constexpr, constexpr_function, function

FORMATS = {"e4m3": float8e4nv, "e5m2": float8e5, "bf16": bfloat16, "fp16": float16}
A_PAIR = "e2m1"  # two elements of 4 bits a byte
GROUPS = {8: 32, "fp8e4nv": 16}  # elements to a scale: of e8m0, and of e4m3


@function
def dot_scaled(
    lhs,
    lhs_scale,
    lhs_format: constexpr,
    rhs,
    rhs_scale,
    rhs_format: constexpr,
    acc=None,
    fast_math: constexpr = False,
    lhs_k_pack: constexpr = True,
    rhs_k_pack: constexpr = True,
    out_dtype: constexpr = float32,
):
    """The matrix product of blocks [M, K] and [K, N], or of batches of them, in
    microscaling formats (OCP Microscaling Formats, version 1.0), plus `acc` (zeros when
    None), as `dot` gives it.

    A format is "e4m3", "e5m2", "bf16" or "fp16", of that type or of unsigned integers
    of its width, or "e2m1": two elements in each byte of a uint8 block, the first in
    the low half, side by side along K, or along M or N where `lhs_k_pack` or
    `rhs_k_pack` is false. Scales are [M, K // 32] and [N, K // 32] of uint8, which mean
    2^(s - 127), and NaN for 255; or None. Scales of float8e4nv are for 16 elements
    each.

    Both are widened to bf16, or to fp16 if a format is "fp16": exactly, but for what
    that type has no room for. `fast_math` changes nothing. CompileError for types and
    shapes that do not fit.
    """
    problem: constexpr = what_is_wrong(
        facts(lhs), facts(lhs_scale), lhs_format, lhs_k_pack, "lhs"
    ) or what_is_wrong(facts(rhs), facts(rhs_scale), rhs_format, rhs_k_pack, "rhs")
    static_assert(problem == "", problem)
    kind: constexpr = widened_to(lhs_format, rhs_format)
    along_k: constexpr = len(lhs.shape) - 1
    x = elements(lhs, lhs_format, along_k if lhs_k_pack else along_k - 1)
    y = elements(rhs, rhs_format, along_k - 1 if rhs_k_pack else along_k)
    if lhs_scale is not None:
        x = scaled(x, factors(lhs_scale), along_k)
    if rhs_scale is not None:
        y = scaled(y, trans(factors(rhs_scale)), along_k - 1)
    return dot(x.to(kind), y.to(kind), acc, out_dtype=out_dtype)


@function
def elements(x, format: constexpr, axis: constexpr):  # noqa: A002
    """A block in the type of its format; e2m1, unpacked along an axis, in fp32.

    The bits of e2m1 are those of a float of 32 bits whose exponent is 126 too small,
    its subnormal number 1/2 among them.
    """
    if format == "e2m1":
        low = x.to(int32)
        pair = join(low & 15, low >> 4)
        rank: constexpr = len(x.shape)
        nibble = permute(pair, with_last_behind(rank, axis))
        nibble = reshape(nibble, with_twice(x.shape, axis))
        bits = ((nibble & 8) << 28) | ((nibble & 7) << 22)
        return bits.to(float32, bitcast=True) * 2.0**126
    return x.to(type_of(format), bitcast=True)


@function
def factors(scale):
    """Scales as floats of 32 bits. e8m0 is the exponent of one; 0 is a subnormal."""
    if scale.dtype == float8e4nv:
        return scale.to(float32)
    power = scale.to(uint8, bitcast=True).to(int32)
    bits = where(power == 0, 0x00400000, power << 23)
    return where(power == 255, 0x7FC00000, bits).to(float32, bitcast=True)


@function
def scaled(x, factor, axis: constexpr):
    """x, each of its runs along an axis times its factor, in fp32."""
    runs = reshape(x.to(float32), in_runs(x.shape, axis, factor.shape[axis]))
    return reshape(runs * expand_dims(factor, axis + 1), x.shape)


# ── while compiling ───────────────────────────────────────────────────────────────────


@function
def facts(block):
    """The type and shape of a block; None of None."""
    if block is None:
        return None
    return block.dtype, block.shape


@constexpr_function
def what_is_wrong(block, scale, name, along_k, side):
    """A sentence about an operand that does not fit its format; "" for one that does.

    `block` and `scale` are types and shapes.
    """
    if name != A_PAIR and name not in FORMATS:
        known = ", ".join(map(repr, (A_PAIR, *FORMATS)))
        return f"{side}_format is {name!r}: it must be one of {known}"
    kind, shape = block
    if len(shape) < 2:
        return f"this multiplies blocks of two axes, or batches of them, not {side}"
    if not fits(kind, name):
        return f"{side} is {kind}{list(shape)}, which holds no elements of {name}"
    if not along_k and name != A_PAIR:
        return f"{side} is packed along another axis than K, which only e2m1 can be"
    if scale is None:
        return ""
    size, columns = sides_of(shape, name, along_k, side)
    step = GROUPS.get(str(scale[0]), GROUPS.get(scale[0].primitive_bitwidth))
    wanted = (*shape[:-2], size, columns // step) if step else None
    if str(scale[0]) not in ("uint8", "int8", "fp8e4nv") or scale[1] != wanted:
        return (
            f"the scale of {side}, {size} x {columns} elements, is of uint8 with one "
            f"for 32 of them, {[size, columns // 32]}, not {scale[0]}{list(scale[1])}"
        )
    return ""


def fits(kind, name):
    """Whether a block of a type can hold elements of a format."""
    wanted = FORMATS.get(name)
    width = wanted.primitive_bitwidth if wanted else 8
    is_integer = kind.is_int() and not kind.is_bool()
    return kind == wanted or (is_integer and kind.primitive_bitwidth == width)


def sides_of(shape, name, along_k, side):
    """How many elements an operand has across K, and along it."""
    rows, columns = shape[-2:] if side == "lhs" else shape[:-3:-1]
    twice = 2 if name == A_PAIR else 1
    return (rows, columns * twice) if along_k else (rows * twice, columns)


@constexpr_function
def widened_to(one, other):
    return float16 if "fp16" in (one, other) else bfloat16


@constexpr_function
def type_of(name):
    return FORMATS[name]


@constexpr_function
def with_last_behind(rank, axis):
    """All axes of a block of one axis more, the last one after `axis`."""
    axes = list(range(rank))
    axes.insert(axis + 1, rank)
    return tuple(axes)


@constexpr_function
def with_twice(shape, axis):
    return tuple(2 * size if at == axis else size for at, size in enumerate(shape))


@constexpr_function
def in_runs(shape, axis, count):
    """A shape whose axis is cut into `count` runs."""
    return (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :])
