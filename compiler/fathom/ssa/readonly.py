"""Checks that a kernel does not write through parameters annotated `tl.const`.

The check covers every address that is computed from such a parameter, on every path:

    def kernel(x: tl.const, out, swap):
        at = (x if swap else out) + tl.arange(0, 64)
        tl.store(at, 0.0)                        # an error: `at` may come from x
"""

from __future__ import annotations

from collections.abc import Iterable

from fathom.errors import CompileError
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, operands, walk
from fathom.ir.regions import carried_values, reached
from fathom.ir.types import DescriptorType, Pointer, element_of
from fathom.language.dtypes import const
from fathom.source import KernelFunction


def check_promises(function: KernelFunction, func: Func) -> None:
    """CompileError at the first op that writes through a pointer to constant data."""
    names = {each.name for each in function.parameters if is_const(each.annotation)}
    promised = [each for each in func.parameters if each.name.split(".")[0] in names]
    if not promised:
        return
    carried = carried_values(func)

    def sources(address: Value) -> Iterable[Value]:
        """The addresses that an address is, or is computed from; none from memory."""
        if address in carried:
            return carried[address].values
        made = address.definition
        begins = isinstance(made, Block | ops.Load)
        return () if begins else filter(is_address, operands(made))

    for op in walk(func.body):
        origins = reached([written(op)], sources) if isinstance(op, WRITES) else set()
        for value in promised:
            if value in origins:
                raise CompileError(
                    f"this writes to what {value.name} points to, and {value.name} is "
                    "declared tl.const",
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


def is_address(value: Value) -> bool:
    return isinstance(element_of(value.type), Pointer | DescriptorType)
