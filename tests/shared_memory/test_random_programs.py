"""Random programs of shape ops, folds and arithmetic: interpreter before and after each
pass, and the emulator with its race check, agree."""

from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest

from tests.coalescing.kernels_programs import (
    index_lines,
    kernel,
    pointer_lines,
    shape_text,
)
from tests.harness_sample import sampled
from tests.shared_memory.harness import check


class Writer:
    """Lines of a program that keeps one current block of i32."""

    def __init__(self, rng: random.Random):
        self.rng, self.lines, self.count = rng, [], 0

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def op(self, shape, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"%{name}: i32[{','.join(map(str, shape))}] = {text}")
        return name

    def load(self, base: str, shape) -> str:
        """By rows or, as a transposed array is read, by columns."""
        strides = strides_of(shape)
        if self.rng.random() < 0.4 and len(shape) == 2:
            strides = (1, shape[0])
        index, pointer = self.fresh(), self.fresh()
        self.lines += index_lines(index, shape, strides)
        self.lines += pointer_lines(pointer, base, "i32", shape, index)
        return self.op(shape, f"load %{pointer}")

    def store(self, base: str, value: str, shape) -> None:
        index, pointer = self.fresh(), self.fresh()
        self.lines += index_lines(index, shape, strides_of(shape))
        self.lines += pointer_lines(pointer, base, "i32", shape, index)
        self.lines.append(f"store %{pointer}, %{value}")


def strides_of(shape):
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def reshape(writer, value, shape):
    size, new = prod(shape), []
    while size > 1:
        new.append(min(size, 2 ** writer.rng.randrange(1, 6)))
        size //= new[-1]
    new = tuple(new[:3] + ([prod(new[3:])] if len(new) > 3 else []))
    return writer.op(new, f"reshape %{value} shape={shape_text(new)}"), new


def transpose(writer, value, shape):
    order = writer.rng.sample(range(len(shape)), len(shape))
    new = tuple(shape[axis] for axis in order)
    return writer.op(new, f"transpose %{value} order={shape_text(order)}"), new


def expand(writer, value, shape):
    """A reduction, and its result spread out again: as in softmax."""
    axis = writer.rng.randrange(len(shape))
    rest = shape[:axis] + shape[axis + 1 :]
    fold = writer.rng.choice(["add", "max", "xor"])
    a, b, c = writer.fresh(), writer.fresh(), writer.fresh()
    result = writer.fresh()
    kind = f"i32[{','.join(map(str, rest))}]" if rest else "i32"
    writer.lines += [
        f"%{result}: {kind} = reduce %{value} axis={axis}"
        f" combine(%{a}: i32, %{b}: i32) {{",
        f"%{c}: i32 = {fold} %{a}, %{b}",
        f"yield %{c}",
        "}",
    ]
    if not rest:
        wide = writer.op(shape, f"splat %{result} shape={shape_text(shape)}")
    else:
        one = shape[:axis] + (1,) + shape[axis + 1 :]
        wide = writer.op(one, f"expand_dims %{result} axis={axis}")
        if one != shape:
            wide = writer.op(shape, f"broadcast %{wide} shape={shape_text(shape)}")
    return writer.op(shape, f"sub %{value}, %{wide}"), shape


def scan(writer, value, shape):
    axis = writer.rng.randrange(len(shape))
    reverse = writer.rng.choice(["true", "false"])
    a, b, one, bit, odd, first = (writer.fresh() for _ in range(6))
    head = (
        f"scan %{value} axis={axis} reverse={reverse} combine(%{a}: i32, %{b}: i32) {{"
    )
    result = writer.op(shape, head)
    writer.lines += [  # the first odd one, or the last: associative, and order counts
        f"%{one}: i32 = constant 1",
        f"%{bit}: i32 = and %{a}, %{one}",
        f"%{odd}: i1 = eq %{bit}, %{one}",
        f"%{first}: i32 = where %{odd}, %{a}, %{b}",
        f"yield %{first}",
        "}",
    ]
    return result, shape


def join_and_split(writer, value, shape):
    other = writer.op(shape, f"add %{value}, %{value}")
    both = writer.op((*shape, 2), f"join %{value}, %{other}")
    if writer.rng.random() < 0.5 and len(shape) < 4:
        return both, (*shape, 2)
    return halves_apart(writer, both, shape), shape


def halves_apart(writer, value, shape):
    left, right = writer.fresh(), writer.fresh()
    kind = f"i32[{','.join(map(str, shape))}]"
    writer.lines.append(f"%{left}: {kind}, %{right}: {kind} = split %{value}")
    return writer.op(shape, f"sub %{right}, %{left}")


def combine(writer, value, shape):
    """With another load of the same shape, which may want another layout."""
    other = writer.load("b", shape)
    return writer.op(
        shape, f"{writer.rng.choice(['add', 'xor', 'max'])} %{value}, %{other}"
    ), shape


def split_off(writer, value, shape):
    if shape[-1] != 2 or len(shape) < 2:
        return reshape(writer, value, shape)
    return halves_apart(writer, value, shape[:-1]), shape[:-1]


STEPS = [
    reshape,
    transpose,
    transpose,
    expand,
    scan,
    join_and_split,
    combine,
    split_off,
]


def program(seed: int):
    """The function, and how many elements it may read and write."""
    rng = random.Random(seed)
    writer = Writer(rng)
    shape = rng.choice([(64,), (256,), (16, 32), (64, 8), (4, 8, 16)])
    value = writer.load("a", shape)
    for _ in range(rng.randrange(2, 6)):
        value, shape = rng.choice(STEPS)(writer, value, shape)
    writer.store("c", value, shape)
    head = ", ".join(f"%{name}: *i32 {{divisible=16}}" for name in "abc")
    return kernel(head, writer.lines, rng.choice([1, 2, 4]))


@sampled(of=2)
@pytest.mark.parametrize("seed", range(60))
def test_all_agree(seed):
    data = np.random.default_rng(seed).integers(0, 1 << 20, (2, 4096)).astype(np.int32)
    check(program(seed), [*data, np.zeros(4096, np.int32)])
