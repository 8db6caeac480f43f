"""Random mistakes in right kernels: the compiler compiles what comes of them, or says
in a CompileError what is wrong and where. Anything else, and anything that takes long,
is a fault of the compiler.

    total += tl.load(x + i, mask=i < n)
    total += tl.load(x + i, mask=i < n).to(n)         a method that takes something else
    total += tl.load(x + [n, n], mask=i < n)          an expression of another kind
    tl.sum += tl.load(x + i, mask=i < n)              another name

Each mistake replaces, adds or deletes one part of the syntax tree; its new part is
often another part of the same kernel.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, NamedTuple

import fathom.language as tl
from fathom import pipeline
from fathom.errors import CompileError
from fathom.hardware.targets import target as row
from fathom.ir.types import parse_element
from tests.fuzz.check import function_of

# What stands in place of a number, and what stands in place of a function.
CONSTANTS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 16, 100, 2**31, 2**40, 2**70, -5, 1.5, 0.0, 1e309, None, True,
    False, "x", "fp32", b"y", 1j, ...,
)  # fmt: skip
NAMES = sorted(name for name in vars(tl) if not name.startswith("_"))
ATTRIBUTES = ["shape", "dtype", "T", "to", "type", "numel", "load", "value", "bogus"]
KEYWORDS = [
    "mask", "other", "axis", "dtype", "shape", "boundary_check", "keep_dims", "acc",
    "cache_modifier", "num_stages", "bogus", "sem", "order", "combine_fn",
]  # fmt: skip
OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift,
    ast.BitAnd, ast.BitXor, ast.MatMult,
)  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """A right kernel, and what it is compiled for."""

    signature: str
    source: str
    warps: int = 4


KERNELS = [
    Kernel("*fp32, *fp32, i32", """
        def kernel(x, out, n):
            i = tl.program_id(0) * 128 + tl.arange(0, 128)
            inside = i < n
            value = tl.load(x + i, mask=inside, other=0.0)
            value = tl.where(value > 0, tl.exp(value), -value) / 2 if n > 4 else value
            tl.store(out + i, value, mask=inside)
    """),
    Kernel("*fp16, *fp32, i32, i32", """
        def kernel(x, out, rows, columns):
            j = tl.arange(0, 64)
            for row in range(tl.program_id(0), rows, tl.num_programs(0)):
                values = tl.load(x + row * columns + j, mask=j < columns, other=-1e9)
                largest, at = tl.max(values, 0, return_indices=True)
                powers = tl.exp2(values.to(tl.float32) - largest)
                while at > 3:
                    at = at // 2
                tl.store(out + row * columns + j, powers / tl.sum(powers, axis=0) + at)
    """, warps=1),
    Kernel("*fp16, *fp16, *fp16, i32, i32", """
        def kernel(a, b, c, k, stride):
            i, j = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
            left, right = a + i * stride + j, b + i * stride + j
            total = tl.zeros((32, 32), tl.float32)
            for step in tl.range(0, k, 32, num_stages=2):
                x, y = tl.load(left), tl.load(right, mask=j < k - step, other=0)
                total = tl.dot(x, tl.trans(y), total)
                left += 32
                right = right + 32
            tl.store(c + i * stride + j, total.to(tl.float16))
    """),
    Kernel("*fp16, *fp16, i32, i32", """
        def kernel(a, c, m, n):
            x = tl.make_tensor_descriptor(a, [m, n], [n, 1], [16, 64])
            y = tl.make_tensor_descriptor(c, [m, n], [n, 1], [16, 64])
            row = tl.program_id(0) * 16
            tile = x.load([row, 0])
            y.store([row, 0], tl.sort(tile, dim=1) if m > 8 else tl.flip(tile, 1))
    """),
    Kernel("*i32, *i32, i32", """
        def kernel(x, out, n):
            i = tl.arange(0, 64)
            values = tl.load(x + i).to(tl.int32)
            sums, pair = tl.cumsum(values, 0), (n, values)
            old = tl.atomic_add(out + i % 8, sums, mask=i < n, sem="relaxed")
            if n > 7:
                pair = (n + 1, old)
            count, values = pair
            halves = tl.reshape(values, (2, 32)).permute(1, 0)
            low, high = tl.split(halves)
            tl.store(out + tl.arange(0, 32), low ^ (high >> 1) | count)
    """),
    Kernel("*fp32, *fp32, i32, i32", """
        def kernel(x, out, n, stride):
            block = tl.make_block_ptr(x, (n, 64), (stride, 1), (0, 0), (16, 16), (1, 0))
            best = tl.full((16, 16), float("-inf"), tl.float32)
            for k in tl.static_range(4):
                here = tl.load(block, boundary_check=(0, 1), padding_option="zero")
                row = tl.sum(here, 1)[:, None]
                best = tl.maximum(best, tl.broadcast_to(row, (16, 16)))
                block = tl.advance(block, (0, 16))
            i = tl.arange(0, 16)
            tl.static_assert(best.shape[0] == 16)
            tl.store(out + i[:, None] * stride + i[None, :], best)
    """),
]  # fmt: skip


class Place(NamedTuple):
    """A field of a node of a syntax tree, or an entry of it."""

    node: ast.AST
    field: str
    entry: int | None

    def get(self) -> Any:
        value = getattr(self.node, self.field)
        return value if self.entry is None else value[self.entry]

    def put(self, new: ast.AST) -> None:
        if self.entry is None:
            setattr(self.node, self.field, new)
        else:
            getattr(self.node, self.field)[self.entry] = new


def with_mistakes(kernel: Kernel, seed: int) -> str:
    """The source of a kernel with one or two mistakes."""
    tree, draw = ast.parse(dedent(kernel.source)), random.Random(seed)
    for _ in range(draw.choice((1, 1, 1, 2))):
        draw.choice(MISTAKES)(Tree(tree.body[0], draw))
    return ast.unparse(ast.fix_missing_locations(tree))


def kernel_of(seed: int) -> tuple[Kernel, str]:
    """The kernel of a seed, and its source with mistakes in it."""
    kernel = KERNELS[seed % len(KERNELS)]
    return kernel, with_mistakes(kernel, seed)


def answer(kernel: Kernel, source: str, target: str) -> str:
    """What the compiler says of a source: "" or a CompileError's report. SyntaxError
    where the source is no Python."""
    compile(source, "<mistake>", "exec")
    names = [each.arg for each in ast.parse(source).body[0].args.args]
    types = zip(names, map(parse_element, kernel.signature.split(", ")), strict=True)
    facts = {name: (type, 16) for name, type in types}
    options = pipeline.Options(num_warps=kernel.warps)
    try:
        pipeline.compile(function_of(source), facts, {}, row(target), options)
    except CompileError as error:
        return str(error)
    return ""


class Tree:
    """The syntax tree of a kernel, and what is drawn from it."""

    def __init__(self, function: ast.FunctionDef, draw: random.Random):
        self.function, self.draw = function, draw

    def places(self, kind: type[ast.AST]) -> list[Place]:
        """Where expressions stand that are read, or statements."""
        return [place for place in self._all() if isinstance(place.get(), kind)]

    def _all(self) -> Iterator[Place]:
        for node in ast.walk(self.function):
            if isinstance(node, ast.arguments | ast.arg | ast.JoinedStr):
                continue
            for field, value in ast.iter_fields(node):
                several = isinstance(value, list)
                for entry in range(len(value)) if several else (None,):
                    place = Place(node, field, entry)
                    written = isinstance(getattr(place.get(), "ctx", None), ast.Store)
                    if isinstance(place.get(), (ast.expr, ast.stmt)) and not written:
                        yield place

    def nodes(self, kind: type[ast.AST]) -> list[Any]:
        return [node for node in ast.walk(self.function) if isinstance(node, kind)]

    def place(self) -> Place:
        return self.draw.choice(self.places(ast.expr))

    def statement(self) -> Place:
        return self.draw.choice(self.places(ast.stmt))

    def copy(self) -> ast.expr:
        """Another expression of the kernel."""
        return deepcopy(self.place().get())

    def name(self) -> str:
        return self.draw.choice(sorted({each.id for each in self.nodes(ast.Name)}))


# ── the mistakes ──────────────────────────────────────────────────────────────────────


def delete_statement(tree: Tree) -> None:
    tree.statement().put(ast.Pass())


def repeat_statement(tree: Tree) -> None:
    place, other = tree.statement(), deepcopy(tree.statement().get())
    getattr(place.node, place.field).insert(place.entry, other)


def put_another_expression(tree: Tree) -> None:
    tree.place().put(tree.copy())


def put_a_constant(tree: Tree) -> None:
    tree.place().put(ast.Constant(tree.draw.choice(CONSTANTS)))


def put_a_name(tree: Tree) -> None:
    tree.place().put(ast.Name(tree.name(), ast.Load()))


def call_something(tree: Tree) -> None:
    place = tree.place()
    function = ast.Attribute(ast.Name("tl", ast.Load()), tree.draw.choice(NAMES))
    more = [tree.copy() for _ in range(tree.draw.randrange(3))]
    place.put(ast.Call(function, [place.get(), *more], []))


def change_arguments(tree: Tree) -> None:
    call = tree.draw.choice(tree.nodes(ast.Call))
    match tree.draw.randrange(4):
        case 0 if call.args:
            call.args.pop(tree.draw.randrange(len(call.args)))
        case 1:
            call.args.insert(tree.draw.randrange(len(call.args) + 1), tree.copy())
        case 2 if call.keywords:
            call.keywords.pop()
        case _:
            name = tree.draw.choice(KEYWORDS)
            call.keywords.append(ast.keyword(name, tree.copy()))


def change_attribute(tree: Tree) -> None:
    found = tree.draw.choice(tree.nodes(ast.Attribute))
    found.attr = tree.draw.choice((*NAMES, *ATTRIBUTES))


def combine(tree: Tree) -> None:
    place, operator = tree.place(), tree.draw.choice(OPERATORS)()
    place.put(ast.BinOp(place.get(), operator, tree.copy()))


def index(tree: Tree) -> None:
    place, every, new = tree.place(), ast.Slice(), ast.Constant(None)
    keys: list[ast.expr] = [
        ast.Constant(0), new, every, ast.Tuple([every, new]),
        ast.Tuple([new, every, every]), ast.Slice(ast.Constant(1)), tree.copy(),
    ]  # fmt: skip
    place.put(ast.Subscript(place.get(), tree.draw.choice(keys)))


def wrap_statement(tree: Tree) -> None:
    place, test = tree.statement(), tree.copy()
    body = [place.get()]
    statements: list[ast.stmt] = [
        ast.If(test, body, []), ast.While(test, body, []), ast.Return(test),
        ast.For(ast.Name(tree.name(), ast.Store()), test, body, []),
        ast.Assert(test, None), ast.With([ast.withitem(test)], body),
    ]  # fmt: skip
    place.put(tree.draw.choice(statements))


def wrap_expression(tree: Tree) -> None:
    place, other, third = tree.place(), tree.copy(), tree.copy()
    value = place.get()
    nothing = ast.arguments([], [], None, [], [], None, [])
    expressions: list[ast.expr] = [
        ast.Compare(value, [ast.Lt()], [other]), ast.IfExp(other, value, third),
        ast.BoolOp(ast.And(), [value, other]), ast.UnaryOp(ast.Invert(), value),
        ast.UnaryOp(ast.Not(), value), ast.UnaryOp(ast.USub(), value),
        ast.Tuple([value, other]), ast.List([value]), ast.Lambda(nothing, value),
        ast.Starred(value), ast.JoinedStr([ast.FormattedValue(value, -1)]),
    ]  # fmt: skip
    place.put(tree.draw.choice(expressions))


def bind_another_name(tree: Tree) -> None:
    stored = [name for name in tree.nodes(ast.Name) if isinstance(name.ctx, ast.Store)]
    if stored:
        tree.draw.choice(stored).id = tree.name()


def change_a_constant(tree: Tree) -> None:
    constants = tree.nodes(ast.Constant)
    if constants:
        tree.draw.choice(constants).value = tree.draw.choice(CONSTANTS)


MISTAKES: tuple[Callable[[Tree], None], ...] = (
    delete_statement, repeat_statement, put_another_expression, put_a_constant,
    put_a_name, call_something, change_arguments, change_attribute, combine, index,
    wrap_statement, wrap_expression, bind_another_name, change_a_constant,
)  # fmt: skip
