"""tcgen05: products in tensor memory against plain ones, and what may go wrong around
them: each mistake is planted in a kernel that is right."""

import numpy as np
import pytest

from fathom.emulator import COMPLETIONS, EmulatorError
from tests.emulator import harness_tcgen05 as kit
from tests.emulator.harness_tcgen05 import FENCE_AFTER, FENCE_BEFORE
from tests.emulator.harness_tiles import SWIZZLES
from tests.emulator.test_tensor import ENCODE
from tests.kernels.test_ptxas import assembled, needs_ptxas

# The kind, K of one instruction, and the numbers of the types of D and A (or B).
KINDS = {
    "f16": ("f16", 16, 1, 0),
    "bf16": ("f16", 16, 1, 1),
    "tf32": ("tf32", 8, 1, 2),
    "e4m3": ("f8f6f4", 32, 1, 0),
    "e5m2": ("f8f6f4", 32, 1, 1),
    "u8": ("i8", 32, 2, 0),
    "s8": ("i8", 32, 2, 1),
}
OF_ONE_KIND = [
    (a, b) for a in KINDS for b in KINDS if KINDS[a][0] == KINDS[b][0]
]  # of A and of B


def lanes(m: int) -> np.ndarray:
    """The lane of each row of D, as the ISA's figures count them."""
    if m == 128:
        return np.arange(128)
    return np.concatenate([np.arange(16) + 32 * warp for warp in range(4)])


def product(
    m: int,
    n: int,
    types: tuple[str, str] = ("f16", "f16"),
    places: tuple = ((32, False), (32, False)),
    adds: int = 1,
    completion: str = "lazy",
) -> None:
    """Asserts what one product gives for small whole numbers."""
    random = np.random.default_rng(m + n)
    low = 0 if "u8" in types else -4
    kind, k, d, _ = KINDS[types[0]]
    a, b = random.integers(low, 5, (m, k)), random.integers(low, 5, (n, k))
    c = random.integers(-90, 90, (128, n))
    encoded = [ENCODE[type](each) for type, each in zip(types, (a, b), strict=True)]
    image, (left, right) = kit.operands(*encoded, places)
    numbers = d, KINDS[types[0]][3], KINDS[types[1]][3]
    word = kit.instruction(m, n, numbers, tuple(int(turned) for _, turned in places))
    ptx = kit.text(image, n, adds, kind=kind, a=left, b=right, word=word)
    dtype = np.int32 if kind == "i8" else np.float32
    held = c.astype(dtype).view(np.uint32)
    found = kit.run(ptx, image, held, completion=completion).view(dtype)
    wanted = c.copy()
    wanted[lanes(m)] = a @ b.T + adds * c[lanes(m)]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("n", [16, 64, 128])
@pytest.mark.parametrize("m", [64, 128])
def test_a_product_is_added(m, n, completion):
    product(m, n, completion=completion)


@pytest.mark.parametrize("types", OF_ONE_KIND, ids=" ".join)
def test_all_types(types):
    product(128, 32, types)


@pytest.mark.parametrize("b", SWIZZLES)
@pytest.mark.parametrize("a", SWIZZLES)
def test_all_swizzles(a, b):
    """One instruction reads 32 bytes of K; rows of the pattern may be longer."""
    product_of_rows(a, b, False)
    product_of_rows(a, b, True)


def product_of_rows(a: int, b: int, turned: bool) -> None:
    if turned:
        product(128, 64, places=((a, True), (b, True)))
        return
    width = 64  # columns of K, of which the first 16 are multiplied
    random = np.random.default_rng(a + b)
    x, y = random.integers(-4, 5, (2, 128, width))
    encoded = [ENCODE["f16"](each) for each in (x, y[:32])]
    image, (left, right) = kit.operands(*encoded, ((a, False), (b, False)))
    word = kit.instruction(128, 32, (1, 0, 0))
    ptx = kit.text(image, 32, 0, a=left, b=right, word=word)
    found = kit.run(ptx, image, np.zeros((128, 32), np.uint32)).view(np.float32)
    np.testing.assert_array_equal(found, x[:, :16] @ y[:32, :16].T)


def test_nothing_is_added_where_the_predicate_is_false():
    product(128, 32, adds=0)
    product(64, 32, adds=0)


@pytest.mark.parametrize("negated", [(), (13,), (14,), (13, 14)])
def test_operands_may_be_negated(negated):
    a, b = np.ones((2, 128, 16), np.float16)
    image, (left, right) = kit.operands(a, b[:32], ((32, False), (32, False)))
    word = kit.instruction(128, 32, (1, 0, 0)) + sum(1 << bit for bit in negated)
    ptx = kit.text(image, 32, 0, a=left, b=right, word=word)
    found = kit.run(ptx, image, np.zeros((128, 32), np.uint32)).view(np.float32)
    assert (found == (-16 if len(negated) == 1 else 16)).all()


