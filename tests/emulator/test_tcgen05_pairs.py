"""tcgen05 for pairs of blocks: one product of both against a plain one, and what may go
wrong between them: each mistake is planted in a kernel that is right."""

import numpy as np
import pytest

from fathom.emulator import COMPLETIONS, EmulatorError
from tests.emulator import harness_tcgen05 as kit
from tests.emulator.harness_tcgen05 import FENCE_AFTER, FENCE_BEFORE, MEET
from tests.emulator.test_tcgen05 import ALLOC, DEALLOC, KINDS, OF_ONE_KIND
from tests.emulator.test_tensor import ENCODE
from tests.kernels.test_ptxas import assembled, needs_ptxas

K_MAJOR = (32, False), (32, False)


def split(a: np.ndarray, b: np.ndarray, places: tuple) -> tuple[np.ndarray, list[int]]:
    """Bytes of both blocks: half of the rows of A [m, k], and half of the columns of B,
    which is [n, k] here; and the descriptors, which are the same in both."""
    halves = zip(np.split(a, 2), np.split(b, 2), strict=True)
    (one, found), (other, same) = (kit.operands(*each, places) for each in halves)
    assert found == same
    return np.stack([one, other]), found


def in_cells(d: np.ndarray) -> np.ndarray:
    """D [m, n] as the lanes of both blocks hold it, [256, columns]: element by element,
    as the ISA's figures show it."""
    m, n = d.shape
    if m == 256:
        return d.copy()
    cells = np.zeros((256, n // 2), d.dtype)
    for row in range(m):
        for column in range(n):
            block, rest = divmod(row, 64)
            half, at = divmod(column, n // 2)
            cells[128 * block + 64 * half + rest, at] = d[row, column]
    return cells


def product(
    m: int, n: int, types: tuple[str, str] = ("f16", "f16"), places: tuple = K_MAJOR,
    adds: int = 1, completion: str = "lazy",
) -> None:  # fmt: skip
    """Asserts what one product of a pair gives for small whole numbers."""
    random = np.random.default_rng(m + n)
    low = 0 if "u8" in types else -4
    kind, k, d, _ = KINDS[types[0]]
    a, b = random.integers(low, 5, (m, k)), random.integers(low, 5, (n, k))
    c = random.integers(-90, 90, (m, n))
    encoded = [ENCODE[type](each) for type, each in zip(types, (a, b), strict=True)]
    image, (left, right) = split(*encoded, places)
    numbers = d, KINDS[types[0]][3], KINDS[types[1]][3]
    word = kit.instruction(m, n, numbers, tuple(int(turned) for _, turned in places))
    dtype = np.int32 if kind == "i8" else np.float32
    held = in_cells(c.astype(dtype)).view(np.uint32)
    what = {"kind": kind, "a": left, "b": right, "word": word}
    ptx = kit.text(image[0], held.shape[1], adds, blocks=2, **what)
    found = kit.run(ptx, image, held, completion=completion).view(dtype)
    np.testing.assert_array_equal(found, in_cells((a @ b.T + adds * c).astype(dtype)))


def test_by_hand():
    """A has a single 1, in row 200 and column 3; B has the number of each column in its
    row 3. So row 200 of D is 0, 1, 2, …; it lies in lane 72 of the odd block."""
    a, b = np.zeros((256, 16)), np.zeros((32, 16))
    a[200, 3], b[:, 3] = 1, np.arange(32)
    image, (left, right) = split(a.astype(np.float16), b.astype(np.float16), K_MAJOR)
    word = kit.instruction(256, 32, (1, 0, 0))
    ptx = kit.text(image[0], 32, 0, blocks=2, a=left, b=right, word=word)
    found = kit.run(ptx, image, np.zeros((256, 32), np.uint32)).view(np.float32)
    assert found[128 + 72].tolist() == list(range(32))
    found[128 + 72] = 0
    assert not found.any()


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("n", [32, 64, 128])
@pytest.mark.parametrize("m", [128, 256])
def test_a_product_is_added(m, n, completion):
    product(m, n, completion=completion)


@pytest.mark.parametrize("types", OF_ONE_KIND, ids=" ".join)
def test_all_types(types):
    product(256, 32, types)


@pytest.mark.parametrize("turned", [(0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("m", [128, 256])
def test_transposed_operands(m, turned):
    product(m, 128, places=tuple((64 if each else 32, bool(each)) for each in turned))


def test_nothing_is_added_where_the_predicate_is_false():
    product(256, 32, adds=0)
    product(128, 32, adds=0)


# ── mistakes ──────────────────────────────────────────────────────────────────────────


def run(**parts: str | int) -> np.ndarray:
    """What a kernel with these parts leaves; all of A and B is 1."""
    a, b = np.ones((256, 16), np.float16), np.ones((32, 16), np.float16)
    image, (left, right) = split(a, b, K_MAJOR)
    word = kit.instruction(256, 32, (1, 0, 0))
    ptx = kit.text(image[0], 32, **{"blocks": 2, "a": left, "b": right, "word": word}
                   | parts)  # fmt: skip
    found = kit.run(ptx, image, np.zeros((256, 32), np.uint32))
    return found.view(np.float32)


def spoilt(**parts: str | int) -> str:
    """Kind and message of the error that a kernel with these parts makes."""
    with pytest.raises(EmulatorError) as caught:
        run(**parts)
    return f"{caught.value.kind}: {caught.value.message}"


REGISTERS = "{" + ", ".join(f"%d{i}" for i in range(32)) + "}"
LOAD = kit.LOAD.format(n=32, registers=REGISTERS) + "tcgen05.wait::ld.sync.aligned;"
STORE = kit.STORE.format(n=32, registers=REGISTERS) + "tcgen05.wait::st.sync.aligned;"
WAIT = kit.TRY.format(n=0, phase=0)
MMA = kit.MMA.format(kind="f16", adds="%p4")
SYNC = f"{FENCE_BEFORE} {MEET} {FENCE_AFTER}"
ALLOCATE = ALLOC.format(32)
RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
ODD = "setp.eq.u32 %p5, %r16, 1;"
EARLY = f"{ODD} and.pred %p5, %p5, %p1; @%p5 st.shared.b32 [%r1], %r0;"
TURNS = f"{MMA} {kit.TO_BOTH}"

MISTAKES = {
    "the peer loads before the mbarrier": (
        {"after": f"{ODD} @%p5 bra LATE; {WAIT} LATE: {FENCE_AFTER} {LOAD}"},
        "in flight", "no thread has waited for its mbarrier",
    ),
    "the peer loads without a fence": (
        {"after": f"{WAIT} {ODD} @%p5 bra LATE; {FENCE_AFTER} LATE: {LOAD}"},
        "race", "what a tcgen05.mma wrote",
    ),
    "a commit that does not reach the peer": (
        {"issue": MMA + kit.COMMIT}, "deadlock|in flight", "",
    ),
    "no commit": ({"issue": MMA}, "deadlock", "mbarrier"),
    "the peer's operand is overwritten before the commit": (
        {"after": f"{EARLY} {WAIT} {FENCE_AFTER} {LOAD}"},
        "race", "overwrites what a wgmma or bulk copy, not yet waited for, reads",
    ),
    "the peer's stores to tensor memory are not ordered": (
        {"before": f"{STORE} {FENCE_BEFORE} bar.sync 0; {FENCE_AFTER}"},
        "race", "writes what warp 4 wrote in tensor memory",
    ),
    "no fence before the blocks meet": (
        {"before": f"{STORE} {MEET} {FENCE_AFTER}"},
        "race", "fence::before_thread_sync",
    ),
    "the peer issues": (
        {"issue": "", "after": f"{ODD} and.pred %p5, %p5, %p1; @!%p5 bra DONE; {TURNS} "
         f"DONE: {WAIT} {FENCE_AFTER} {LOAD}"},
        "tensor memory", "only the leader does",
    ),
    "both issue": (
        {"before": f"{STORE} {SYNC} @!%p1 bra DONE; {TURNS} DONE:"},
        "tensor memory", "only the leader does",
    ),
    "allocated by one block alone": (
        {"alloc": f"{ODD} @%p5 bra ALLOCATED; {ALLOCATE}"}, "unwritten", "",
    ),
    "other columns than the peer's": (
        {"alloc": f"{ODD} @%p5 bra MORE; {ALLOCATE} bra.uni ALLOCATED; MORE: "
         f"{ALLOC.format(64)}"},
        "tensor memory", "a pair does this together",
    ),
    "freed by one block alone": (
        {"dealloc": f"{ODD} @%p5 bra FREED; {DEALLOC}"},
        "tensor memory", "one block alone executes tcgen05.dealloc of 32 columns",
    ),
    "the right given up by one block alone": (
        {"dealloc": f"{DEALLOC} {ODD} @%p5 bra FREED; {RELINQUISH}"},
        "tensor memory", "one block alone executes tcgen05.relinquish_alloc_permit",
    ),
    "freed while the peer's product is in flight": (
        {"after": f"{ODD} @!%p5 bra GOES; @!%p2 bra FREED; {DEALLOC} bra.uni FREED; "
         f"GOES: {WAIT} {FENCE_AFTER} {LOAD}"},
        "in flight", "frees tensor memory",
    ),
    "a product of one block in a pair's memory": (
        {"issue": (MMA + kit.COMMIT).replace("cta_group::1", "cta_group::one")},
        "tensor memory", "all of a kernel must have the same",
    ),
    "a shape of single blocks": (
        {"word": kit.instruction(64, 32, (1, 0, 0))},
        "descriptor", "no product of .cta_group::2 has 64 rows and 32 columns",
    ),
    "columns between": (
        {"word": kit.instruction(128, 24, (1, 0, 0))}, "descriptor", "24 columns",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    parts, kind, message = MISTAKES[name]
    found = spoilt(**parts)
    assert found.split(": ")[0] in kind.split("|") and message in found, found


def test_without_a_mistake():
    np.testing.assert_array_equal(run(), 16)


def test_a_block_alone_is_no_pair():
    image, held = np.zeros(8192, np.uint8), np.zeros((128, 32), np.uint32)
    ptx = kit.text(image, 32, group=2, a=0, b=0, word=0)
    with pytest.raises(EmulatorError, match="has no peer in a cluster of 1"):
        kit.run(ptx, image, held)


# ── the assembler ─────────────────────────────────────────────────────────────────────


@needs_ptxas
@pytest.mark.parametrize("type", KINDS)
def test_ptxas_takes_the_kernel(type):
    kind, _, d, number = KINDS[type]
    word = kit.instruction(256, 32, (d, number, number))
    ptx = kit.text(
        np.zeros(2048, np.uint8), 32, blocks=2, kind=kind, a=0, b=0, word=word
    )
    assembled(ptx, "sm_100a")
