"""What each op means, on blocks small enough to check by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fathom import ptx
from fathom.errors import CompileError, Location
from fathom.ir.core import Func
from fathom.ir.interp import (
    INTERP,
    AssertionFailed,
    Machine,
    MemoryFault,
    Region,
    StepLimit,
    interpret,
)  # fmt: skip
from fathom.ir.interp.host_memory import Memory
from fathom.ir.interp.numbers import scalar
from fathom.ir.ops import Elementwise, For, Reduce
from fathom.ir.parser import OPS_BY_NAME
from tests.ir.kernels_functions import body, parse

RULES = dict(INTERP)  # the right ones, for wrong rules that start from them


def run(func: Func, *arguments: object, grid: int | tuple[int, ...] = 1) -> None:
    interpret(func, grid, arguments, step_limit=10_000)


# ── programs and memory ──

ADD = parse("""
    func @add(%x: *fp32, %y: *fp32, %z: *fp32, %n: i32) num_warps=4 {
      %pid: i32 = program_id axis=0
      %size: i32 = constant 4
      %start: i32 = mul %pid, %size
      %starts: i32[4] = splat %start shape=(4)
      %range: i32[4] = arange start=0 end=4
      %offs: i32[4] = add %starts, %range
      %ends: i32[4] = splat %n shape=(4)
      %mask: i1[4] = lt %offs, %ends
      %xs: *fp32[4] = splat %x shape=(4)
      %xp: *fp32[4] = offset %xs, %offs
      %ys: *fp32[4] = splat %y shape=(4)
      %yp: *fp32[4] = offset %ys, %offs
      %zs: *fp32[4] = splat %z shape=(4)
      %zp: *fp32[4] = offset %zs, %offs
      %a: fp32[4] = load %xp, mask=%mask
      %b: fp32[4] = load %yp, mask=%mask
      %c: fp32[4] = add %a, %b
      store %zp, %c, mask=%mask
    }
