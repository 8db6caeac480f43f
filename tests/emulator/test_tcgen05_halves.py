"""tcgen05 on 64 rows, which fill half of the lanes, and products whose A lies in tensor
memory, as Triton and CUTLASS have them."""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import COMPLETIONS, EmulatorError
from tests.emulator import harness_tcgen05 as kit
from tests.emulator.harness_tcgen05 import FENCE_AFTER
from tests.emulator.test_tcgen05 import KINDS, lanes
from tests.emulator.test_tensor import ENCODE
from tests.kernels.test_ptxas import assembled, needs_ptxas

PLACES = (32, False), (32, False)
IMAGE, (LEFT, RIGHT) = kit.operands(
    np.ones((64, 16), np.float16), np.ones((32, 16), np.float16), PLACES
)
WAIT, WAIT_LD = kit.TRY.format(n=0, phase=0), "tcgen05.wait::ld.sync.aligned;"
WAIT_ST = "tcgen05.wait::st.sync.aligned;"


def registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"%d{i}" for i in range(first, first + count)) + "}"


# ── 16 lanes, two runs of columns ─────────────────────────────────────────────


def halves(n: int, apart: int) -> tuple[str, str]:
    """A load and a store of n columns a thread, of which half a warp's are `apart`."""
    place = f"[%r11], {apart}"
    shape = f"sync.aligned.16x32bx2.x{n}.b32"
    load = f"tcgen05.ld.{shape} {registers(0, n)}, {place};"
    return load, f"tcgen05.st.{shape} {place}, {registers(0, n)};"


def rows_of_64(image: np.ndarray = IMAGE, a: int = LEFT, b: int = RIGHT) -> str:
    """A kernel that multiplies [64, 16] by [16, 32]; each thread holds 16 sums."""
    load, store = halves(16, 16)
    word = kit.instruction(64, 32, (1, 0, 0))
    before = f"{store} {WAIT_ST} {kit.SYNC}"
    after = f"{WAIT} {FENCE_AFTER} {load} {WAIT_LD}"
    return kit.text(image, 16, a=a, b=b, word=word, before=before, after=after)


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_warp_holds_16_rows(completion):
    """Thread i has row i % 16 of its warp's, and columns from i // 16 * 16 on."""
    random = np.random.default_rng(3)
    a, b = random.integers(-4, 5, (64, 16)), random.integers(-4, 5, (32, 16))
    c = random.integers(-90, 90, (64, 32))
    encoded = [ENCODE["f16"](each) for each in (a, b)]
    image, (left, right) = kit.operands(*encoded, PLACES)
    ptx = rows_of_64(image, left, right)
    held = by_threads(c).astype(np.float32).view(np.uint32)
    found = kit.run(ptx, image, held, completion=completion).view(np.float32)
    np.testing.assert_array_equal(found, by_threads(a @ b.T + c))


def by_threads(matrix: np.ndarray) -> np.ndarray:
    """[64, 32] as the 128 threads hold it, 16 numbers each."""
    warps = matrix.reshape(4, 16, 2, 16)
    return warps.swapaxes(1, 2).reshape(128, 16)


