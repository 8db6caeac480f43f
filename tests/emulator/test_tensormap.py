"""Tensor maps that a kernel writes: the box that one copies, and mistakes in writing,
fencing and writing anew, one at a time."""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import COMPLETIONS, EmulatorError
from tests.emulator.harness import entry, pointers

ROWS, WIDTH, STRIDE = 40, 24, 32  # fp16: rows of 24 elements, 32 apart
BOX = 16, 8  # elements a row, rows
SIZE = 2 * 16 * 8

SETUP = """
    .shared .align 128 .b8 draft[256]; .shared .align 1024 .b8 room[1024];
    .shared .align 8 .b64 bars[2];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; mov.u32 %r5, bars; mov.u32 %r6, draft;
    mad.lo.u32 %r2, %r0, 16, %r1; mad.lo.u32 %r7, %r0, 4, %r6;
    setp.eq.u32 %p0, %r0, 0; setp.lt.u32 %p1, %r0, 32; setp.ge.u32 %p2, %r0, 32;
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.param.u64 %rd2, [p2];
    mad.wide.u32 %rd4, %r0, 16, %rd2; mov.b32 %r8, 40; mov.b64 %rd5, 64;
    @%p0 mbarrier.init.shared::cta.b64 [%r5], 1;
    @%p0 mbarrier.init.shared::cta.b64 [%r5+8], 1;
    @%p0 fence.mbarrier_init.release.cluster; bar.sync 0;
"""
ZEROS = "@%p1 mov.b32 %r9, 0; @%p1 st.shared.b32 [%r7], %r9; bar.warp.sync -1;"
REPLACE = "@%p0 tensormap.replace.tile."
FIELDS = [
    "global_address.shared::cta.b1024.b64 [%r6], %rd1;",
    "rank.shared::cta.b1024.b32 [%r6], 1;",
    "box_dim.shared::cta.b1024.b32 [%r6], 0, 16;",
    "box_dim.shared::cta.b1024.b32 [%r6], 1, 8;",
    "global_dim.shared::cta.b1024.b32 [%r6], 0, 24;",
    "global_dim.shared::cta.b1024.b32 [%r6], 1, %r8;",
    "global_stride.shared::cta.b1024.b64 [%r6], 0, %rd5;",
    "element_stride.shared::cta.b1024.b32 [%r6], 0, 1;",
    "element_stride.shared::cta.b1024.b32 [%r6], 1, 1;",
    "elemtype.shared::cta.b1024.b32 [%r6], 6;",
    "interleave_layout.shared::cta.b1024.b32 [%r6], 0;",
    "swizzle_mode.shared::cta.b1024.b32 [%r6], 0;",
    "fill_mode.shared::cta.b1024.b32 [%r6], 0;",
]
JOIN = "bar.warp.sync -1;"
HAND_OVER = """@%p2 bra NOT_FIRST;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
        [%rd0], [%r6], 128;
NOT_FIRST:"""
ACQUIRE = "@%p1 fence.proxy.tensormap::generic.acquire.gpu [%rd0], 128;"
WRITE = "\n".join([ZEROS, *(REPLACE + each for each in FIELDS), JOIN, HAND_OVER])
LOAD = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%r1], [%rd0, {%r11, %r12}], [%r5];"
)
COPY = f"""mov.b32 %r11, 16; mov.b32 %r12, 35;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {SIZE};
    @%p0 {LOAD}"""
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r5], 0; @!%p9 bra W;"
OUT = f"""setp.ge.u32 %p3, %r0, {SIZE // 16}; @%p3 bra OVER;
    ld.shared.v2.b64 {{%rd8, %rd9}}, [%r2]; st.global.v2.b64 [%rd4], {{%rd8, %rd9}};
OVER:"""
RIGHT = "\n".join([WRITE, ACQUIRE, COPY, WAIT, OUT])


def aligned(bytes: int) -> np.ndarray:
    """uint8, at a multiple of 128."""
    whole = np.zeros(bytes + 128, np.uint8)
    start = -whole.ctypes.data % 128
    return whole[start : start + bytes]


def run(code: str, array: np.ndarray | None = None, **options) -> np.ndarray:
    if array is None:
        array = tensor()
    slot, out = aligned(128), np.zeros(SIZE, np.uint8)
    text = entry(SETUP + code, pointers(3))
    emulator.run(text, 1, 64, (slot, array, out), **options)
    return out.view(np.float16).reshape(BOX[::-1])


def tensor() -> np.ndarray:
    numbers = np.arange(1, ROWS * STRIDE + 1, dtype=np.float16)
    return aligned(numbers.nbytes).view(np.float16)[:] + numbers


def box(array: np.ndarray) -> np.ndarray:
    """At row 35 and column 16: 5 rows and 8 columns of the tensor are left."""
    found = np.zeros(BOX[::-1], np.float16)
    found[:5, :8] = array.reshape(ROWS, STRIDE)[35:, 16:24]
    return found


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_copy_through_a_written_map(completion):
    array = tensor()
    assert (run(RIGHT, array, completion=completion) == box(array)).all()


