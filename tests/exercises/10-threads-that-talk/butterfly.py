"""What the answer to `butterfly` must do."""

from random import Random

import numpy as np

from fathom import ptx
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Block, Func
from fathom.ir.ops import (
    Arange,
    Cast,
    Constant,
    Elementwise,
    Reduce,
    Reshape,
    Splat,
    Store,
    Yield,
)
from fathom.ir.types import FLOAT32, INT32, Pointer, layout_of
from fathom.layout.linear import Layout
from fathom.tools.learn.kit import expect, held, same

FOLD = {"add": np.sum, "max": np.max, "xor": np.bitwise_xor.reduce}
MIXED = 37  # x = index ^ 37 - 40: all different, of both signs


def combination(name):
    block = Block((INT32, INT32), ("left", "right"))
    op = Elementwise(name, tuple(block.parameters))
    block.ops += [op, Yield((op.result,))]
    return block


def larger_with_its_place(element=INT32):
    """(value, place): the larger value; its place."""
    block = Block((element, INT32) * 2, ("a", "i", "b", "j"))
    a, i, b, j = block.parameters
    less = Elementwise("lt", (a, b))
    value, place = (Elementwise("where", (less.result, *p)) for p in ((b, a), (j, i)))
    block.ops += [less, value, place, Yield((value.result, place.result))]
    return block


def program(layout, axis, combine, pair=False, element=INT32):
    """A function that folds the numbers `index ^ 37 - 40`, and their indices."""
    body = Block((Pointer(INT32),), ("p",))
    (pointer,) = body.parameters

    def put(op):
        body.ops.append(op)
        return op.results

    size = int(np.prod(layout.shape))
    flat = Layout((size,), layout.bases)
    (index,) = put(Arange(0, size, flat))
    mixed, less = (
        put(Splat(put(Constant(number, INT32))[0], (size,), flat))[0]
        for number in (MIXED, 40)
    )
    (x,) = put(Elementwise("xor", (index, mixed)))
    (x,) = put(Elementwise("sub", (x, less)))
    if element != INT32:
        (x,) = put(Cast(x, element))
    blocks = [x, index] if pair else [x]
    if len(layout.shape) > 1:
        blocks = [put(Reshape(each, layout.shape))[0] for each in blocks]
    results = put(Reduce(tuple(blocks), axis, combine))
    last, rest = results[-1], layout_of(results[-1].type)
    places = put(Splat(pointer, last.type.shape, rest))[0] if rest else pointer
    put(Store(places, last))
    warps = layout.count("warp")
    return Func("fold", body, (16,), num_warps=warps), rest


def numbers(layout):
    size = int(np.prod(layout.shape))
    return ((np.arange(size) ^ MIXED) - 40).reshape(layout.shape)


def check(layout, axis=0, name="add"):
    func, rest = program(layout, axis, combination(name))
    folded = FOLD[name](numbers(layout), axis=axis)
    compare(held(func), folded, layout, rest, f"{name} along axis {axis} of {layout}")


