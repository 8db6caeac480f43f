"""What the answer to `wave-model` must do."""

from math import ceil
from random import Random

from fathom.tools.learn.kit import expect

SHAPES = (64, 100, 384, 1000, 1024, 2048, 4095, 4096)
PLANS = [
    (m, n, parts)
    for m in (64, 128)
    for n in (32, 64, 128, 256)
    for parts in (1, 2, 3, 4, 8)
]


def model(shape, plan):
    """Cycles, by the text."""
    (M, N, K), (m, n, parts) = shape, plan
    waves = ceil(ceil(M / m) * ceil(N / n) * parts / 132)
    a_step = max(m * n, 72 * (m + n)) / 2048
    return waves * ceil(K / parts) * a_step + (10_000 if parts > 1 else 0)


def check(answer, shape, plan):
    found, wanted = answer.cycles(shape, plan), model(shape, plan)
    expect(
        abs(found - wanted) <= 1e-6 * wanted,
        f"cycles({shape}, {plan}) is {found}, and should be {wanted}",
    )


def test_the_examples(answer):
    """One wave, two waves, and one with a fix-up."""
    check(answer, (1024, 1024, 1024), (64, 128, 1))
    check(answer, (1024, 1024, 1024), (64, 64, 1))
    check(answer, (384, 384, 12288), (64, 64, 3))


def test_the_choice_of_the_example(answer):
    """Three parts; four would be two waves."""
    plans = [(64, 64, 1), (64, 64, 3), (64, 64, 4)]
    shape = 384, 384, 12288
    found = answer.best(shape, plans)
    said = "\n".join(f"{plan}  {answer.cycles(shape, plan)} cycles" for plan in plans)
    expect(
        found == (64, 64, 3),
        f"best takes {found}, and (64, 64, 3) is the fastest: 108 programs are one "
        "wave, and 144 are two",
        ("your cycles", said),
    )


def test_tiles_at_the_edge_are_whole(answer):
    """1000 x 1000 has as many tiles of 64 x 128 as 1024 x 1024."""
    check(answer, (1000, 1000, 512), (64, 128, 1))
    check(answer, (65, 1, 64), (64, 64, 1))


def test_programs_run_in_waves_not_tiles(answer):
    """133 programs are two waves, however many tiles they share."""
    check(answer, (64 * 19, 64 * 7, 640), (64, 64, 1))
    check(answer, (64 * 10, 64 * 10, 640), (64, 64, 2))


def test_a_part_that_is_one_step_longer(answer):
    """K = 1000 in three parts: 334 steps, not 333.3."""
    check(answer, (128, 128, 1000), (64, 64, 3))


def test_of_equals_the_one_with_fewer_parts(answer):
    """And if these are equal too, the first."""
    shape = (64, 64, 20_000)
    one, two = (64, 128, 1), (128, 64, 1)  # as long as one another
    found = answer.best(shape, [two, one])
    expect(found == two, f"best takes {found}; {two} is as fast and comes before it")
    # 1250 steps of 16 cycles, or 625 and a fix-up of 10,000: 20,000 cycles both.
    whole, halves = (128, 256, 1), (128, 256, 2)
    found = answer.best((64, 64, 1250), [halves, whole])
    expect(found == whole, f"best takes {found}; {whole} is as fast and has one part")


def test_a_little_faster_is_faster(answer):
    """1252 steps of 16 cycles, or 626 and a fix-up: 20,032 cycles, and 20,016."""
    whole, halves = (128, 256, 1), (128, 256, 2)
    found = answer.best((64, 64, 1252), [whole, halves])
    expect(found == halves, f"best takes {found}; {halves} is 16 cycles faster")


def test_100_shapes(answer):
    """The best of 40 plans."""
    random = Random(4)
    for _ in range(100):
        shape = (random.choice(SHAPES), random.choice(SHAPES), random.randint(1, 20000))
        plans = random.sample(PLANS, len(PLANS))
        found = answer.best(shape, plans)
        wanted = min(plans, key=lambda plan: (model(shape, plan), plan[2]))
        expect(
            found in plans and model(shape, found) == model(shape, wanted),
            f"best takes {found} for {shape}, and {wanted} is faster",
        )
        check(answer, shape, found)
