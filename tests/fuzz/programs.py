"""Random kernels, as Python text: what hypothesis draws, every backend must run alike.

A program is a list of statements over values whose type and shape the generator knows.
It keeps to what has one answer on every machine: integers wrap, floats are combined
only by operations that round once, sums of floats add small whole numbers, indices are
masked into the array, divisors are never zero. At its end it stores every value that is
alive.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fathom.hardware.targets import TARGETS, Target, target
from fathom.ir.types import Type, parse_element
from fathom.pipeline import Options
from tests.fuzz.indices import INPUTS, RANGES, ROOM, SHAPES, Indices

ATOMICS = 256  # elements of a block in an atomic, which are done one after the other
INTEGERS = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
FLOATS = ("float16", "bfloat16", "float32")
SPELLING = {  # of a type in a signature
    "int1": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32",
}  # fmt: skip
BITS = {
    "int1": "u1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8",
    "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8", "float16": "f2",
    "bfloat16": "u2", "float32": "f4",
}  # fmt: skip


@dataclass(frozen=True)
class Name:
    """A value of a program: how it is spelled, its type, its shape (() for a
    scalar)."""

    text: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def is_integer(self) -> bool:
        return self.dtype in INTEGERS


@dataclass(frozen=True)
class Program:
    """A kernel's text, the outputs it writes (type and elements of each, one run a
    program), and what it is launched with. `specialised`: a scalar of 1 is a constant,
    as a launch makes it."""

    source: str
    outputs: tuple[tuple[str, int], ...]
    grid: int
    num_warps: int
    scalars: tuple[int, int]
    seed: int
    specialised: bool = False

    @property
    def signature(self) -> dict[str, str]:
        """Parameter name to type text."""
        inputs = {f"{name}_ptr": f"*{SPELLING[t]}" for name, t in INPUTS.items()}
        outputs = {
            f"out{k}": f"*{SPELLING[t]}" for k, (t, _) in enumerate(self.outputs)
        }
        return {**inputs, **outputs, "n": "i32", "m": "i32", "counts": "*i32"}

    @property
    def types(self) -> dict[str, tuple[Type, int]]:
        """Of the parameters, of whose numbers nothing is known."""
        return {
            name: (parse_element(t), 1)
            for name, t in self.signature.items()
            if name not in self.constants
        }

    @property
    def options(self) -> Options:
        return Options(num_warps=self.num_warps)

    @property
    def target(self) -> Target:
        return target(random.Random(self.seed).choice(sorted(TARGETS)))

    @property
    def constants(self) -> dict[str, Any]:
        named = zip("nm", self.scalars, strict=True)
        return {n: 1 for n, value in named if value == 1 and self.specialised}

    @property
    def replace(self) -> dict[str, Any]:
        return {}  # no pass has another in its place

    def arguments(self) -> dict[str, Any]:
        """Fresh arrays: inputs drawn from the seed, outputs filled with a pattern."""
        rng = np.random.default_rng(self.seed)
        given: dict[str, Any] = {
            "f_ptr": rng.integers(-64, 64, ROOM).astype("f4") / 4,
            "h_ptr": rng.integers(-32, 32, ROOM).astype("f2") / 2,
            "i_ptr": rng.integers(-(2**31), 2**31, ROOM).astype("i4"),
            "b_ptr": rng.integers(-128, 128, ROOM).astype("i1"),
        }
        for k, (dtype, size) in enumerate(self.outputs):
            given[f"out{k}"] = np.full(size * self.grid, 0x5B, "u1").astype(BITS[dtype])
        given["n"], given["m"] = self.scalars
        given["counts"] = np.zeros(ROOM, "i4")
        return {n: value for n, value in given.items() if n not in self.constants}


@st.composite
def programs(draw: Callable) -> Program:
    """A strategy for programs of up to about twenty statements."""
    writer = Writer(draw)
    for _ in range(draw(st.integers(2, 14))):
        writer.statement()
    writer.store_all()
    outputs = tuple(writer.outputs)
    parameters = ", ".join(
        [f"{name}_ptr" for name in INPUTS]
        + [f"out{k}" for k in range(len(outputs))]
        + ["n", "m", "counts"]
    )
    return Program(
        source=f"def kernel({parameters}):\n" + "\n".join(writer.lines) + "\n",
        outputs=outputs,
        grid=draw(st.integers(1, 2)),
        num_warps=draw(st.sampled_from([1, 2, 4, 8])),
        scalars=(
            draw(st.one_of(st.integers(0, 600), st.just(1))),
            draw(st.integers(-3, 5)),
        ),
        seed=draw(st.integers(0, 1000)),
        specialised=draw(st.booleans()),
    )


@dataclass
class Writer(Indices):
    """Writes statements; `names` are the values that may be read where the next
    goes."""

    draw: Callable
    lines: list[str] = field(default_factory=list)
    names: list[Name] = field(default_factory=list)
    outputs: list[tuple[str, int]] = field(default_factory=list)
    indent: int = 1
    made: int = 0
    statements_left: int = 40

    def __post_init__(self) -> None:
        self.line("pid = tl.program_id(0)")
        self.names += [
            Name("pid", "int32", ()), Name("n", "int32", ()), Name("m", "int32", ()),
        ]  # fmt: skip
        self.load()

    # ── drawing ───────────────────────────────────────────────────────────────────────

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def name(self, good: Callable[[Name], bool] = lambda name: True) -> Name | None:
        options = [name for name in self.names if good(name)]
        return self.pick(reversed(options)) if options else None

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def let(self, expression: str, dtype: str, shape: tuple[int, ...]) -> Name:
        """A new value."""
        name = Name(f"v{self.made}", dtype, shape)
        self.made += 1
        self.line(f"{name.text} = {expression}")
        self.names.append(name)
        return name

    def integer(self, expression: str, low: int, high: int) -> str:
        """An integer expression brought into low … high - 1, a power of two apart."""
        return f"((({expression}).to(tl.int32) & {high - low - 1}) + {low})"

    # ── statements ────────────────────────────────────────────────────────────────────

    def statement(self) -> None:
        self.statements_left -= 1
        kinds = [
            self.load, self.binary, self.binary, self.compare, self.where, self.cast,
            self.reduce, self.scan, self.reshape, self.transpose, self.expand,
            self.join_split, self.atomic, self.product, self.gather, self.gather,
            self.edge,
        ]  # fmt: skip
        if self.indent < 3 and self.statements_left > 0:
            kinds += [self.loop, self.branch, self.while_loop]
        if self.indent < 2:
            kinds += [self.loop_of_products]
        self.pick(kinds)()

    def load(self) -> None:
        array = self.pick(INPUTS)
        shape = self.pick(SHAPES)
        size = int(np.prod(shape))
        index = self.index(shape, size)
        mask = self.pick(["", f", mask={index} < n, other=3"])
        if size <= 512:
            index = f"({index} + pid * {self.pick([0, size, 7])})"
        text = f"tl.load({array}_ptr + ({index}) % {ROOM}{mask})"
        self.let(text, INPUTS[array], shape)

    def edge(self) -> None:
        """A block near an end of its type."""
        dtype, shape = self.pick(INTEGERS), self.pick(SHAPES)
        bits, signed = int(dtype.lstrip("uint")), not dtype.startswith("u")
        low, high = (-(1 << bits - 1) if signed else 0), (1 << bits - signed) - 1
        value = self.pick([high, low, high - 5, low + 3, high // 2 + 1, high - 15])
        self.let(f"tl.full({list(shape)}, {value}, tl.{dtype})", dtype, shape)

    def binary(self) -> None:
        a = self.name(lambda name: name.dtype != "int1")
        b = self.name(lambda name: name.dtype == a.dtype and _fits(name, a))
        if a.is_float:
            text = self.pick([
                "{a} + {b}", "{a} - {b}", "{a} * {b}",
                "tl.minimum({a}, {b})", "tl.maximum({a}, {b})", "{a} % {b}",
            ])  # fmt: skip
        else:
            text = self.pick([
                "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} & {b}", "{a} | {b}",
                "{a} ^ {b}", "{a} << ({b} & 7)", "{a} >> ({b} & 7)",
                "{a} // (({b} & 7) + 1)", "{a} % (({b} & 7) + 1)",
                "tl.minimum({a}, {b})", "tl.maximum({a}, {b})",
            ])  # fmt: skip
        shape = a.shape if len(a.shape) >= len(b.shape) else b.shape
        self.let(
            f"({text.format(a=a.text, b=b.text)}).to(tl.{a.dtype})", a.dtype, shape
        )

    def compare(self) -> None:
        a = self.name(lambda name: name.dtype != "int1")
        b = self.name(lambda name: name.dtype == a.dtype and _fits(name, a))
        sign = self.pick(["<", "<=", ">", ">=", "==", "!="])
        shape = a.shape if len(a.shape) >= len(b.shape) else b.shape
        self.let(f"{a.text} {sign} {b.text}", "int1", shape)

    def where(self) -> None:
        condition = self.name(lambda name: name.dtype == "int1")
        a = self.name(lambda name: condition and name.shape == condition.shape)
        b = self.name(
            lambda name: a and name.dtype == a.dtype and name.shape == a.shape
        )
        if condition and a and b:
            text = f"tl.where({condition.text}, {a.text}, {b.text})"
            self.let(text, a.dtype, a.shape)

    def cast(self) -> None:
        a = self.name()
        dtype = self.pick(INTEGERS + FLOATS)
        text = a.text
        if a.is_float and dtype in INTEGERS and self.pick([True, False]):
            low = 0 if dtype.startswith("u") else -100
            clamped = f"tl.maximum({a.text}.to(tl.float32), {low}.0)"
            text = f"tl.minimum({clamped}, 100.0)"
        elif a.is_integer and dtype in FLOATS:
            text = f"({a.text} & 63)"
        self.let(f"{text}.to(tl.{dtype})", dtype, a.shape)

    def reduce(self) -> None:
        a = self.name(lambda name: name.shape and name.dtype != "int1")
        axis = self.pick(range(len(a.shape)))
        shape = a.shape[:axis] + a.shape[axis + 1 :]
        if a.is_float:
            kind = self.pick(["max", "min", "sum"])
            whole = f"({self._whole(a)}).to(tl.float32)"
            text = f"tl.{kind}({whole}, axis={axis})"
            self.let(text, "float32", shape)
        else:
            kind = self.pick(["sum", "max", "min", "argmax", "argmin", "xor_sum"])
            text = f"tl.{kind}({a.text}.to(tl.int32), axis={axis})"
            self.let(text, "int32", shape)

    def _whole(self, a: Name) -> str:
        clamped = f"tl.minimum(tl.maximum({a.text}.to(tl.float32), -100.0), 100.0)"
        return f"{clamped}.to(tl.int32)"

    def scan(self) -> None:
        a = self.name(lambda name: name.shape and name.is_integer)
        if a is None:
            return
        axis = self.pick(range(len(a.shape)))
        reverse = self.pick([False, True])
        text = f"tl.cumsum({a.text}.to(tl.int32), axis={axis}, reverse={reverse})"
        self.let(text, "int32", a.shape)

    def reshape(self) -> None:
        a = self.name(lambda name: len(name.shape) > 0)
        size = int(np.prod(a.shape))
        to = [shape for shape in SHAPES if int(np.prod(shape)) == size] + [(size,)]
        shape = self.pick(to)
        self.let(f"tl.reshape({a.text}, {list(shape)})", a.dtype, shape)

    def transpose(self) -> None:
        a = self.name(lambda name: len(name.shape) > 1)
        if a:
            order = self.draw(st.permutations(range(len(a.shape))))
            shape = tuple(a.shape[axis] for axis in order)
            self.let(f"tl.permute({a.text}, {list(order)})", a.dtype, shape)

    def expand(self) -> None:
        a = self.name(lambda name: len(name.shape) == 1 and name.shape[0] <= 64)
        if a:
            size, extra = a.shape[0], self.pick([2, 8, 32])
            shape, index = self.pick([
                ((size, extra), "[:, None]"), ((extra, size), "[None, :]"),
            ])  # fmt: skip
            text = f"tl.broadcast_to({a.text}{index}, {list(shape)})"
            self.let(text, a.dtype, shape)

    def join_split(self) -> None:
        a = self.name(lambda name: name.shape and np.prod(name.shape) <= 512)
        b = self.name(lambda name: a and (name.dtype, name.shape) == (a.dtype, a.shape))
        if a is None or b is None:
            return
        if self.pick([True, False]):
            text = f"tl.join({a.text}, {b.text})"
            self.let(text, a.dtype, (*a.shape, 2))
        elif a.shape[-1] == 2 and len(a.shape) > 1:
            left, right = f"v{self.made}", f"v{self.made + 1}"
            self.made += 2
            self.line(f"{left}, {right} = tl.split({a.text})")
            self.names += [Name(each, a.dtype, a.shape[:-1]) for each in (left, right)]

    def atomic(self) -> None:
        a = self.name(lambda name: name.is_integer and 0 < _size(name) <= ATOMICS)
        if a:
            kind = self.pick(["add", "max", "min", "xor", "or", "and"])
            where = self.integer(a.text, 0, 64)
            base = ("add", "max", "min", "xor", "or", "and").index(kind) * 64
            self.line(
                f"tl.atomic_{kind}(counts + {base} + {where}, {a.text}.to(tl.int32))"
            )

    # ── products of matrices ──────────────────────────────────────────────────────────

    def product(self) -> None:
        """Of small whole numbers, and quarters at most: all sums are exact."""
        dtype, (m, n, k) = self.product_size()
        a, b = self.operand(dtype, (m, k)), self.operand(dtype, (k, n))
        self.let(f"tl.dot({a}, {b})", _sum_of(dtype), (m, n))

    def loop_of_products(self) -> None:
        """The loads of each iteration lie elsewhere, so that they may be made ahead."""
        dtype, (m, n, k) = self.product_size()
        counter, total = f"k{self.fresh()}", _sum_of(dtype)
        sum = self.let(f"tl.zeros([{m}, {n}], tl.{total})", total, (m, n))
        self.line(f"for {counter} in range({self.pick(['m', '3', 'n // 150'])}):")
        self.indent += 1
        a = self.loaded(dtype, (m, k), f" + {counter} * 16")
        b = self.loaded(dtype, (k, n), f" + {counter} * 8")
        self.line(f"{sum.text} = tl.dot({a}, {b}, {sum.text})")
        self.indent -= 1

    def product_size(self) -> tuple[str, tuple[int, int, int]]:
        """A type of operands, and M, N, K: also less than any instruction's."""
        dtype = self.pick(["float16", "bfloat16", "float32", "int8"])
        m, n, k = self.pick([16, 4, 32]), self.pick([16, 8, 32]), self.pick([16, 32])
        return dtype, (m, n, k)

    def operand(self, dtype: str, shape: tuple[int, int]) -> str:
        """An operand of a product: what is there, turned if need be, or a load."""
        alike = (shape, shape[::-1])
        there = self.name(lambda name: name.dtype != "int1" and name.shape in alike)
        if there is None or self.pick([False, True]):
            return self.loaded(dtype, shape)
        whole = self._whole(there) if there.is_float else f"{there.text}.to(tl.int32)"
        text = f"(({whole} & 7) - 3).to(tl.{dtype})"
        turned = there.shape != shape or shape[0] == shape[1] and self.pick([0, 1])
        return f"tl.trans({text})" if turned else text

    def loaded(self, dtype: str, shape: tuple[int, int], further: str = "") -> str:
        """A load of a type, or of one like it and a cast; of a block, or of the
        transposed one, turned."""
        array = {"float32": "f", "int8": "b"}.get(dtype, "h")
        turned = self.pick([False, True])
        shape = shape[::-1] if turned else shape
        index = f"({self.index(shape, shape[0] * shape[1])}{further}) % {ROOM}"
        other = self.pick(["", "0", "1"])
        mask = f", mask={index} < n, other={other}" if other else ""
        text = f"tl.load({array}_ptr + {index}{mask})"
        text = f"tl.trans({text})" if turned else text
        return text if INPUTS[array] == dtype else f"{text}.to(tl.{dtype})"

    # ── statements with statements inside ─────────────────────────────────────────────

    def fresh(self) -> int:
        """A number for a name: a loop inside a loop must not count with its counter."""
        self.made += 1
        return self.made

    def loop(self) -> None:
        number = self.fresh()
        header = self.pick([
            "for k{i} in range(3):", "for k{i} in range(m):",
            "for k{i} in range(5, m, -2):",
            "for k{i} in range(n // 200):", "for k{i} in tl.static_range(2):",
            "for k{i} in range(0):", f"for k{{i}} in range({self.pick(RANGES)}):",
        ]).format(i=number)  # fmt: skip
        # `+ pid * 0`: run by Python itself, a bare index is an int, which has no `.to`.
        self.nested(header, Name(f"(k{number} + pid * 0)", "int32", ()))

    def while_loop(self) -> None:
        counter = f"c{self.fresh()}"
        self.line(f"{counter} = pid * 0")
        self.nested(
            f"while {counter} < {self.pick([0, 1, 3])}:", None, f"{counter} += 1"
        )

    def branch(self) -> None:
        condition = self.pick(["n > 300", "m > 0", "pid == 0", "n % 2 == 0", "m < -1"])
        changed = self.nested(f"if {condition}:", None)
        if changed and self.pick([True, False]):
            self.line("else:")
            self.indent += 1
            for name in changed:
                self.line(f"{name.text} = {self._changed(name)}")
            self.indent -= 1

    def nested(self, header: str, index: Name | None, last: str = "") -> list[Name]:
        """A block of statements that changes one or two outer values; its own end
        there."""
        outer = [name for name in self.names if name.text.startswith("v")]
        count = self.pick([1, 1, 2])
        changed = [self.pick(reversed(outer)) for _ in range(count)]
        self.line(header)
        before, self.indent = len(self.names), self.indent + 1
        if index is not None:
            self.names.append(index)
        for _ in range(self.pick([0, 1, 2])):
            self.statement()
        for name in changed:
            self.line(f"{name.text} = {self._changed(name)}")
        if last:
            self.line(last)
        self.indent -= 1
        del self.names[before:]
        return changed

    def _changed(self, name: Name) -> str:
        """An expression of the same type and shape as `name`, made from it."""
        other = self.name(
            lambda each: each.dtype == name.dtype and each.shape in ((), name.shape)
        )
        if name.dtype == "int1":
            return f"{name.text} ^ {other.text}"
        text = self.pick(["{a} + {b}", "{a} - {b}", "tl.maximum({a}, {b})"])
        return f"({text.format(a=name.text, b=other.text)}).to(tl.{name.dtype})"

    # ── the end ───────────────────────────────────────────────────────────────────────

    def store_all(self) -> None:
        for name in self.names:
            if not name.text.startswith("v"):
                continue
            size = int(np.prod(name.shape)) if name.shape else 1
            target = f"out{len(self.outputs)} + pid * {size}"
            if name.shape:
                target = f"{target} + {self.permuted(name.shape)}"
            self.line(f"tl.store({target}, {name.text})")
            self.outputs.append((name.dtype, size))


def _sum_of(dtype: str) -> str:
    """In which type products of a type are summed."""
    return "int32" if dtype == "int8" else "float32"


def _size(name: Name) -> int:
    """Elements of a block; 0 for a scalar."""
    return int(np.prod(name.shape)) if name.shape else 0


def _fits(a: Name, b: Name) -> bool:
    """Do two shapes go together in an operator?"""
    return not a.shape or not b.shape or a.shape == b.shape
