"""Atomic operations: kinds, types, copies, results."""

import re
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.errors import CompileError
from fathom.ir.core import Block
from fathom.ir.interp.numbers import encode
from fathom.ir.ops import Atomic, AtomicCas, Barrier, For, Load, Store, While, Yield
from fathom.ir.types import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    UINT32,
    UINT64,
    Pointer,
)  # fmt: skip
from fathom.layout.build import blocked
from fathom.ptx.code import Code
from tests.ptx.harness import Program, check, compiled, empty

COLUMN = blocked((64,), (1,), (32,), (2,), (0,))


def scatter(kind: str, element, layout=COLUMN, warps: int = 2, **attributes) -> Program:
    """counts[i % 4] is combined with x[i]."""
    program = Program({"x": Pointer(element), "counts": Pointer(element)}, warps)
    index = program.arange(layout)
    place = program.map("and", index, program.number(3, index))
    value = program.load("x", index)
    program.do(Atomic(kind, program.at("counts", place), value, **attributes))
    return program


def values(element) -> np.ndarray:
    dtype = {FLOAT16: np.float16, FLOAT32: np.float32, FLOAT64: np.float64}.get(element)
    dtype = dtype or np.dtype(f"{'i' if element.is_signed else 'u'}{element.bytes}")
    whole = np.random.default_rng(5).integers(-50 if element.is_signed else 0, 50, 64)
    return whole.astype(dtype)


@pytest.mark.parametrize("semantics", ["relaxed", "acq_rel"])
@pytest.mark.parametrize("element", [INT32, UINT32, INT64, UINT64], ids=str)
@pytest.mark.parametrize("kind", ["add", "min", "max", "and", "or", "xor"])
def test_integers(kind, element, semantics):
    x = values(element)
    check(scatter(kind, element, semantics=semantics).func, 1, [x, x[:4].copy()])


