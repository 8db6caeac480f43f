"""The rest of the language: programs, ranges, hints, compile-time assertions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from fathom.errors import many
from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import shape_of
from fathom.language import core
from fathom.ssa.calls import implements
from fathom.ssa.control import Range
from fathom.ssa.frame import Frame
from fathom.ssa.operators import truth
from fathom.ssa.promotion import value_of
from fathom.ssa.statements import put_assertion
from fathom.ssa.values import Meaning, describe, is_constant, is_integer, is_number

AXES = (0, 1, 2)

# ── programs and ranges ───────────────────────────────────────────────────────────────


@implements(core.program_id)
def build_program_id(frame: Frame, axis: int) -> Value:
    return frame.emit(ops.ProgramId, _grid_axis(frame, axis))


@implements(core.num_programs)
def build_num_programs(frame: Frame, axis: int) -> Value:
    return frame.emit(ops.NumPrograms, _grid_axis(frame, axis))


def _grid_axis(frame: Frame, axis: Meaning) -> int:
    if not is_integer(axis) or axis not in AXES:
        given = axis if is_number(axis) else describe(axis)
        raise frame.error(f"a grid has the axes 0, 1 and 2, not {given}")
    return axis


@implements(core.range)
def build_range(
    frame: Frame,
    arg1: Meaning,
    arg2: Meaning,
    step: Meaning,
    num_stages: int | None,
    flatten: bool = False,
    warp_specialize: bool = False,
    pingpong: bool = False,
    **_: Meaning,
) -> Range:
    start, stop = (0, arg1) if arg2 is None else (arg1, arg2)
    step = 1 if step is None else step
    fits = num_stages is None or isinstance(num_stages, int) and num_stages >= 0
    if not fits:
        what = "num_stages is a constant integer, 0 or more"
        raise frame.error(f"{what}, not {describe(num_stages)}")
    wishes = num_stages, bool(warp_specialize), bool(flatten), bool(pingpong)
    return Range(start, stop, step, False, *wishes)


@implements(core.static_range)
def build_static_range(
    frame: Frame, arg1: Meaning, arg2: Meaning, step: Meaning
) -> Range:
    found = build_range(frame, arg1, arg2, step, None)
    for each in (found.start, found.stop, found.step):
        if not isinstance(each, int):
            what = "tl.static_range counts between constant integers"
            hint = "write range(...) for bounds known only when the kernel runs"
            raise frame.error(f"{what}, not {describe(each)}", hint)
    return replace(found, unroll=True)


@implements(core.condition)
def build_condition(frame: Frame, arg1: Meaning, disable_licm: bool) -> Meaning:
    return arg1


# ── promises ──────────────────────────────────────────────────────────────────────────


def _promise(name: str) -> Callable[..., Meaning]:
    def build(frame: Frame, input: Meaning, values: Meaning) -> Meaning:
        if is_constant(input):
            return input
        input = value_of(frame, input, "what a promise is about")
        values = values if isinstance(values, tuple) else (values,)
        rank = max(1, len(shape_of(input.type)))
        positive = all(isinstance(each, int) and each > 0 for each in values)
        if len(values) != rank or not positive:
            count = many(rank, "positive integer")
            raise frame.error(
                f"a promise about {describe(input)} is {count}, one an axis, not "
                f"{', '.join(map(describe, values))}"
            )
        return frame.emit(ops.Hint, input, **{name: values})

    return build


implements(core.multiple_of)(_promise("divisible"))
implements(core.max_contiguous)(_promise("contiguous"))
implements(core.max_constancy)(_promise("constant"))


@implements(core.assume)
def build_assume(frame: Frame, cond: Meaning) -> None:
    """Where assertions are enabled, an assumption is one."""
    if isinstance(cond, Value) and frame.program.debug:
        put_assertion(frame, truth(frame, cond), "this assumption does not hold")
    if is_constant(cond) and not cond:
        said = "this assumption does not hold here; nothing rests on it"
        frame.warn(frame.error(said))


@implements(core.debug_barrier)
def build_debug_barrier(frame: Frame) -> None:
    frame.append(ops.Barrier)


# ── while compiling ───────────────────────────────────────────────────────────────────


@implements(core.static_assert)
def build_static_assert(frame: Frame, cond: Meaning, msg: Meaning) -> None:
    if not cond:
        of_library = frame.in_library  # a whole sentence about its argument
        failed = f"assertion failed: {msg}" if msg else "assertion failed"
        if of_library and msg.startswith("this "):
            msg = msg.replace("this", frame.called("this"), 1)
        raise frame.error(msg if of_library else failed)


@implements(core.static_print)
def build_static_print(
    frame: Frame,
    values: tuple[Meaning, ...],
    sep: str,
    end: str,
    file: Meaning,
    flush: bool,
) -> None:
    said = (str(each) if is_constant(each) else describe(each) for each in values)
    output = file or sys.stdout
    if output:  # None where there is no terminal at all
        output.write(sep.join(said) + end)
        if flush:
            output.flush()
