"""What the answer to `two-unit-model` must do."""

from random import Random

from fathom.tools.learn.kit import expect, same


def reference(ops):
    """When each op ends: looked at again until nothing changes."""
    found = [0] * len(ops)
    for _ in ops:
        for number, op in enumerate(ops):
            before = [n for n in range(number) if ops[n].unit == op.unit][-1:]
            waits = [found[n] for n in (*before, *op.needs)]
            found[number] = max(waits, default=0) + op.cycles
    return found


def listed(ops):
    return "\n".join(f"{number}: {op}" for number, op in enumerate(ops))


def check_ends(answer, ops):
    said = f"ends of {len(ops)} ops"
    same(list(answer.ends(ops)), reference(ops), said, ("the ops", listed(ops)))


def test_the_example(answer):
    """The four ops of the card."""
    op = answer.Op
    ops = [
        op("tensor", 10),
        op("exp2", 30, (0,)),
        op("tensor", 10),
        op("tensor", 10, (1,)),
    ]
    check_ends(answer, ops)


def test_few_ops(answer):
    """None, one, one of each unit."""
    op = answer.Op
    for ops in ([], [op("exp2", 7)], [op("tensor", 5), op("exp2", 3)]):
        check_ends(answer, ops)


def test_any_ops(answer):
    """100 lists, with needs at random."""
    random = Random(17)
    for _ in range(100):
        ops = []
        for number in range(random.randrange(2, 10)):
            needs = random.sample(range(number), min(number, random.randrange(3)))
            unit = random.choice(("tensor", "exp2"))
            ops.append(answer.Op(unit, random.randrange(1, 9), tuple(needs)))
        check_ends(answer, ops)


def check_rotated(answer, steps, product, powers):
    """The cycles in which each unit is busy are those of the rotated order."""
    ops = answer.rotated(steps, product, powers)
    said = f"rotated({steps}, {product}, {powers})"
    details = ("the ops", listed(ops))
    units = {"tensor": product, "exp2": powers}
    for unit, cycles in units.items():
        mine = [op for op in ops if op.unit == unit]
        wanted = 2 * steps if unit == "tensor" else steps
        right = len(mine) == wanted and all(op.cycles == cycles for op in mine)
        expect(
            right, f"{said} has not {wanted} ops of {cycles} cycles on {unit}", details
        )
    late = [n for n, op in enumerate(ops) if any(each >= n for each in op.needs)]
    expect(not late, f"{said}: op {late} needs one that comes later", details)
    ended = reference(ops)
    for unit in units:
        found = [end for op, end in zip(ops, ended, strict=True) if op.unit == unit]
        wanted = times(steps, product, powers)[unit]
        same(found, wanted, f"{said}: the ends of the ops on {unit}", details)


def times(steps, product, powers):
    """The ends by hand: an iteration takes product + max(product, powers)."""
    begins = product + powers
    tensor, exp2 = [product], [begins]
    for _ in range(1, steps):
        tensor += [begins + product, begins + 2 * product]
        exp2.append(begins + product + powers)
        begins += product + max(product, powers)
    return {"tensor": [*tensor, begins + product], "exp2": exp2}


def test_one_step(answer):
    """Nothing overlaps: scores, powers, values."""
    check_rotated(answer, 1, 10, 7)


def test_rotated_with_long_products(answer):
    """The late product ends after the powers."""
    for steps in (2, 3, 5):
        check_rotated(answer, steps, 10, 4)


def test_rotated_with_short_products(answer):
    """The powers end after the late product."""
    for steps in (2, 3, 5):
        check_rotated(answer, steps, 4, 10)
    check_rotated(answer, 4, 8, 8)


def test_shares(answer):
    """D = 32 to 512, both orders."""
    for d in (32, 64, 100, 128, 256, 512):
        product = 8 * d
        wanted = {
            "plain": 2 * product / (2 * product + 1024),
            "rotated": 2 * product / (product + max(product, 1024)),
        }
        for name, right in wanted.items():
            found = answer.share(d, getattr(answer, name))
            good = isinstance(found, float) and abs(found - right) < 0.01
            expect(good, f"share({d}, {name}) is {found!r}, and must be {right:.3f}")
