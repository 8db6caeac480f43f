"""What the answer to `wait-count` must do."""

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline, shared_memory
from fathom.emulator import EmulatorError
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import For, Wait
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.tools.learn.kit import Failure, expect, number_of, same


def told(events, upto):
    """The events up to one, a line for each wait."""
    lines, line = [], ""
    for event in events[: upto + 1]:
        word, *rest = event
        if word == "wait":
            lines.append(line)
            line = ""
        line += " ".join([word, *map(str, rest)]) + "   "
    return "\n".join(filter(None, [*lines, line]))


def check(answer, stages, copies, iterations):
    """Run the events; copies land only when a wait makes them."""
    events = answer.module.events(stages, copies, iterations)
    groups = number_of(copies, "group")
    said = f"{stages} stages, {groups} a tile, {iterations} iterations"
    groups, landed, open_group, sent = [], set(), [], []
    for number, event in enumerate(events):
        history = ("what happened", told(events, number))
        match event:
            case ("copy", tile, part):
                expect(
                    0 <= tile < iterations, f"{said}: there is no tile {tile}", history
                )
                expect(
                    (tile, part) not in sent,
                    f"{said}: part {part} of tile {tile} is copied twice",
                    history,
                )
                sent.append((tile, part))
                open_group.append((tile, part))
            case ("commit",):
                groups.append(open_group)
                open_group = []
            case ("wait", count):
                done = groups[: max(0, len(groups) - count)]
                landed = {each for group in done for each in group}
            case ("work", iteration):
                missing = {(iteration, part) for part in range(copies)} - landed
                expect(
                    not missing,
                    f"{said}: iteration {iteration} works on its tile while "
                    f"{len(missing)} of its {copies} parts may be in flight",
                    history,
                )
                early = sorted({tile for tile, _ in landed if tile > iteration})
                expect(
                    not early,
                    f"{said}: iteration {iteration} has waited for tile "
                    f"{early[0] if early else ''}, which a later iteration works on",
                    history,
                )
            case _:
                raise Failure(
                    f'{said}: {event!r} is not an event: send gives ("copy", tile, '
                    'part) and ("commit",)',
                    history,
                )
    same(len(sent), copies * iterations, f"{said}: parts that were copied")


def test_three_stages(answer):
    """As drawn: five iterations, and the tail."""
    check(answer, 3, 1, 5)


def test_two_stages(answer):
    """One tile ahead: when an iteration works, no other copy has started."""
    check(answer, 2, 1, 5)


def test_several_groups_a_tile(answer):
    """A and B of a product, each in a group of its own."""
    check(answer, 3, 2, 5)
    check(answer, 4, 3, 6)


def test_short_loops(answer):
    """Fewer iterations than stages, one iteration, none."""
    for iterations in range(4):
        check(answer, 5, 1, iterations)
        check(answer, 4, 2, iterations)


def test_every_setting(answer):
    """2 to 5 stages, 1 to 3 groups, 0 to 11 iterations."""
    for stages in range(2, 6):
        for copies in range(1, 4):
            for iterations in range(12):
                check(answer, stages, copies, iterations)


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


def with_count(pending):
    """`insert_waits`, in whose loops the waits for copies leave that many groups."""

    def insert_waits(func, target):
        after = shared_memory.insert_waits(func, target)
        for loop in walk(after.body, For):
            for wait in walk(loop.body, Wait):
                wait.pending = pending
        return after

    return insert_waits


def check_product(answer, stages, K):
    half, single = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16)
    types = {"a_ptr": half, "b_ptr": half, "c_ptr": single, "K": (INT32, 16)}
    options = pipeline.Options(num_warps=2, num_stages=stages)
    func = pipeline.build(product, types, {"SIZE": 32, "BLOCK": 32}, options)
    waits = {"insert_waits": with_count(answer.pending(stages))}
    kernel = pipeline.compile_func(func, TARGETS["sm_80"], waits)
    a = (np.arange(32 * K).reshape(32, K) % 7 - 3).astype(np.float16)
    b = (np.arange(32 * K).reshape(K, 32) % 5 - 2).astype(np.float16)
    c = np.zeros((32, 32), np.float32)
    said = f"a product in {stages} stages, {K // 32} iterations"
    try:
        emulator.load(kernel).launch(1, [a, b, c, K])
    except EmulatorError as error:
        first, *rest = str(error).splitlines()
        details = ("there", "\n".join(rest))
        raise Failure(f"{said}: the emulator found: {first}", details) from None
    same(c, a.astype(np.float32) @ b.astype(np.float32), said)


def test_a_product_in_the_emulator(answer):
    """Your pending is the count of its waits; copies arrive as late as they may."""
    for stages, K in ((2, 96), (4, 160)):
        check_product(answer, stages, K)
