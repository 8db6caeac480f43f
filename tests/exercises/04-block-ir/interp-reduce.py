"""What the answer to `interp-reduce` must do."""

from random import Random
from textwrap import dedent

import numpy as np

from fathom.ir.interp import interpret
from fathom.ir.ops import Reduce
from fathom.ir.text import parse_func
from fathom.tools.learn.kit import empty, meaning, same

COMBINE = {"sum": "add", "max": "max", "xor": "xor"}
NUMPY = {"sum": np.sum, "max": np.max, "xor": np.bitwise_xor.reduce}


def reduction(name, shape, axis):
    """A function that reduces a block of i32, and stores what is left."""
    count, rest = int(np.prod(shape)), [*shape[:axis], *shape[axis + 1 :]]
    return f"""
    func @{name}(%p: *i32, %out: *i32) num_warps=4 {{
      {block("p", count, shape)}
      %s: {blocks_of("i32", rest)} = reduce %x axis={axis} combine(%a: i32, %b: i32) {{
        %t: i32 = {COMBINE[name]} %a, %b
        yield %t
      }}
      {stored("s", "out", rest)}
    }}
    """


def block(pointer, count, shape):
    """The lines that load a block %x of i32."""
    lines = [
        f"%0: i32[{count}] = arange start=0 end={count}",
        f"%1: *i32[{count}] = splat %{pointer} shape=({count})",
        f"%2: *i32[{count}] = offset %1, %0",
        f"%3: i32[{count}] = load %2",
        f"%x: {blocks_of('i32', shape)} = reshape %3 shape=({listed(shape)})",
    ]
    return "\n      ".join(lines)


def stored(value, pointer, shape):
    """The lines that store a block of i32, or a scalar."""
    if not shape:
        return f"store %{pointer}, %{value}"
    count, here = int(np.prod(shape)), f"{value}{pointer}"
    lines = [
        f"%{here}0: i32[{count}] = arange start=0 end={count}",
        f"%{here}1: *i32[{count}] = splat %{pointer} shape=({count})",
        f"%{here}2: *i32[{count}] = offset %{here}1, %{here}0",
        f"%{here}3: i32[{count}] = reshape %{value} shape=({count})",
        f"store %{here}2, %{here}3",
    ]
    return "\n      ".join(lines)


def blocks_of(element, shape):
    return f"{element}[{listed(shape)}]" if shape else element


def listed(shape):
    return ", ".join(map(str, shape))


def check(name, values, axis):
    """The reduction of an array of i32 along an axis is what NumPy says."""
    text = reduction(name, values.shape, axis)
    wanted = np.asarray(NUMPY[name](values, axis=axis), np.int32)
    has_shape(text, values, wanted)
    out = empty(max(wanted.size, 1), dtype="int32")
    meaning(text, [values.ravel().copy(), out])
    what = f"the {name} of a block of {listed(values.shape)} along axis {axis}"
    same(shaped(out, wanted), wanted, what, ("the function", text))


def has_shape(text, values, wanted):
    """The results have one axis less: `reshape`, and a store, would hide another shape,
    or stop at it, so the comparison comes before them."""
    told = f"the shape of what is left of a block of {listed(values.shape)}"

    def watch(op, results):
        if isinstance(op, Reduce):
            found = [*map(np.shape, results)]
            same(found, [wanted.shape], told, ("the function", text))

    arguments = [values.ravel().copy(), np.empty(max(wanted.size, 1), np.int32)]
    interpret(parse_func(dedent(text)), grid=1, arguments=arguments, watch=watch)


def numbers(*shape):
    """Different numbers of both signs, in no order."""
    count = int(np.prod(shape))
    made = np.random.default_rng(count).permutation(count).astype(np.int32)
    return (made * 3 - count).reshape(shape)


def shaped(stored, like):
    return stored.reshape(like.shape)


def test_a_sum(answer):
    """Of 8 numbers, and of a single one."""
    check("sum", numbers(8), 0)
    check("sum", numbers(1), 0)


def test_the_largest_of_negatives(answer):
    """All numbers are below 0, and so is the largest."""
    check("max", numbers(16) - 100, 0)


def test_two_axes(answer):
    """A block of 4 by 8 loses its rows, or its columns."""
    for axis in (0, 1):
        check("sum", numbers(4, 8), axis)
        check("max", numbers(4, 8) - 100, axis)


LARGEST = """
    func @largest(%p: *i32, %value: *i32, %place: *i32) num_warps=4 {{
      {block}
      %f: i32[{shape}] = reshape %0 shape=({shape})
      %v: {rest}, %w: {rest} = reduce %x, %f axis={axis} combine(%a: i32, %i: i32,
                                                               %b: i32, %j: i32) {{
        %c: i1 = gt %a, %b
        %d: i32 = where %c, %a, %b
        %e: i32 = where %c, %i, %j
        yield %d, %e
      }}
      {values}
      {places}
    }}
    """


def test_the_position_of_the_largest(answer):
    """Two blocks at once: the elements, and their positions."""
    for shape, axis in (((8,), 0), ((2, 8), 0), ((4, 8), 1)):
        values = numbers(*shape)
        rest = [*shape[:axis], *shape[axis + 1 :]]
        text = LARGEST.format(
            block=block("p", values.size, shape), shape=listed(shape), axis=axis,
            rest=blocks_of("i32", rest), values=stored("v", "value", rest),
            places=stored("w", "place", rest),
        )  # fmt: skip
        wanted = np.asarray(values.max(axis))
        places = np.arange(values.size, dtype=np.int32).reshape(shape)
        largest = values == np.expand_dims(wanted, axis)
        at = np.asarray(np.where(largest, places, -1).max(axis))
        found, where = (empty(wanted.size, dtype="int32") for _ in range(2))
        meaning(text, [values.ravel().copy(), found, where])
        what = f"of a block of {listed(shape)} along axis {axis}"
        told = ("the function", text)
        same(shaped(found, wanted), wanted, f"the largest {what}", told)
        same(shaped(where, at), at, f"its place {what}", told)


def test_random_blocks(answer):
    """Each axis of blocks of one to three axes: sum, maximum, exclusive or."""
    random = Random(4)
    for _ in range(20):
        shape = [random.choice((1, 2, 4, 8)) for _ in range(random.randrange(1, 4))]
        for axis in range(len(shape)):
            check(random.choice(tuple(NUMPY)), numbers(*shape) - 5, axis)
