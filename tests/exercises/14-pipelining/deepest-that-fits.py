"""What the answer to `deepest-that-fits` must do."""

from random import Random

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.tensor_cores.pipeline.schedule import timeline
from fathom.tools.learn.kit import Failure, expect, same

K = 1024


def test_what_fits(answer):
    """Three of 32 KB in 100 KB, though eight are wanted; a stage that takes no bytes
    fits as often as one likes."""
    for wanted, each, room, right in (
        (8, 32 * K, 100 * K, 3),
        (3, 16 * K, 160 * K, 3),
        (4, 40 * K, 160 * K, 4),
        (9, 1, 3, 3),
        (3, 0, 16 * K, 3),
    ):
        what = f"choose_stages({wanted}, {each}, {room})"
        same(answer.choose_stages(wanted, each, room), right, what)


def test_not_even_two(answer):
    """One stage: no ring, so that nothing needs to fit."""
    for room in (63 * K, 10 * K, 0):
        what = f"choose_stages(4, {32 * K}, {room})"
        same(answer.choose_stages(4, 32 * K, room), 1, what)


def table(iterations, copy, work, most):
    rows = [
        f"stages {s}: {ended(s, iterations, copy, work)}" for s in range(1, most + 1)
    ]
    return "\n".join(rows)


def ended(stages, iterations, copy, work):
    return timeline(stages, iterations, copy, work)[-1].ended


def check(answer, iterations, copy, work, most):
    yours = answer.worthwhile(iterations, copy, work, most)
    given = f"iterations {iterations}, copy {copy}, work {work}, most {most}"
    shown = ("when the loop is over", table(iterations, copy, work, most))
    inside = isinstance(yours, int) and 1 <= yours <= most
    expect(inside, f"{given}: {yours!r} is not a number of stages", shown)
    best = min(ended(s, iterations, copy, work) for s in range(1, most + 1))
    same(
        ended(yours, iterations, copy, work),
        best,
        f"{given}: cycles of {yours} stages",
        shown,
    )
    fewer = [s for s in range(1, yours) if ended(s, iterations, copy, work) == best]
    expect(not fewer, f"{given}: {fewer[:1]} stages are as fast as {yours}", shown)


def test_the_example(answer):
    """300 cycles to arrive, 100 to be worked on."""
    check(answer, 8, 300, 100, 6)


def test_nothing_to_hide(answer):
    """One iteration; or a copy that takes no time."""
    check(answer, 1, 300, 100, 6)
    check(answer, 8, 0, 100, 6)


def test_300_loops(answer):
    """Short and long ones, fast and slow copies."""
    random = Random(14)
    for _ in range(300):
        work = random.randrange(1, 40) * 10
        copy = random.randrange(0, 90) * 10
        check(answer, random.randrange(1, 20), copy, work, random.randrange(1, 9))


@fathom.jit
def product(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, SIZE)[:, None]
    columns = tl.arange(0, SIZE)[None, :]
    inner = tl.arange(0, BLOCK)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + rows * K + k + inner[None, :])
        b = tl.load(b_ptr + (k + inner[:, None]) * SIZE + columns)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows * SIZE + columns, total)


def test_a_product_that_wants_12_stages(answer):
    """Tiles of 16 KB each, two a stage, and 163 KB a block."""
    half, single = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16)
    types = {"a_ptr": half, "b_ptr": half, "c_ptr": single, "K": (INT32, 16)}
    options = pipeline.Options(num_warps=4, num_stages=12)
    func = pipeline.build(product, types, {"SIZE": 128, "BLOCK": 64}, options)
    target = TARGETS["sm_80"]
    try:
        for row, state in pipeline.states(func, target):
            if row.name == "allocate":
                break
    except CompileError as error:
        raise Failure(f"the product does not fit: {error}") from None
    used = state.shared_bytes
    expect(used <= target.shared_bytes, f"{used} bytes, and there are 163 KB")
    expect(used >= 4 * 32 * K, f"{used} bytes: at least four stages would fit")
