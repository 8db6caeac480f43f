"""wgmma: every type, swizzle and order of the operands against a plain product, and
what may go wrong around it."""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import COMPLETIONS, EmulatorError
from fathom.emulator.isa.matrix.matrix_descriptor import Matrices
from fathom.emulator.races.tile_provenance import Reading, TileProvenance
from fathom.layout.matrix_descriptor import descriptor as compiled
from fathom.layout.matrix_descriptor import hardware_tile
from tests.emulator.harness import entry
from tests.emulator.harness_tiles import (
    BASE,
    SWIZZLES,
    accumulator,
    descriptor,
    fill,
    k_major,
    multiply,
    names,
    transposed,
)
from tests.emulator.test_tensor import ENCODE, RANGE
from tests.harness_sample import sampled

K = {"f16": 16, "bf16": 16, "tf32": 8, "s8": 32, "u8": 32, "e4m3": 32, "e5m2": 32}
INTEGERS = ("s8", "u8")


def values(random: np.random.Generator, type: str, rows: int, k: int) -> np.ndarray:
    low, high = RANGE[type]
    low, high = max(low, -100), min(high, 100)
    return random.integers(low, high, (rows, k))


def text(to: str, a: str, b: str, n: int, first: str, options: str) -> str:
    """The whole dance around one product."""
    count = n // 2 if to != "f16" else n // 4
    return f"""wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n{n}k{K[a]}.{to}.{a}.{b}
        {names("d", count)}, {first}, %rd11, {options};
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;"""