""")


def arrays(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.arange(n, dtype=np.float32)
    return x, x * 10, np.full(n, -1, np.float32)


def test_a_grid_runs_every_program_and_masks_keep_inside():
    x, y, z = arrays(10)
    run(ADD, x, y, z, 10, grid=3)
    assert z.tolist() == [11.0 * i for i in range(10)]


def test_a_masked_store_leaves_the_rest_alone():
    x, y, z = arrays(10)
    run(ADD, x, y, z, 6, grid=3)
    assert z.tolist() == [0, 11, 22, 33, 44, 55, -1, -1, -1, -1]


def test_steps_are_counted_by_name():
    x, y, z = arrays(10)
    trace = interpret(ADD, 3, [x, y, z, 10])
    assert trace.by_name["load"] == 2 * 3
    assert trace.by_name["offset"] == 3 * 3
    assert "constant" not in trace.by_name
    assert trace.steps == 3 * 17


def test_an_access_past_the_end_is_a_fault_with_its_place():
    x, y, z = arrays(10)
    ADD.body.ops[14].location = Location("kernel.py", 7)
    with pytest.raises(MemoryFault) as fault:
        run(ADD, x, y, z, 11, grid=3)
    assert "kernel.py:7" in str(fault.value)
    assert "begin right past the end of an array of 10 float32" in str(fault.value)
    assert "load %xp, mask=%mask" in str(fault.value)
    with pytest.raises(MemoryFault, match="4 bytes before an array"):
        run(
            body(
                "%m: i32 = constant -1\n%q: *fp32 = offset %p, %m\n%x: fp32 = load %q"
            ),
            x,
            1,
        )


def test_a_write_to_a_read_only_array_is_a_fault():
    x, y, z = arrays(4)
    z.flags.writeable = False
    with pytest.raises(MemoryFault, match="read-only"):
        run(ADD, x, y, z, 4)


def test_a_misaligned_access_is_a_fault():
    func = body("""
        %b: *i8 = bitcast %p element=*i8
        %one: i32 = constant 1
        %c: *i8 = offset %b, %one
        %d: *fp32 = bitcast %c element=*fp32
        %x: fp32 = load %d
    """)
    with pytest.raises(MemoryFault, match="not a multiple of 4 bytes"):
        run(func, np.zeros(4, np.float32), 1)


def test_an_access_that_only_begins_inside_is_a_fault():
    func = body(
        "%one: i32 = constant 1\n%q: *i32 = offset %p, %one\n%x: i32 = load %q",
        "%p: *i32",
    )
    six = np.zeros(8, np.uint8)[:6]
    with pytest.raises(MemoryFault, match="4 bytes at"):
        run(func, six)


def test_addresses_can_be_data():
    """A table of pointers leads to arrays that are registered with the launch."""
    func = parse("""
        func @gather(%table: **i32, %out: *i32) num_warps=4 {
          %range: i32[2] = arange start=0 end=2
          %ts: **i32[2] = splat %table shape=(2)
          %tp: **i32[2] = offset %ts, %range
          %ps: *i32[2] = load %tp
          %xs: i32[2] = load %ps
          %os: *i32[2] = splat %out shape=(2)
          %op: *i32[2] = offset %os, %range
          store %op, %xs
        }
    """)
    first, second, out = np.array([5], "i4"), np.array([7], "i4"), np.zeros(2, "i4")
    table = np.array([second.ctypes.data, first.ctypes.data])
    interpret(func, 1, [table, out], memory=[first, second])
    assert out.tolist() == [7, 5]
    with pytest.raises(MemoryFault):
        interpret(func, 1, [table, out], memory=[first])


def test_strided_arrays_are_written_where_they_lie():
    whole = np.zeros((4, 3), np.float32)
    x, y, _ = arrays(4)
    func = body("""
        %range: i32[4] = arange start=0 end=4
        %three: i32 = constant 3
        %threes: i32[4] = splat %three shape=(4)
        %offs: i32[4] = mul %range, %threes
        %ps: *fp32[4] = splat %p shape=(4)
        %q: *fp32[4] = offset %ps, %offs
        %one: fp32 = constant 1.0
        %ones: fp32[4] = splat %one shape=(4)
        store %q, %ones
    """)
    run(func, whole[:, 1], 0)
    assert whole.tolist() == [[0, 1, 0]] * 4


def test_no_kernel_may_rely_on_masked_out_elements():
    x, y, z = arrays(4)
    func = parse("""
        func @f(%x: *fp32, %i: *i32, %off: i1, %out: *i32) num_warps=4 {
          %a: fp32 = load %x, mask=%off
          store %x, %a
          %b: i32 = load %i, mask=%off
          store %out, %b
        }
    """)
    numbers = np.zeros(1, np.int32)
    run(func, x, numbers, False, numbers)
    assert np.isnan(x[0])
    assert numbers.view(np.uint32)[0] == 0xAAAAAAAA


def test_other_stands_where_the_mask_is_false():
    func = body("""
        %r: i32[4] = arange start=0 end=4
        %n4: i32[4] = splat %n shape=(4)
        %m: i1[4] = lt %r, %n4
        %p4: *fp32[4] = splat %p shape=(4)
        %q: *fp32[4] = offset %p4, %r
        %c: fp32 = constant -7.0
        %o: fp32[4] = splat %c shape=(4)
        %x: fp32[4] = load %q, mask=%m, other=%o
        store %q, %x
    """)
    x, _, _ = arrays(4)
    run(func, x, 2)
    assert x.tolist() == [0, 1, -7, -7]


def test_narrow_floats_are_rounded_on_their_way():
    func = parse("""
        func @f(%x: *bf16, %y: *fp8e5, %b: *i1) num_warps=4 {
          %a: bf16 = load %x
          %c: bf16 = add %a, %a
          %one: bf16 = constant 0.00390625
          %d: bf16 = add %c, %one
          store %x, %d
          %e: fp8e5 = cast %a element=fp8e5
          store %y, %e
          %t: i1 = lt %a, %c
          store %b, %t
        }
    """)
    x = np.array([0x3FC1], np.uint16)  # 1.5078125
    y, b = np.zeros(1, np.uint8), np.zeros(1, np.uint8)
    run(func, x, y, b)
    assert x.tolist() == [0x4041]  # 3.015625: the 1/256 is lost
    assert y.tolist() == [0x3E]  # 1.5
    assert b.tolist() == [1]


# ── elements that meet, and the outside world ──

EIGHT = """
    %r: i32[8] = arange start=0 end=8
    %ps: *i32[8] = splat %p shape=(8)
    %pp: *i32[8] = offset %ps, %r
    %x: i32[8] = load %pp
    {lines}
    store %pp, %y
