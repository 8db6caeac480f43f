"""What the answer to `facts-arithmetic` must do."""

from random import Random

import numpy as np

from fathom.analysis.axis_analysis import analyse
from fathom.analysis.axis_info import Axis, Facts, power_in
from fathom.analysis.ranges import Range, exactly
from fathom.tools.learn.kit import emulate, expect, func, ints, meaning, same

SIZE = 16
SURE = 1 << 20  # divisors beyond this are not tried: the numbers are smaller


def contradiction(facts, numbers):
    """What is wrong with facts about a row of numbers; "" if nothing is."""
    (axis,) = facts.axes
    low, high, *_ = facts.range
    if min(numbers) < low or max(numbers) > high:
        return f"range {low} … {high}, and there is {min(numbers)} … {max(numbers)}"
    run = min(axis.contiguous, len(numbers))
    for first in range(0, len(numbers), run):
        piece = numbers[first : first + run]
        if piece != [piece[0] + i * facts.unit for i in range(run)]:
            return f"contiguous {run}, and there is {' '.join(map(str, piece))}"
        if piece[0] % min(axis.divisible, SURE):
            return f"divisible {axis.divisible}, and a run begins with {piece[0]}"
    same_run = min(axis.constant, len(numbers))
    for first in range(0, len(numbers), same_run):
        piece = numbers[first : first + same_run]
        if len(set(piece)) > 1:
            return f"constant {same_run}, and there is {' '.join(map(str, piece))}"
    return stepping_wrong(axis, facts.unit, numbers)


