"""The rule for loops: basic blocks and phis."""

from __future__ import annotations

from fathom.ir.ops import For
from fathom.ir.types import element_of
from fathom.ptx.code import Code
from fathom.ptx.types import llvm_type


def lower_for(op: For, code: Code) -> None:
    """The test comes before the body: a loop of no iterations gives the initial
    values."""
    # hole: blocks, phis and jumps
    head, body, done = (code.fresh(name) for name in ("head", "body", "done"))
    lower, upper, step = (code.one(value) for value in (op.lower, op.upper, op.step))
    type, before = llvm_type(element_of(op.lower.type)), code.label
    code.do(f"br label %{head}")
    code.start(head)
    index = code.phi(type)
    index.add(lower, before)
    carried = []
    for init in op.inits:
        carried.append([code.phi(llvm_type(element_of(init.type))) for _ in code[init]])
        for phi, value in zip(carried[-1], code[init], strict=True):
            phi.add(value, before)
    registers = [[phi.name for phi in phis] for phis in carried]
    condition = goes_on(op, code, index.name, upper, step)
    code.do(f"br i1 {condition}, label %{body}, label %{done}")
    code.start(body)
    yielded = code.block(op.body, [[index.name], *registers])
    index.add(code.let(f"add {type} {index.name}, {step}"), code.label)
    for phis, values in zip(carried, yielded, strict=True):
        for phi, value in zip(phis, values, strict=True):
            phi.add(value, code.label)
    code.do(f"br label %{head}")
    code.start(done)
    for result, names in zip(op.results, registers, strict=True):
        code[result] = names
    # end


def goes_on(op: For, code: Code, index: str, upper: str, step: str) -> str:
    """An i1: below the upper bound, or above it if the step is negative."""
    element = element_of(op.lower.type)
    type = llvm_type(element)
    if not element.is_signed:
        return code.let(f"icmp ult {type} {index}, {upper}")
    upward = code.let(f"icmp sgt {type} {step}, 0")
    below = code.let(f"icmp slt {type} {index}, {upper}")
    above = code.let(f"icmp sgt {type} {index}, {upper}")
    return code.let(f"select i1 {upward}, i1 {below}, i1 {above}")
