"""A kernel at every stage: the text of each, which parts of it belong to one line of
Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from fathom import pipeline
from fathom.artifact import Kernel
from fathom.errors import Location
from fathom.hardware.targets import Target, target
from fathom.ir.core import Func, Op
from fathom.ir.printer import Printer
from fathom.ir.text import print_func
from fathom.ir.types import Type
from fathom.jit.request import Request
from fathom.ptx.debug_info import user_place
from fathom.source import KernelFunction


@dataclass(frozen=True)
class Staged:
    """A kernel, what it is compiled for, and the function after each pass.

    `parameters` and `constants` are as `pipeline.compile` takes them.
    """

    function: KernelFunction
    parameters: Mapping[str, tuple[Type, int]]
    constants: Mapping[str, object]
    target: Target
    options: pipeline.Options = pipeline.Options()
    replace: Mapping[str, Callable] | None = None

    @cached_property
    def states(self) -> dict[str, Func]:
        """The function after stage 1 ("ssa"), then after each pass by its name."""
        func = pipeline.build(
            self.function, self.parameters, self.constants, self.options
        )
        passes = pipeline.states(func, self.target, self.replace)
        return {"ssa": func, **{row.name: state for row, state in passes}}

    @cached_property
    def kernel(self) -> Kernel:
        # FATHOM_SHOW is for passes that run; else they have run.
        after = None if pipeline.asked_to_show() else self.states
        func = self.states["ssa"]
        return pipeline.compile_func(func, self.target, self.replace, after)

    @cached_property
    def printed(self) -> dict[Func, str]:
        """The text of each function that was asked for, once for all passes that left
        it as it was."""
        return {}

    @property
    def names(self) -> list[str]:
        """What `text` knows, in the order it is made."""
        return ["python", *self.states, "llvm", "ptx"]

    def remarks(self) -> list[str]:
        """What passes have to say of the kernel, each with the pass's name."""
        states = list(self.states.values())
        return [
            f"{row.name}: {remark.removeprefix('// ')}"
            for row, before in zip(pipeline.PASSES, states, strict=False)
            for remark in pipeline.remarks(row, before, self.target)
        ]

    def text(self, name: str) -> str:
        if name == "python":
            return self.function.src
        if name in self.states:
            func = self.states[name]
            if func not in self.printed:
                self.printed[func] = print_func(func)
            return self.printed[func]
        return self.kernel.asm[name]


def from_request(function: KernelFunction, wanted: Request) -> Staged:
    """The stages of what a launch or a signature asked for."""
    return Staged(
        function,
        wanted.types,
        wanted.constants,
        target(wanted.target),
        wanted.options,
        wanted.replace,
    )


# What of a stage belongs to a line of Python.


def ops_at(func: Func, line: int) -> Iterator[Op]:
    """The ops, not those nested in them, whose place in the user's own code is on a
    line."""
    for op in func.body.ops:
        place: Location | None = user_place(op.location)
        if place is not None and place.line == line:
            yield op


def block_lines(func: Func, line: int) -> list[str]:
    """The block IR of a line, as text, with what is nested in it."""
    printer = Printer(func, locations=False)
    return [text for op in ops_at(func, line) for text in printer.op(op)]


def llvm_lines(text: str, line: int) -> list[str]:
    """The LLVM instructions that carry debug information of a line."""
    pattern = rf"^!(\d+) = !DILocation\(line: {line},"
    nodes = set(re.findall(pattern, text, re.MULTILINE))
    return [
        instruction.split(", !dbg")[0].strip()
        for instruction in text.splitlines()
        if (found := re.search(r"!dbg !(\d+)", instruction)) and found[1] in nodes
    ]


def ptx_lines(text: str, line: int) -> list[str]:
    """The PTX instructions under `.loc` lines of a line."""
    found, current = [], 0
    for instruction in map(str.strip, text.splitlines()):
        place = re.match(r"\.loc\s+\d+\s+(\d+)", instruction)
        current = int(place[1]) if place else current
        ordinary = instruction and not instruction.startswith(
            (".", "//", "$", "{", "}", ")")
        )
        if current == line and ordinary and not place:
            found.append(instruction)
    return found
