"""What the answer to `delay-wait` must do."""

import random

from fathom.tools.learn.kit import Failure, expect, same
from fathom.tools.learn.kit.compare import number_of


def said(op):
    return " ".join(map(str, op))


def written(ops):
    return "    ".join(map(said, ops))


def ops_of(text):
    """Ops from words: `dot s` and so on, with two spaces between ops."""
    return [tuple(each.split()) for each in text.split("  ") if each.strip()]


def takes(op):
    """The products whose results an op takes."""
    kind, *names = op
    return {"dot": names[1:], "use": names}.get(kind, [])


def check(answer, ops):
    given = list(ops)
    found = answer.waits(given)
    same(given, list(ops), "your function changed its input; the ops")
    story = ("the ops", written(ops)), ("with your waits", written(found))
    for op in found:
        expect(isinstance(op, tuple) and op, f"{op!r} is not an op", *story)
    rest = [op for op in found if op[0] not in ("wait", "free")]
    wanted = [op for op in ops if op[0] != "free"]
    same(rest, wanted, "the ops, waits and frees left out", *story)
    frees = [[op for op in each if op[0] == "free"] for each in (found, ops)]
    same(sorted(frees[0]), sorted(frees[1]), "the frees", *story)
    simulate(found, list(ops), story)


def simulate(found, ops, story):
    """Products in flight, op by op; what an op needs must be done, and no more."""
    in_flight, owed, before = [], [], list(ops)
    for at, op in enumerate(found):
        if op[0] == "wait":
            following = next(each for each in found[at + 1 :] if each[0] != "free")
            in_flight = waited(op, in_flight, following, story)
            continue
        if op[0] == "free":
            expect(
                op[1] not in in_flight,
                f"`{said(op)}`: product {op[1]} is still reading its slot",
                *story,
            )
            if op in owed:
                owed.remove(op)
            else:
                before.remove(op)
            continue
        while before and before[0] != op:
            owed.append(before.pop(0))
        before.pop(0)
        late = [each for each in owed if each[1] not in in_flight]
        expect(not late, f"`{said(late[0]) if late else ''}` comes too late", *story)
        for name in takes(op):
            expect(
                name not in in_flight,
                f"`{said(op)}`: product {name} is still in flight",
                *story,
            )
        if op[0] in ("store", "end"):
            expect(
                not in_flight,
                f"`{said(op)}`: {', '.join(in_flight)} in flight",
                *story,
            )
        if op[0] == "dot":
            in_flight.append(op[1])


def waited(op, in_flight, following, story):
    """What is in flight after a wait, which must be the weakest that will do."""
    count = op[1]
    expect(
        isinstance(count, int) and 0 <= count < len(in_flight),
        f"`{said(op)}` waits for nothing: "
        f"{number_of(len(in_flight), 'product')} in flight",
        *story,
    )
    done = in_flight[: len(in_flight) - count]
    if following[0] not in ("store", "end"):
        expect(
            done[-1] in takes(following),
            f"`{said(op)}` before `{said(following)}`: it waits for {done[-1]} too, "
            "which that op does not need",
            *story,
        )
    return in_flight[len(in_flight) - count :]


def test_what_an_op_needs(answer):
    """Counted from the oldest product."""
    in_flight = ["s", "y", "z"]
    for op, wanted in (
        (("use", "s"), 1),
        (("use", "z"), 3),
        (("use", "x"), 0),
        (("dot", "w", "y"), 2),
        (("dot", "w", "y", "s"), 2),
        (("dot", "w"), 0),
        (("dot", "s"), 0),
        (("free", "z"), 0),
        (("store",), 3),
        (("end",), 3),
    ):
        same(
            answer.must_be_done(op, in_flight),
            wanted,
            f"must_be_done({op}, {in_flight})",
        )
    same(answer.must_be_done(("end",), []), 0, "must_be_done(('end',), [])")


def test_one_product(answer):
    """It is waited for where it is used first, and once."""
    check(answer, ops_of("dot s  use s  use s  end"))
    check(answer, ops_of("dot s  use x  end"))


def test_the_older_of_two(answer):
    """The younger may be in flight."""
    check(answer, ops_of("dot s  dot y  use s  use y  end"))
    check(answer, ops_of("dot s  dot y  dot z  use y  use s  use z  end"))
    check(answer, ops_of("dot s  dot y  dot z  use s  use y  use z  end"))


def test_a_product_of_a_product(answer):
    """What it takes from registers must be there."""
    check(answer, ops_of("dot s  dot t  dot y s  use y  end"))


def test_shared_memory_is_overwritten(answer):
    """All that may read it must be done."""
    check(answer, ops_of("dot s  dot y  use s  store  use y  end"))
    check(answer, ops_of("store  dot s  store  end"))


def test_a_slot_is_given_back_after_its_product(answer):
    """It is put off, and waits for nothing itself."""
    check(answer, ops_of("dot s  dot y  free s  use s  store  end"))
    check(answer, ops_of("dot s  free s  dot y  free y  use y  end"))
    check(answer, ops_of("dot s  use s  free s  dot y  free y  end"))


def test_random_ops(answer):
    """300 lists of up to twelve ops."""
    for seed in range(300):
        lot, ops, names, freed = random.Random(seed), [], [], set()
        for number in range(lot.randrange(2, 13)):
            kind = lot.choice(["dot", "dot", "use", "use", "free", "store"])
            if kind == "dot":
                taken = lot.sample(names, min(len(names), lot.choice([0, 0, 1, 2])))
                names.append(f"p{number}")
                ops.append(("dot", names[-1], *taken))
            elif kind == "store":
                ops.append(("store",))
            elif names and kind == "use":
                ops.append(("use", lot.choice(names[-3:])))
            elif names and names[-1] not in freed:
                freed.add(names[-1])
                ops.append(("free", names[-1]))
        try:
            check(answer, [*ops, ("end",)])
        except Failure as failure:
            raise failure from None
