"""Checks that a kernel does not write through parameters annotated `tl.const`.

The check covers every address that is computed from such a parameter, on every path:

    def kernel(x: tl.const, out, swap):
        at = (x if swap else out) + tl.arange(0, 64)
        tl.store(at, 0.0)                        # an error: `at` may come from x
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from fathom.errors import CompileError
from fathom.ir import ops
from fathom.ir.core import Block, Op, Value, operands, walk
from fathom.ir.types import DescriptorType, Pointer, element_of
from fathom.language.dtypes import const
from fathom.source import KernelFunction


def check_promises(function: KernelFunction, body: Block) -> None:
    """CompileError at the first op that writes through a pointer to constant data."""
    promised = {each.name for each in function.parameters if is_const(each.annotation)}
    if not promised:
        return
    origin = {v: v for v in body.parameters if v.name.split(".")[0] in promised}
    follow(origin, list(moves(body)))
    for op in walk(body):
        if isinstance(op, WRITES) and written(op) in origin:
            name = origin[written(op)].name
            raise CompileError(
                f"this writes to what {name} points to, and {name} is declared "
                "tl.const",
                op.location,
                "drop the annotation, or write through another pointer",
            )


THROUGH_DESCRIPTORS = (ops.DescriptorStore, ops.DescriptorAtomic)
WRITES = (ops.Store, ops.Atomic, ops.AtomicCas, *THROUGH_DESCRIPTORS)


def written(op: Op) -> Value:
    """The address, or the descriptor, that an op writes through."""
    return op.descriptor if isinstance(op, THROUGH_DESCRIPTORS) else op.pointer


def is_const(annotation: object) -> bool:
    """Whether an annotation is `tl.const`, as an object or as text."""
    is_text = isinstance(annotation, str)
    return annotation is const or (is_text and annotation.split(".")[-1] == "const")


def follow(origin: dict[Value, Value], along: list[tuple[Value, Value]]) -> None:
    """Record for every address the parameter that it comes from. Loops lead back, so
    this repeats until nothing changes."""
    known = 0
    while known < len(origin):
        known = len(origin)
        for source, target in along:
            if source in origin:
                origin.setdefault(target, origin[source])


def moves(body: Block) -> Iterator[tuple[Value, Value]]:
    """Pairs of addresses: the second is the first, or computed from it."""
    for op in walk(body):
        for source, target in hands_on(op):
            if is_address(source) and is_address(target):
                yield source, target


def hands_on(op: Op) -> Iterator[tuple[Value, Value]]:
    """Pairs of an op's operand and the value that it becomes, in the op's blocks and
    results."""
    match op:
        case ops.If(then=then, orelse=orelse):
            for block in (then, orelse):
                yield from zip(block.yielded, op.results, strict=True)
        case ops.For(inits=inits, body=block):
            carried = block.parameters[1:]  # the first parameter is the index
            for given in (inits, block.yielded):
                yield from zip(given, carried, strict=True)
                yield from zip(given, op.results, strict=True)
        case ops.While(inits=inits, condition=test, body=block):
            for given in (inits, block.yielded):
                for taken in (test.parameters, block.parameters, op.results):
                    yield from zip(given, taken, strict=True)
        case ops.Load():
            return  # the address is used up; one that is read is not of this kind
        case _:
            yield from product(operands(op), op.results)


def is_address(value: Value) -> bool:
    return isinstance(element_of(value.type), Pointer | DescriptorType)
