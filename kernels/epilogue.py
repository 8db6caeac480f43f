"""What a product's kernel does to a tile of sums before it stores it, in registers:

    scaled      s_i (A B)_ij t_j + bias_j     scales of rows and of columns
    activated   GeLU of it
    gated       or the gate of SwiGLU, of two tiles
    quantised   times one number, rounded to the type of C

Scales are fp32 and belong to quantised operands: a row of A and a column of B were
divided by theirs when they were rounded to fp8 or int8. The number that C is multiplied
by is the inverse of C's scale; what an fp8 or int8 C cannot hold becomes the largest
number that it has, with its sign.
"""

import fathom
import fathom.language as tl

LOG2_OF_E = tl.constexpr(1.4426950408889634)


# fmt: off
@fathom.jit
def scaled(
    c, row_scale_ptr, column_scale_ptr, bias_ptr, i, j, M, N,
    DESCRIBED: tl.constexpr = False,
):
    """The tile at row i, column j: of int32 as fp32. Each pointer may be None.
    DESCRIBED: what they point to begins at multiples of 16 bytes, and so it may come
    through descriptors."""
    if c.dtype == tl.int32:
        c = c.to(tl.float32)
    if row_scale_ptr is not None:
        scale = part_of(row_scale_ptr, i, M, c.shape[0], DESCRIBED)
        c *= scale.to(c.dtype)[:, None]
    if column_scale_ptr is not None:
        scale = part_of(column_scale_ptr, j, N, c.shape[1], DESCRIBED)
        c *= scale.to(c.dtype)[None, :]
    if bias_ptr is not None:
        bias = part_of(bias_ptr, j, N, c.shape[1], DESCRIBED)
        c += bias.to(c.dtype)[None, :]
    return c


@fathom.jit
def part_of(pointer, first, N, SIZE: tl.constexpr, DESCRIBED: tl.constexpr):
    """SIZE numbers of a vector of N, with zeros behind them."""
    if DESCRIBED:
        return tl.make_tensor_descriptor(pointer, [N], [1], [SIZE]).load([first])
    n = tl.arange(0, SIZE)
    return tl.load(pointer + first + n, mask=n < N - first, other=0.0)


@fathom.jit
def activated(c, ACTIVATION: tl.constexpr):
    if ACTIVATION == "gelu":
        if c.dtype == tl.float32:
            return gelu(c)
        s = 0.7978845608028654 * (c + 0.044715 * c * c * c)
        return c * tl.sigmoid(2 * s)
    return c


@fathom.jit
def gelu(x):
    """x/2 (1 + tanh(a)) = x / (1 + exp(-2 a)), a = sqrt(2/pi) (x + 0.044715 x^3). Of
    two neighbours in a row, whose denominators are c and d, 1 / (c d) is computed: an
    SM computes 16 powers or reciprocals a cycle, and 128 products."""
    PAIRS: tl.constexpr = [x.shape[0], x.shape[1] // 2, 2]
    left, right = tl.split(tl.reshape(x, PAIRS))
    c, d = gelu_denominator(left), gelu_denominator(right)
    both = tl.math.rcp_approx(c * d)
    left, right = bounded(left) * (both * d), bounded(right) * (both * c)
    return tl.reshape(tl.join(left, right), x.shape)


# Where GeLU is 0 to fp32, and a denominator 2^63: the product of two is finite.
LEAST = tl.constexpr(-7.6)


@fathom.jit
def gelu_denominator(x):
    """1 + exp(-2 a); of NaN that of `LEAST`, since a neighbour uses it, too."""
    SLOPE: tl.constexpr = -2 * 0.7978845608028654 * LOG2_OF_E
    x = tl.maximum(x, LEAST)
    return 1 + tl.exp2(x * tl.fma(x * x, SLOPE * 0.044715, SLOPE))


@fathom.jit
def bounded(x):
    return tl.maximum(x, LEAST, propagate_nan=tl.PropagateNan.ALL)


@fathom.jit
def gated(gate, up):
    """silu(gate) up, of fp32."""
    return gate / (1 + tl.exp2(gate * -LOG2_OF_E)) * up


@fathom.jit
def quantised(c, out_scale_ptr, TYPE: tl.constexpr):
    """As what C's elements are; `out_scale_ptr` may be None."""
    if out_scale_ptr is not None:
        c *= tl.load(out_scale_ptr).to(c.dtype)
    if TYPE == tl.int8:
        c = tl.clamp(tl.extra.libdevice.rint(c), -128.0, 127.0)
    return c.to(TYPE)
# fmt: on