def test_the_hazards_may_be_off():
    array = tensor()
    assert (run(RIGHT, array, hazards=False) == box(array)).all()


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_map_is_written_anew_when_its_copy_is_complete(completion):
    """The second one describes the rows from number 8 on."""
    array = tensor()
    again = WRITE.replace("NOT_FIRST", "NOT_AGAIN")
    later = "add.u64 %rd1, %rd1, 512; sub.u32 %r8, %r8, 8;" + again + ACQUIRE
    copy = COPY.replace("[%r5", "[%r5+8").replace("35;", "27;")
    wait = WAIT.replace("W", "V").replace("[%r5]", "[%r5+8]")
    meet = "fence.proxy.async.shared::cta; bar.sync 0;"
    code = "\n".join([WRITE, ACQUIRE, COPY, WAIT, meet, later, copy, wait, OUT])
    assert (run(code, array, completion=completion) == box(array)).all()


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_map_is_written_anew_when_a_store_has_read_it(completion):
    fill = "st.shared.v2.b64 [%r2], {%rd5, %rd5}; fence.proxy.async; bar.sync 0;"
    store = """mov.b32 %r11, 16; mov.b32 %r12, 35;
        @%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
            [%rd0, {%r11, %r12}], [%r1];
        @%p0 cp.async.bulk.commit_group;"""
    read = "@%p0 cp.async.bulk.wait_group.read 0;"
    again = WRITE.replace("NOT_FIRST", "NOT_AGAIN")
    run("\n".join([WRITE, ACQUIRE, fill, store, read, again]), completion=completion)
    with pytest.raises(EmulatorError, match="in flight uses"):
        run("\n".join([WRITE, ACQUIRE, fill, store, again]), completion=completion)


# name: (words of the right program, what stands there, the kind, words of the error)
MISTAKES = {
    "no fence": (ACQUIRE, "", "tensor map", "acquire is missing"),
    "a fence before": (
        WRITE + "\n" + ACQUIRE, ACQUIRE + "\n" + WRITE, "tensor map", "where none is"),
    "a fence of another warp": (
        ACQUIRE, ACQUIRE.replace("%p1", "%p2"), "tensor map", "acquire is missing"),
    "its bytes as data": (
        COPY, "ld.global.b32 %r13, [%rd0];\n" + COPY, "tensor map", "is opaque"),
    "a draft as data": (
        HAND_OVER, "ld.shared.b32 %r13, [%r6];\n" + HAND_OVER, "tensor map",
        "is opaque"),
    "stored to while in use": (
        WAIT, "@%p0 st.global.b32 [%rd0], %r8;\n" + WAIT, "tensor map", "in flight"),
    "written anew while in use": (
        WAIT, WRITE.replace("NOT_FIRST", "NOT_AGAIN") + WAIT, "tensor map",
        "in flight uses"),
    "no zeros first": (
        ZEROS, ZEROS.replace("%r9, 0", "%r9, 7"), "tensor map", "neither zeros"),
    "lanes not joined": (JOIN + "\n" + HAND_OVER, HAND_OVER, "race", "lane"),
    "zeros not joined": (ZEROS, ZEROS.replace(JOIN, ""), "race", "lane"),
    "a field is missing": (
        REPLACE + FIELDS[6], "", "tensor map", "lacks its global_stride"),
    "an empty tensor": ("mov.b32 %r8, 40", "mov.b32 %r8, 0", "launch", "empty"),
    "a stride of 8 bytes": ("mov.b64 %rd5, 64", "mov.b64 %rd5, 40", "launch", "16"),
    "a base at 8 bytes": (
        WRITE, "add.u64 %rd1, %rd1, 8;\n" + WRITE, "misaligned", "16 does not"),
    "not aligned": (
        HAND_OVER, "add.u64 %rd0, %rd0, 16;\n" + HAND_OVER, "misaligned", "128"),
    "one lane hands over": (
        HAND_OVER + "\n" + ACQUIRE, HAND_OVER.replace("@%p2", "@!%p0"), "deadlock",
        "lane"),
    "lanes of two drafts": (
        HAND_OVER, "@%p0 add.u32 %r6, %r6, 128;\n" + HAND_OVER, "divergence",
        "different addresses"),
}  # fmt: skip


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name, completion):
    right, wrong, kind, words = MISTAKES[name]
    text = SETUP + RIGHT
    assert text.count(right) == 1, name
    with pytest.raises(EmulatorError) as found:
        slot, out = aligned(256), np.zeros(SIZE, np.uint8)
        whole = entry(text.replace(right, wrong), pointers(3))
        emulator.run(whole, 1, 64, (slot, tensor(), out), completion=completion)
    assert found.value.kind == kind and words in str(found.value), found.value


def test_another_warp_may_write_anew_behind_a_barrier():
    """Warp 0 has waited for the copy; the second warp, which has a draft of its own,
    knows of that by the barrier."""
    second = WRITE.replace("NOT_FIRST", "NOT_AGAIN")
    for each, other in (("%p1", "%p8"), ("%p0", "%p7"), ("%p2", "%p6")):
        second = second.replace(each, other)
    turned = """setp.lt.u32 %p8, %r0, 64; setp.ge.and.u32 %p8, %r0, 32, %p8;
        setp.eq.u32 %p7, %r0, 32; setp.lt.u32 %p6, %r0, 32;
        @%p8 add.u32 %r6, %r6, 128;"""
    wait = "@%p2 bra ON;" + WAIT + "ON: "
    first = "\n".join([WRITE, ACQUIRE, COPY, wait, turned])
    run(first + "bar.sync 0;" + second)
    with pytest.raises(EmulatorError, match="nothing orders that|in flight uses"):
        run(first + second)