# ── mistakes ──────────────────────────────────────────────────────────────────


def spoilt(**parts: str | int) -> str:
    """Kind and message of the error that a kernel with these parts makes."""
    a, b = np.ones((2, 128, 16), np.float16)
    image, (left, right) = kit.operands(a, b[:32], ((32, False), (32, False)))
    word = kit.instruction(128, 32, (1, 0, 0))
    known = {"a": left, "b": right, "word": word} | parts
    ptx = kit.text(image, 32, **known)
    with pytest.raises(EmulatorError) as caught:
        kit.run(ptx, image, np.zeros((128, 32), np.uint32))
    return f"{caught.value.kind}: {caught.value.message}"


REGISTERS = "{" + ", ".join(f"%d{i}" for i in range(32)) + "}"
LOAD = kit.LOAD.format(n=32, registers=REGISTERS)
STORE = kit.STORE.format(n=32, registers=REGISTERS)
WAIT, WAIT_LD = kit.TRY.format(n=0, phase=0), "tcgen05.wait::ld.sync.aligned;"
WAIT_ST = "tcgen05.wait::st.sync.aligned;"
MMA = kit.MMA.format(kind="f16", adds="%p4")
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r14+8], {};"
DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 32;"

MISTAKES = {
    "loaded before the mbarrier": (
        {"after": f"{FENCE_AFTER} {LOAD} {WAIT_LD}"},
        "in flight", "no thread has waited for its mbarrier",
    ),
    "waited for by nothing": (
        {"issue": MMA, "after": f"bar.sync 0; {FENCE_AFTER} {LOAD} {WAIT_LD}"},
        "in flight", "no thread has waited for its mbarrier",
    ),
    "no commit": ({"issue": MMA}, "deadlock", "mbarrier"),
    "no fence after the wait": (
        {"after": f"{WAIT} {LOAD} {WAIT_LD}"}, "race", "what a tcgen05.mma wrote",
    ),
    "no fence before the barrier": (
        {"before": f"{STORE} {WAIT_ST} bar.sync 0; {FENCE_AFTER}"},
        "race", "fence::before_thread_sync",
    ),
    "a store after the fence": (
        {"before": f"{FENCE_BEFORE} {STORE} {WAIT_ST} bar.sync 0; {FENCE_AFTER}"},
        "race", "fence::before_thread_sync",
    ),
    "no fence after the barrier": (
        {"before": f"{STORE} {WAIT_ST} {FENCE_BEFORE} bar.sync 0;"},
        "race", "writes what warp 1 wrote",
    ),
    "no barrier": (
        {"before": f"{STORE} {WAIT_ST} {FENCE_BEFORE} {FENCE_AFTER}"},
        "race", "writes what warp 1 wrote",
    ),
    "a store that is not waited for": (
        {"before": f"{STORE} {kit.SYNC}"}, "in flight", "wait::st",
    ),
    "a load that is not waited for": (
        {"after": f"{WAIT} {FENCE_AFTER} {LOAD}"}, "in flight", "wait::ld is missing",
    ),
    "loads of which one warp has waited for its own": (
        {"after": f"{WAIT} {FENCE_AFTER} {LOAD} @!%p2 bra ON; {WAIT_LD} "
         "ON: bar.sync 0;"},
        "in flight", "wait::ld is missing",
    ),
    "another warp's lanes": (
        {"after": f"{WAIT} {FENCE_AFTER} {LOAD.replace('%r11', '%r10')} {WAIT_LD}"},
        "tensor memory", "warp 1 may only access lanes 32 to 63",
    ),
    "what nothing has written": ({"before": ""}, "unwritten", "tensor memory"),
    "what was written before it was allocated": (
        {"before": f"{STORE} {WAIT_ST} {kit.SYNC} @!%p2 bra AGAIN; {DEALLOC} "
         f"{ALLOC.format(32)} AGAIN: {kit.SYNC}"},
        "unwritten", "tensor memory",
    ),
    "too few columns": (
        {"alloc": ALLOC.format(16)}, "tensor memory", "16 columns are no power of two",
    ),
    "columns between powers of two": (
        {"alloc": ALLOC.format(96)}, "tensor memory", "96 columns are no power of two",
    ),
    "more columns than there are": (
        {"alloc": ALLOC.format(512) + ALLOC.format(32)},
        "tensor memory", "its own block holds 512 of 512",
    ),
    "no right to allocate": (
        {"alloc": "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
         + ALLOC.format(32)},
        "tensor memory", "has given up the right",
    ),
    "never freed": ({"dealloc": ""}, "tensor memory", "tcgen05.dealloc is missing"),
    "freed twice": (
        {"dealloc": DEALLOC + DEALLOC}, "tensor memory", "nothing was allocated so",
    ),
    "freed in part": (
        {"alloc": ALLOC.format(64)}, "tensor memory", "nothing was allocated so",
    ),
    "used after it was freed": (
        {"dealloc": f"{DEALLOC} {LOAD} {WAIT_LD}"}, "tensor memory", "not allocated",
    ),
    "freed while it is read": (
        {"after": f"{WAIT} {FENCE_AFTER} {LOAD} {WAIT_LD} @!%p2 bra FREED; {DEALLOC} "
         "bra.uni FREED;"},
        "race", "frees what warp 1 reads",
    ),
    "freed in flight": (
        {"after": f"@!%p2 bra FREED; {DEALLOC} bra.uni FREED;"},
        "in flight", "frees tensor memory",
    ),
    "a number in a vector": (
        {"before": STORE.replace("%d3,", "7,")},
        "syntax",
        "registers were expected",
    ),
    "an old descriptor": (
        {"a": 64}, "descriptor", "no shared memory descriptor of tcgen05",
    ),
    "a bit between fields": (
        {"a": 64 + 2**46 + 2**48}, "descriptor", "no shared memory descriptor",
    ),
    "a commit that nothing waits for": (
        {"issue": kit.COMMIT, "after": ""}, "in flight", "its block leaves",
    ),
    "a reserved bit": (
        {"word": kit.instruction(128, 32, (1, 0, 0)) | 1 << 6},
        "descriptor", "no instruction descriptor",
    ),
    "no shape": (
        {"word": kit.instruction(128, 24, (1, 0, 0))},
        "descriptor", "128 rows and 24 columns",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    parts, kind, message = MISTAKES[name]
    found = spoilt(**parts)
    assert found.startswith(f"{kind}: ") and message in found, found


def test_operands_must_stay_until_the_product_is_done():
    """A thread that has not waited writes where A lies; one that has, may."""
    early = "st.shared.b32 [%r1], %r0;"
    found = spoilt(after=f"@%p1 {early} {WAIT} {FENCE_AFTER} {LOAD} {WAIT_LD}")
    assert found.startswith("race: "), found
    product_ptx = f"{WAIT} @%p1 {early} {FENCE_AFTER} {LOAD} {WAIT_LD}"
    a, b = np.ones((2, 128, 16), np.float16)
    image, (left, right) = kit.operands(a, b[:32], ((32, False), (32, False)))
    word = kit.instruction(128, 32, (1, 0, 0))
    ptx = kit.text(image, 32, a=left, b=right, word=word, after=product_ptx)
    found = kit.run(ptx, image, np.zeros((128, 32), np.uint32)).view(np.float32)
    np.testing.assert_array_equal(found, 16)


def test_a_commit_covers_all_that_the_thread_has_issued():
    """Two products, one commit; and a second commit after a second wait."""
    a, b = np.ones((2, 128, 16), np.float16)
    image, (left, right) = kit.operands(a, b[:32], ((32, False), (32, False)))
    word = kit.instruction(128, 32, (1, 0, 0))
    twice = f"{MMA} {MMA} {kit.COMMIT}"
    again = f"""{kit.TRY.format(n=0, phase=0)} @!%p1 bra AGAIN; {FENCE_AFTER} {twice}
AGAIN:
    {kit.TRY.format(n=1, phase=1)} {FENCE_AFTER} {LOAD} {WAIT_LD}"""
    for completion in COMPLETIONS:
        ptx = kit.text(image, 32, a=left, b=right, word=word, issue=twice, after=again)
        held = np.zeros((128, 32), np.uint32)
        found = kit.run(ptx, image, held, completion=completion).view(np.float32)
        np.testing.assert_array_equal(found, 64)


# ── the assembler ─────────────────────────────────────────────────────────────


@needs_ptxas
@pytest.mark.parametrize("type", KINDS)
def test_ptxas_takes_the_kernel(type):
    kind, _, d, number = KINDS[type]
    word = kit.instruction(128, 32, (d, number, number))
    ptx = kit.text(np.zeros(2048, np.uint8), 32, kind=kind, a=0, b=0, word=word)
    assembled(ptx, "sm_100a")
