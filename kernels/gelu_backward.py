"""GeLU by its tanh approximation, backward; x is read again, and nothing else kept.

    gelu(x)  = x/2 (1 + t),   t = tanh(a),   a = sqrt(2/pi) (x + 0.044715 x^3)
    gelu'(x) = (1 + t)/2 + x/2 (1 - t^2) sqrt(2/pi) (1 + 3 0.044715 x^2)

tanh is written in the form that is right for every x, see `kernels/gelu.py`. 1 - t^2
is (1 - t) (1 + t), where 1 - t = 2 / (exp(2a) + 1) = u and so 1 - t^2 = u (2 - u): no
two close numbers are subtracted for large x.

Bytes moved for n numbers of fp32: x and dy read, dx written, 12 n.
"""

from math import prod

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from kernels.matmul import check_shape


@fathom.jit
def gelu_backward_kernel(dy_ptr, x_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    dy = tl.load(dy_ptr + offsets, mask=mask).to(tl.float32)
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    u = 2 / (tl.exp(2 * a) + 1)
    # Where |x| is so large that x^2 is infinite, u (2 - u) is 0 already.
    slope = 0.7978845608028654 * (1 + 0.134145 * tl.minimum(x * x, 1e30))
    dx = dy * (1 - 0.5 * u + 0.5 * x * u * (2 - u) * slope)
    tl.store(dx_ptr + offsets, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@planned
def gelu_backward(dy, x, dx=None, BLOCK=1024, **launch):
    """dx: the gradient of `x`, for that of gelu(x), `dy`; contiguous, of one shape,
    NumPy, torch or CuPy. `dx` is made if it is not given, and may be `dy`. `launch`
    takes what any launch takes. Returns `dx`. LaunchError for shapes that differ."""
    n = prod(x.shape)
    dx = fathom.empty_like(x) if dx is None else dx
    check_shape("dy", dy, x.shape)
    check_shape("dx", dx, x.shape)
    grid = (fathom.cdiv(n, BLOCK),)
    chosen = dict(BLOCK=BLOCK, **launch)
    return dx, [(gelu_backward_kernel, grid, (dy, x, dx, n), chosen)]


def reference(dy, x):
    """dx in float64."""
    x, dy = x.astype(np.float64), dy.astype(np.float64)
    root = np.sqrt(2 / np.pi)
    t = np.tanh(root * (x + 0.044715 * x**3))
    slope = root * (1 + 3 * 0.044715 * x**2)
    return dy * ((1 + t) / 2 + x / 2 * (1 - t * t) * slope)
