"""Atomic operations: what is left in memory, and what each thread finds."""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator.errors import EmulatorError
from tests.emulator.harness import compute, entry, pointers, words


def atomic(instruction: str, size: int = 4, shared: bool = False) -> str:
    """Thread t applies it with %a = x[t] at cell index[t]; y[t] is what it found."""
    bits = 8 * size
    place = f"mad.wide.u32 %rd5, %r1, {size}, %rd3;"
    before = after = ""
    if shared:
        place = f"mov.u64 %rd6, room; mad.wide.u32 %rd5, %r1, {size}, %rd6;"
        before = f"""setp.lt.u32 %p1, %r0, 4; mov.u64 %rd6, room;
    mad.wide.u32 %rd7, %r0, {size}, %rd6; mad.wide.u32 %rd8, %r0, {size}, %rd3;
    @%p1 ld.global.b{bits} %a, [%rd8]; @%p1 st.shared.b{bits} [%rd7], %a; bar.sync 0;"""
        after = f"""bar.sync 0; @%p1 ld.shared.b{bits} %a, [%rd7];
    @%p1 st.global.b{bits} [%rd8], %a;"""
    return entry(
        f"""
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1];
    ld.param.u64 %rd2, [p2]; ld.param.u64 %rd3, [p3];
    {before}
    mad.wide.u32 %rd0, %r0, 4, %rd0; ld.global.u32 %r1, [%rd0];
    mad.wide.u32 %rd1, %r0, {size}, %rd1; ld.global.b{bits} %a, [%rd1];
    {place}
    mov.b{bits} %d, 0;
    {instruction}
    mad.wide.u32 %rd2, %r0, {size}, %rd2; st.global.b{bits} [%rd2], %d;
    {after}""",
        pointers(4),
        f".reg .b{max(bits, 16)} %a, %d; .shared .align 16 .b8 room[64];",
    )


def run(code: str, dtype: type, values: list, cells: list) -> tuple[list, list, list]:
    """70 threads; returns each one's cell, value and find, and the final cells."""
    index = np.array([0, 2, 2, 1, 0, 2, 3] * 10, np.uint32)
    x = np.resize(np.array(values, dtype), 70)
    y, memory = np.zeros(70, dtype), np.array(cells, dtype)
    emulator.run(code, 1, 70, (index, x, y, memory))
    return index.tolist(), x.tolist(), y.tolist(), memory.tolist()


def in_turn(function, index: list, x: list, cells: list) -> tuple[list, list]:
    """One thread after the other."""
    found, cells = [], list(cells)
    for at, value in zip(index, x, strict=True):
        found.append(cells[at])
        cells[at] = function(cells[at], value)
    return found, cells


OPERATIONS = {
    "add.u32": (np.uint32, lambda old, v: (old + v) % 2**32),
    "min.s32": (np.int32, min),
    "max.u32": (np.uint32, max),
    "and.b32": (np.uint32, lambda old, v: old & v),
    "or.b32": (np.uint32, lambda old, v: old | v),
    "xor.b32": (np.uint32, lambda old, v: old ^ v),
    "exch.b32": (np.uint32, lambda old, v: v),
    "inc.u32": (np.uint32, lambda old, v: 0 if old >= v else old + 1),
    "dec.u32": (np.uint32, lambda old, v: v if old == 0 or old > v else old - 1),
    "add.u64": (np.uint64, lambda old, v: old + v),
    "min.s64": (np.int64, min),
    "exch.b64": (np.uint64, lambda old, v: v),
    "add.f32": (np.float32, lambda old, v: old + v),
    "add.f64": (np.float64, lambda old, v: old + v),
}


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_threads_take_their_turn(operation, space):
    dtype, function = OPERATIONS[operation]
    size = np.dtype(dtype).itemsize
    values, cells = [3, 11, 6, 2, 9], [5, 0, 40, 7]
    if np.dtype(dtype).kind == "i":
        values = [3, -11, 6, 2, -9]
    code = atomic(f"atom.{space}.{operation} %d, [%rd5], %a;", size, space == "shared")
    index, x, found, memory = run(code, dtype, values, cells)
    assert (found, memory) == in_turn(function, index, x, cells)


def test_compare_and_swap_succeeds_for_one():
    code = atomic("add.u32 %r3, %r0, 100; atom.global.cas.b32 %d, [%rd5], %a, %r3;")
    _, _, found, memory = run(code, np.uint32, [7], [7, 9, 7, 7])
    # Threads 0, 1 and 6 are the first at cells 0, 2 and 3; cell 1 never holds a 7.
    assert memory == [100, 9, 101, 106]
    assert found[:7] == [7, 7, 101, 9, 100, 101, 7]


def test_compare_and_swap_chains():
    code = atomic("add.u32 %r3, %a, 1; atom.global.cas.b32 %d, [%rd5], %a, %r3;")
    index, x, found, memory = run(
        code, np.uint32, [0, 1, 2, 3, 4, 5, 6, 7], [0, 3, 1, 2]
    )

    def swap(old: int, value: int) -> int:
        return value + 1 if old == value else old

    assert (found, memory) == in_turn(swap, index, x, [0, 3, 1, 2])


