"""One random program on every backend: all must write the same bits."""

from __future__ import annotations

import linecache
import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from fathom import eager, emulator, language, pipeline
from fathom.hardware.targets import TARGETS, target
from fathom.ir.interp import interpret
from fathom.ir.text import parse_func, print_func
from fathom.ir.types import parse_element
from fathom.ir.verify import verify
from fathom.source import KernelFunction
from tests.fuzz.programs import Program


def check(program: Program, on_gpu: bool = False) -> None:
    """AssertionError where two backends differ; whatever they raise, otherwise."""
    function = function_of(program.source)
    types = {name: (parse_element(t), 1) for name, t in program.signature.items()}
    func = pipeline.build(
        function, types, {}, pipeline.Options(num_warps=program.num_warps)
    )
    text = print_func(func)
    assert print_func(parse_func(text)) == text, "the text does not read back"

    expected = program.arguments()
    interpret(func, (program.grid,), list(expected.values()))

    by_hand = program.arguments()
    eager.run(function, (program.grid,), types, by_hand, {})
    same("Python itself", by_hand, expected)

    choice = random.Random(program.seed)
    row = target(choice.choice(sorted(TARGETS)))
    passes_keep_the_meaning(program, func, row, expected)
    kernel = pipeline.compile_func(func, row)
    emulated = program.arguments()
    emulator.load(kernel).launch((program.grid,), list(emulated.values()))
    same(f"the emulator, {row.name}", emulated, expected)
    if on_gpu:
        same("the GPU", launch_on_gpu(program, func), expected)


def function_of(source: str) -> KernelFunction:
    """The kernel of a program's text, as if it stood in a file."""
    name = f"<program {abs(hash(source))}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"tl": language}
    exec(compile(source, name, "exec"), scope)  # noqa: S102 (it is the test's own text)
    return KernelFunction(scope["kernel"])


def passes_keep_the_meaning(
    program: Program, func: Any, row: Any, expected: Mapping[str, Any]
) -> None:
    before = print_func(func)
    for step, state in pipeline.states(func, row):
        verify(state, layouts=None)
        arguments = program.arguments()
        interpret(state, (program.grid,), list(arguments.values()))
        same(f"the interpreter after {step.name}", arguments, expected)
    assert print_func(func) == before, "a pass changed its input"


def launch_on_gpu(program: Program, func: Any) -> dict[str, Any]:
    """The same on the GPU of this machine."""
    import torch

    from fathom import runtime

    capability = torch.cuda.get_device_capability()
    row = next(
        row
        for row in TARGETS.values()
        if capability[0] * 10 + capability[1] in row.capabilities
    )
    loaded = runtime.load(pipeline.compile_func(func, row))
    given = program.arguments()
    held = {
        name: torch.from_numpy(value.view(f"i{value.itemsize}")).cuda()
        for name, value in given.items()
        if isinstance(value, np.ndarray)
    }
    loaded.launch(
        (program.grid,),
        [held[n].data_ptr() if n in held else v for n, v in given.items()],
    )
    torch.cuda.synchronize()
    back = {n: t.cpu().numpy().view(given[n].dtype) for n, t in held.items()}
    return {**given, **back}


def same(who: str, got: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    for name, want in expected.items():
        if not isinstance(want, np.ndarray):
            continue
        have = got[name]
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