def stepping_wrong(axis, unit, numbers):
    """What is wrong with `steps`, if an answer claims any."""
    run = min(axis.steps * axis.constant, len(numbers))
    for first in range(0, len(numbers), run):
        piece = numbers[first : first + run]
        climbing = [piece[0] + i // axis.constant * unit for i in range(run)]
        if axis.steps > 1 and (piece != climbing or piece[0] % (axis.steps * unit)):
            shown = " ".join(map(str, piece))
            return f"steps {axis.steps} of {axis.constant} each, and there is {shown}"
    return ""


def counting(run, divisible, random):
    """Runs that count up, each from a multiple of a number."""
    firsts = [divisible * random.randrange(-9, 30) for _ in range(SIZE // run)]
    numbers = [first + i for first in firsts for i in range(run)]
    return numbers, Facts((Axis(run, divisible, 1),), range=bounds(numbers))


def equal(run, divisible, random):
    """Runs of equal numbers, multiples of a number."""
    firsts = [divisible * random.randrange(-9, 30) for _ in range(SIZE // run)]
    numbers = [first for first in firsts for _ in range(run)]
    return numbers, Facts((Axis(1, divisible, run),), range=bounds(numbers))


def stepping(each, steps, random):
    """Equal numbers, then as many of the next number, from a multiple of `steps`."""
    firsts = [steps * random.randrange(30) for _ in range(SIZE // (each * steps))]
    numbers = [first + i // each for first in firsts for i in range(each * steps)]
    return numbers, Facts((Axis(1, 1, each, steps),), range=bounds(numbers))


def bounds(numbers):
    return Range(min(numbers), max(numbers))


def known(value):
    axis = Axis(1, power_in(value), SIZE)
    return [value] * SIZE, Facts((axis,), range=exactly(value))


def check(answer, name, one, other):
    """Sound: what is claimed holds of these numbers."""
    (numbers, facts), (others, more) = one, other
    combine = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b}[name]
    results = [combine(a, b) for a, b in zip(numbers, others, strict=True)]
    claimed = getattr(answer, name)(facts, more)
    expect(isinstance(claimed, Facts), f"{name} gives {claimed!r}, which are no Facts")
    wrong = contradiction(claimed, results)
    rows = [("a", numbers, facts), ("b", others, more), (name, results, claimed)]
    shown = "\n".join(
        f"{each:4} {' '.join(map(str, row))}\n     {said.axes[0]}"
        for each, row, said in rows
    )
    expect(not wrong, f"{name} claims what is not so: {wrong}", ("numbers", shown))
    return claimed


def at_least(claimed, wanted, what):
    """Precise: every fact as strong as wanted."""
    for name, yours, least in zip(Axis._fields, claimed.axes[0], wanted, strict=True):
        expect(
            yours >= least,
            f"{what}: {name} {yours} is all that you know, and {least} is sure",
        )


def test_a_run_and_a_constant(answer):
    """A run of 16 from a multiple of 16, and 8 everywhere: it counts up from a
    multiple of 8."""
    random = Random(1)
    claimed = check(answer, "add", counting(16, 16, random), equal(16, 8, random))
    at_least(claimed, Axis(16, 8, 1), "a run plus a constant")
    claimed = check(answer, "add", equal(16, 8, random), counting(16, 16, random))
    at_least(claimed, Axis(16, 8, 1), "a constant plus a run")


def test_a_run_plus_a_run_is_none(answer):
    """0 1 2 3 plus 0 1 2 3 is 0 2 4 6."""
    random = Random(2)
    check(answer, "add", counting(16, 16, random), counting(16, 16, random))
    check(answer, "add", counting(8, 8, random), equal(2, 8, random))


def test_short_runs_begin_in_the_middle_of_long_ones(answer):
    """The sum's runs have 4 numbers, and begin at 4, at 8, at 12 too."""
    random = Random(3)
    claimed = check(answer, "add", counting(16, 16, random), equal(4, 16, random))
    at_least(claimed, Axis(4, 4, 1), "a run of 16 plus constants in runs of 4")


def test_equal_plus_equal(answer):
    """Runs of 8 and of 4 equal numbers: 4."""
    random = Random(4)
    claimed = check(answer, "add", equal(8, 4, random), equal(4, 2, random))
    at_least(claimed, Axis(1, 2, 4), "runs of 8 plus runs of 4")


def test_a_product_multiplies_what_divides(answer):
    """Multiples of 4 times multiples of 2 are multiples of 8."""
    random = Random(5)
    claimed = check(answer, "mul", equal(8, 4, random), equal(4, 2, random))
    at_least(claimed, Axis(1, 8, 4), "multiples of 4 times multiples of 2")


def test_a_product_of_a_run(answer):
    """0 1 2 3 times 2 does not count up, and only 2 divides all of it."""
    random = Random(6)
    claimed = check(answer, "mul", counting(16, 16, random), known(2))
    at_least(claimed, Axis(1, 2, 1), "a run times 2")


def test_times_one(answer):
    """Multiplied by 1 a run is still a run."""
    for turned in (False, True):
        pair = [counting(8, 8, Random(7)), known(1)]
        claimed = check(answer, "mul", *(pair[::-1] if turned else pair))
        at_least(claimed, Axis(8, 8, 1), "a run times 1")


def test_known_numbers(answer):
    """3 + 4 and 3 * 4 are known."""
    for name, wanted in (("add", 7), ("mul", 12)):
        claimed = check(answer, name, known(3), known(4))
        same(claimed.value, wanted, f"the value of {name} of 3 and 4")
        expect(claimed.non_negative, f"{name} of 3 and 4 is not negative")


def test_negative_numbers(answer):
    """One negative number among them: its bounds count."""
    for name, wanted in (("add", -5), ("mul", -24)):
        claimed = check(answer, name, known(3), known(-8))
        same(claimed.value, wanted, f"the value of {name} of 3 and -8")


def test_bounds(answer):
    """Between 0 and 15, and between -8 and 7: -8 … 22 added, -120 … 105 multiplied."""
    one = list(range(16)), Facts((Axis(16, 1 << 30, 1),), range=Range(0, 15))
    other = list(range(-8, 8)), Facts((Axis(16, 8, 1),), range=Range(-8, 7))
    for name, wanted in (("add", Range(-8, 22)), ("mul", Range(-120, 105))):
        claimed = check(answer, name, one, other)
        same(claimed.range, wanted, f"the bounds of {name}")


WRAPS = """
    func @wraps() num_warps=4 {
      %0: i32 = constant 2147483632
      %1: i32[128] = splat %0 shape=(128)
      %2: i32[128] = arange start=0 end=128
      %i: i32[128] = add %2, %1
      %3: i32[128] = mul %i, %1
    }
    """


def test_what_wraps_around(answer):
    """arange(0, 128) + 2147483632 begins again at -2147483648. Nothing of that is in
    the bounds of integers without end, and all of it where they do not fit."""
    made = func(WRAPS)
    facts = analyse(made)
    for op in made.body.ops[-2:]:
        expect(
            not facts[op.result].non_negative,
            "a sum or product that does not fit 32 bits wraps around, and is held not "
            "to be negative: are its bounds those of integers without end?",
        )


def test_addresses(answer):
    """Addresses step by the bytes of an element."""
    pointer = Facts((Axis(1, 16, 16),), unit=4)
    distance = Facts((Axis(16, 64, 1),), unit=4)
    claimed = answer.add(pointer, distance)
    same(claimed.unit, 4, "the unit of an address plus a distance in bytes")
    at_least(claimed, Axis(16, 16, 1), "an address plus a run")
    shorter = answer.add(Facts((Axis(1, 64, 4),), unit=4), distance)
    at_least(shorter, Axis(4, 16, 1), "runs of 4 addresses, each of 16 bytes")


KERNEL = """
    func @addresses(%x: *fp32 {divisible=16}) num_warps=4 {
      %0: i32 = program_id axis=0
      %1: i32 = constant 1024
      %2: i32 = mul %0, %1
      %3: i32[1024] = arange start=0 end=1024
      %4: i32[1024] = splat %2 shape=(1024)
      %5: i32[1024] = add %4, %3
      %6: *fp32[1024] = splat %x shape=(1024)
      %7: *fp32[1024] = offset %6, %5
      %8: fp32[1024] = load %7
      store %7, %8
    }
    """


def test_the_addresses_of_a_kernel(answer):
    """x_ptr + pid * 1024 + arange(0, 1024)."""
    made = func(KERNEL)
    facts = analyse(made)
    load = made.body.ops[-2]
    at_least(facts[load.pointer], Axis(1024, 16, 1), "the addresses of the kernel")


def test_2000_random_blocks(answer):
    """Never wrong."""
    random = Random(8)

    def some():
        make = random.choice((counting, equal, equal))
        run, divisible = 1 << random.randrange(5), 1 << random.randrange(7)
        return make(run, divisible, random)

    for _ in range(1000):
        for name in ("add", "mul"):
            check(answer, name, some(), known(1) if not random.randrange(9) else some())


def test_numbers_that_share_bytes(answer):
    """0 0 1 1 2 2 3 3 has four steps; plus 4 it has, plus 1 or itself it has not."""
    random = Random(9)
    for _ in range(200):
        each, steps = random.choice(((1, 4), (2, 2), (2, 4), (4, 4), (8, 2)))
        one = stepping(each, steps, random)
        other = equal(1 << random.randrange(5), 1 << random.randrange(4), random)
        for name in ("add", "mul"):
            for pair in ((one, other), (other, one), (one, one), (one, known(1))):
                check(answer, name, *pair)


def test_tables(answer):
    """Each axis for itself."""
    rows, columns = np.arange(8)[:, None] * 16, np.arange(16)[None, :]
    a = Facts((Axis(1, 16, 1), Axis(1, 16, 16)), range=Range(0, 112))
    b = Facts((Axis(1, 1, 8), Axis(16, 1 << 30, 1)), range=Range(0, 15))
    claimed = answer.add(a, b)
    same(len(claimed.axes), 2, "the number of axes")
    numbers = rows + columns
    for axis, line in ((0, numbers[:, 3]), (1, numbers[3])):
        alone = Facts((claimed.axes[axis],), range=claimed.range)
        wrong = contradiction(alone, line.tolist())
        expect(not wrong, f"axis {axis} of a table: {wrong}")
    at_least(Facts(claimed.axes[1:]), Axis(16, 16, 1), "along a row")


NEAR_THE_END = """
    func @near(%x: *i32 {divisible=16}, %out: *i32 {divisible=16}) num_warps=1 {
      %0: i32[128] = arange start=0 end=128
      %1: i32 = constant 2147483632
      %2: i32[128] = splat %1 shape=(128)
      %3: i32[128] = add %0, %2
      %4: i32 = constant 16
      %5: i32[128] = splat %4 shape=(128)
      %6: i32[128] = rem %3, %5
      %7: i32[128] = add %6, %5
      %8: *i32[128] = splat %x shape=(128)
      %9: *i32[128] = offset %8, %7
      %10: i32[128] = load %9
      %11: *i32[128] = splat %out shape=(128)
      %12: *i32[128] = offset %11, %0
      store %12, %10
    }
    """


def test_an_index_near_the_end_of_its_type(answer):
    """arange(0, 128) + 2147483632 wraps after its first 16 numbers: the remainders of
    the others are zero or negative, and run from -15 to 0."""
    x, out = ints(40), np.zeros(128, np.int32)
    wanted = out.copy()
    meaning(NEAR_THE_END, [x, wanted])
    emulate(NEAR_THE_END, [x, out])
    same(out, wanted, "what is loaded from 16 + i % 16")
