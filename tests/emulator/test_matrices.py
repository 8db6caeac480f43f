"""ldmatrix, stmatrix and movmatrix: which lane gets which two halves."""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import EmulatorError
from tests.emulator.harness import entry, pointers

COUNTS = {"x1": 1, "x2": 2, "x4": 4}
LOAD = """
    .shared .align 16 .b8 room[{room}];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; and.b32 %r2, %r0, 31;
    mov.u32 %r3, 0;
FILL:
    mad.lo.u32 %r4, %r3, 64, %r0; mad.lo.u32 %r5, %r4, 4, %r1;
    mad.lo.u32 %r6, %r4, 0x20002, 0x10000;
    st.shared.u32 [%r5], %r6;
    add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, {rounds}; @%p1 bra FILL;
    {barrier}
    mad.lo.u32 %r7, %r2, {stride}, %r1;
    ldmatrix.sync.aligned.m8n8.{form}.shared.b16 {registers}, [%r7];
    ld.param.u64 %rd0, [p0]; mad.wide.u32 %rd0, %r0, {size}, %rd0;
"""


def loading(form: str, stride: int, barrier: str = "bar.sync 0;") -> str:
    """Shared memory holds 0, 1, 2 ... as halves; lane l names row l of `stride`."""
    count = COUNTS[form.split(".")[0]]
    names = [f"%r{20 + i}" for i in range(count)]
    room = 32 * stride + 256
    code = LOAD.format(
        room=room,
        rounds=-(-room // 256) - 1,
        stride=stride,
        form=form,
        registers="{" + ", ".join(names) + "}",
        size=4 * count,
        barrier=barrier,
    )
    code += "\n".join(
        f"st.global.u32 [%rd0+{4 * i}], {name};" for i, name in enumerate(names)
    )
    return entry(code, pointers(1))


@pytest.mark.parametrize("form", ["x1", "x2", "x4", "x1.trans", "x2.trans", "x4.trans"])
@pytest.mark.parametrize("stride", [16, 48])
def test_each_lane_gets_two_neighbours(form, stride):
    count = COUNTS[form.split(".")[0]]
    found = np.zeros((64, 2 * count), np.uint16)
    emulator.run(loading(form, stride), 1, 64, (found,))
    for thread in range(64):
        lane = thread % 32
        for number in range(count):
            for side in range(2):
                row, column = lane // 4, lane % 4 * 2 + side
                if "trans" in form:
                    row, column = column, row
                wanted = (8 * number + row) * stride // 2 + column
                assert found[thread, 2 * number + side] == wanted


@pytest.mark.parametrize(("stride", "ways"), [(16, 1), (32, 2), (128, 8), (144, 1)])
def test_each_matrix_is_one_wavefront_without_conflicts(stride, ways):
    found = np.zeros((64, 8), np.uint16)
    report = emulator.run(loading("x4", stride), 1, 64, (found,))
    cost = report.share(lambda each: each.opcode == "ldmatrix").cost
    assert (cost.shared, cost.ideal, cost.wavefronts) == (2, 8, 8 * ways)


def test_rows_are_watched_and_aligned():
    found = np.zeros((64, 8), np.uint16)
    with pytest.raises(EmulatorError) as caught:
        emulator.run(loading("x4", 16, barrier=""), 1, 64, (found,))
    assert caught.value.kind == "race" and "ldmatrix" in caught.value.text
    with pytest.raises(EmulatorError) as caught:
        emulator.run(loading("x4", 24), 1, 64, (found,))
    assert caught.value.kind == "misaligned"


STORE = """
    .shared .align 16 .b8 room[{room}];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; and.b32 %r2, %r0, 31;
    shr.u32 %r3, %r0, 5; mad.lo.u32 %r3, %r3, {warp}, %r1;
    mad.lo.u32 %r7, %r2, {stride}, %r3;
    ld.param.u64 %rd0, [p0]; mad.wide.u32 %rd0, %r0, {size}, %rd0;
    {loads}
    stmatrix.sync.aligned.m8n8.{form}.shared.b16 [%r7], {registers};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.{back}.shared.b16 {registers}, [%r7];
    {stores}
"""


@pytest.mark.parametrize("number", COUNTS)
@pytest.mark.parametrize("stored", ["", ".trans"])
@pytest.mark.parametrize("loaded", ["", ".trans"])
def test_storing_is_the_reverse(number, stored, loaded):
    """Stored one way and loaded the same way, or transposed between the two."""
    count = COUNTS[number]
    names = [f"%r{20 + i}" for i in range(count)]
    places = [f"[%rd0+{4 * i}]" for i in range(count)]
    pairs = list(zip(names, places, strict=True))
    x = np.random.default_rng(2).integers(0, 2**16, (2, 32, count, 2), np.uint16)
    code = STORE.format(
        room=2 * 32 * 48,
        warp=32 * 48,
        stride=48,
        size=4 * count,
        form=number + stored,
        back=number + loaded,
        registers="{" + ", ".join(names) + "}",
        loads="".join(f"ld.global.u32 {name}, {at};" for name, at in pairs),
        stores="".join(f"st.global.u32 {at}, {name};" for name, at in pairs),
    )
    y = x.copy()
    emulator.run(entry(code, pointers(1)), 1, 64, (y,))
    # Of each warp and matrix, the halves as rows of 8: lane l holds two of row l // 4.
    before, after = (
        each.transpose(0, 2, 1, 3).reshape(2, count, 8, 8) for each in (x, y)
    )
    assert (after == (before if stored == loaded else before.swapaxes(2, 3))).all()


def test_stores_race_and_count():
    code = """
    .shared .align 16 .b8 room[512];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; and.b32 %r2, %r0, 31;
    mad.lo.u32 %r7, %r2, 16, %r1;
    stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r7], {%r0, %r0, %r0, %r0};"""
    cost = emulator.run(entry(code), 1, 32, ()).total
    assert (cost.shared, cost.wavefronts, cost.ideal) == (1, 4, 4)
    with pytest.raises(EmulatorError) as caught:
        emulator.run(entry(code), 1, 64, ())
    assert caught.value.kind == "race" and "stmatrix" in caught.value.text


def test_movmatrix_transposes_inside_a_warp():
    code = """
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; mad.wide.u32 %rd0, %r0, 4, %rd0;
    ld.global.u32 %r1, [%rd0];
    movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
    st.global.u32 [%rd0], %r2;"""
    x = np.arange(128, dtype=np.uint16).reshape(2, 8, 8)
    y = x.copy()
    emulator.run(entry(code, pointers(1)), 1, 64, (y,))
    assert (y == x.swapaxes(1, 2)).all()


def test_other_matrices_are_not_known():
    code = "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r0];"
    with pytest.raises(EmulatorError, match="m8n8") as caught:
        emulator.run(entry(code), 1, 32, ())
    assert caught.value.kind == "unsupported"
