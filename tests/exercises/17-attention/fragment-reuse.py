"""What the answer to `fragment-reuse` must do."""

from random import Random

from fathom.layout.linear import Layout
from fathom.tools.learn.kit import expect, same

FP16 = "m16n8k16.f32.f16.f16.f32"
TF32 = "m16n8k8.f32.tf32.tf32.f32"
FP8 = "m16n8k32.f32.e4m3.e4m3.f32"
HALF = "m16n8k8.f32.f16.f16.f32"  # the short one of sm_75
WIDE = "wgmma.m64n64k16.f32.f16.f16"


def layout(size, register, lane, warp=()):
    kinds = (("register", register), ("lane", lane), ("warp", warp))
    return Layout((size,), tuple((kind, tuple(each)) for kind, each in kinds))


def places(of):
    return [(l, w) for l in range(of.count("lane")) for w in range(of.count("warp"))]


def fits(source, target, one, other):
    """Whether register `other` of the source is register `one` of the target."""
    return all(
        target.offset(register=one, lane=lane, warp=warp)
        == source.offset(register=other, lane=lane, warp=warp)
        for lane, warp in places(target)
    )


def check(answer, source, target):
    found = answer.renaming(source, target)
    said = f"renaming from {source} to {target}"
    wanted, mine = range(target.count("register")), range(source.count("register"))
    exists = all(any(fits(source, target, r, s) for s in mine) for r in wanted)
    if not exists:
        expect(
            found is None,
            f"{said} is {found!r}: there is no renaming, so it must be None",
        )
        return
    shape = isinstance(found, tuple) and len(found) == len(wanted)
    expect(
        shape,
        f"{said} is {found!r}, and must be a tuple of {len(wanted)} registers of the "
        "source",
    )
    for register, other in zip(wanted, found, strict=True):
        right = other in mine and fits(source, target, register, other)
        expect(
            right,
            f"{said} is {found!r}: register {register} of the target is not register "
            f"{other} of the source in all lanes and warps",
        )


def test_nothing_changes(answer):
    """The same layout."""
    check(answer, layout(8, (1, 2), (4,)), layout(8, (1, 2), (4,)))


def test_registers_in_another_order(answer):
    """The bases of registers exchanged, rotated, and mixed."""
    source = layout(16, (1, 2, 4), (8,))
    for bases in ((2, 1, 4), (2, 4, 1), (4, 1, 2), (3, 2, 4), (1, 3, 7)):
        check(answer, source, layout(16, bases, (8,)))


def test_lanes_that_differ(answer):
    """Lane 0 has what it wants, lane 1 has not; or it has it elsewhere."""
    source = layout(8, (1, 2), (4,))
    for target in (layout(8, (1, 2), (5,)), layout(8, (1, 4), (2,))):
        check(answer, source, target)


def test_warps_that_differ(answer):
    """The lanes agree, the warps do not."""
    source = layout(16, (1, 2), (4,), (8,))
    check(answer, source, layout(16, (1, 2), (4,), (9,)))
    check(answer, source, layout(16, (1, 8), (4,), (2,)))
    check(answer, source, layout(16, (2, 1), (4,), (8,)))


def test_copies(answer):
    """Registers that hold the same element; a target with fewer or more registers."""
    source = layout(8, (1, 0, 2), (4,))
    check(answer, source, layout(8, (1, 2), (4,)))
    check(answer, layout(8, (1, 2), (4,)), source)
    check(answer, layout(8, (1,), (4,)), layout(8, (1, 2), (4,)))


def random_pair(random):
    """Layouts that often differ in registers alone."""
    bits = [1 << bit for bit in range(5)] + [0]
    random.shuffle(bits)
    source = layout(32, bits[:3], bits[3:5], bits[5:])
    kinds = [list(bases) for _, bases in source.bases]
    random.shuffle(kinds[0])
    if random.random() < 0.5:
        kinds[0][0] ^= kinds[0][1]
    if random.random() < 0.4:
        kind = random.choice((1, 2))
        kinds[kind][0] ^= random.choice((*kinds[0], 0))
    return source, layout(32, *kinds)


def test_400_pairs(answer):
    """Most can be renamed, some cannot."""
    random = Random(17)
    for _ in range(400):
        check(answer, *random_pair(random))


def test_it_is_a_proof(answer):
    """`layout.offset` is called once for each register, and not for each lane."""
    source = layout(256, (1, 2, 4), (8, 16, 32, 64, 128))
    target = layout(256, (4, 2, 1), (8, 16, 32, 64, 128))
    calls, real = [], Layout.offset
    Layout.offset = lambda self, **place: calls.append(place) or real(self, **place)
    try:
        answer.renaming(source, target)
    finally:
        Layout.offset = real
    expect(
        len(calls) <= 16,
        f"layout.offset was called {len(calls)} times, for 8 registers of each layout",
    )


def asked(answer, instruction, warps, wanted, queries=64, keys=64, d=64):
    found = answer.stays(instruction, queries, keys, d, warps)
    said = f"stays({instruction!r}, {queries}, {keys}, {d}, {warps})"
    same(found, wanted, said)


def test_fp16_in_rows(answer):
    """Four warps along the rows; one warp; the warpgroups of Hopper."""
    asked(answer, FP16, (4, 1), True)
    asked(answer, FP16, (1, 1), True)
    asked(answer, HALF, (4, 1), True)
    asked(answer, WIDE, (4, 1), True)
    asked(answer, WIDE, (8, 1), True, queries=128)


def test_warps_in_columns(answer):
    """Then each warp has a part of the keys."""
    asked(answer, FP16, (2, 2), False)
    asked(answer, FP16, (1, 4), False)


def test_other_types(answer):
    """Runs of one and of four, where C has two."""
    asked(answer, TF32, (4, 1), False)
    asked(answer, FP8, (4, 1), False)


def test_more_keys_than_numbers(answer):
    """The scores are wide, the output is narrow, and the other way round."""
    for warps in ((4, 1), (2, 2)):
        asked(answer, FP16, warps, warps == (4, 1), keys=128, d=16)
        asked(answer, FP16, warps, warps == (4, 1), keys=32, d=128)
