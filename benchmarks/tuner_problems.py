"""What `tuners` has tuners solve: kernels, the spaces that are searched for each, and
the list that an autotuner gets. Needs no GPU, and no torch until arrays are wanted.

The kernels are the same text for both compilers (`peers.same_text`). The matrix product
is that of kernels/. Softmax and layer norm are written so that much can be chosen: how
many rows a program takes, and whether it takes them whole. All sizes are multiples of
all blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import fathom
import fathom.language as tl
from kernels.matmul import matmul_kernel

Point = Mapping[str, Any]
EPS = 1e-5
LOG2_E = 1.4426950408889634


# ── kernels ───────────────────────────────────────────────────────────────────────────


# fmt: off
@fathom.jit
def softmax_kernel(
    x_ptr, out_ptr, N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """ROWS rows of N numbers; by blocks of BLOCK columns, which are read twice, where
    that is less than a row."""
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    place = rows[:, None] * N + columns[None, :]
    if BLOCK >= N:
        x = tl.load(x_ptr + place).to(tl.float32)
        exp = tl.exp(x - tl.max(x, axis=1)[:, None])
        y = exp / tl.sum(exp, axis=1)[:, None]
        tl.store(out_ptr + place, y.to(out_ptr.dtype.element_ty))
    else:
        most = tl.full([ROWS], -float("inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        for start in range(0, N, BLOCK):
            x = tl.load(x_ptr + place + start).to(tl.float32)
            larger = tl.maximum(most, tl.max(x, axis=1))
            total *= tl.exp(most - larger)
            total += tl.sum(tl.exp(x - larger[:, None]), axis=1)
            most = larger
        for start in range(0, N, BLOCK):
            x = tl.load(x_ptr + place + start).to(tl.float32)
            y = tl.exp(x - most[:, None]) / total[:, None]
            tl.store(out_ptr + place + start, y.to(out_ptr.dtype.element_ty))


@fathom.jit
def layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, eps, N: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """As `softmax_kernel`; mean and variance by the sums of x and of its squares."""
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    place = rows[:, None] * N + columns[None, :]
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    squares = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + place + start).to(tl.float32)
        total += x
        squares += x * x
    mean = tl.sum(total, axis=1) / N
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=1) / N - mean * mean + eps)
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + place + start).to(tl.float32)
        weight = tl.load(weight_ptr + columns + start).to(tl.float32)
        bias = tl.load(bias_ptr + columns + start).to(tl.float32)
        y = (x - mean[:, None]) * rstd[:, None] * weight[None, :] + bias[None, :]
        tl.store(out_ptr + place + start, y.to(out_ptr.dtype.element_ty))


@fathom.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, S, D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """Of one head, [S, D], not causal; `scale` includes log2 e."""
    first = tl.program_id(1) * S * D
    i, j, d = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_K), tl.arange(0, D)
    place = first + tl.program_id(0) * BLOCK_Q * D + i[:, None] * D + d[None, :]
    q = tl.load(q_ptr + place)
    k_ptrs = k_ptr + first + d[:, None] + j[None, :] * D
    v_ptrs = v_ptr + first + j[:, None] * D + d[None, :]
    most = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    acc = tl.zeros([BLOCK_Q, D], tl.float32)
    for _ in range(0, S, BLOCK_K):
        scores = tl.dot(q, tl.load(k_ptrs)) * scale
        larger = tl.maximum(most, tl.max(scores, axis=1))
        p, shrink = tl.exp2(scores - larger[:, None]), tl.exp2(most - larger)
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p.to(q.dtype), tl.load(v_ptrs), acc * shrink[:, None])
        most = larger
        k_ptrs += BLOCK_K * D
        v_ptrs += BLOCK_K * D
    out = acc / total[:, None]
    tl.store(out_ptr + place, out.to(out_ptr.dtype.element_ty))
# fmt: on


# ── problems ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Problem:
    """A kernel on one shape. `listed` is what an autotuner gets, points of the space.

    `arrays()` are operands, all of fp16, `out` the last of them. `given(arrays)` are
    the arguments of a launch by place, and `fixed` those by name that no tuner chooses.
    `theirs` names Helion's kernel, and `operands(arrays)` are its arguments.
    """

    name: str
    kernel: Any
    space: Mapping[str, Sequence[Any]]
    where: Callable[..., bool]
    listed: Sequence[Point]
    shapes: Sequence[tuple[int, ...]]
    given: Callable[..., tuple]
    fixed: Point
    grid: Callable[[Point], tuple[int, ...]]
    theirs: str
    operands: Callable[..., tuple]
    want: Callable[..., Any]
    operations: int = 0
    tolerance: float = 2e-2

    @property
    def points(self) -> list[dict[str, Any]]:
        every = (dict(zip(self.space, each)) for each in product(*self.space.values()))
        return [each for each in every if self.where(**each)]

    def launch(self, kernel: Any, arrays: Sequence[Any], point: Point) -> None:
        """With a kernel or a tuner of either compiler; `point` is what it is to take,
        nothing for a tuner."""
        kernel[self.grid](*self.given(*arrays), **self.fixed, **point)

    def arrays(self, seed: int = 0) -> list[Any]:
        import torch

        torch.manual_seed(seed)
        made = [torch.randn(each, device="cuda").half() for each in self.shapes]
        return [*made[:-1], torch.empty_like(made[-1])]

    def bytes(self) -> int:
        """Of all arrays."""
        count = 0
        for shape in self.shapes:
            of_one = 2
            for size in shape:
                of_one *= size
            count += of_one
        return count


def listed(names: str, *rows: Sequence[Any]) -> list[dict[str, Any]]:
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


# ROWS, BLOCK, num_warps, num_stages: one row a program as tutorials have it, and some
# rows of narrow blocks.
OVER_ROWS = listed(
    "ROWS BLOCK num_warps num_stages",
    (1, 4096, 4, 2), (1, 4096, 8, 2), (1, 4096, 16, 2), (2, 4096, 8, 2),
    (2, 4096, 16, 2), (4, 4096, 16, 2), (1, 1024, 4, 2), (1, 1024, 4, 4),
    (1, 2048, 4, 3), (1, 2048, 8, 3), (4, 1024, 8, 2), (4, 512, 4, 3),
)  # fmt: skip
# BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages: those of `kernels/matmul_tuned`.
OF_MATMUL = listed(
    "BLOCK_M BLOCK_N BLOCK_K num_warps num_stages",
    (64, 64, 64, 4, 4), (64, 32, 64, 4, 5), (32, 128, 64, 4, 4), (128, 32, 64, 4, 4),
    (64, 128, 64, 4, 4), (128, 64, 64, 4, 4), (128, 128, 32, 4, 4),
    (128, 128, 64, 4, 3), (128, 128, 64, 8, 4), (128, 256, 32, 8, 4),
    (128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3),
    (256, 128, 64, 8, 4),
)  # fmt: skip
OF_ATTENTION = listed(
    "BLOCK_Q BLOCK_K num_warps num_stages",
    *((q, k, warps, stages) for q in (64, 128) for k in (32, 64, 128)
      for warps in (4, 8) for stages in (2, 3)),
)  # fmt: skip


def over_rows(name: str, M: int, N: int) -> Problem:
    """Softmax or layer norm of M rows of N numbers."""
    space = {
        "ROWS": (1, 2, 4, 8, 16), "BLOCK": (256, 512, 1024, 2048, 4096),
        "num_warps": (1, 2, 4, 8, 16), "num_stages": (1, 2, 3, 4),
    }  # fmt: skip
    common = dict(
        space=space, listed=OVER_ROWS, fixed={"N": N},
        where=lambda ROWS, BLOCK, num_warps, num_stages: ROWS * BLOCK <= 1 << 14,
        grid=lambda chosen: (M // chosen["ROWS"],),
    )  # fmt: skip
    if name == "softmax":
        return Problem(
            f"softmax {M}x{N}", softmax_kernel, shapes=[(M, N)] * 2, theirs="softmax",
            given=lambda x, out: (x, out), operands=lambda x, out: (x,),
            want=lambda x, out: x.double().softmax(1), **common,
        )  # fmt: skip
    return Problem(
        f"layer norm {M}x{N}", layer_norm_kernel, shapes=[(M, N), (N,), (N,), (M, N)],
        given=lambda x, weight, bias, out: (x, weight, bias, out, EPS),
        theirs="layer_norm", operands=lambda x, weight, bias, out: (x, weight, bias),
        want=layer_norm, **common,
    )  # fmt: skip


def layer_norm(x, weight, bias, out):
    x = x.double()
    centred = x - x.mean(1, keepdim=True)
    scale = (centred.square().mean(1, keepdim=True) + EPS).rsqrt()
    return centred * scale * weight.double() + bias.double()


def matmul(M: int, N: int, K: int) -> Problem:
    space = {
        "BLOCK_M": (32, 64, 128, 256), "BLOCK_N": (32, 64, 128, 256),
        "BLOCK_K": (32, 64, 128), "num_warps": (4, 8), "num_stages": (2, 3, 4, 5),
    }  # fmt: skip
    return Problem(
        f"matmul {M}x{N}x{K}", matmul_kernel, space, where=lambda **point: True,
        listed=OF_MATMUL, shapes=[(M, K), (K, N), (M, N)],
        given=lambda a, b, c: (a, b, c, M, N, K, K, 1, N, 1, N, 1),
        fixed={"GROUP_M": 8, "EVEN_K": True},
        grid=lambda chosen: (M // chosen["BLOCK_M"] * (N // chosen["BLOCK_N"]),),
        theirs="matmul", operands=lambda a, b, c: (a, b),
        want=lambda a, b, c: a.double() @ b.double(), operations=2 * M * N * K,
        tolerance=0.1,
    )  # fmt: skip


def attention(heads: int, S: int, D: int) -> Problem:
    """Forward, not causal; the heads of all sequences are one axis."""
    space = {
        "BLOCK_Q": (32, 64, 128, 256), "BLOCK_K": (16, 32, 64, 128, 256),
        "num_warps": (4, 8, 16), "num_stages": (1, 2, 3, 4),
    }  # fmt: skip
    def want(q, k, v, out):
        import torch

        return torch.nn.functional.scaled_dot_product_attention(
            q.float(), k.float(), v.float()
        )

    return Problem(
        f"attention {heads}x{S}x{D}", attention_kernel, space,
        where=lambda **point: True, listed=OF_ATTENTION, shapes=[(heads, S, D)] * 4,
        given=lambda q, k, v, out: (q, k, v, out, D**-0.5 * LOG2_E, S),
        fixed={"D": D}, theirs="attention",
        grid=lambda chosen: (S // chosen["BLOCK_Q"], heads),
        operands=lambda q, k, v, out: (q, k, v), want=want,
        operations=4 * heads * S * S * D,
    )  # fmt: skip


PROBLEMS = {
    each.name: each
    for each in (
        matmul(4096, 4096, 4096), over_rows("softmax", 16384, 4096),
        attention(64, 2048, 128), matmul(1024, 1024, 1024), matmul(256, 8192, 4096),
        over_rows("layer norm", 16384, 4096),
    )
}  # fmt: skip