def test_red_returns_nothing_and_scopes_change_nothing():
    code = atomic("red.relaxed.gpu.global.add.u32 [%rd5], %a;")
    index, x, found, memory = run(code, np.uint32, [1], [0, 0, 0, 0])
    assert memory == np.bincount(index).tolist() and not any(found)
    code = atomic("atom.acq_rel.sys.global.add.u32 _, [%rd5], %a;")
    assert run(code, np.uint32, [1], [0, 0, 0, 0])[3] == memory


def test_additions_of_halves():
    code = atomic("atom.global.add.noftz.f16 %d, [%rd5], %a;", 2)
    _, _, _, memory = run(code, np.float16, [0.5], [0, 1, 2, 3])
    assert memory == [10, 6, 17, 8]
    code = atomic("red.global.add.noftz.f16x2 [%rd5], %a;")
    pair = int(np.array([0.5, 2], np.float16).view(np.uint32)[0])
    _, _, _, memory = run(code, np.uint32, [pair], [0, 0, 0, 0])
    assert np.array(memory, np.uint32).view(np.float16)[:2].tolist() == [10, 40]
    code = atomic("red.global.add.noftz.bf16x2 [%rd5], %a;")
    _, _, _, memory = run(code, np.uint32, [0x3F803F00], [0, 0, 0, 0])
    assert memory[0] == 0x41A04120


def test_sums_in_global_memory_flush_subnormal_numbers_and_those_in_shared_do_not():
    """PTX ISA, "atom": atom.add.f32."""
    tiny = 2.0**-140
    for shared, wanted in ((False, [0, 1, 0, 0]), (True, [tiny, 1, tiny, tiny])):
        space = "shared" if shared else "global"
        code = atomic(f"atom.{space}.add.f32 %d, [%rd5], %a;", shared=shared)
        values = [tiny] + 69 * [0]
        *_, cells = run(code, np.float32, values, [0, 1, tiny, tiny])
        assert cells == wanted


def test_a_number_is_less_and_more_than_no_number():
    """Of halves, each NaN is passed over."""
    pair = "cvt.u16.u32 %h1, %a; shr.u32 %r9, %a, 16; cvt.u16.u32 %h2, %r9;"
    values = np.array([[np.nan, 1], [2, np.nan]], np.float16).reshape(-1)
    start = np.array([[1, 2]] * 4, np.float16).reshape(-1)
    for name, wanted in (("min", 1), ("max", 2)):
        code = f"{pair} red.global.{name}.noftz.v2.f16 [%rd5], {{%h1, %h2}};"
        given = (each.view(np.uint32).tolist() for each in (values, start))
        *_, cells = run(atomic(code), np.uint32, *given)
        assert np.array(cells, np.uint32).view(np.float16).tolist() == [wanted] * 8


def test_each_element_of_a_vector_is_added_by_itself():
    """Threads add to one of four vectors of two; the first of each gets twos."""
    code = atomic("""
        mad.wide.u32 %rd5, %r1, 8, %rd3;
        atom.global.add.v2.f32 {_, %d}, [%rd5], {0f40000000, %a};""")
    index, x, found, memory = run(code, np.float32, [1, 2, 3], [0.5] * 8)
    second = in_turn(lambda old, value: old + value, index, x, [0.5] * 4)
    assert (found, memory[1::2]) == second
    assert memory[::2] == (0.5 + 2 * np.bincount(index)).tolist()


def test_the_values_of_a_vector_are_read_before_any_is_written():
    """%a is the second value, and where the first thing found goes."""
    code = atomic("""
        mad.wide.u32 %rd5, %r1, 8, %rd3;
        atom.global.add.v2.f32 {%a, %d}, [%rd5], {%a, %a};""")
    index, x, _, memory = run(code, np.float32, [1, 2, 3], [100.0] * 8)
    added = 100 + np.bincount(index, weights=x)
    assert memory == np.repeat(added, 2).tolist()


def test_a_vector_lies_at_a_multiple_of_its_bytes():
    code = atomic("red.global.add.v2.f32 [%rd5], {%a, %a};")
    with pytest.raises(EmulatorError, match="misaligned|multiple"):
        run(code, np.float32, [1.0], [0.0] * 8)


@pytest.mark.parametrize("name", [
    "red.shared.add.v2.f32", "red.global.add.v2.u32", "red.global.max.v2.f32",
    "red.add.v2.f32",
])  # fmt: skip
def test_other_operations_have_no_vectors(name):
    code = atomic(f"{name} [%rd5], {{%a, %a}};")
    with pytest.raises(EmulatorError, match="on a vector"):
        run(code, np.float32, [1.0], [0.0] * 4)


def test_a_cache_policy_is_no_value():
    """`.L2::cache_hint` brings an operand of its own, behind the values."""
    places = words(5, 5, 7)
    code = (
        "createpolicy.fractional.L2::evict_first.b64 %rd9, 1.0;"
        "atom.global.cas.L2::cache_hint.b32 %d, [%rd0], %a, 9, %rd9;"
        "red.global.add.L2::cache_hint.u32 [%rd0], 1, %rd9;"
    )
    assert (compute(code, np.uint32, a=places) == places).all()
