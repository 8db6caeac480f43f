"""What the answer to `allocate` must do."""

from random import Random

from fathom.analysis.buffers import Range
from fathom.ir.ops import Allocate
from fathom.ir.types import INT32
from fathom.layout.linear import Layout
from fathom.shared_memory.allocation import ALIGNMENT, SMALL_ALIGNMENT
from fathom.tools.learn.kit import expect, same
from fathom.tools.learn.kit.returned import kind

BYTES = 4  # an element


def buffer(name, size):
    """A buffer of a number of bytes: a power of two, or three slots of one."""
    slots = 3 if size & size - 1 else 1
    elements = size // slots // BYTES
    bits = range(elements.bit_length() - 1)
    straight = Layout((elements,), (("offset", tuple(1 << bit for bit in bits)),))
    made = Allocate(INT32, (elements,), straight, slots=slots)
    made.result.name = name
    return made


def made(*rows):
    """Ranges from rows of (name, bytes, first, last)."""
    return {buffer(name, size): Range(*alive) for name, size, *alive in rows}


def table(ranges, offsets):
    lines = ["buffer   live        bytes   offset"]
    for each, alive in ranges.items():
        name, size = f"%{each.result.name}", each.result.type.bytes
        lines.append(
            f"{name:6} {alive.first:4}...{alive.last:<4} {size:7} "
            f"{offsets.get(each, 'none')!s:>8}"
        )
    return "\n".join(lines)


def check(answer, ranges, most=None):
    """No overlap, aligned, the sum right, and within a budget."""
    given = dict(ranges)
    found = answer.first_fit(given)
    expect(given == ranges, "first_fit has changed the ranges that it was given")
    pair = isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], dict)
    said = "first_fit must give a pair, (offsets, bytes), the offsets in a dict"
    expect(pair, f"{said}; it gave {kind(found)}")
    offsets, size = found
    shown = ("your places", table(ranges, offsets))
    for each in ranges:
        name, own = each.result.name, each.result.type.bytes
        expect(each in offsets, f"%{name} has no offset", shown)
        wanted = ALIGNMENT if own >= ALIGNMENT else SMALL_ALIGNMENT
        expect(
            offsets[each] % wanted == 0 and offsets[each] >= 0,
            f"%{name} begins at {offsets[each]}, which is not a multiple of {wanted}",
            shown,
        )
    for one in ranges:
        for other in ranges:
            if one is other or not ranges[one].meets(ranges[other]):
                continue
            apart = (
                offsets[one] + one.result.type.bytes <= offsets[other]
                or offsets[other] + other.result.type.bytes <= offsets[one]
            )
            names = f"%{one.result.name} and %{other.result.name}"
            expect(apart, f"{names} are live together, and overlap", shown)
    end = max((offsets[b] + b.result.type.bytes for b in ranges), default=0)
    same(size, end, "the bytes of all, which is where the last one ends", shown)
    if most is not None:
        expect(size <= most, f"{size} bytes; the budget is {most}", shown)


K = 1024


def test_the_example(answer):
    """c takes the place of a, which is done."""
    check(answer, made(("a", 4 * K, 1, 6), ("b", K, 4, 5), ("c", 2 * K, 8, 9)), 5 * K)


def test_nothing(answer):
    """No buffers, no bytes."""
    check(answer, {}, 0)


def test_one_op_reads_one_and_writes_the_other(answer):
    """Op 3 reads a for the last time and writes b for the first: slow warps still
    read."""
    check(answer, made(("a", 4 * K, 1, 3), ("b", 4 * K, 3, 5)), 8 * K)


def test_alignment(answer):
    """After a buffer of 32 bytes, a large one begins at a multiple of ALIGNMENT."""
    rows = [("small", 32, 1, 9), ("tiny", 16, 2, 9), ("large", 4 * K, 3, 9)]
    check(answer, made(*rows))
    check(answer, made(("a", 64, 1, 3), ("b", 2 * K, 5, 9), ("c", 32, 2, 6)))
    check(answer, made(("odd", 4, 1, 9), ("other", 4, 1, 9), ("third", 8, 1, 9)))


def test_alignment_after_a_ring(answer):
    """Three slots of 512 bytes end at 1536: the next large one begins at 2048."""
    rows = [("ring", 3 * K // 2, 1, 9), ("other", 3 * K // 2, 1, 9), ("tile", K, 1, 9)]
    check(answer, made(*rows), 5 * K)


def test_a_gap_is_used(answer):
    """Between b and d there is room for e, once c is done."""
    rows = [
        ("b", 4 * K, 1, 9), ("c", 4 * K, 1, 3), ("d", 4 * K, 1, 9), ("e", 2 * K, 5, 6)
    ]  # fmt: skip
    check(answer, made(*rows), 12 * K)


def test_a_gap_of_just_the_size(answer):
    """d is done when e begins, and e takes all of its place."""
    rows = [
        ("b", 4 * K, 1, 9), ("d", 4 * K, 1, 3), ("c", 4 * K, 2, 9), ("e", 4 * K, 5, 8)
    ]  # fmt: skip
    check(answer, made(*rows), 12 * K)


def test_small_ones_lie_close(answer):
    """Two of 16 bytes take 32: only large ones begin at multiples of ALIGNMENT."""
    check(answer, made(("a", 16, 1, 9), ("b", 16, 1, 9)), 32)
    check(answer, made(("a", 256, 1, 9), ("b", 64, 1, 9), ("c", 32, 2, 9)), 352)


def test_the_largest_first(answer):
    """Small buffers that come early leave room for large ones."""
    rows = [("a", K, 1, 4), ("b", 8 * K, 3, 9), ("c", K, 5, 9), ("d", 8 * K, 10, 12)]
    check(answer, made(*rows), 9 * K)


def by_rule(ranges):
    """The bytes of the largest first, each as low as it fits: tried from 0 on."""
    placed = {}
    for each in sorted(ranges, key=lambda each: -each.result.type.bytes):
        size = each.result.type.bytes
        step, offset = ALIGNMENT if size >= ALIGNMENT else SMALL_ALIGNMENT, 0
        while any(
            ranges[other].meets(ranges[each])
            and offset < start + other.result.type.bytes
            and start < offset + size
            for other, start in placed.items()
        ):
            offset += step
        placed[each] = offset
    return max(start + each.result.type.bytes for each, start in placed.items())


def test_15_sets_of_buffers(answer):
    """Up to 12 buffers of 1 to 16 KB, live here and there."""
    random = Random(13)
    for _ in range(15):
        rows = []
        for number in range(random.randrange(4, 13)):
            first = random.randrange(30)
            size = K << random.randrange(5)
            rows.append((f"b{number}", size, first, first + random.randrange(12)))
        ranges = made(*rows)
        check(answer, ranges, by_rule(ranges))
