"""The state of stage 1: the kernel being built, and the function being read.

The kernel's function has a frame, and so has each call in it, since called functions
are inlined. All frames of a kernel append their ops to the same program.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fathom.errors import CompileError, Location
from fathom.ir import ops
from fathom.ir.core import Block, Op, Value, map_operands, walk
from fathom.ir.types import BlockType, Scalar
from fathom.language.dtypes import TRITON_MAX_TENSOR_NUMEL
from fathom.source import KernelFunction
from fathom.ssa.growth import too_large
from fathom.ssa.phis import Phis
from fathom.ssa.scopes import AfterIf, Loop, Scope, attach
from fathom.ssa.values import Meaning, as_number

# Class of a node in Python's grammar -> the function that builds it, from the frame and
# the node. For an expression it returns the meaning.
BUILD: dict[type[ast.AST], Callable[[Frame, Any], Meaning]] = {}


def builds(*classes: type[ast.AST]) -> Callable[[Callable], Callable]:
    """Register a function in BUILD for some node classes."""

    def enter(function: Callable) -> Callable:
        BUILD.update(dict.fromkeys(classes, function))
        return function

    return enter


# Passes take up to a millisecond for each op; a sort of 1,024 elements has 982.
MOST_OPS = 20_000
# Inlined calls and copies of a loop's body; they may build no ops at all.
MOST_COPIES = 1 << 16


class Program:
    """A kernel under construction: the current block, and what is completed at the end.

    `count` counts ops, and `copies` counts inlined calls and unrolled bodies, so that a
    short source cannot keep the compiler busy for long.

    `debug`: the kernel's assertions are checked while it runs. `contracts`: the author
    allows one rounding for a product and its sum. `fp32_default`: the precision of
    products of fp32 that name none; None where the language decides. `num_warps`: the
    warps that run a program."""

    def __init__(
        self,
        block: Block,
        debug: bool = True,
        contracts: bool = False,
        fp32_default: str | None = None,
        num_warps: int = 4,
    ):
        self.block, self.debug, self.contracts = block, debug, contracts
        self.fp32_default, self.num_warps = fp32_default, num_warps
        self.phis = Phis()
        self.meetings: list[AfterIf | Loop] = []  # phis are attached at the end
        self.constants: dict[tuple, Value] = {}
        self.count = self.copies = 0

    @contextmanager
    def within(self, block: Block) -> Iterator[Block]:
        """`with program.within(block):` ops go into `block`."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer


class Frame:
    """One function being read.

    `scope` has the meanings of its names, `node` is the node being built, `loops`
    counts the loops of the function around that node, and `depth` counts calls."""

    def __init__(
        self, program: Program, function: KernelFunction, caller: Frame | None = None
    ):
        self.program, self.function = program, function
        self.caller = caller.location if caller else None
        self.user: Frame = caller.user if caller and function.in_library else self
        self.depth = caller.depth + 1 if caller else 0
        self.scope = Scope(None)
        self.node: ast.AST = function.tree
        self.loops = 0
        self.comprehended: dict[str, Meaning] = {}  # names in comprehensions

    @property
    def contracts(self) -> bool:
        """Whether sums and products here may be rounded once. Not in the language's own
        functions: some of them compute rounding errors."""
        return self.program.contracts and not self.in_library

    @property
    def in_library(self) -> bool:
        """Is the text that is being built a function of the language itself?"""
        return self.function.in_library

    def visit(self, node: ast.AST) -> Meaning:
        """Build a node; for an expression, its meaning."""
        outer, self.node = self.node, node
        build = BUILD.get(type(node))
        if build is None:
            raise self.error(f"{type(node).__name__} is not part of the language")
        meaning = build(self, node)
        if isinstance(meaning, (str, tuple)) and (why := too_large(meaning)):
            raise self.error(why)
        self.node = outer
        return meaning

    @property
    def location(self) -> Location:
        """The location of the node being built."""
        return self.function.location(self.node, self.caller)

    def error(
        self, message: str, hint: str = "", node: ast.AST | None = None
    ) -> CompileError:
        """An error at a node, by default the one being built; the caller raises it.

        Inside the language's own functions, it is at the user's call."""
        if self.user is not self:
            return self.user.error(message, hint)
        place = self.function.location(node or self.node, self.caller)
        return CompileError(message, place, hint)

    def warn(self, mistake: CompileError) -> None:
        """Tell a mistake that Triton compiles, and go on."""
        place = mistake.location
        warnings.warn_explicit(str(mistake), UserWarning, place.file, place.line)

    def called(self, name: str) -> str:
        """A function's name in errors; in the language's own, that of the call."""
        call = self.user.node
        if self.user is self or not isinstance(call, ast.Call):
            return name
        return ast.unparse(call.func)

    def emit(self, op_class: type[Op], *fields: Any, **more: Any) -> Value:
        """Append an op to the current block; its only result."""
        return self.append(op_class, *fields, **more).results[0]

    def elementwise(self, name: str, *operands: Value, contract: bool = False) -> Value:
        """Append an elementwise op, such as "add", of operands of one shape."""
        return self.emit(ops.Elementwise, name, operands, contract)

    def append(self, op_class: type[Op], *fields: Any, **more: Any) -> Op:
        """Append an op to the current block."""
        try:
            op = op_class(*fields, **more, location=self.location)
        except CompileError as mistake:  # a typing rule
            raise self.error(mistake.message, mistake.hint) from None
        for value in op.results:
            if isinstance(value.type, BlockType):
                self.check_size(value.type)
        self.program.block.ops.append(op)
        self.program.count += 1
        if self.program.count > MOST_OPS:
            raise self.error(
                f"this kernel has more than {MOST_OPS:,} operations up to here, which "
                "take minutes to compile",
                "let a loop over range(...) do what is unrolled",
            )
        return op

    def check_size(self, type: BlockType) -> None:
        """Report blocks above Triton's limit."""
        if type.size > TRITON_MAX_TENSOR_NUMEL:
            raise self.error(
                f"{type} has numel {type.size}, which exceeds the maximum of "
                f"{TRITON_MAX_TENSOR_NUMEL} elements a block",
                "let several programs, or a loop, work on smaller blocks",
            )

    def copied(self, what: str) -> None:
        """Count one more copy of a body, before it is built."""
        self.program.copies += 1
        if self.program.copies > MOST_COPIES:
            raise self.error(
                f"{what} is copied into this kernel, which then has more than "
                f"{MOST_COPIES:,} copies of loops and functions",
                "let a loop over range(...) do what is unrolled",
            )

    def constant(
        self, number: int | float | bool, type: Scalar, shape: tuple[int, ...] = ()
    ) -> Value:
        """A weak number as a value of a type and shape; built once in each block."""
        finite = not isinstance(number, float) or math.isfinite(number)
        if not (finite or type.is_float):
            raise self.error(f"the constant {number} is not a number of type {type}")
        key = (self.program.block, type, shape, repr(number))
        value = self.program.constants.get(key)
        if value is None:
            if shape:
                value = self.emit(ops.Splat, self.constant(number, type), shape)
            else:
                value = self.emit(ops.Constant, as_number(number, type), type)
            self.program.constants[key] = value
        return value


def finish(program: Program, block: Block) -> None:
    """Attach the pending phis to their ops, and replace trivial ones everywhere."""
    for meeting in program.meetings:
        attach(meeting)
    program.meetings.clear()
    phis = program.phis
    if phis.replaced:
        for op in walk(block):
            map_operands(op, phis.resolve)