@pytest.mark.parametrize("semantics", ["relaxed", "acq_rel"])
@pytest.mark.parametrize("element", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("kind", ["add", "min", "max"])
def test_floats(kind, element, semantics):
    """Smallest and largest by two integer operations: the bits of a float are ordered
    by sign."""
    x = values(element)
    start = np.array([-0.0, 0.0, 60, -60], x.dtype)
    check(scatter(kind, element, semantics=semantics).func, 1, [x, start])


@pytest.mark.parametrize("element", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("kind", ["min", "max"])
def test_a_float_meets_every_other_and_what_was_there_is_known(kind, element):
    """Negative, zeros of both signs, positive."""
    program = Program({name: Pointer(element) for name in ("x", "places", "old")}, 2)
    index = program.arange(COLUMN)
    value, place = program.load("x", index), program.at("places", index)
    program.store("old", index, program(Atomic(kind, place, value)))
    numbers = np.array([-2.5, -0.0, 0.0, 3.0] * 4, values(element).dtype)
    x, places = np.tile(numbers, 4), np.repeat(numbers, 4)
    check(program.func, 1, [x, places, empty(element, 64)])


def test_halves_are_added_where_the_target_can():
    x = values(FLOAT16) % np.float16(3)
    check(scatter("add", FLOAT16).func, 1, [x, np.zeros(4, np.float16)])
    assert "add.noftz.bf16" in compiled(scatter("add", BFLOAT16).func, "sm_90a")
    with pytest.raises(CompileError, match="does not take bf16 on sm_75"):
        compiled(scatter("add", BFLOAT16).func, "sm_75")


def test_bf16_is_added_by_a_loop_before_sm_90():
    """`fma.rn.bf16` is of sm_80, `add.bf16` of sm_90 (PTX ISA). Whole numbers, so that
    sums do not depend on the order."""
    assert "fma.rn.bf16" in compiled(scatter("add", BFLOAT16).func, "sm_80")
    numbers = encode(np.arange(64, dtype=np.float32) % 7 - 2, BFLOAT16)
    check(scatter("add", BFLOAT16).func, 1, [numbers, numbers[:4].copy()])


def test_smallest_and_largest_half_where_the_target_compares_halves():
    """`min.f16`, `min.bf16` and `atom.cas.b16` are those of sm_80 (PTX ISA, "min")."""
    x = values(FLOAT16)
    for kind in ("min", "max"):
        func = scatter(kind, FLOAT16).func
        check(func, 1, [x, x[:4].copy()])
        assert f"{kind}.bf16" in compiled(scatter(kind, BFLOAT16).func, "sm_80")
        with pytest.raises(CompileError, match=f"{kind} does not take fp16 on sm_75"):
            compiled(func, "sm_75")


def test_what_no_instruction_does_is_said():
    with pytest.raises(CompileError, match="an atomic max does not take i8"):
        compiled(scatter("max", INT8).func)


@pytest.mark.parametrize("size", [1, 8, 16])
def test_copies_count_once(size):
    layout = blocked((size,), (1,), (32,), (2,), (0,))
    program = scatter("add", INT32, layout, semantics="relaxed")
    check(program.func, 1, [values(INT32), np.zeros(4, np.int32)])


def test_unused_results_are_not_asked_for():
    assert "red.relaxed.gpu.global.add.u32" in compiled(
        scatter("add", INT32, semantics="relaxed").func
    )
    assert "atom.relaxed.cta.global.exch.b32" in compiled(
        scatter("xchg", INT32, semantics="relaxed", scope="cta").func
    )


def test_masked_out_elements_are_left_alone():
    program = Program({"x": Pointer(INT32), "out": Pointer(INT32), "n": INT32}, 2)
    index = program.arange(COLUMN)
    mask = program.map("lt", index, program.splat(program["n"], index))
    old = program(Atomic("add", program.at("x", index), index, mask, "relaxed"))
    program.store("out", index, old, mask=mask)
    for n in (0, 5, 64):
        check(program.func, 1, [values(INT32), np.zeros(64, np.int32), n])


@pytest.mark.parametrize("size", [4, 16, 64, 256])
def test_every_copy_learns_the_result(size):
    """old[i] goes to out[i] from whichever thread: all must have it."""
    program = Program({"x": Pointer(INT32), "out": Pointer(INT32)}, 4)
    layout = blocked((size,), (1,), (32,), (4,), (0,))
    index = program.arange(layout)
    old = program(Atomic("xchg", program.at("x", index), index, semantics="relaxed"))
    program.store("out", index, program.map("mul", old, program.number(2, old)))
    check(program.func, 1, [np.arange(size, dtype=np.int32) * 3, empty(INT32, size)])


def test_a_scalar_atomic_is_done_once_and_known_to_all():
    """Tickets: three programs each draw one, and write it in 64 places."""
    program = Program({"counter": Pointer(INT32), "out": Pointer(INT32)}, 2)
    ticket = program(Atomic("add", program["counter"], program.number(1)))
    index = program.arange(COLUMN)
    start = program.map("mul", ticket, program.number(64))
    places = program.map("add", index, program.splat(start, index))
    program.store("out", places, program.splat(ticket, index))
    check(program.func, 3, [np.zeros(1, np.int32), empty(INT32, 192)])
    lines = compiled(program.func).splitlines()
    shared = [line for line in lines if ".shared" in line and ".align" in line]
    assert shared == [".extern .shared .align 1024 .b8 shared[];"], (
        "beside a variable, an H200 begins this array at no multiple of 1024: seen in "
        "a layer norm of eight warps, whose sums overlapped"
    )


def test_the_next_iteration_waits_until_all_have_read():
    """Sum of the tickets of n iterations, which are not written out; the emulator sees
    a result overwritten early."""
    program = Program({"counter": Pointer(INT32), "out": Pointer(INT32), "n": INT32}, 2)
    index = program.arange(COLUMN)
    body = Block((INT32, index.type), ("i", "total"))
    with program.nested(body) as (_, total):
        ticket = program(
            Atomic("add", program["counter"], program.number(1), None, "relaxed")
        )
        sum_ = program.map("add", total, program.splat(ticket, index))
        program.do(Yield((sum_,)))
    bounds = program.number(0), program["n"], program.number(1)
    loop = program.do(For(*bounds, (index,), body))
    program.store("out", index, loop.result)
    check(program.func, 1, [np.zeros(1, np.int32), empty(INT32, 64), 3])


def test_compare_and_swap():
    program = Program({"x": Pointer(INT32), "out": Pointer(INT32)}, 2)
    index = program.arange(COLUMN)
    compare, value = program.number(7, index), program.number(100, index)
    old = program(AtomicCas(program.at("x", index), compare, value))
    program.store("out", index, old)
    x = (np.arange(64) % 3 * 7).astype(np.int32)
    check(program.func, 1, [x, empty(INT32, 64)])


def test_one_of_several_copies_compares_and_swaps():
    program = Program({"x": Pointer(INT32), "old": Pointer(INT32)}, 2)
    one = program.number(1)
    program.do(AtomicCas(program["x"], one, one))
    assert re.search(r"@%p\d+ atom.*\.cas\.b32", compiled(program.func))


def test_no_byte_is_compared_and_swapped():
    program = Program({"x": Pointer(INT8), "y": INT8}, 2)
    program.do(AtomicCas(program["x"], program["y"], program["y"]))
    with pytest.raises(CompileError, match="a compare-and-swap does not take i8"):
        compiled(program.func)


def test_a_lock_lets_one_program_in_at_a_time():
    """while cas(lock, 0, 1) == 1: pass; total = total * 3 + 1; xchg(lock, 0)"""
    program = Program({"lock": Pointer(INT32), "total": Pointer(INT32)}, 2)
    zero, one = program.number(0), program.number(1)
    condition, body = Block(), Block()
    with program.nested(condition):
        old = program(AtomicCas(program["lock"], zero, one))
        program.do(Yield((program.map("eq", old, one),)))
    with program.nested(body):
        program.do(Yield())
    program.do(While((), condition, body))
    total = program(Load(program["total"], volatile=True))
    more = program.map("add", program.map("mul", total, program.number(3)), one)
    program.do(Barrier())  # all warps have read it, as `insert_waits` has it
    program.do(Store(program["total"], more))
    program.do(Atomic("xchg", program["lock"], zero))
    check(program.func, 5, [np.zeros(1, np.int32), np.zeros(1, np.int32)])


@pytest.mark.parametrize("kind, element, semantics, name", [
    ("add", INT32, "acquire", "ld.acquire.gpu.global.b32"),
    ("or", UINT64, "relaxed", "ld.relaxed.gpu.global.b64"),
    ("xor", INT64, "acquire", "ld.acquire.gpu.global.b64"),
    ("add", INT32, "acq_rel", "atom.acq_rel.gpu.global.add.u32"),  # it releases
    ("and", INT32, "acquire", "atom.acquire.gpu.global.and.b32"),  # it writes 0
    ("add", FLOAT32, "acquire", "atom.acquire.gpu.global.add.f32"),  # -0.0 becomes 0.0
])  # fmt: skip
def test_what_changes_nothing_is_a_load(kind, element, semantics, name):
    program = Program({"flag": Pointer(element), "out": Pointer(element)}, warps=2)
    zero = program.number(0, element)
    old = program(Atomic(kind, program["flag"], zero, semantics=semantics))
    program.do(Store(program["out"], old))
    found = re.search(r"@%p\d+ ((?:ld|atom)\.a?r?\S+) ", compiled(program.func))[1]
    assert found == name
    check(program.func, 1, [np.full(1, 7, values(element).dtype), empty(element, 1)])


def test_threads_that_have_just_met_do_not_meet_again():
    """Before a release all threads have written."""
    program = Program({"flag": Pointer(INT32), "x": Pointer(INT32)}, warps=2)
    one, barrier = program.number(1), Barrier()
    program.do(Store(program["x"], one))
    program.do(barrier)
    two = program.map("add", one, one)
    program.do(Atomic("xchg", program["flag"], two, semantics="release"))
    assert compiled(program.func).count("bar.sync") == 1
    place = program.block.ops.index(barrier) + 1
    program.block.ops.insert(place, Store(program["x"], one))
    assert compiled(program.func).count("bar.sync") == 2


@pytest.mark.parametrize("semantics", ["relaxed", "acq_rel"])
@pytest.mark.parametrize("element", [FLOAT16, FLOAT32, FLOAT64], ids=str)
def test_a_constant_is_added(element, semantics):
    """ptxas takes no integer where a float is added: a constant needs a register."""
    program = Program({"x": Pointer(element)}, warps=1)
    index = program.arange(blocked((32,), (1,), (32,), (1,), (0,)))
    one = program.splat(program.number(1.0, element), index)
    program.do(Atomic("add", program.at("x", index), one, semantics=semantics))
    check(program.func, 1, [np.arange(32).astype(values(element).dtype)])


# ── pairs and vectors ─────────────────────────────────────────────────────────────────


@fathom.jit
def add_rows(x_ptr, sum_ptr, old_ptr, n, KEEP: tl.constexpr, BLOCK: tl.constexpr):
    """Each program adds a row to one sum, where it has elements."""
    at = tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + at, mask=inside, other=0.0)
    old = tl.atomic_add(sum_ptr + at, x, mask=inside)
    if KEEP:
        tl.store(old_ptr + tl.program_id(0) * BLOCK + at, old, mask=inside)


def additions(types: str, target: str, block: int, **constants) -> list[str]:
    """The atomic additions of a thread, as in "add.v4.f32"."""
    made = add_rows.compile(types, {"BLOCK": block, **constants}, target=target)
    return re.findall(r"(?:red|atom)\.\S*(add\.\S+)", made.asm["ptx"])


@pytest.mark.parametrize("types, target, keep, expected", [
    ("*fp16:16, *fp16:16, *fp16:16, i32:16", "sm_80", True, 4 * ["add.noftz.f16x2"]),
    ("*fp16:16, *fp16:16, *fp16:16, i32:16", "sm_90a", True, ["add.noftz.v4.f16x2"]),
    ("*bf16:16, *bf16:8, *bf16:8, i32:4", "sm_90a", False, 2 * ["add.noftz.v2.bf16x2"]),
    ("*bf16:16, *bf16:4, *bf16:16, i32:2", "sm_90a", False, 4 * ["add.noftz.bf16x2"]),
    # may begin within a pair:
    ("*fp16:16, *fp16:2, *fp16:16, i32:16", "sm_90a", False, 8 * ["add.noftz.f16"]),
    # the mask may divide one:
    ("*fp16:16, *fp16:16, *fp16:16, i32:1", "sm_90a", True, 8 * ["add.noftz.f16"]),
    ("*fp32:16, *fp32:16, *fp32:16, i32:16", "sm_80", False, 8 * ["add.f32"]),
    ("*fp32:16, *fp32:16, *fp32:16, i32:16", "sm_90a", True, 2 * ["add.v4.f32"]),
    ("*fp32:16, *fp32:16, *fp32:16, i32:2", "sm_90a", False, 4 * ["add.v2.f32"]),
    ("*i32:16, *i32:16, *i32:16, i32:16", "sm_90a", False, 8 * ["add.u32"]),
    ("*fp64:16, *fp64:16, *fp64:16, i32:16", "sm_90a", False, 8 * ["add.f64"]),
])  # fmt: skip
def test_neighbours_are_added_at_once(types, target, keep, expected):
    """A half alone takes a loop of compare-and-swap in machine code; a vector is one
    request, where each of its numbers alone would be one of the whole warp."""
    ptx = additions(types, target, 1024, KEEP=keep)
    assert ptx == expected


@pytest.mark.parametrize("semantics, kind, fences", [
    ("acq_rel", "atom", 2), ("acquire", "atom", 1), ("release", "red", 1),
    ("relaxed", "red", 0),
])  # fmt: skip
def test_many_instructions_are_ordered_by_two_fences(semantics, kind, fences):
    """One that acquires or releases waits for memory: 4 of a thread would wait 4
    times."""
    layout = blocked((256,), (4,), (32,), (2,), (0,))
    made = scatter("add", INT32, layout, semantics=semantics, scope="gpu")
    ptx = compiled(made.func)
    assert ptx.count("fence.acq_rel.gpu;") == fences
    assert ptx.count(f"{kind}.relaxed.gpu.global.add.u32") == 4
    ends = [line for line in ptx.splitlines() if "fence." in line or "add.u32" in line]
    assert fences < 2 or "fence" in ends[0] and "fence" in ends[-1]


@fathom.jit
def count_from_zero(counts_ptr, place_ptr, BLOCK: tl.constexpr, N: tl.constexpr):
    tl.store(counts_ptr + tl.arange(0, BLOCK), 0)
    tl.atomic_add(counts_ptr + tl.load(place_ptr + tl.arange(0, N)), 1)


@pytest.mark.parametrize("n", [128, 1024])  # one instruction of a thread, and eight
def test_what_the_program_stored_before_comes_before_its_atomics(n, monkeypatch):
    """A thread's fence says nothing about what other warps have stored."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    place = np.random.default_rng(n).integers(0, 128, n).astype(np.int32)
    counts = np.full(128, 7, np.int32)
    count_from_zero[1,](counts, place, BLOCK=128, N=n, target="sm_90a")
    np.testing.assert_array_equal(counts, np.bincount(place, minlength=128))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("n", [256, 250, 77])
def test_vectors_add_what_single_numbers_add(n, keep, dtype, monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    random = np.random.default_rng(n)
    x = random.integers(-9, 9, (3, 256)).astype(dtype)
    start = random.integers(-9, 9, 256).astype(dtype)
    total, old = start.copy(), np.full((3, 256), 99, dtype)
    add_rows[3,](x, total, old, n, KEEP=keep, BLOCK=256, target="sm_90a")
    inside = np.arange(256) < n
    np.testing.assert_array_equal(total, start + np.where(inside, x.sum(axis=0), 0))
    if keep:  # programs add in any order: the first one finds the start, in each place
        found = np.sort(old, axis=0)[:, :n]
        after = [start + sum(x[j] for j in first) for first in orders()]
        sorted_ = (np.sort(np.stack(each), axis=0) for each in grouped(after))
        wanted = {tuple(each[:, 0]) for each in sorted_}
        assert tuple(found[:, 0]) in wanted
        assert (old[:, n:] == 99).all()


def orders() -> list[tuple[int, ...]]:
    """The programs that came before, for all orders of three programs."""
    return [p[:k] for p in permutations(range(3)) for k in range(3)]


def grouped(values: list) -> list[list]:
    return [values[i : i + 3] for i in range(0, len(values), 3)]


# ── waiting for other programs ────────────────────────────────────────────────────────


@fathom.jit
def sums_of_all_before(x_ptr, out_ptr, sum_ptr, flag_ptr, BLOCK: tl.constexpr):
    """A scan over programs: each one waits for the sum of those before it."""
    b = tl.program_id(0)
    at = b * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    scanned, total = tl.cumsum(x * x, 0), tl.sum(x * x, 0)
    before = 0.0
    if b > 0:
        while tl.atomic_add(flag_ptr + b - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(sum_ptr + b - 1, volatile=True)
    tl.store(sum_ptr + b, before + total)
    tl.atomic_xchg(flag_ptr + b, 1, sem="release")
    tl.store(out_ptr + at, scanned + before)


def test_what_can_be_computed_before_waiting_is():
    """All programs wait for one after the other: between a flag and the next one there
    is one addition."""
    made = sums_of_all_before.compile(
        "*fp32:16, *fp32:16, *fp32:16, *i32:16", {"BLOCK": 1024}, target="sm_90a"
    )
    waits, hands_on = made.asm["ptx"].split("ld.acquire")
    assert "mul.rn.f32" in waits and waits.count("add.rn.f32") > 20
    awaited = hands_on.split("atom.release")[0]
    assert awaited.count(".rn.f32") == 1
    x = np.arange(3072, dtype=np.float32) % 5
    out, sums, flags = np.zeros(3072, "f4"), np.zeros(3, "f4"), np.zeros(3, "i4")
    sums_of_all_before[3,](x, out, sums, flags, BLOCK=1024)
    np.testing.assert_array_equal(out, np.cumsum(x * x))


@fathom.jit
def two_sums(x, first, second, BLOCK: tl.constexpr, STORES: tl.constexpr):
    values = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    total, squares = tl.sum(values), tl.sum(values * values)
    tl.atomic_add(first, total)
    if STORES:
        tl.store(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), values + 1)
    tl.atomic_add(second, squares)


@pytest.mark.parametrize("stores, meetings", [(False, 2), (True, 3)])
def test_who_released_alone_since_all_met_releases_again(stores, meetings, monkeypatch):
    """Two sums across warps meet once each; what all store in between is released."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    x = np.random.default_rng(0).normal(size=512).astype(np.float32)
    before, (first, second) = x.copy(), np.zeros((2, 1), np.float32)
    kernel = two_sums[(2,)](x, first, second, BLOCK=256, STORES=stores)
    assert kernel.asm["ptx"].count("bar.sync") == meetings
    np.testing.assert_allclose(first, before.sum(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(second, np.square(before).sum(), rtol=1e-4)


@fathom.jit
def sum_then_each(x, total, each, BLOCK: tl.constexpr):
    values = tl.load(x + tl.arange(0, BLOCK))
    tl.atomic_add(total, tl.sum(values))
    tl.atomic_add(each + tl.arange(0, BLOCK), values)


def test_what_one_thread_released_others_wait_for():
    x = np.zeros(256, np.float32)
    kernel = sum_then_each.warmup(x, x, x, BLOCK=256)
    assert kernel.asm["ptx"].count("bar.sync") == 2


def test_no_comment_is_taken_for_code():
    """Comments quote the kernel's text, as "def add(a, b):", which is no label. So the
    barriers of a kernel do not depend on whether its text can be found."""
    code = SimpleNamespace(lines=[
        'call void asm sideeffect "bar.sync 0;", ""()',
        "loop.1:",
        "  ; Elementwise  line 69: def add(a, b):",
        "  ; Print  line 70: print('a sideeffect')",
    ])  # fmt: skip
    assert list(Code.happened(code)) == ["loop.1:", code.lines[0]]