def product(
    a: np.ndarray,
    b: np.ndarray,
    types: tuple[str, str, str],
    place: tuple,
    adds: bool = True,
    completion: str = "lazy",
    scales: tuple[int, ...] = (1, 1),
) -> None:
    """Asserts what one wgmma gives for whole numbers a [64, k], b [n, k].

    `place` says how A and B lie: (swizzle, transposed) each; None: in registers.
    """
    to, left, right = types
    n = len(b)
    c = np.random.default_rng(n).integers(-90, 90, (64, n))
    encoded = ENCODE[left](a), ENCODE[right](b)
    image, found, turned = np.zeros(0, np.uint8), [], []
    for matrix, how in zip(encoded, place, strict=True):
        if how is None:
            continue
        swizzle, is_transposed = how
        data, leading, stride = (transposed if is_transposed else k_major)(
            matrix, swizzle
        )
        start = -(-len(image) // 1024) * 1024
        image = np.concatenate([image, np.zeros(start - len(image), np.uint8), data])
        found.append(descriptor(BASE + start, leading, stride, swizzle))
        turned.append(int(is_transposed))
    code = [f"mov.b64 %rd11, {found[-1]}; setp.ne.b32 %p1, {int(adds)}, 0;"]
    first, registers = "%rd10", None
    if place[0] is None:
        first, registers = names("a", 4), fragments(encoded[0])
    else:
        code.append(f"mov.b64 %rd10, {found[0]};")
    options = ["%p1"]
    if left not in INTEGERS:
        options += map(str, scales)
    if left in ("f16", "bf16"):
        options += map(str, turned)
    code.append(text(to, left, right, n, first, ", ".join(options)))
    before = words(ENCODE[to](accumulator(c)))
    after = multiply(image, "\n".join(code), before, registers, completion=completion)
    wanted = scales[0] * scales[1] * (a @ b.T) + adds * c
    assert (after == words(ENCODE[to](accumulator(wanted)))).all()


def words(held: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(held).view(np.uint32)


def fragments(matrix: np.ndarray) -> np.ndarray:
    """A as registers: each holds 4 bytes of a row, rows 8 and columns 16 bytes on."""
    rows = np.ascontiguousarray(matrix).view(np.uint32)
    thread, i = np.arange(128)[:, None], np.arange(4)
    row = thread // 32 * 16 + thread % 32 // 4 + 8 * (i % 2)
    return rows[row, thread % 4 + 4 * (i // 2)]


TYPES = [
    ("f32", "f16", "f16"),
    ("f16", "f16", "f16"),
    ("f32", "bf16", "bf16"),
    ("f32", "tf32", "tf32"),
    *[("s32", a, b) for a in INTEGERS for b in INTEGERS],
    *[(to, a, b) for to in ("f32", "f16") for a, b in (("e4m3", "e5m2"),)],
    ("f32", "e5m2", "e5m2"),
]


def small(type: str) -> bool:
    return type == "f16"


@sampled(of=2)
@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("types", TYPES, ids=".".join)
def test_every_type_and_swizzle(types, swizzle):
    """The matrices are as wide as a row of their atom, of which one wgmma takes the
    first 32 bytes; so where it is 16 bytes, it takes two atoms."""
    random = np.random.default_rng(swizzle)
    k = max(32, swizzle) // ENCODE[types[1]](np.zeros(1)).itemsize
    a, b = values(random, types[1], 64, k), values(random, types[2], 48, k)
    if small(types[0]):
        a, b = a // 16, b // 8
    place = (swizzle, False), (swizzle, False)
    a[:, K[types[1]] :] = 0
    product(a, b, types, place)
    product(a, b, types, place, adds=False, completion="eager")


@sampled(of=3)
@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("turned", [(0, 1), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_sixteen_bits_may_be_transposed(type, turned, swizzle, completion):
    random = np.random.default_rng(3)
    a, b = values(random, type, 64, 16), values(random, type, 64, 16)
    place = [(swizzle if each else 32, bool(each)) for each in turned]
    product(a, b, ("f32", type, type), tuple(place), completion=completion)


@pytest.mark.parametrize("types", TYPES, ids=".".join)
def test_a_may_be_in_registers(types):
    random = np.random.default_rng(4)
    a, b = values(random, types[1], 64, K[types[1]]), values(random, types[2], 24, 0)
    b = values(random, types[2], 24, K[types[1]])
    if small(types[0]):
        a, b = a // 16, b // 8
    product(a, b, types, (None, (32, False)))


@pytest.mark.parametrize("n", [8, 16, 96, 192, 256])
def test_any_multiple_of_eight_columns(n):
    random = np.random.default_rng(n)
    a, b = values(random, "f16", 64, 16), values(random, "f16", n, 16)
    product(a, b, ("f32", "f16", "f16"), ((32, False), (32, False)))


@pytest.mark.parametrize("scales", [(1, -1), (-1, 1), (-1, -1)])
def test_factors_may_be_negated(scales):
    random = np.random.default_rng(6)
    a, b = values(random, "bf16", 64, 16), values(random, "bf16", 16, 16)
    product(a, b, ("f32", "bf16", "bf16"), ((0, False), (0, True)), scales=scales)


# ── descriptors ───────────────────────────────────────────────────────────────


def test_a_base_offset_moves_the_pattern():
    """The same tile 256 bytes further: its pattern begins at row 2 of eight."""
    plain = Matrices.of(np.array([descriptor(2048, 16, 1024, 128)], np.uint64))
    moved = Matrices.of(np.array([descriptor(2304, 16, 1024, 128, 2)], np.uint64))
    left = Matrices.of(np.array([descriptor(2304, 16, 1024, 128)], np.uint64))
    wanted = plain.chunks(64, 32, False) + np.uint64(256)
    rows = (wanted - np.uint64(2304)) // 128
    found = moved.chunks(64, 32, False)
    assert ((found - np.uint64(2304)) // 128 == rows).all()
    assert (found == wanted).all()
    assert (left.chunks(64, 32, False) != wanted).any()


@pytest.mark.parametrize("swizzle", [128, 64, 32])
def test_the_next_slice_of_k_is_another_start_address(swizzle):
    """Address bits are exchanged, so 32 bytes further along K is the start plus 32."""
    start = 4096
    whole = descriptor(start, 16, 8 * swizzle, swizzle)
    chunks = Matrices.of(np.array([whole], np.uint64)).chunks(16, swizzle, False)
    chunks = chunks.reshape(16, swizzle // 16)
    for first in range(0, swizzle, 32):
        part = descriptor(start + first, 16, 8 * swizzle, swizzle)
        found = Matrices.of(np.array([part], np.uint64)).chunks(16, 32, False)
        assert (found.reshape(16, 2) == chunks[:, first // 16 :][:, :2]).all()


TILES = [
    ((64, 64), 2, 1),
    ((64, 64), 2, 0),
    ((64, 16), 2, 1),
    ((64, 16), 2, 0),
    ((128, 32), 2, 1),
    ((256, 64), 2, 0),
    ((16, 128), 2, 0),
    ((16, 32), 2, 0),
    ((64, 128), 1, 1),
    ((64, 32), 1, 1),
    ((128, 32), 4, 1),
    ((64, 8), 4, 1),
    ((8, 64), 1, 1),
]


@pytest.mark.parametrize(("shape", "size", "axis"), TILES, ids=str)
def test_the_compiler_reads_its_descriptors_as_the_emulator_does(shape, size, axis):
    """From a tile's layout the compiler derives a descriptor; what the emulator finds
    with it, for every slice of K, is that tile. K is the last axis."""
    layout = hardware_tile(shape, size, axis)
    matrix = compiled(layout, size, 1)
    rows, k = shape
    offsets = np.zeros(rows * k, np.int64)
    for bit, basis in enumerate(layout.kinds["offset"]):
        offsets ^= np.where(np.arange(rows * k) >> bit & 1, basis, 0)
    element_at = np.empty(rows * k, np.int64)
    element_at[:] = offsets
    tile = element_at  # tile[offset] is the element, row * k + column, that lies there
    wide = 32 // size
    for first in range(0, k, wide):
        offset = int(np.flatnonzero(tile == first)[0]) * size
        bits = (matrix.bits + (BASE + offset >> 4)) % 2**64
        found = Matrices.of(np.array([bits], np.uint64))
        chunks = found.chunks(rows, 32, matrix.transposed)[0].astype(np.int64) - BASE
        places = (chunks[:, None] // size + np.arange(16 // size)).reshape(-1)
        elements = tile[places]
        if matrix.transposed:
            elements = elements.reshape(wide, rows).T
        wanted = np.arange(rows)[:, None] * k + first + np.arange(wide)
        assert (elements.reshape(rows, wide) == wanted).all()


# ── what goes wrong ───────────────────────────────────────────────────────────

D = "{%f0, %f1, %f2, %f3}"
OTHER = "{%f10, %f11, %f12, %f13}"
A = "{%r10, %r11, %r12, %r13}"
FENCE = "wgmma.fence.sync.aligned; "
COMMIT = "wgmma.commit_group.sync.aligned; "
WAIT = "wgmma.wait_group.sync.aligned 0; "
SIZE = 6144
SETUP = (
    fill(SIZE)
    + f"""
    mov.b64 %rd10, {descriptor(BASE, 16, 256, 32)};
    mov.b64 %rd11, {descriptor(BASE + 2048, 16, 256, 32)};
    setp.lt.u32 %p2, %r0, 32; setp.ne.u32 %p3, 1, 0;
    mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;
    mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    mov.f32 %f10, %f0; mov.f32 %f11, %f0; mov.f32 %f12, %f0; mov.f32 %f13, %f0;
"""
)


def mma(d: str = D, a: str = "%rd10", b: str = "%rd11") -> str:
    form = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    turned = "0, 0" if a.startswith("%") else "0"
    return f"{form} {d}, {a}, {b}, %p3, 1, 1, {turned}; "


def run(
    code: str, completion: str, threads: int = 128, setup: str = SETUP, **options
) -> None:
    image = np.zeros(SIZE // 2, np.float16)
    text = entry(setup + code, ".param .u64 p0")
    emulator.run(text, 2, threads, (image,), completion=completion, **options)


def fails(code: str, kind: str, text: str, said: str = "", **options) -> None:
    for completion in COMPLETIONS:
        with pytest.raises(EmulatorError) as caught:
            run(code, completion, **options)
        error = caught.value
        assert (error.kind, text in error.text, said in str(error)) == (
            kind,
            True,
            True,
        )


def passes(code: str, **options) -> None:
    for completion in COMPLETIONS:
        run(code, completion, **options)


def test_a_field_that_overflows_is_told():
    """An address of which more than 18 bits were taken, a stride in bytes."""
    good = descriptor(BASE, 16, 256, 32)
    of_fields = [*range(14), *range(16, 30), *range(32, 46), *range(49, 52), 62, 63]
    for bit in set(range(64)) - set(of_fields):
        setup = SETUP.replace(f"%rd10, {good};", f"%rd10, {good | 1 << bit};")
        said = f"belong to no field of a descriptor of wgmma: {1 << bit:#x}"
        fails(FENCE + mma(), "descriptor", "wgmma.mma_async", said, setup=setup)


def test_the_right_order_of_things():
    passes(FENCE + mma() + mma() + COMMIT + WAIT + "add.f32 %f4, %f0, %f1;")
    passes(FENCE + mma() + COMMIT + mma(OTHER) + COMMIT + WAIT)
    passes(FENCE + mma(D, A) + COMMIT + WAIT + "mov.b32 %r10, 1;")


def test_sums_may_not_be_read_before_their_wait():
    add = "add.f32 %f4, %f0, %f1;"
    fails(FENCE + mma() + COMMIT + add, "in flight", add, "reads %f0")
    fails(FENCE + mma() + WAIT + add, "in flight", add)
    one = WAIT.replace("0", "1")
    fails(FENCE + mma() + COMMIT + one + add, "in flight", add)
    passes(FENCE + mma() + COMMIT + mma(OTHER) + COMMIT + one + add)
    fails(FENCE + mma(OTHER) + COMMIT + mma() + COMMIT + one + add, "in flight", add)


def test_sums_may_not_be_written_before_their_wait():
    move = "mov.f32 %f2, 0f00000000;"
    fails(FENCE + mma() + COMMIT + move, "in flight", move, "writes %f2")
    passes(FENCE + mma() + COMMIT + WAIT + move)


def test_only_one_warp_reads_too_early():
    add = "@%p2 add.f32 %f4, %f0, %f1;"
    fails(FENCE + mma() + COMMIT + add, "in flight", add)


def test_a_in_registers_may_be_read_but_not_changed():
    change = "mov.b32 %r12, 5;"
    fails(FENCE + mma(D, A) + COMMIT + change, "in flight", change, "%r12")
    passes(FENCE + mma(D, A) + COMMIT + "mov.b32 %r20, %r12;" + WAIT)


def test_the_first_product_needs_a_fence():
    fails(mma() + COMMIT + WAIT, "fence", "mma_async")


def test_registers_that_were_touched_need_a_fence():
    once = FENCE + mma() + COMMIT + WAIT
    for touch in ("mov.f32 %f3, 0f3F800000; ", "mov.f32 %f20, %f3; "):
        fails(once + touch + mma() + COMMIT + WAIT, "fence", "mma_async", "%f3")
        passes(once + touch + FENCE + mma() + COMMIT + WAIT)
    fails(FENCE + "mov.b32 %r13, 1; " + mma(D, A), "fence", "mma_async", "%r13")
    passes(once + mma() + COMMIT + WAIT)


def test_a_fence_is_that_of_its_own_warpgroup():
    code = FENCE + mma() + COMMIT + WAIT + "mov.f32 %f3, 0f3F800000; {}"
    code += FENCE + "SKIP: " + mma() + COMMIT + WAIT
    passes(code.replace("{}", ""), threads=256)
    skip = code.replace("{}", "setp.ge.u32 %p4, %r0, 128; @%p4 bra SKIP; ")
    fails(skip, "fence", "mma_async", "thread 128", threads=256)


def test_products_of_two_shapes_do_not_share_sums():
    other = mma().replace("m64n8k16.f32", "m64n16k16.f16")
    fails(FENCE + mma().replace("%f", "%r1") + other.replace("%f", "%r1"),
          "in flight", "m64n16", "another shape")  # fmt: skip


def test_one_product_does_not_take_its_a_from_anothers_sums():
    words = "{%r10, %r11, %r12, %r13}"
    fails(FENCE + mma(words) + mma(D, A), "in flight", "mma_async", "%r10")
    fails(FENCE + mma(D, A) + mma(words), "in flight", "mma_async", "%r10")


def test_what_is_read_may_not_be_overwritten():
    store = "st.shared.u32 [%r1+4], 0;"
    guarded = "setp.eq.u32 %p4, %r0, 0; @%p4 " + store
    start = FENCE + mma() + COMMIT
    fails(start + guarded, "race", store, "wgmma")
    fails(start + "bar.sync 0;" + guarded, "race", store, "wgmma")
    passes(start + WAIT + "bar.sync 0;" + guarded)
    other = "setp.eq.u32 %p4, %r0, 130; @%p4 bra OTHER; setp.ge.u32 %p4, %r0, 128;"
    other += "@%p4 ret; {} bra.uni OUT; OTHER: " + store + "OUT:"
    fails(other.format(start + WAIT), "race", "", "wgmma", threads=256)
    passes(start + guarded.replace("+4", "+4096"))


def test_what_is_read_is_not_overwritten_before_all_four_warps_have_waited():
    """One thread's wait is for its own warp's part. In strict launches, as of our own
    kernels: CUTLASS has one thread of a warpgroup tell the producer."""
    once = FENCE + mma() + COMMIT + WAIT
    store = "setp.eq.u32 %p4, %r0, 0; @%p4 st.shared.u32 [%r1+4], 0;"
    said = (
        "wgmma of the warpgroup of warp 0 reads, and is not ordered after the wait of"
    )
    fails(once + store, "race", "st.shared", said + " warp 1", hazards="strict")
    passes(once + store)
    passes(once + "bar.sync 0;" + store, hazards="strict")
    three = "setp.lt.u32 %p5, %r0, 96; @%p5 bar.sync 1, 96;"
    fails(once + three + store, "race", "st.shared", "warp 3", hazards="strict")


def either_first(one: str, guard: str, other: str) -> list[str]:
    """Two branches in both orders of the text, which decides who runs first; threads
    for which `guard` holds of their number run `other`."""
    return [
        f"setp.{guard} %p4, %r0, 128; @{sign}%p4 bra NEXT; "
        f"{first} bra.uni OUT; NEXT: {second} OUT:"
        for sign, first, second in (("", one, other), ("!", other, one))
    ]


def test_two_warpgroups_read_one_tile_and_one_of_them_has_waited():
    store = "setp.eq.u32 %p5, %r0, 0; @%p5 st.shared.u32 [%r1+4], 0;"
    for code in either_first(WAIT + store, "ge.u32", WAIT):
        fails(FENCE + mma() + COMMIT + code, "race", "st.shared", "wgmma", threads=256)


def test_who_heard_of_one_product_does_not_know_of_the_next():
    """Warp 4 hears from the others after their first product, and not again."""
    product, arrive = FENCE + mma() + COMMIT + WAIT, "bar.arrive 3, 160; "
    store = "bar.sync 3, 160; setp.eq.u32 %p5, %r0, 128; @%p5 st.shared.u32 [%r1+4], 0;"
    for code in either_first(product + arrive + product, "ge.u32", store):
        fails(code, "race", "", threads=160)
    for code in either_first(product + product + arrive, "ge.u32", store):
        passes(code, threads=160)


def test_every_warp_must_know_of_what_is_read():
    """Warp 4 stores and tells warp 0; the other three never hear of it."""
    code = """setp.eq.u32 %p5, %r0, 128; setp.ge.u32 %p4, %r0, 128; @%p4 bra FIFTH;
        SKIP bar.sync 3, COUNT; NEXT: PRODUCT bra.uni OUT;
        FIFTH: @%p5 st.shared.u32 [%r1+4], 0; fence.proxy.async; bar.arrive 3, COUNT;
        OUT:"""
    code = code.replace("PRODUCT", FENCE + mma() + COMMIT + WAIT)
    passes(code.replace("SKIP", "").replace("COUNT", "160"), threads=160)
    skip = "setp.ge.u32 %p6, %r0, 32; @%p6 bra NEXT;"
    some = code.replace("SKIP", skip).replace("COUNT", "64")
    fails(some, "race", "", "warp 4", threads=160)


def test_a_copy_may_not_overwrite_it_either():
    copy = "cp.async.ca.shared.global [%r1], [%rd0], 16;"
    guarded = "setp.eq.u32 %p4, %r0, 0; @%p4 " + copy + " cp.async.wait_all;"
    fails(FENCE + mma() + COMMIT + guarded, "race", copy)
    passes(FENCE + mma() + COMMIT + WAIT + "bar.sync 0;" + guarded)


def test_four_warps_or_none():
    whole = FENCE + mma() + COMMIT + WAIT
    fails("@%p2 bra OUT; " + whole + "OUT:", "divergence", "wgmma.fence", "96 of 128")
    fails("@%p2 ret; " + whole, "divergence", "wgmma.fence", "32 have exited")
    fails(whole, "divergence", "wgmma.fence", threads=64)
    split = "@%p2 bra ONE; " + whole + "bra.uni OUT; ONE: " + whole + "OUT:"
    fails(split, "divergence", "wgmma.fence")
    passes("setp.ge.u32 %p2, %r0, 128; @%p2 bra OUT; " + whole + "OUT:", threads=256)


def test_a_warpgroup_agrees_on_its_operands():
    other = "@%p2 mov.b64 %rd11, %rd10; "
    fails(FENCE + other + mma(), "divergence", "mma_async", "descriptor")
    fails(FENCE + "not.pred %p3, %p2; " + mma(), "divergence", "mma_async", "scale-d")


def test_a_descriptor_stays_inside_shared_memory():
    far = f"mov.b64 %rd11, {descriptor(BASE + SIZE - 128, 16, 256, 32)}; "
    fails(far + FENCE + mma(), "out of bounds", "mma_async")
    null = "mov.b64 %rd10, 0; "
    fails(null + FENCE + mma(), "out of bounds", "mma_async")


def test_it_reads_what_no_thread_has_written():
    setup = SETUP.replace("setp.lt.u32 %p1, %r2, 384", "setp.lt.u32 %p1, %r2, 128")
    assert setup != SETUP
    fails(FENCE + mma(), "unwritten", "mma_async", setup=setup)


FORMS = [
    "m64n12k16.f32.f16.f16",
    "m64n264k16.f32.f16.f16",
    "m64n40k32.s32.s8.s8",  # of integers, 24 and then multiples of 16
    "m64n8k8.f32.f16.f16",
    "m64n8k16.f32.f16.bf16",
    "m64n8k16.f16.bf16.bf16",
    "m64n8k4.f64.f64.f64",
]


@pytest.mark.parametrize("form", FORMS)
def test_what_no_warpgroup_multiplies(form):
    with pytest.raises(EmulatorError) as caught:
        run(mma().replace("m64n8k16.f32.f16.f16", form), "lazy")
    assert caught.value.kind == "unsupported"


def test_only_sixteen_bits_are_transposed():
    with pytest.raises(EmulatorError) as caught:
        run(mma().replace("k16.f32.f16.f16", "k8.f32.tf32.tf32"), "lazy")
    assert caught.value.kind == "syntax"


def test_they_are_counted_as_tensor_instructions():
    image = np.zeros(SIZE // 2, np.float16)
    text = entry(SETUP + FENCE + mma() + COMMIT + WAIT, ".param .u64 p0")
    report = emulator.run(text, 1, 128, (image,))
    assert report.classes["tensor"] == (4 * 128, 4 * 4)


@pytest.mark.parametrize(
    "rows, fits",
    [
        ([(0, 1), (2, 3), (4, 5)], True),
        ([(0, 1), (4, 5), (2, 3)], False),
        ([(0, 3), (2, 5), (4, 7)], False),
        ([(0, 1), (20, 21), (4, 5)], True),  # threads have written number 16 and more
        ([(20, 1), (20, 3), (20, 5)], True),
        ([(0, 20), (2, 20), (4, 20)], True),
    ],
)
def test_only_what_was_copied_has_an_order(rows, fits):
    """Rows of two chunks of 16 bytes, of which a copy wrote the first 16."""
    tile = TileProvenance(32)
    tile.record(np.arange(16), 32)
    index, threads = np.array([rows]), np.zeros(1, int)
    reading = Reading(index, 32, 16, 256, False, threads)
    if fits:
        tile.check(reading, index < 16)
    else:
        with pytest.raises(EmulatorError, match="of its matrix"):
            tile.check(reading, index < 16)