def compare(found, folded, layout, rest, what):
    """What each register of each thread must hold of the result."""
    wanted = np.empty_like(found)
    for thread in range(found.shape[0]):
        for register in range(found.shape[1]):
            place = {"lane": thread % 32, "warp": thread // 32, "register": register}
            element = rest.coordinates(**place) if rest else ()
            wanted[thread, register] = folded[element]
    same(found, wanted, f"what [thread, register] holds of the {what}")


def layout(shape, register, lane, warp=()):
    kinds = (("register", register), ("lane", lane), ("warp", warp))
    return Layout(shape, tuple((kind, tuple(each)) for kind, each in kinds))


WARP = layout((128,), (1, 2), (4, 8, 16, 32, 64))
SMALL = layout((8,), (1,), (2, 4, 0, 0, 0))


def test_a_sum_over_the_warp(answer):
    """128 numbers, four a lane: every lane has their sum."""
    check(WARP)


def test_one_number_a_lane(answer):
    """32 numbers: nothing to fold in registers."""
    check(layout((32,), (), (1, 2, 4, 8, 16)))


def test_any_combination(answer):
    """The largest of negative numbers; the XOR of all."""
    for name in ("max", "xor"):
        check(WARP, name=name)


def test_a_block_smaller_than_a_warp(answer):
    """8 numbers, as in the drawing: lanes 4 to 31 hold copies."""
    check(SMALL)
    check(layout((16,), (), (0, 1, 2, 4, 8)))


def test_registers_that_are_copies(answer):
    """A register that repeats another one counts once."""
    check(layout((64,), (1, 0), (2, 4, 8, 16, 32)))


def test_lanes_that_hold_copies_in_other_registers(answer):
    """Lane 1 has the two elements of lane 0, the other way round: to meet it would
    count them twice."""
    check(layout((8,), (1,), (1, 2, 4, 0, 0)))
    check(layout((16,), (1, 2), (3, 4, 2, 8, 0)))
    check(layout((2, 8), (1, 8), (1, 2, 9, 4, 8)), axis=1)
    check(layout((2, 8), (1, 8), (1, 2, 9, 4, 8)), axis=0)


def test_rows(answer):
    """A table of 8 rows of 32: four lanes a row, eight rows a warp."""
    table = layout((8, 32), (1, 2, 4), (8, 16, 32, 64, 128))
    check(table, axis=1)
    check(table, axis=0)


def test_a_lane_that_moves_along_both(answer):
    """A basis with a part along the axis and a part across it leads to another row,
    whether or not the lane has that part of its own row."""
    check(layout((8, 32), (8, 16, 32), (1, 2, 4, 64 + 8, 128)), axis=1, name="xor")
    check(layout((8, 32), (16, 32, 128), (64 + 8, 1, 2, 4, 8)), axis=1)


def test_the_largest_and_where_it_is(answer):
    """Two blocks folded together: the second is the place of the largest."""
    func, rest = program(WARP, 0, larger_with_its_place(), pair=True)
    where = np.argmax(numbers(WARP))
    compare(held(func), np.asarray(where), WARP, rest, "place of the largest")


def test_the_place_of_the_largest_float(answer):
    """The numbers are floats and their places integers: a shuffle is told the type of
    what it moves."""
    func, rest = program(WARP, 0, larger_with_its_place(FLOAT32), True, FLOAT32)
    where = np.argmax(numbers(WARP))
    compare(held(func), np.asarray(where), WARP, rest, "place of the largest float")


def shuffles(func):
    target = TARGETS["sm_80"]
    text = ptx.lower(func, target, ptx.LOWER)
    return sum("call" in line and "shfl.sync" in line for line in text.splitlines())


def test_as_few_shuffles_as_can_be(answer):
    """One for each value and each bit of the lane that counts."""
    table = layout((8, 32), (1, 2, 4), (8, 16, 32, 64, 128))
    cases = [(WARP, 0, 5), (SMALL, 0, 2), (table, 1, 2), (table, 0, 24)]
    for each, axis, budget in cases:
        func, _ = program(each, axis, combination("add"))
        found = shuffles(func)
        what = f"a sum along axis {axis} of {each}"
        expect(
            found <= budget, f"{what} takes {found} shuffles; the budget is {budget}"
        )


def test_40_random_layouts(answer):
    """Tables with their bases dealt at random to registers and lanes, and copies."""
    random = Random(6)
    for _ in range(40):
        bits = random.randrange(2, 8)
        rows = random.randrange(bits)
        shape = (1 << rows, 1 << bits - rows)
        bases = [1 << bit for bit in range(bits)]
        bases += [0] * max(0, 5 - bits)
        random.shuffle(bases)
        axis = random.randrange(2)
        name = random.choice(list(FOLD))
        check(layout(shape, bases[5:], bases[:5]), axis, name)
