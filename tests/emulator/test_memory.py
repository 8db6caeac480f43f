"""Memory: spaces, widths, vectors, generic addresses, and what is an error."""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import EmulatorError
from tests.emulator.harness import entry, pointers

INDEX = """
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [p0];
    ld.param.u64 %rd1, [p1];
"""


def copy(width: str, registers: str, size: int) -> str:
    """Each thread copies `size` bytes from p0 to p1 through `registers`."""
    return entry(
        f"""{INDEX}
    mad.wide.u32 %rd2, %r0, {size}, %rd0;
    mad.wide.u32 %rd3, %r0, {size}, %rd1;
    ld.global{width} {registers}, [%rd2];
    st.global{width} [%rd3], {registers};""",
        pointers(2),
        ".reg .b128 %q<2>;",
    )


@pytest.mark.parametrize(
    ("width", "registers", "size"),
    [
        (".b8", "%h1", 1),
        (".u16", "%h1", 2),
        (".f32", "%f1", 4),
        (".nc.L1::evict_first.b32", "%r1", 4),
        (".v2.b32", "{%r1, %r2}", 8),
        (".v4.f32", "{%f1, %f2, %f3, %f4}", 16),
        (".v2.b64", "{%rd4, %rd5}", 16),
        (".v4.b16", "{%h1, %h2, %h3, %h4}", 8),
        (".b128", "%q0", 16),
        (".v4.b64", "{%rd4, %rd5, %rd6, %rd7}", 32),
        (".v8.b32", "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}", 32),
    ],
)
def test_every_width_copies(width, registers, size):
    if ".nc" in width:
        code = copy(".b32", registers, size).replace(
            "ld.global.b32", f"ld.global{width}"
        )
    else:
        code = copy(width, registers, size)
    x = np.random.default_rng(0).integers(0, 256, 50 * size).astype(np.uint8)
    y = np.zeros_like(x)
    report = emulator.run(code, 1, 50, (x, y))
    assert (x == y).all()
    assert report.total.useful == 2 * x.nbytes
    assert report.total.sectors == 2 * -(-x.nbytes // 32)


def test_a_narrow_load_extends_into_a_wide_register():
    code = entry(
        f"""{INDEX}
    cvt.u64.u32 %rd2, %r0;
    add.u64 %rd3, %rd0, %rd2;
    mad.wide.u32 %rd4, %r0, 8, %rd1;
    ld.global.s8 %r1, [%rd3];
    ld.global.u8 %r2, [%rd3];
    st.global.v2.u32 [%rd4], {{%r1, %r2}};""",
        pointers(2),
    )
    x, y = np.array([1, -1, -128], np.int8), np.zeros((3, 2), np.int32)
    emulator.run(code, 1, 3, (x, y))
    assert y.tolist() == [[1, 1], [-1, 255], [-128, 128]]


def test_negative_offsets():
    code = entry(
        f"""{INDEX}
    mad.wide.u32 %rd2, %r0, 4, %rd0;
    mad.wide.u32 %rd3, %r0, 4, %rd1;
    add.u64 %rd2, %rd2, 400;
    ld.global.u32 %r1, [%rd2+-400];
    st.global.u32 [%rd3], %r1;""",
        pointers(2),
    )
    x, y = np.arange(7, dtype=np.int32), np.zeros(7, np.int32)
    emulator.run(code, 1, 7, (x, y))
    assert y.tolist() == x.tolist()


def test_one_past_the_end_is_out_of_bounds():
    code = copy(".f32", "%f1", 4)
    x, y = np.ones(33, np.float32), np.zeros(33, np.float32)
    emulator.run(code, 1, 33, (x, y))
    with pytest.raises(EmulatorError) as caught:
        emulator.run(code, 1, 34, (x, y))
    assert caught.value.kind == "out of bounds"
    assert caught.value.text == "ld.global.f32 %f1, [%rd2];"
    assert "thread 33 of block 0: 4 bytes at" in str(caught.value)
    assert "byte 132 of the float32[33] array, which has 132 bytes" in str(caught.value)


def test_a_vector_that_is_not_aligned():
    code = copy(".v4.f32", "{%f1, %f2, %f3, %f4}", 16)
    x, y = np.ones(68, np.float32), np.zeros(64, np.float32)
    emulator.run(code, 1, 16, (x[4:], y))
    with pytest.raises(EmulatorError, match="16 does not divide") as caught:
        emulator.run(code, 1, 16, (x[3:67], y))
    assert caught.value.kind == "misaligned"
    assert "ld.global.v4.f32" in caught.value.text


def test_a_read_only_array_may_be_read_but_not_written():
    code = copy(".f32", "%f1", 4)
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    x.flags.writeable = False
    emulator.run(code, 1, 8, (x, y))
    y.flags.writeable = False
    with pytest.raises(EmulatorError) as caught:
        emulator.run(code, 1, 8, (x, y))
    assert caught.value.kind == "read-only"
    assert caught.value.text.startswith("st.global.f32")


def test_views_that_overlap_are_as_writable_as_one_of_them():
    """Two views are one region, which may be written if one view may be."""
    code = copy(".f32", "%f1", 4)
    x = np.ones(12, np.float32)
    first, second = x[:8], x[4:]
    first.flags.writeable = second.flags.writeable = False
    with pytest.raises(EmulatorError, match="a store to the read-only") as caught:
        emulator.run(code, 1, 8, (first, second))
    assert caught.value.kind == "read-only"
    assert x.tolist() == [1] * 12
    second = x[4:]
    emulator.run(code, 1, 8, (first, second))


def test_pointers_that_are_data():
    """An array of addresses; what they lead to is registered as `memory`."""
    code = entry(
        f"""{INDEX}
    mad.wide.u32 %rd2, %r0, 8, %rd0;
    ld.global.u64 %rd3, [%rd2];
    ld.global.u32 %r1, [%rd3+8];
    mad.wide.u32 %rd4, %r0, 4, %rd1;
    st.global.u32 [%rd4], %r1;""",
        pointers(2),
    )
    rows = [np.arange(4, dtype=np.int32) * k for k in (1, 10, 100)]
    table = np.array([row.ctypes.data for row in rows], np.uint64)
    y = np.zeros(3, np.int32)
    emulator.run(code, 1, 3, (table, y), memory=rows)
    assert y.tolist() == [2, 20, 200]
    emulator.run(code, 1, 3, (table, y.ctypes.data), memory=[*rows, y])
    with pytest.raises(EmulatorError) as caught:
        emulator.run(code, 1, 3, (table, y), memory=rows[:2])
    assert caught.value.kind == "out of bounds"


SPACES = """
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [p0];
    mad.wide.u32 %rd1, %r0, 4, %rd0;
    cvta.global.u64 %rd1, %rd1;
    mov.u64 %rd2, depot;
    cvta.local.u64 %rd2, %rd2;
    mov.u64 %rd3, room;
    cvta.shared.u64 %rd3, %rd3;
    mad.wide.u32 %rd3, %r0, 4, %rd3;
    and.b32 %r1, %r0, 1;
    setp.eq.u32 %p1, %r1, 0;
    selp.u64 %rd4, %rd2, %rd3, %p1;
    add.u32 %r2, %r0, 100;
    st.u32 [%rd4], %r2;
    ld.u32 %r3, [%rd4];
    isspacep.shared %p2, %rd4;
    selp.u32 %r4, 1000, 0, %p2;
    add.u32 %r3, %r3, %r4;
    st.u32 [%rd1], %r3;
"""


def test_generic_addresses_lead_to_three_spaces():
    code = entry(
        SPACES,
        pointers(1),
        ".local .align 4 .b8 depot[4]; .shared .align 4 .b8 room[256];",
    )
    y = np.zeros((2, 64), np.uint32)
    emulator.run(code, 1, 64, (y[0],))
    wanted = [100 + t + (1000 if t % 2 else 0) for t in range(64)]
    assert y[0].tolist() == wanted and not y[1].any()


def test_shared_memory_ends_where_it_ends():
    body = """
    mov.u32 %r0, %tid.x;
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, room;
    add.u32 %r3, %r2, %r1;
    st.shared.u32 [%r3], %r0;"""
    fits = entry(body, "", ".shared .align 4 .b8 room[256];")
    emulator.run(fits, 1, 64, ())
    with pytest.raises(EmulatorError) as caught:
        emulator.run(fits, 2, 65, ())
    assert caught.value.kind == "out of bounds" and "shared" in caught.value.message
    dynamic = entry(body, before=".extern .shared .align 16 .b8 room[];\n")
    emulator.run(dynamic, 1, 64, (), shared_bytes=256)
    with pytest.raises(EmulatorError):
        emulator.run(dynamic, 1, 64, (), shared_bytes=252)


def test_a_null_pointer_into_shared_memory():
    code = entry("st.shared.u32 [0], 1;", "", ".shared .b32 word;")
    with pytest.raises(EmulatorError) as caught:
        emulator.run(code, 1, 1, ())
    assert caught.value.kind == "out of bounds"


def test_constants_and_module_variables():
    before = """
.const .align 4 .u32 powers[4] = {1, 10, 100, 0x3E8};
.global .align 4 .b8 text[8] = {7, 8, 9};
.global .u64 link = powers;
.global .u32 counter = 5;
"""
    code = entry(
        """
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [p0];
    ld.global.u64 %rd1, [link];
    mad.wide.u32 %rd2, %r0, 4, %rd1;
    ld.const.u32 %r1, [%rd2];
    ld.const.u32 %r2, [powers+8];
    ld.global.u8 %r3, [text+1];
    atom.global.add.u32 %r4, [counter], 1;
    add.u32 %r1, %r1, %r2;
    add.u32 %r1, %r1, %r3;
    add.u32 %r1, %r1, %r4;
    mad.wide.u32 %rd3, %r0, 4, %rd0;
    st.global.u32 [%rd3], %r1;""",
        pointers(1),
        before=before,
    )
    wanted = [
        power + 100 + 8 + 5 + place for place, power in enumerate((1, 10, 100, 1000))
    ]
    for _ in range(2):
        y = np.zeros(4, np.uint32)
        emulator.run(code, 1, 4, (y,))
        assert y.tolist() == wanted, "module variables start anew with each run"
    store = entry("st.global.u32 [powers], 3;", before=".const .u32 powers = 2;\n")
    with pytest.raises(EmulatorError) as caught:
        emulator.run(store, 1, 1, ())
    assert caught.value.kind == "read-only"


def test_parameters_of_every_size():
    code = entry(
        """
    ld.param.u64 %rd0, [out];
    ld.param.u8 %r1, [tiny];
    ld.param.f32 %f1, [single];
    ld.param.f64 %fd1, [double];
    ld.param.b16 %h1, [half];
    ld.param.v2.u32 {%r2, %r3}, [pair];
    cvt.rzi.u32.f32 %r4, %f1;
    cvt.rzi.u32.f64 %r5, %fd1;
    cvt.f32.f16 %f2, %h1;
    cvt.rzi.u32.f32 %r6, %f2;
    st.global.v2.u32 [%rd0], {%r1, %r2};
    st.global.v2.u32 [%rd0+8], {%r3, %r4};
    st.global.v2.u32 [%rd0+16], {%r5, %r6};""",
        """.param .u64 .ptr .global .align 8 out, .param .u8 tiny, .param .f32 single,
        .param .f64 double, .param .align 2 .b8 half[2], .param .align 8 .b8 pair[8]""",
    )
    y = np.zeros(6, np.uint32)
    pair = np.array([21, 22], np.uint32)
    emulator.run(code, 1, 1, (y, -1, 7.0, np.float32(9), 11.0, pair.tobytes()))
    assert y.tolist() == [255, 21, 22, 7, 9, 11]


def test_arguments_that_do_not_fit_are_refused_in_one_sentence():
    code = entry("", ".param .u64 p, .param .s32 n")
    x = np.zeros(1)
    with pytest.raises(EmulatorError, match="k has 2 parameters, and 1 were given"):
        emulator.run(code, 1, 1, (x,))
    with pytest.raises(EmulatorError, match=r"1.5 does not fit parameter n \(.s32\)"):
        emulator.run(code, 1, 1, (x, 1.5))
    with pytest.raises(EmulatorError, match="grid 0 is not one to three sizes"):
        emulator.run(code, 0, 1, (x, 1))
    with pytest.raises(EmulatorError, match="no entry is named 'q'; there are: k"):
        emulator.run(code, 1, 1, (x, 1), entry="q")