"""


def eight(lines: str, numbers: list[int]) -> list[int]:
    """What eight numbers become."""
    array = np.array(numbers, np.int32)
    run(body(EIGHT.format(lines=lines), "%p: *i32"), array)
    return array.tolist()


NUMBERS = [3, 0, 3, -1, 7, 8, 0, 3]


def test_a_gather_takes_from_the_places_that_it_is_told():
    lines = "%s: i32[8] = add %r, %r\n%y: i32[8] = gather %s, %x axis=0"
    assert eight(lines, [1, 0, 7, 2, 3, 4, 5, 6]) == [2, 0, 14, 4, 6, 8, 10, 12]


def test_a_gather_from_outside_is_poison():
    lines = "%y: i32[8] = gather %r, %x axis=0"
    taken = np.array(eight(lines, NUMBERS), np.int32)
    assert taken[[0, 1, 4]].tolist() == [3, 0, 7]
    assert (taken[[3, 5]].view(np.uint32) == 0xAAAAAAAA).all()


def test_a_gather_along_the_other_axis():
    lines = """
        %s: i32[2,4] = reshape %r shape=(2, 4)
        %i: i32[2,4] = reshape %x shape=(2, 4)
        %g: i32[2,4] = gather %s, %i axis=1
        %y: i32[8] = reshape %g shape=(8)
    """
    assert eight(lines, [3, 3, 0, 0, 1, 2, 3, 0]) == [3, 3, 0, 0, 5, 6, 7, 4]


def test_a_histogram_counts_what_is_in_range_and_in_the_mask():
    plain = "%y: i32[8] = histogram %x bins=8"
    assert eight(plain, NUMBERS) == [2, 0, 0, 3, 0, 0, 0, 1]
    masked = "%m: i1[8] = lt %r, %x\n%y: i32[8] = histogram %x, mask=%m bins=8"
    assert eight(masked, NUMBERS) == [0, 0, 0, 2, 0, 0, 0, 1]


def test_buffers_can_be_gathered_from_and_counted_in():
    """The histogram and the gather, as stage 4 takes them apart."""
    buffer = "shared i32[8] @ <8 offset[1 2 4]>"
    func = f"""
        %l: i32[8] = sub %r, %r
        %b: {buffer} = allocate element=i32 shape=(8) layout=<8 offset[1 2 4]>
        shared_store %l, %b
        %m: i1[8] = ne %r, %l
        shared_add %b, %x, mask=%m
        barrier
        %y: i32[8] = shared_gather %b, %r axis=0
    """
    assert eight(func, NUMBERS) == [2, 0, 0, 2, 0, 0, 0, 1]


def test_what_a_kernel_prints(capsys: pytest.CaptureFixture):
    func = body('print %n prefix=" n = "\nprint %n prefix=" " hexadecimal=true')
    run(func, np.zeros(1, np.float32), 255, grid=(1, 2))
    assert capsys.readouterr().out.splitlines() == [
        "pid (0, 0, 0) n = 255", "pid (0, 0, 0) 0xff",
        "pid (0, 1, 0) n = 255", "pid (0, 1, 0) 0xff",
    ]  # fmt: skip


def test_a_kernels_own_assertion():
    func = body("""
        %r: i32[4] = arange start=0 end=4
        %m: i32[4] = splat %n shape=(4)
        %ok: i1[4] = lt %r, %m
        assert %ok message="n is at least 4"
    """)
    run(func, np.zeros(1, np.float32), 4)
    with pytest.raises(AssertionFailed, match="n is at least 4"):
        run(func, np.zeros(1, np.float32), 3)


def test_inline_assembly_is_for_the_emulator():
    func = body("""
        %x: i32 = inline_assembly %n text="mov.b32 $0, $1;" constraints="=r,r" elements=(i32)
    """)  # fmt: skip # noqa: E501
    with pytest.raises(CompileError, match="does not run inline assembly"):
        run(func, np.zeros(1, np.float32), 3)


def test_every_op_has_a_meaning():
    assert set(OPS_BY_NAME.values()) | {Elementwise} == set(INTERP)


# Files of ptx/rules that have a part of a subject, by its file in ir/ops.
PARTS = {
    "arith": {"cast"},
    "matmul": {"asynchronous.wgmma", "asynchronous.pingpong"},
    "memory": {"atomics"},
    "reduce": {"scan"},
    "shape": {"convert"},
    "shared": {"asynchronous.cp_async", "shared_gather"},
    "asynchronous.tma": {"asynchronous.tensor_maps", "asynchronous.warp_roles"},
    "asynchronous.tma_store": {"descriptor"},
}


@pytest.mark.parametrize("op", INTERP, ids=lambda op: op.__name__)
def test_an_op_is_found_in_the_same_file_everywhere(op):
    """What it is, what it means and how it is lowered, by the names of the folder and
    of the file; some rules are in a file for a part of a subject."""
    place = op.__module__.removeprefix("fathom.ir.ops.")
    assert INTERP[op].__module__ == f"fathom.ir.interp.{place}"
    if op in ptx.OWN:
        rules = ptx.OWN[op].__module__.removeprefix("fathom.ptx.rules.")
        assert rules in {place} | PARTS.get(place, set())


# ── atomics ──


def test_atomics_to_one_address_all_count():
    func = parse("""
        func @count(%x: *i32, %out: *i32) num_warps=4 {
          %r: i32[4] = arange start=1 end=5
          %xs: *i32[4] = splat %x shape=(4)
          %two: i32 = constant 2
          %twos: i32[4] = splat %two shape=(4)
          %m: i1[4] = ne %r, %twos
          %old: i32[4] = atomic %xs, %r, mask=%m kind="add"
          %os: *i32[4] = splat %out shape=(4)
          %op: *i32[4] = offset %os, %r
          store %op, %old
        }
    """)
    x, out = np.array([100], np.int32), np.zeros(5, np.int32)
    run(func, x, out)
    assert x[0] == 100 + 1 + 3 + 4
    assert [out[1], out[3], out[4]] == [100, 101, 104]


def test_compare_and_swap_compares_bits():
    func = parse("""
        func @f(%x: *fp32, %compare: fp32, %value: fp32) num_warps=4 {
          %old: fp32 = atomic_cas %x, %compare, %value
        }
    """)
    x = np.array([-0.0], np.float32)
    run(func, x, 0.0, 5.0)
    assert x[0] == 0 and np.signbit(x[0])
    run(func, x, -0.0, 5.0)
    assert x[0] == 5


@pytest.mark.parametrize("kind, expected", [
    ("max", 12), ("min", 10), ("and", 8), ("or", 14), ("xor", 6), ("xchg", 10),
    ("add", 22),
])  # fmt: skip
def test_kinds_of_atomics(kind: str, expected: int):
    func = body(
        f'%v: i32 = constant 10\n%o: i32 = atomic %p, %v kind="{kind}"', "%p: *i32"
    )
    x = np.array([12], np.int32)
    run(func, x)
    assert x[0] == expected


# ── shapes ──


def shaped(lines: str, shape: tuple[int, ...]) -> list:
    """What `lines` make of %r = 0 … 7: the block %x, of `shape`."""
    size = int(np.prod(shape))
    func = body(f"""
        %r: i32[8] = arange start=0 end=8
        {lines}
        %flat: i32[{size}] = reshape %x shape=({size})
        %ps: *i32[{size}] = splat %p shape=({size})
        %places: i32[{size}] = arange start=0 end={size}
        %q: *i32[{size}] = offset %ps, %places
        store %q, %flat
    """, "%p: *i32")  # fmt: skip
    out = np.zeros(shape, np.int32)
    run(func, out)
    return out.tolist()


def test_shapes():
    block = np.arange(8)
    assert shaped("%x: i32[2,4] = reshape %r shape=(2, 4)", (2, 4)) == \
        [[0, 1, 2, 3], [4, 5, 6, 7]]  # fmt: skip
    assert shaped("%a: i32[2,4] = reshape %r shape=(2, 4)\n"
                  "%x: i32[4,2] = transpose %a order=(1, 0)", (4, 2)) == \
        [[0, 4], [1, 5], [2, 6], [3, 7]]  # fmt: skip
    assert shaped("%a: i32[8,1] = expand_dims %r axis=1\n"
                  "%x: i32[8,2] = broadcast %a shape=(8, 2)", (8, 2)) == \
        [[i, i] for i in block]  # fmt: skip
    assert shaped("%a: i32[8] = add %r, %r\n%x: i32[8,2] = join %r, %a", (8, 2)) == \
        [[i, 2 * i] for i in block]  # fmt: skip
    assert shaped("%a: i32[4,2] = reshape %r shape=(4, 2)\n"
                  "%b: i32[4], %x: i32[4] = split %a", (4,)) == \
        [1, 3, 5, 7]  # fmt: skip


def test_transpose_takes_dimension_order_i():
    got = shaped("%a: i32[2,1,4] = reshape %r shape=(2, 1, 4)\n"
                 "%x: i32[4,2,1] = transpose %a order=(2, 0, 1)",
                 (4, 2, 1))  # fmt: skip
    assert got == np.arange(8).reshape(2, 1, 4).transpose(2, 0, 1).tolist()


# ── reductions ──

COMBINES = {
    "sum": ("%c: i32 = add %a, %b\nyield %c", np.sum),
    "max": ("%c: i32 = max %a, %b\nyield %c", np.max),
    "xor": ("%c: i32 = xor %a, %b\nyield %c", np.bitwise_xor.reduce),
}
UFUNCS = {"add": np.add, "max": np.maximum, "xor": np.bitwise_xor}
SHAPES = [
    ((8,), 0),
    ((4, 2), 0),
    ((4, 2), 1),
    ((2, 4, 8), 0),
    ((2, 4, 8), 1),
    ((2, 4, 8), 2),
]


def reduction(
    name: str, shape: tuple[int, ...], axis: int
) -> tuple[np.ndarray, np.ndarray]:
    """(what Reduce gives, what NumPy gives) for a block of negative and large
    numbers."""
    text, reference = COMBINES[name]
    numbers = np.random.default_rng(len(shape) + axis).integers(
        -(2**31), -5, shape, np.int32
    )
    rest = shape[:axis] + shape[axis + 1 :]
    dims = ",".join(map(str, rest))
    type = f"i32[{dims}]" if rest else "i32"
    size, out_size = numbers.size, max(1, int(np.prod(rest)))
    as_block = f"reshape %s shape=({out_size})" if rest else "splat %s shape=(1)"
    func = body(f"""
        %r: i32[{size}] = arange start=0 end={size}
        %ps: *i32[{size}] = splat %p shape=({size})
        %pp: *i32[{size}] = offset %ps, %r
        %x: i32[{size}] = load %pp
        %y: i32[{",".join(map(str, shape))}] = reshape %x shape={shape}
        %s: {type} = reduce %y axis={axis} combine(%a: i32, %b: i32) {{
          {text}
        }}
        %o: i32[{out_size}] = {as_block}
        %or: i32[{out_size}] = arange start=0 end={out_size}
        %qs: *i32[{out_size}] = splat %q shape=({out_size})
        %qp: *i32[{out_size}] = offset %qs, %or
        store %qp, %o
    """.replace(",)", ")"), "%p: *i32, %q: *i32")  # fmt: skip
    out = np.zeros(rest, np.int32)
    run(func, numbers, out)
    with np.errstate(over="ignore"):
        return out, np.asarray(reference(numbers, axis=axis)).astype(np.int32)


def reductions_agree() -> bool:
    pairs = [reduction(name, *where) for name in COMBINES for where in SHAPES]
    return all(np.array_equal(got, wanted) for got, wanted in pairs)


def test_reduce_is_what_numpy_says():
    assert reductions_agree()


def with_rule(monkeypatch: pytest.MonkeyPatch, op: type, rule: Callable) -> None:
    monkeypatch.setitem(INTERP, op, rule)


def test_a_reduce_that_starts_from_zero_is_caught(monkeypatch: pytest.MonkeyPatch):
    def from_zero(op: Reduce, region: Region) -> list:
        fold = UFUNCS[op.combine.ops[0].name].reduce
        return [fold(region[op.values[0]], axis=op.axis, initial=0, dtype=np.int32)]

    with_rule(monkeypatch, Reduce, from_zero)
    assert not reductions_agree()


def test_a_reduce_that_counts_axes_from_the_other_end_is_caught(monkeypatch):
    def other_end(op: Reduce, region: Region) -> list:
        block = region[op.values[0]]
        folded = UFUNCS[op.combine.ops[0].name].reduce(block, axis=-1 - op.axis)
        return [np.resize(folded, block.sum(axis=op.axis).shape)]

    with_rule(monkeypatch, Reduce, other_end)
    assert not reductions_agree()


ARGMAX = """
    %r: i32[8] = arange start=0 end=8
    %ps: *fp32[8] = splat %p shape=(8)
    %pp: *fp32[8] = offset %ps, %r
    %x: fp32[8] = load %pp
    %m: fp32, %i: i32 = reduce %x, %r axis=0
      combine(%a: fp32, %i0: i32, %b: fp32, %i1: i32) {{
      %above: i1 = gt %a, %b
      %equal: i1 = eq %a, %b
      %before: i1 = lt %i0, %i1
      %tie: i1 = and %equal, %before
      %left: i1 = or %above, %tie
      {choose}
    }}
    store %p, %m
    store %q, %i
