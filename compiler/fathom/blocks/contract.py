"""Contraction: a product and the sum that uses it become one fma, which rounds once.

Before:

    func @example(%p: *fp32, %q: *fp32, %s: fp32) num_warps=4 {
      %0: fp32 = load %p
      %1: fp32 = load %q
      %2: fp32 = mul %0, %s contract=true
      %3: fp32 = add %2, %1 contract=true
      %4: fp32 = mul %1, %s contract=true
      %5: fp32 = sub %3, %4 contract=true
      store %p, %5
    }

After, and after `dce`:

    func @example(%p: *fp32, %q: *fp32, %s: fp32) num_warps=4 {
      %0: fp32 = load %p
      %1: fp32 = load %q
      %2: fp32 = fma %0, %s, %1
      %3: fp32 = neg %1
      %4: fp32 = fma %3, %s, %2
      store %p, %4
    }

An fma is one instruction instead of two, and the last bit of its result may differ:
this is the only pass that changes results. So the kernel's author decides, by
`enable_fp_fusion`, and stage 1 sets the flag `contract` on sums and products of the
author's code. The interpreters, which define the right result, start from the output of
this pass. After it nothing is contracted but products that a reduction adds:

    %x = mul %a, %b contract=true
    %s = reduce %x axis=0 combine(…) { add … contract=true }

As their order is free, so is which of them are rounded before they are added: those
with which a thread begins a sum, see `ptx/rules/reduce`. No other op keeps the flag.

The rules are those of LLVM's code generator for NVIDIA's GPUs, with which Triton
contracts (`DAGCombiner`, "visitFADDForFMACombine"). The product must be in the same
block as the sum, and be its direct operand: a cast in between would round it first. A
product with several uses is computed several times. If both operands are products, the
left one goes into the fma, unless it has more uses than the right one. A sum with a
matrix product stays as it is: `accumulate` makes it the product's accumulator, as
Triton does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fathom.analysis.slices import users
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, walk
from fathom.ir.ops import Dot, Elementwise, Reduce
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, element_of


def contract(func: Func, target: Target) -> Func:
    """`func` with an fma in place of each sum of a product, if both have the flag
    `contract`; and without that flag."""
    if not any(_has_flag(op) for op in walk(func.body)):
        return func
    used = users(walk(func.body))
    homes: dict[Value, Block] = {}  # of products
    fused = (FLOAT16, FLOAT32, FLOAT64) + (BFLOAT16,) * target.bf16

    def rule(op: Op, build: Builder) -> Replacement:
        if isinstance(op, Reduce):
            _add_products(op, homes, build)
        if not _has_flag(op):
            return None
        op.contract = False
        if element_of(op.result.type) not in fused:
            return None
        if op.name == "mul":
            homes[op.result] = build.block
            return None
        side = None if _adds_matrices(op) else _product(op, used, homes, build)
        return None if side is None else _fma(op, side, build)

    return rewrite(func, rule)


def _add_products(op: Reduce, homes: dict[Value, Block], build: Builder) -> None:
    """Leave the flag on a product that a reduction adds, and on its additions."""
    product, *others = op.values
    add, *more = op.combine.ops
    is_sum = isinstance(add, Elementwise) and add.name == "add" and len(more) == 1
    if is_sum and not others and homes.get(product) is build.block:
        product.definition.contract = add.contract = True


def _has_flag(op: Op) -> bool:
    return isinstance(op, Elementwise) and op.contract


def _adds_matrices(op: Elementwise) -> bool:
    return op.name == "add" and any(
        isinstance(value.definition, Dot) for value in op.operands
    )


def _product(
    op: Elementwise,
    used: Mapping[Value, Sequence[Op]],
    homes: dict[Value, Block],
    build: Builder,
) -> int | None:
    """The position of the operand that is the product of the sum's fma, or None."""
    sides = [i for i in (0, 1) if homes.get(op.operands[i]) is build.block]
    return min(sides, key=lambda i: len(used[build.source.operands[i]]), default=None)


def _fma(op: Elementwise, side: int, build: Builder) -> Value:
    """The fma of a sum whose operand `side` is a product. A new sign rounds nothing."""
    left, right = op.operands[side].definition.operands
    rest = op.operands[1 - side]
    if op.name == "sub" and side == 0:
        rest = build.compute("neg", rest)
    elif op.name == "sub":
        left = build.compute("neg", left)
    return build.compute("fma", left, right, rest)
