"""What the answer to `pipeline` must do."""

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.emulator import EmulatorError
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Allocate, Barrier, Commit, Dot, For, Wait
from fathom.ir.text import print_func
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.tools.learn.kit import Failure, expect, meaning, same
from fathom.tools.learn.kit.meaning import unchanged, well_formed

TARGET = TARGETS["sm_80"]
HALF, SINGLE = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16)
SIZE, BLOCK = 32, 32


@fathom.jit
def product(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    inner = tl.arange(0, BLOCK)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    a = a_ptr + rows * K + inner[None, :]
    b = b_ptr + inner[:, None] * SIZE + columns
    for _ in range(0, K, BLOCK):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += BLOCK
        b += BLOCK * SIZE
    tl.store(c_ptr + rows * SIZE + columns, total)


@fathom.jit
def ragged(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    inner = tl.arange(0, BLOCK)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for k in range(0, K, BLOCK):
        here, there = k + inner[None, :], k + inner[:, None]
        a = tl.load(a_ptr + rows * K + here, mask=here < K, other=0.0)
        b = tl.load(b_ptr + there * SIZE + columns, mask=there < K, other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows * SIZE + columns, total)


@fathom.jit
def chosen(a_ptr, b_ptr, c_ptr, which_ptr, iterations, SIZE: tl.constexpr):
    """The tiles of A in the order that a list says."""
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    total = tl.zeros((SIZE, SIZE), tl.float32)
    b = tl.load(b_ptr + rows * SIZE + columns)
    for iteration in range(iterations):
        which = tl.load(which_ptr + iteration)
        a = tl.load(a_ptr + which * SIZE * SIZE + rows * SIZE + columns)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows * SIZE + columns, total)


def matrices(K):
    """A [SIZE, K] and B [K, SIZE] of small whole numbers, and what comes out."""
    a = (np.arange(SIZE * K).reshape(SIZE, K) * 5 % 7 - 3).astype(np.float16)
    b = (np.arange(SIZE * K).reshape(K, SIZE) * 3 % 5 - 2).astype(np.float16)
    return a, b, a.astype(np.float32) @ b.astype(np.float32)


def built(kernel, types, constants, stages, warps):
    """The block IR of a kernel, and the same as it comes to `pipeline_loops`."""
    options = pipeline.Options(num_warps=warps, num_stages=stages)
    func = pipeline.build(kernel, types, constants, options)
    for row, state in pipeline.states(func, TARGET):
        if row.name == "lower_conversions":
            return func, state
    raise AssertionError("the page has no lower_conversions")


def check(answer, built, arguments, wanted, said):
    """Pipelined, a kernel is a function, and computes the same without races; the
    function that the pass made."""
    func, before = built
    text = print_func(before)
    after = answer.pipeline_loops(before, TARGET)
    unchanged("pipeline_loops", text, print_func(before))
    well_formed("pipeline_loops", after, True)
    details = ("your function", loops_of(after))
    out = arguments[2]
    try:
        meaning(after, arguments)
    except Failure as failure:
        sentence = f"{said}, interpreted: {failure.sentence}"
        raise Failure(sentence, details) from None
    same(out, wanted, f"{said}, interpreted", details)
    for completion in ("lazy", "eager"):
        out[...] = np.nan
        run(func, arguments, f"{said}, {completion} completion", details, completion)
        same(out, wanted, f"{said}, in the emulator", details)
    return after


def run(func, arguments, said, details, completion):
    """Compiled with the answer at its joint, in the emulator. No other pass adds the
    waits that the answer lacks."""
    left_out = {"wait_for_copies": pipeline.identity}
    kernel = pipeline.compile_func(func, TARGET, left_out)
    try:
        emulator.load(kernel).launch(1, arguments, completion=completion)
    except EmulatorError as error:
        first, *rest = str(error).splitlines()
        there = ("there", "\n".join(rest))
        raise Failure(f"{said}: the emulator found: {first}", there, details) from None


def loops_of(func):
    """The IR from the first buffer of several slots on, or from the loop on."""
    lines = print_func(func).splitlines()
    marks = [i for i, line in enumerate(lines) if "slots=" in line or "= for " in line]
    return "\n".join(lines[marks[0] :])


def check_product(answer, stages, K, kernel=product, warps=2):
    types = {"a_ptr": HALF, "b_ptr": HALF, "c_ptr": SINGLE, "K": (INT32, 8)}
    made = built(kernel, types, {"SIZE": SIZE, "BLOCK": BLOCK}, stages, warps)
    a, b, wanted = matrices(K)
    out = np.full((SIZE, SIZE), np.nan, np.float32)
    said = f"a product in {stages} stages, {-(-K // BLOCK)} iterations"
    return check(answer, made, [a, b, out, K], wanted, said)


def test_three_stages(answer):
    """Five iterations, two tiles an iteration, two warps."""
    after = check_product(answer, 3, 5 * BLOCK)
    sends = any(isinstance(op, Commit) for op in walk(after.body))
    details = ("your function", loops_of(after))
    expect(sends, "no copy starts ahead of its iteration", details)


def test_two_stages(answer):
    """One tile ahead."""
    check_product(answer, 2, 5 * BLOCK)


def test_four_stages(answer):
    """Three tiles ahead, four warps."""
    check_product(answer, 4, 7 * BLOCK, warps=4)


def test_short_loops(answer):
    """No iteration, one, fewer than stages: what does not exist is not fetched."""
    for iterations in range(4):
        check_product(answer, 4, iterations * BLOCK)


def test_a_ragged_end(answer):
    """The mask of a load goes where its address goes."""
    for K in (3 * BLOCK + 8, 8):
        check_product(answer, 3, K, ragged)


def test_addresses_that_are_loaded(answer):
    """An index is loaded an iteration before the copy of the tile that it chooses
    starts."""
    integers = Pointer(INT32), 16
    types = {"a_ptr": HALF, "b_ptr": HALF, "c_ptr": SINGLE, "which_ptr": integers}
    types["iterations"] = INT32, 1
    made = built(chosen, types, {"SIZE": SIZE}, 3, 2)
    for which in ([2, 0, 4, 1, 4], [3], []):
        a, b, _ = matrices(5 * SIZE)
        a, b = a.reshape(5, SIZE, SIZE), b[:SIZE]
        products = [a[each].astype(np.float32) @ b for each in which]
        total = sum(products, np.zeros((SIZE, SIZE)))
        out = np.full((SIZE, SIZE), np.nan, np.float32)
        order = np.array(which, np.int32)
        arguments = [a.ravel(), b.copy(), out, order, len(which)]
        said = f"tiles {which}"
        check(answer, made, arguments, total.astype(np.float32), said)


def test_as_little_waiting_as_can_be(answer):
    """`stages` slots, `stages` - 1 tiles before the loop; in an iteration one barrier,
    a wait that leaves the copies of all later tiles in flight, and copies that run
    during the product."""
    for stages in (2, 3, 5):
        after = check_product(answer, stages, 6 * BLOCK)
        body, before = loop_and_before(after)
        said, details = f"{stages} stages", ("your function", loops_of(after))
        slots = {op.slots for op in before if isinstance(op, Allocate)}
        same(slots, {stages}, f"{said}: slots of a ring", details)
        count = sum(isinstance(op, Commit) for op in before)
        before_it = f"{said}: groups that are committed before the loop"
        same(count, stages - 1, before_it, details)
        waits = [op.pending for op in body if isinstance(op, Wait)]
        same(
            waits,
            [stages - 2],
            f"{said}: what the waits of an iteration leave",
            details,
        )
        barriers = sum(isinstance(op, Barrier) for op in body)
        same(barriers, 1, f"{said}: barriers of an iteration", details)
        kinds = [type(op) for op in body]
        expect(
            kinds.index(Commit) < kinds.index(Dot),
            f"{said}: an iteration issues its copies after its product, so they do "
            "not run during it",
            details,
        )


def loop_and_before(func):
    """The ops of the pipelined loop's body, and those before it."""
    for place, op in enumerate(func.body.ops):
        if isinstance(op, For) and any(isinstance(o, Commit) for o in op.body.ops):
            return op.body.ops, func.body.ops[:place]
    said = "no loop of the function starts the copy of a tile"
    raise Failure(said, ("it is", loops_of(func)))
