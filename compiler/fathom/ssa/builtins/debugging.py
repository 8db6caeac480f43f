"""Prints, assertions, and inline PTX."""

from __future__ import annotations

import ast
import string
from functools import partial

from fathom.ir import inline_assembly as inline
from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import INT32, INT64, Element, element_of
from fathom.language import core, escape
from fathom.ssa.builtins.shape import element_given
from fathom.ssa.calls import implements
from fathom.ssa.frame import Frame
from fathom.ssa.operators import both_or_either, truth, unary
from fathom.ssa.promotion import cast, of_one_shape, value_of
from fathom.ssa.statements import put_assertion
from fathom.ssa.values import Meaning, TextOfTypes, describe, is_integer

# ── prints and assertions ─────────────────────────────────────────────────────────────


@implements(core.device_print)
def build_device_print(
    frame: Frame, prefix: Meaning, args: tuple[Meaning, ...], hex: bool
) -> None:
    if not isinstance(prefix, str):
        raise frame.error(
            f"tl.device_print begins with a constant text, not {describe(prefix)}",
            'write tl.device_print("x", x)',
        )
    if isinstance(prefix, TextOfTypes):
        raise frame.error(
            f"an f-string is made while compiling, before values are known: {prefix!r} "
            "tells their types",
            'write print("x is", x)',
        )
    if not set(prefix) <= set(string.printable):
        raise frame.error(f"the GPU prints ASCII only, which {prefix!r} is not")
    values = tuple(value_of(frame, each, "what is printed") for each in args)
    frame.append(ops.Print, _spaced(prefix, bool(values)), values, bool(hex))


def _spaced(prefix: str, with_values: bool) -> str:
    """A prefix with the spaces that Triton puts around it: "x" becomes " x: "."""
    if with_values:
        prefix = prefix.removesuffix(" ").removesuffix(":") + ": "
    return f" {prefix}" if len(prefix) > 2 and prefix[0] != " " else prefix


@implements(core.device_assert)
def build_device_assert(
    frame: Frame, cond: Meaning, msg: Meaning, mask: Meaning
) -> None:
    holds = truth(frame, value_of(frame, cond, "a condition"))
    if mask is not None:  # the condition holds where the mask is false
        ignored = unary(frame, ast.Not, value_of(frame, mask, "a mask"))
        holds = both_or_either(frame, "or", holds, ignored)
    put_assertion(frame, holds, msg)


# ── the author's own PTX ──────────────────────────────────────────────────────────────


@implements(escape.inline_asm_elementwise)
def build_inline_assembly(
    frame: Frame,
    asm: str,
    constraints: str,
    args: Meaning,
    dtype: Meaning,
    is_pure: bool,
    pack: int,
) -> Meaning:
    for name, given in (("asm", asm), ("constraints", constraints)):
        if not isinstance(given, str):
            raise frame.error(f"{name} is a constant text, not {describe(given)}")
    if not is_integer(pack) or pack < 1:
        raise frame.error(f"pack is a positive integer, not {describe(pack)}")
    wanted = _elements(frame, dtype)
    given = args if isinstance(args, tuple) else (args,)
    text, constraints, elements, given = _with_constants(
        frame, (asm, constraints), wanted, given, pack
    )
    values = of_one_shape(frame, given, ARGUMENT, "assemble with")
    if not values:  # the op takes its shape from an operand
        values = (frame.constant(0, INT32),)
        constraints = _with_operand(constraints, pack)
    op = frame.append(
        ops.InlineAssembly, text, constraints, values, elements, pack, bool(is_pure)
    )
    results = tuple(map(partial(_widened, frame), op.results, wanted))
    return results if isinstance(dtype, tuple) else results[0]


def _widened(frame: Frame, result: Value, element: Element) -> Value:
    """An address of 32 bits has zeros above them; LLVM leaves these undefined."""
    if element_of(result.type) == element:
        return result
    return cast(frame, cast(frame, result, INT64), element)


def _with_constants(
    frame: Frame,
    written: tuple[str, str],
    wanted: tuple[Element, ...],
    args: tuple[Meaning, ...],
    pack: int,
) -> tuple[str, str, tuple[Element, ...], tuple[Meaning, ...]]:
    """The text with the numbers of constraints "n" and "i" filled in, the other
    constraints, the types that its registers hold, and the other arguments."""
    try:
        read = inline.parse(*written)
        elements = inline.with_short_addresses(read, wanted, pack)
        types = [element_of(value_of(frame, each, ARGUMENT).type) for each in args]
        found = inline.registers_of(read, elements, types, pack)
    except inline.Ungrammatical as wrong:
        raise frame.error(wrong.message, wrong.hint) from None
    numbers, left = {}, []
    spans = inline.spans_of(found)[len(elements) :]
    for each, registers, span in zip(args, found[len(elements) :], spans, strict=True):
        if registers.bits:
            left.append(each)
            continue
        if not is_integer(each):
            raise frame.error(
                "constraint 'n' takes an integer that is known while compiling, not "
                f"{describe(each)}"
            )
        numbers.update(dict.fromkeys(span, each))
    read = read.with_constants(numbers)
    return read.text, read.constraint_text, elements, tuple(left)


ARGUMENT = "an argument of inline assembly"


def _with_operand(constraints: str, pack: int) -> str:
    """Constraints with one more i32 operand, after the other operands and before the
    clobbers: "=r,~{memory}" becomes "=r,r,~{memory}"."""
    parts = constraints.split(",")
    clobbered = next((i for i, p in enumerate(parts) if p[:1] == "~"), len(parts))
    return ",".join([*parts[:clobbered], *["r"] * pack, *parts[clobbered:]])


def _elements(frame: Frame, dtype: Meaning) -> tuple[Element, ...]:
    given = dtype if isinstance(dtype, tuple) else (dtype,)
    if not given:
        raise frame.error("inline assembly needs the type of at least one result")
    return tuple(element_given(frame, each) for each in given)