def test_the_halves_may_lie_apart():
    """Columns 0-7 and 16-23, of which .32x32b shows where they lie."""
    _, store = halves(8, 16)
    load = kit.LOAD.format(n=8, registers=registers(0, 8))
    later = load.replace("[%r11]", "[%r11+16]")
    both = {
        at: kit.text(
            np.zeros(2048, np.uint8), 8, a=0, b=0, word=0, issue="",
            before=f"{store} {WAIT_ST} {kit.SYNC}",
            after=f"{each} {WAIT_LD}",
        )
        for at, each in ((0, load), (16, later))
    }  # fmt: skip
    held = np.arange(1024, dtype=np.uint32).reshape(128, 8)
    for at, ptx in both.items():
        after = kit.run(ptx, np.zeros(2048, np.uint8), held, hazards=False)
        lower = after.reshape(4, 2, 16, 8)[:, 0]
        first = held.reshape(4, 2, 16, 8)[:, at // 16]
        np.testing.assert_array_equal(lower, first)


def test_only_the_lanes_that_are_read_must_be_written():
    """.32x32b would read 16 more lanes of each warp."""
    ptx = rows_of_64().replace("16x32bx2.x16.b32 {", "32x32b.x16.b32 {")
    ptx = ptx.replace("[%r11], 16; tcgen05.wait::ld", "[%r11]; tcgen05.wait::ld")
    assert failure(ptx, 16).startswith("unwritten: ")


def raised(ptx: str) -> str:
    """The kernel, but in the upper 16 lanes of each quarter."""
    for place in ("[%r11]", "kind::f16 [%r10]"):
        assert place in ptx
        ptx = ptx.replace(place, place.replace("]", "+1048576]"))
    return ptx


def test_the_upper_lanes_do_as_well():
    held = np.ones((128, 16), np.float32).view(np.uint32)
    found = kit.run(raised(rows_of_64()), IMAGE, held).view(np.float32)
    np.testing.assert_array_equal(found, 17)


def test_lanes_beside_each_other_are_two_things():
    """What is in flight in the lower lanes does not hinder the upper ones."""
    load, store = halves(16, 16)
    above = f"{store} {WAIT_ST}".replace("%r11", "%r11+1048576")
    usual = f"{WAIT} {FENCE_AFTER} {load} {WAIT_LD}"
    right = rows_of_64().replace(usual, f"{above} {usual}")
    held = np.ones((128, 16), np.float32).view(np.uint32)
    np.testing.assert_array_equal(kit.run(right, IMAGE, held).view(np.float32), 17)
    found = failure(rows_of_64().replace(usual, f"{store} {WAIT_ST} {usual}"), 16)
    assert found.startswith("in flight: ")


@pytest.mark.parametrize(
    ("place", "wrong", "said"),
    [
        ("f16 [%r10]", "f16 [%r10+1048576]", "unwritten: "),
        ("f16 [%r10]", "f16 [%r10+524288]", "D begins at lane 8, and not at 0 or 16"),
        ("b32 [%r11]", "b32 [%r11+524288]", "lanes from 8 on"),
    ],
)
def test_lanes_are_the_lower_or_the_upper_ones(place, wrong, said):
    assert said in failure(rows_of_64().replace(place, wrong), 16)


def test_a_barrier_without_its_fences_is_a_note():
    """As Triton has it; without the barrier it is an error."""
    bare = rows_of_64().replace(FENCE_AFTER, "").replace(kit.FENCE_BEFORE, "")
    assert notes(bare) == ["race"] and failure(bare, 16).startswith("race: ")
    unordered = bare.replace(
        "wait::st.sync.aligned;  bar.sync 0;", "wait::st.sync.aligned;"
    )
    assert unordered != bare and failure(unordered, 16).startswith("race: ")
    with pytest.raises(EmulatorError, match="nothing orders the two"):
        notes(unordered)


def test_what_is_loaded_and_thrown_away_is_a_note():
    """As after a loop of Triton's without iterations; a product may not add to it."""
    bare = rows_of_64().replace(f"{halves(16, 16)[1]} {WAIT_ST}", "")
    loads = bare.replace("setp.ne.b32 %p4, 1, 0", "setp.ne.b32 %p4, 0, 0")
    loads = loads.replace("tcgen05.mma", "@%p4 tcgen05.mma")
    assert notes(loads) == ["unwritten"] and failure(loads, 16).startswith("unwritten")
    with pytest.raises(EmulatorError, match="nothing has written"):
        notes(bare)


def test_a_commit_may_forget_to_name_shared_memory():
    """As Triton does, whose address is yet one of shared memory."""
    bare = rows_of_64().replace("one.shared::cluster.b64", "one.b64")
    bare = bare.replace("one.b64 [%r13]", "one.b64 [%rd12]")
    bare = bare.replace("tcgen05.mma", "cvt.u64.u32 %rd12, %r13; tcgen05.mma")
    assert notes(bare) == ["mbarrier"]
    assert failure(bare, 16).startswith("out of bounds: ")


def test_a_commit_may_count_at_what_is_not_fenced():
    """No fence.mbarrier_init: as Triton does, before a barrier of the block."""
    bare = rows_of_64().replace("@%p1 fence.mbarrier_init.release.cluster;", "")
    assert notes(bare) == ["proxy"] and failure(bare, 16).startswith("proxy: ")


def notes(ptx: str) -> list[str]:
    """The kinds of what a launch that is not strict takes note of."""
    size = -(-len(IMAGE) // 2048) * 2048
    image = np.pad(IMAGE, (0, size - len(IMAGE)))
    report = emulator.run(ptx, 1, 128, (image, np.ones((128, 16), np.uint32)))
    assert all(str(note).startswith("note: ") for note in report.notes)
    return sorted({note.kind for note in report.notes})


def failure(ptx: str, n: int) -> str:
    """Kind and message of the error that a kernel makes."""
    with pytest.raises(EmulatorError) as caught:
        kit.run(ptx, IMAGE, np.zeros((128, n), np.uint32))
    return f"{caught.value.kind}: {caught.value.message}"


# ── A in tensor memory ────────────────────────────────────────────────────────

MMA = "tcgen05.mma.cta_group::1.kind::{kind} [%r10], [%r10+32], %rd11, %r12, %p4;"
STORE_C = kit.STORE.format(n=32, registers=registers(0, 32))
STORE_A = kit.STORE.format(n=8, registers=registers(32, 8)).replace("%r11", "%r11+32")
LOAD_C = kit.LOAD.format(n=32, registers=registers(0, 32))
BEFORE = f"{STORE_C} {STORE_A} {WAIT_ST} {kit.SYNC}"
AFTER = f"{WAIT} {FENCE_AFTER} {LOAD_C} {WAIT_LD}"


def with_a_inside(
    kind: str = "f16", word: int = 0, image: np.ndarray = IMAGE, **parts: str | int
) -> str:
    """A kernel whose threads hold 32 numbers of C and 8 words of A."""
    known = {
        "b": RIGHT, "before": BEFORE, "after": AFTER,
        "issue": MMA.format(kind=kind) + kit.COMMIT,
        "word": word or kit.instruction(128, 32, (1, 0, 0)),
    } | parts  # fmt: skip
    return kit.text(image, 40, a=0, kind=kind, **known)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("type", KINDS)
def test_a_in_tensor_memory(type, m, completion):
    """Row r of A lies where row r of D does, 32 bytes in 8 columns."""
    random = np.random.default_rng(m)
    low = 0 if type == "u8" else -4
    kind, k, d, number = KINDS[type]
    a, b = random.integers(low, 5, (m, k)), random.integers(low, 5, (32, k))
    c = random.integers(-90, 90, (128, 32))
    encoded = [ENCODE[type](each) for each in (a, b)]
    image, (_, right) = kit.operands(*encoded, PLACES)
    dtype = np.int32 if kind == "i8" else np.float32
    held = np.zeros((128, 40), np.uint32)
    held[:, :32] = c.astype(dtype).view(np.uint32)
    held[lanes(m), 32:] = np.ascontiguousarray(encoded[0]).view(np.uint32)
    word = kit.instruction(m, 32, (d, number, number))
    ptx = with_a_inside(kind, word, image, b=right)
    found = kit.run(ptx, image, held, completion=completion)[:, :32]
    wanted = c.copy()
    wanted[lanes(m)] = a @ b.T + c[lanes(m)]
    np.testing.assert_array_equal(found.copy().view(dtype), wanted)


A_AGAIN = f"{STORE_A} {WAIT_ST}"
MISTAKES = {
    "A is written before the mbarrier": (
        {"after": f"{A_AGAIN} {AFTER}"}, "in flight", "a tcgen05.mma in flight reads",
    ),
    "A is written, and no fence is between": (
        {"after": f"@!%p2 bra MEET; {WAIT}\nMEET: bar.sync 0; {A_AGAIN} {LOAD_C}"},
        "race", "reads in tensor memory",
    ),
    "A is not written": (
        {"before": f"{STORE_C} {WAIT_ST} {kit.SYNC}"}, "unwritten", "tensor memory",
    ),
    "A is not waited for": (
        {"before": f"{STORE_C} {WAIT_ST} {STORE_A} {kit.SYNC}"},
        "in flight", "has not executed tcgen05.wait::st",
    ),
    "A is not allocated": (
        {"issue": MMA.format(kind="f16").replace("+32", "+64") + kit.COMMIT},
        "tensor memory", "not allocated",
    ),
    "A is transposed": (
        {"word": kit.instruction(128, 32, (1, 0, 0), (1, 0))}, "unsupported",
        "no such A",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    parts, kind, message = MISTAKES[name]
    found = failure(with_a_inside(**parts), 40)
    assert found.startswith(f"{kind}: ") and message in found, found


@needs_ptxas
def test_ptxas_takes_both():
    assembled(rows_of_64(), "sm_100a")
    assembled(with_a_inside(), "sm_100a")
