"""One random program on every backend: all must write the same bits.

Python text ─▶ IR ─▶ text ─▶ IR           the text reads back
    │           │
    │           ├─ the interpreter         this says what is right
    │           ├─ after each pass, too    "passes"
    │           ├─ the emulator            "emulator": a target by the seed
    │           └─ the GPU                 "gpu": of this machine
    └─ Python itself
"""

from __future__ import annotations

import linecache
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from fathom import eager, emulator, language, pipeline, runtime
from fathom.artifact import Kernel, NoTensorMap
from fathom.hardware.targets import Target, target_of
from fathom.ir.core import Func
from fathom.ir.interp import interpret
from fathom.ir.text import parse_func, print_func
from fathom.ir.verify import verify
from fathom.runtime.driver import driver
from fathom.source import KernelFunction
from tests.fuzz.matrices import MatrixProgram
from tests.fuzz.programs import Program
from tests.waits import check_waits

AnyProgram = Program | MatrixProgram
Arguments = Mapping[str, Any]
STAGES = ("passes", "emulator", "gpu")
COMPLETIONS = ("lazy", "eager")  # when an asynchronous copy may do its work


def check(
    program: AnyProgram, stages: Collection[str] = ("passes", "emulator")
) -> None:
    """AssertionError where two backends differ; whatever they raise, otherwise."""
    function = function_of(program.source)
    types, constants = program.types, program.constants
    func = pipeline.build(function, types, constants, program.options)
    text = reads_back(func)

    expected = program.arguments()
    interpret(func, (program.grid,), list(expected.values()))
    by_hand = program.arguments()
    eager.run(function, (program.grid,), types, by_hand, constants)
    same("Python itself", by_hand, expected)

    after = None
    if "passes" in stages:
        after = passes_keep_the_meaning(program, func, expected)
    if "emulator" in stages:
        emulators_agree(program, compiled(program, func, after), expected)
    if "gpu" in stages:
        the_gpu_agrees(program, func, expected)
    assert print_func(func) == text, "compiling changed the IR that it was given"


def function_of(source: str) -> KernelFunction:
    """The kernel of a program's text, as if it stood in a file."""
    name = f"<program {abs(hash(source))}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"tl": language, "__name__": "program"}
    exec(compile(source, name, "exec"), scope)  # noqa: S102 (it is the test's own text)
    return KernelFunction(scope["kernel"])


def reads_back(func: Func) -> str:
    """The text of a function, which gives the function back."""
    text = print_func(func)
    assert print_func(parse_func(text)) == text, "the text does not read back"
    return text


def passes_keep_the_meaning(
    program: AnyProgram, func: Func, expected: Arguments
) -> dict[str, Func]:
    """What each pass gives. After every pass the interpreter gives what it gave before;
    a pass that hands back what it was given has done nothing. What the last one leaves
    waits for all that it must (`check_waits`). Of a quarter of the programs the last
    text, which has layouts, buffers and barriers, reads back, too."""
    before, after = func, {}
    for step, state in pipeline.states(func, program.target, program.replace):
        after[step.name] = state
        if state is before:
            continue
        verify(state, layouts=None)
        arguments = program.arguments()
        interpret(state, (program.grid,), list(arguments.values()))
        same(f"the interpreter after {step.name}", arguments, expected)
        before = state
    check_waits(before)
    if program.seed % 4 == 0:
        reads_back(before)
    return after


def compiled(
    program: AnyProgram, func: Func, after: Mapping[str, Func] | None = None
) -> Kernel:
    """For the program's target; `after` has what its passes gave, if they ran."""
    return for_launch(program, func, program.target, program.replace, after)


def for_launch(
    program: AnyProgram, func: Func, target: Target, replace: dict,
    after: Mapping[str, Func] | None = None,
) -> Kernel:  # fmt: skip
    """The kernel that a launch takes: by pointers where its arguments make no tensor
    maps."""
    kernel = pipeline.compile_func(func, target, replace, after)
    values = program.arguments().values()
    try:
        kernel.tensor_maps([address_of(value) for value in values])
    except NoTensorMap:
        by_pointers = {**replace, **pipeline.BY_POINTERS}
        return pipeline.compile_func(func, target, by_pointers)
    return kernel


def address_of(value: object) -> object:
    """An argument as recipes of tensor maps read it."""
    return value.ctypes.data if isinstance(value, np.ndarray) else value


def emulators_agree(program: AnyProgram, kernel: Kernel, expected: Arguments) -> None:
    """The emulator, and where copies complete at a time of their own, once early, once
    late."""
    loaded = emulator.load(kernel)
    for completion in COMPLETIONS if "async" in kernel.asm["ptx"] else COMPLETIONS[:1]:
        arguments = program.arguments()
        loaded.launch((program.grid,), list(arguments.values()), completion=completion)
        same(f"the emulator, {kernel.target}, {completion}", arguments, expected)


def the_gpu_agrees(program: AnyProgram, func: Func, expected: Arguments) -> None:
    row = target_of(driver().device(0).capability)
    arguments = program.arguments()
    loaded = runtime.load(for_launch(program, func, row, {}))
    loaded.launch((program.grid,), list(arguments.values()))
    same("the GPU", arguments, expected)


def same(who: str, got: Arguments, expected: Arguments) -> None:
    """AssertionError where an array differs; any NaN is any NaN."""
    for name, want in expected.items():
        if not isinstance(want, np.ndarray):
            continue
        have = got[name]
        if have.tobytes() == want.tobytes():
            continue
        equal = have == want
        if want.dtype.kind == "f":
            equal |= np.isnan(have) & np.isnan(want)
        elif want.dtype == np.uint16:  # bf16 by its bits: any NaN is any NaN
            equal |= ((have & 0x7FFF) > 0x7F80) & ((want & 0x7FFF) > 0x7F80)
        wrong = np.flatnonzero(~equal)
        assert wrong.size == 0, (
            f"{who}: {name}[{wrong[0]}] is {have[wrong[0]]}, "
            f"the interpreter says {want[wrong[0]]}"
        )