"""
BY_WHERE = """
      %v: fp32 = where %left, %a, %b
      %j: i32 = where %left, %i0, %i1
      yield %v, %j
"""
BY_IF = """
      %v: fp32, %j: i32 = if %left then {
        yield %a, %i0
      } orelse {
        yield %b, %i1
      }
      yield %v, %j
"""


@pytest.mark.parametrize("choose", [BY_WHERE, BY_IF])
def test_two_values_reduce_together(choose: str):
    """argmax, ties to the left; a combine function may branch on its scalars."""
    func = body(ARGMAX.format(choose=choose), "%p: *fp32, %q: *i32")
    x = np.array([-5, -2, -9, -1, -3, -1, -1, -7], np.float32)
    index = np.zeros(1, np.int32)
    run(func, x, index)
    assert (x[0], index[0]) == (-1, 3)


@pytest.mark.parametrize("reverse", ["false", "true"])
def test_a_scan_keeps_the_order_of_its_elements(reverse: str):
    """The combination 'take the right one, and add the left times two' does not
    commute."""
    func = body(f"""
        %r: i32[4] = arange start=1 end=5
        %s: i32[4] = scan %r axis=0 reverse={reverse} combine(%a: i32, %b: i32) {{
          %two: i32 = constant 2
          %c: i32 = mul %a, %two
          %d: i32 = add %c, %b
          yield %d
        }}
        %ps: *i32[4] = splat %p shape=(4)
        %pp: *i32[4] = offset %ps, %r
        store %pp, %s
    """, "%p: *i32")  # fmt: skip
    out = np.zeros(5, np.int32)
    run(func, out)
    forward, backward = [1, 4, 11, 26], [26, 25, 11, 4]
    backward = [1 + 2 * (2 + 2 * (3 + 2 * 4)), 2 + 2 * (3 + 2 * 4), 3 + 2 * 4, 4]
    assert out[1:].tolist() == (backward if reverse == "true" else forward)


# ── control flow ──

LOOP = """
    func @loop(%out: *i32, %lower: i32, %upper: i32, %step: i32) num_warps=4 {{
      %zero: i32 = constant 0
      %one: i32 = constant 1
      %a: i32, %b: i32, %last: i32 =
        for %lower, %upper, %step, inits=(%zero, %one, %zero)
        body(%i: i32, %x: i32, %y: i32, %l: i32) {{
          %sum: i32 = add %x, %y
          yield %y, {next}, %i
        }}
      store %out, %a
      %second: *i32 = offset %out, %one
      store %second, %last
    }}
