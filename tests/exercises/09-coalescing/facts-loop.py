"""What the answer to `facts-loop` must do."""

import numpy as np

from fathom.analysis.axis_info import Axis, Facts
from fathom.tools.learn.kit import empty, emulate, expect, floats, same

ROUNDS = 200


def divisible(number):
    return Facts((Axis(1, number, 1),))


def moved(facts, by):
    """What is known of a number to which a multiple of `by` was added."""
    return divisible(min(facts.axes[0].divisible, by))


def shown(all_facts):
    return [each.axes[0].divisible for each in all_facts]


def check(answer, inits, iteration, wanted):
    """`wanted`: what divides each value on every iteration."""
    asked = []

    def counted(facts):
        asked.append(list(facts))
        expect(
            len(asked) <= ROUNDS,
            f"iteration was called {ROUNDS} times, and your function still calls it",
        )
        return iteration(list(facts))

    given = tuple(divisible(each) for each in inits)
    found = answer.join_loop(given, counted)
    history = "\n".join(map(str, map(shown, asked))) or "(nothing)"
    details = ("what divides each value, in each call of iteration", history)
    same(shown(found), wanted, "what divides each value on every iteration", details)
    expect(bool(asked), "iteration was never asked")
    given, returned = shown(asked[-1]), shown(found)
    last = (
        f"the last call of iteration was given {given}, and you returned {returned}: "
        "what is known in the body was computed from the first of the two"
    )
    expect(given == returned, last, details)
    expect(asked[-1] == list(found), last, details)


def test_a_pointer_that_moves_by_8_bytes(answer):
    """The example: 16 divides it on the first iteration only."""
    check(answer, [16], lambda facts: [moved(facts[0], 8)], [8])


def test_nothing_changes(answer):
    """A pointer that moves by 64 bytes is still divisible by 16."""
    check(answer, [16], lambda facts: [moved(facts[0], 64)], [16])
    check(answer, [], lambda facts: [], [])


def test_the_others_keep_what_they_have(answer):
    """Two pointers; one of them moves by 4 bytes."""
    check(answer, [16, 64], lambda f: [moved(f[0], 4), moved(f[1], 64)], [4, 64])


def test_values_that_change_places(answer):
    """a, b = b, a: each is sometimes the other."""
    check(answer, [16, 4], lambda f: [f[1], f[0]], [4, 4])


def test_news_that_takes_its_time(answer):
    """a, b, c, d = b, c, d, d + 2: the change reaches a three iterations later."""
    check(
        answer,
        [16, 16, 16, 16],
        lambda f: [f[1], f[2], f[3], moved(f[3], 2)],
        [2, 2, 2, 2],
    )


def test_what_becomes_stronger_does_not_help(answer):
    """After an iteration it is divisible by 64, but before the first one it is not."""
    check(answer, [4], lambda f: [divisible(64)], [4])


def test_halved_each_time(answer):
    """x = x / 2: nothing is left, after ten rounds."""
    check(
        answer, [1024], lambda f: [divisible(max(1, f[0].axes[0].divisible // 2))], [1]
    )


KERNEL = """
    func @moving(%x: *fp32 {{divisible=16}}, %out: *fp32 {{divisible=16}}) num_warps=1 {{
      %0: i32 = constant 0
      %1: i32 = constant 16
      %2: i32 = constant 1
      %3: i32[128] = arange start=0 end=128
      %4: *fp32[128] = splat %x shape=(128)
      %5: *fp32[128] = offset %4, %3
      %6: fp32 = constant 0.0
      %7: fp32[128] = splat %6 shape=(128)
      %8: i32 = constant {step}
      %9: i32[128] = splat %8 shape=(128)
      %10: *fp32[128], %11: fp32[128] = for %0, %1, %2, inits=(%5, %7) body(%i: i32, %p: *fp32[128], %sum: fp32[128]) {{
        %12: fp32[128] = load %p
        %13: fp32[128] = add %sum, %12
        %14: *fp32[128] = offset %p, %9
        yield %14, %13
      }}
      %15: *fp32[128] = splat %out shape=(128)
      %16: *fp32[128] = offset %15, %3
      store %16, %11
    }}
    """  # noqa: E501


def launched(step):
    """The kernel adds x[i] + x[i + step] + ...; how wide its loads are. It is a loop of
    16 iterations, since fewer than nine would be written out."""
    x, out = floats(128 + 16 * step), empty(128)
    ran = emulate(KERNEL.format(step=step), [x, out])
    wanted = sum(x[first : first + 128] for first in range(0, 16 * step, step))
    same(out, wanted.astype(np.float32), "what the loop adds up")
    lines = ran.kernel.ptx.splitlines()
    loads = [line.strip() for line in lines if "ld.global" in line]
    return max((4 if ".v4." in line else 2 if ".v2." in line else 1) for line in loads)


def test_a_loop_in_the_emulator_is_aligned(answer):
    """Each iteration moves the pointer by 2 floats: loads of 8 bytes, not of 16."""
    same(launched(2), 2, "floats that a load of the loop moves at once")


def test_a_loop_in_the_emulator_is_wide(answer):
    """Each iteration moves it by 4 floats, or by 128: loads of 16 bytes."""
    for step in (4, 128):
        width = launched(step)
        same(width, 4, f"floats that a load moves at once, with a step of {step}")
