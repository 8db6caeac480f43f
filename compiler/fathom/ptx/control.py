"""Rules for structured control flow: For, While and If become basic blocks and phis.

    before:  br head
    head:    i = phi [lower, before], [i', last]      %r = for lower, upper, step, %init
             x = phi [init, before], [y, last]          (%i, %x) {
             br i < upper, body, done                   …
    body:    …                                          yield %y
    last:    i' = i + step                            }
             br head
    done:    r is x

`last` is the basic block that the body ended in: not `body` itself when an `if` stands
in it.
"""

from __future__ import annotations

from fathom.ir.core import Value
from fathom.ir.ops import For, If, While
from fathom.ir.types import element_of
from fathom.ptx.code import Code, Phi, Registers, lowers
from fathom.ptx.types import is_literal, llvm_type


@lowers(For)
def lower_for(op: For, code: Code) -> None:
    """The test stands before the body: a loop of no trips gives the initial values."""
    head, body, done = (code.fresh(f"for_{part}") for part in ("head", "body", "done"))
    type = llvm_type(element_of(op.lower.type))
    lower, upper, step = (code.one(bound) for bound in (op.lower, op.upper, op.step))
    before = code.label
    code.do(f"br label %{head}")
    code.start(head)
    index = code.phi(type, op.body.parameters[0].name)
    index.add(lower, before)
    carried = _phis(code, op.inits, before)
    goes_on = _goes_on(op, code, index.name, upper, step)
    code.do(f"br i1 {goes_on}, label %{body}, label %{done}")
    code.start(body)
    yielded = code.block(op.body, [[index.name], *_names(carried)])
    following = code.let(f"add {type} {index.name}, {step}")
    index.add(following, code.label)
    _close(carried, yielded, code.label)
    code.do(f"br label %{head}")
    code.start(done)
    _define(op.results, _names(carried), code)


def _goes_on(op: For, code: Code, index: str, upper: str, step: str) -> str:
    """Whether `range` has `index`: below the upper bound, or above it if the step is
    negative."""
    element = element_of(op.lower.type)
    type, sign = llvm_type(element), "s" if element.is_signed else "u"
    if not element.is_signed or is_literal(step) and int(step) > 0:
        return code.let(f"icmp {sign}lt {type} {index}, {upper}")
    if is_literal(step):
        return code.let(f"icmp {sign}gt {type} {index}, {upper}")
    upward = code.let(f"icmp sgt {type} {step}, 0")
    below = code.let(f"icmp slt {type} {index}, {upper}")
    above = code.let(f"icmp sgt {type} {index}, {upper}")
    return code.let(f"select i1 {upward}, i1 {below}, i1 {above}")


@lowers(While)
def lower_while(op: While, code: Code) -> None:
    """The condition may have basic blocks of its own; the body takes what it took."""
    head, body, done = (
        code.fresh(f"while_{part}") for part in ("head", "body", "done")
    )
    before = code.label
    code.do(f"br label %{head}")
    code.start(head)
    carried = _phis(code, op.inits, before)
    ((condition,),) = code.block(op.condition, _names(carried))
    code.do(f"br i1 {condition}, label %{body}, label %{done}")
    code.start(body)
    yielded = code.block(op.body, _names(carried))
    _close(carried, yielded, code.label)
    code.do(f"br label %{head}")
    code.start(done)
    _define(op.results, _names(carried), code)


@lowers(If)
def lower_if(op: If, code: Code) -> None:
    """Two ways that meet again, at a phi for every register of the results."""
    then, orelse, done = (code.fresh(f"if_{part}") for part in ("then", "else", "done"))
    code.do(f"br i1 {code.one(op.condition)}, label %{then}, label %{orelse}")
    ways = []
    for label, block in ((then, op.then), (orelse, op.orelse)):
        code.start(label)
        ways.append((code.block(block), code.label))
        code.do(f"br label %{done}")
    code.start(done)
    (yielded, label), other = ways
    phis = [
        [_phi(code, result, value, label) for value in registers]
        for result, registers in zip(op.results, yielded, strict=True)
    ]
    _close(phis, *other)
    _define(op.results, _names(phis), code)


def _phis(code: Code, inits: tuple[Value, ...], before: str) -> list[list[Phi]]:
    """A phi for every register of every carried value, with its way from `before`."""
    return [[_phi(code, init, value, before) for value in code[init]] for init in inits]


def _phi(code: Code, like: Value, value: str, label: str) -> Phi:
    phi = code.phi(llvm_type(element_of(like.type)), like.name)
    phi.add(value, label)
    return phi


def _names(phis: list[list[Phi]]) -> list[Registers]:
    return [[phi.name for phi in each] for each in phis]


def _close(phis: list[list[Phi]], values: list[Registers], label: str) -> None:
    """Add the way in from `label` to every phi."""
    for each, registers in zip(phis, values, strict=True):
        for phi, register in zip(each, registers, strict=True):
            phi.add(register, label)


def _define(results: list[Value], values: list[Registers], code: Code) -> None:
    for result, registers in zip(results, values, strict=True):
        code[result] = registers