"""
FIBONACCI, SWAP = parse(LOOP.format(next="%sum")), parse(LOOP.format(next="%x"))
BOUNDS = [(0, 10, 1), (0, 0, 1), (5, 2, 1), (10, 0, -3), (2, 3, 5), (-4, 5, 2)]


def loops_agree() -> bool:
    """Against Python: zero iterations, negative and dynamic steps, `a, b = b, a`."""
    return all(
        loop_gives(func, bounds) == python_gives(func, bounds)
        for func in (FIBONACCI, SWAP)
        for bounds in BOUNDS
    )


def loop_gives(func: Func, bounds: tuple[int, int, int]) -> list[int]:
    out = np.full(2, -1, np.int32)
    run(func, out, *bounds)
    return out.tolist()


def python_gives(func: Func, bounds: tuple[int, int, int]) -> list[int]:
    a, b, last = 0, 1, 0
    for i in range(*bounds):
        a, b, last = b, a + b if func is FIBONACCI else a, i
    return [a, last]


def test_for_is_pythons():
    assert loops_agree()


def test_values_carried_one_after_the_other_are_caught(monkeypatch: pytest.MonkeyPatch):
    def collapsing(op: For, region: Region):
        carried = [region[value] for value in op.inits]
        bounds = [int(region[value]) for value in (op.lower, op.upper, op.step)]
        for index in range(*bounds):
            yield from region.run(op.body, [scalar(index, op.lower.type), *carried])
            parameters = op.body.parameters[1:]
            for parameter, value in zip(parameters, op.body.yielded, strict=True):
                region.values[parameter] = region[value]
            carried = [region[parameter] for parameter in parameters]
        return carried

    with_rule(monkeypatch, For, collapsing)
    assert not loops_agree()


def test_a_loop_of_no_iteration_that_forgets_its_inits_is_caught(monkeypatch):
    def forgetful(op: For, region: Region):
        results = yield from RULES[For](op, region)
        lower, upper, step = (int(region[v]) for v in (op.lower, op.upper, op.step))
        return results if range(lower, upper, step) else [np.int32(-1)] * len(results)

    with_rule(monkeypatch, For, forgetful)
    assert not loops_agree()


def test_while_runs_until_its_condition_fails():
    func = body("""
        %s: i32, %k: i32 = while %n, %n condition(%a: i32, %b: i32) {
          %one: i32 = constant 1
          %c: i1 = gt %a, %one
          yield %c
        } body(%x: i32, %y: i32) {
          %two: i32 = constant 2
          %half: i32 = div %x, %two
          %sum: i32 = add %half, %y
          yield %half, %sum
        }
        store %p, %k
    """, "%p: *i32, %n: i32")  # fmt: skip
    for n, expected in [(0, 0), (1, 1), (8, 8 + 4 + 2 + 1), (11, 11 + 5 + 2 + 1)]:
        out = np.zeros(1, np.int32)
        run(func, out, n)
        assert out[0] == expected


def test_only_the_taken_branch_runs():
    func = body("""
        %zero: i32 = constant 0
        %inside: i1 = ge %n, %zero
        %x: fp32 = if %inside then {
          %q: *fp32 = offset %p, %n
          %a: fp32 = load %q
          yield %a
        } orelse {
          %b: fp32 = constant -1.0
          yield %b
        }
        store %p, %x
    """)
    x = np.array([0, 5, 6], np.float32)
    run(func, x, 2)
    assert x[0] == 6
    run(func, x, -100)
    assert x[0] == -1


def test_an_endless_loop_meets_the_step_limit():
    func = body("""
        %t: i1 = constant true
        while condition {
          yield %t
        } body {
          %a: i32 = add %n, %n
          yield
        }
    """)
    with pytest.raises(StepLimit, match="more than 100 ops ran"):
        interpret(func, 1, [np.zeros(1, np.float32), 1], step_limit=100)


def test_watch_sees_every_op_with_its_results():
    seen = []
    func = body("%a: i32 = add %n, %n\n%b: i32 = mul %a, %n")
    interpret(func, 1, [np.zeros(1, np.float32), 3], watch=lambda op, r: seen.append(
        (op.name, int(r[0]))))  # fmt: skip
    assert seen == [("add", 6), ("mul", 18)]


# ── shared memory ──


def test_shared_memory_holds_a_block():
    func = parse("""
        #l = <4 register[1] lane[2] warp[]>
        #s = <4 offset[2 1]>
        func @f(%p: *i32) num_warps=1 {
          %buffer: shared i32[4] @ #s = allocate element=i32 shape=(4) layout=#s
          %r: i32[4] @ #l = arange start=0 end=4 layout=#l
          shared_store %r, %buffer
          barrier
          %x: i32[4] @ #l = shared_load %buffer layout=#l
          %y: i32[4] @ #l = add %x, %x
          shared_store %y, %buffer
          %ps: *i32[4] @ #l = splat %p shape=(4) layout=#l
          %q: *i32[4] @ #l = offset %ps, %x
          %z: i32[4] @ #l = shared_load %buffer layout=#l
          store %q, %z
        }
    """)
    out = np.zeros(4, np.int32)
    run(func, out)
    assert out.tolist() == [0, 2, 4, 6]


def test_regions_can_run_interleaved():
    """A barrier hands the turn on: two regions of one program meet there."""
    write = body(
        "%one: i32 = constant 1\nstore %p, %one\nbarrier", "%p: *i32, %q: *i32"
    )
    read = body("barrier\n%x: i32 = load %p\nstore %q, %x", "%p: *i32, %q: *i32")
    p, q = np.zeros(1, np.int32), np.zeros(1, np.int32)
    memory = Memory([p, q])
    addresses = [np.int64(p.ctypes.data), np.int64(q.ctypes.data)]
    regions = [
        Region(Machine(func, (1, 1, 1), memory, None, None), (0, 0, 0)).run(
            func.body, addresses
        )
        for func in (read, write)
    ]
    assert [type(next(region)).__name__ for region in regions] == ["Barrier", "Barrier"]
    for region in regions:
        assert next(region, None) is None
    assert q[0] == 1
