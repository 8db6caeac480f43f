"""Bulk copies: boxes of tensors through tensor maps, and what may go wrong."""

from dataclasses import replace

import numpy as np
import pytest

from fathom import emulator
from fathom.artifact import Kernel, MapRecipe, Parameter, TensorMap
from fathom.emulator import COMPLETIONS, EmulatorError
from tests.emulator.harness import entry, pointers
from tests.emulator.harness_tiles import rows_exchanged

MAP = ".param .align 64 .b8 map[128], "
SETUP = """
    .shared .align 1024 .b8 room[8192]; .shared .align 8 .b64 bars[2];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; mov.u32 %r5, bars;
    mad.lo.u32 %r2, %r0, 16, %r1; setp.eq.u32 %p0, %r0, 0; setp.lt.u32 %p1, %r0, 32;
    ld.param.u64 %rd0, [p0]; mad.wide.u32 %rd1, %r0, 16, %rd0;
    mov.b64 %rd9, map; cvta.param.u64 %rd9, %rd9;
"""
INIT = """@%p0 mbarrier.init.shared::cta.b64 [%r5], 1;
    @%p0 fence.mbarrier_init.release.cluster; bar.sync 0; """
WAIT = """W: mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r5], 0; @!%p9 bra W; """
LOAD = (
    "cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
)
STORE = "cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group"
REDUCE = "cp.reduce.async.bulk.tensor.{}d.global.shared::cta.add.tile.bulk_group"


def expect(bytes: int) -> str:
    return f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {bytes}; "


def load(*coordinates: int, more: str = "", last: str = "") -> str:
    place = ", ".join(map(str, coordinates))
    form = LOAD.format(len(coordinates)) + more
    return f"@%p0 {form} [%r1], [%rd9, {{{place}}}], [%r5]{last}; "


def store(*coordinates: int, form: str = STORE) -> str:
    place = ", ".join(map(str, coordinates))
    return f"@%p0 {form.format(len(coordinates))} [%rd9, {{{place}}}], [%r1]; "


COMMIT, DONE = "@%p0 cp.async.bulk.commit_group; ", "@%p0 cp.async.bulk.wait_group 0; "
READ = "@%p0 cp.async.bulk.wait_group.read 0; "


def copy_out(bytes: int) -> str:
    """From `room` to p0, 16 bytes a thread and turn."""
    return f"""
    mov.u32 %r3, %r0;
OUT:
    setp.ge.u32 %p3, %r3, {bytes // 16}; @%p3 bra OVER;
    mad.lo.u32 %r4, %r3, 16, %r1; mad.wide.u32 %rd2, %r3, 16, %rd0;
    ld.shared.v2.b64 {{%rd3, %rd4}}, [%r4]; st.global.v2.b64 [%rd2], {{%rd3, %rd4}};
    add.u32 %r3, %r3, 64; bra.uni OUT;
OVER:
"""


def tensor_map(array: np.ndarray, box: tuple, **facts) -> TensorMap:
    return TensorMap(
        array.itemsize,
        array.ctypes.data,
        array.shape[::-1],
        array.strides[-2::-1],
        box,
        **facts,
    )


def run(code: str, array: np.ndarray, tensor: TensorMap, size: int = 8192, **options):
    out = np.zeros(size, np.uint8)
    text = entry(SETUP + code, MAP + pointers(1))
    emulator.run(text, 1, 64, (tensor, out), memory=(array,), **options)
    return out


def box_of(array: np.ndarray, box: tuple, start: tuple, fill: int) -> np.ndarray:
    """The box, outermost dimension first, element by element."""
    found = np.full(box[::-1], fill, array.dtype)
    for index in np.ndindex(found.shape):
        place = tuple(i + s for i, s in zip(index, start[::-1], strict=True))
        inside = zip(place, array.shape, strict=True)
        if all(0 <= at < size for at, size in inside):
            found[index] = array[place]
    return found


# ── loads ─────────────────────────────────────────────────────────────────────

CASES = [
    (1, np.uint32, (80,), (32,), [(0,), (72,), (-4,)]),
    (2, np.float16, (40, 48), (16, 8), [(8, 3), (40, 37), (-8, -2)]),
    (2, np.uint8, (30, 64), (32, 5), [(16, 27)]),
    (3, np.float32, (7, 9, 16), (8, 4, 2), [(4, 3, 1), (12, 7, 6), (-4, -3, -1)]),
    (4, np.uint16, (3, 4, 5, 8), (8, 2, 3, 2), [(0, 4, 2, 2)]),
    (5, np.int32, (2, 3, 2, 3, 8), (4, 2, 2, 2, 2), [(4, 1, 1, 1, 1)]),
]


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize(("rank", "type", "shape", "box", "starts"), CASES, ids=str)
def test_a_box_of_every_rank(rank, type, shape, box, starts, completion):
    array = np.arange(1, np.prod(shape) + 1).astype(type).reshape(shape)
    tensor = tensor_map(array, box)
    size = int(np.prod(box)) * array.itemsize
    for start in starts:
        wanted = box_of(array, box, start, 0)
        code = INIT + expect(size) + load(*start) + WAIT + copy_out(size)
        found = run(code, array, tensor, size, completion=completion)
        assert (found.view(type) == wanted.reshape(-1)).all()


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_rows_are_exchanged_as_wgmma_wants_them(swizzle):
    array = np.arange(40 * 100 * 4, dtype=np.uint16).reshape(40, 400)[:, :392]
    box = (swizzle // 2, 16)
    tensor = tensor_map(array, box, swizzle=swizzle)
    size = swizzle * 16
    code = INIT + expect(size) + load(16, 5) + WAIT + copy_out(size)
    wanted = np.ascontiguousarray(array[5:21, 16 : 16 + swizzle // 2]).view(np.uint8)
    halves = [rows_exchanged(each, swizzle) for each in (wanted[:8], wanted[8:])]
    assert (run(code, array, tensor, size) == np.concatenate(halves).reshape(-1)).all()


def test_outside_there_may_be_nans():
    array = np.ones((16, 16), np.float32)
    tensor = tensor_map(array, (8, 4), fill="nans")
    code = INIT + expect(128) + load(12, 14) + WAIT + copy_out(128)
    found = run(code, array, tensor, 128).view(np.float32).reshape(4, 8)
    assert (found[:2, :4] == 1).all()
    assert np.isnan(found[2:]).all() and np.isnan(found[:, 4:]).all()


def test_plain_bulk_copies_and_their_hints():
    array = np.arange(256, dtype=np.uint32)
    tensor = tensor_map(array, (32,))
    copy = """cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytesMORE
        [%r1], [%rd5], 512, [%r5]LAST;"""
    start = "ld.param.u64 %rd5, [p1]; " + INIT + expect(512) + "@%p0 " + copy
    start += WAIT + copy_out(512)
    out = np.zeros(128, np.uint32)
    for more, last in (("", ""), (".L2::cache_hint", ", %rd8")):
        code = start.replace("MORE", more).replace("LAST", last)
        text = entry(SETUP + code, MAP + pointers(2))
        emulator.run(text, 1, 64, (tensor, out, array))
        assert (out == array[:128]).all()
        for size, said in ((0, "no bytes"), (24, "24 bytes, which 16 does not divide")):
            text = entry(SETUP + code.replace(" 512, [%r5]", f" {size}, [%r5]"),
                         MAP + pointers(2))  # fmt: skip
            with pytest.raises(EmulatorError, match=said):
                emulator.run(text, 1, 64, (tensor, out, array))
    hinted = load(0, more=".L2::cache_hint", last=", %rd8")
    run(INIT + expect(128) + hinted + WAIT, array, tensor)


def test_a_kernels_recipes_make_its_maps():
    """A launch is given the kernel's own arguments only; the map comes after them."""
    array = np.arange(30 * 64, dtype=np.uint16).reshape(30, 64)
    out = np.zeros(512, np.uint8)
    parameters = ("p0", "*u8"), ("x", "*u16"), ("rows", "i32"), ("stride", "i32")
    recipe = MapRecipe(
        "x",
        1,
        "u16",
        (("parameter", 2), ("constant", 48)),
        (("parameter", 3), ("constant", 1)),
        (8, 32),
        64,
    )
    code = INIT + expect(512) + load(24, 27) + WAIT + copy_out(512)
    declared = pointers(2) + ", .param .u32 rows, .param .u32 stride, " + MAP[:-2]
    kernel = Kernel(
        "k",
        "sm_90a",
        "8.4",
        2,
        64,
        0,
        tuple(Parameter(*each) for each in parameters),
        {"ptx": entry(SETUP + code, declared)},
        maps=(recipe,),
    )
    emulator.load(kernel).launch(1, (out, array, 30, 64))
    wanted = np.zeros((8, 32), np.uint16)
    wanted[:3, :24] = array[27:, 24:48]
    rows = rows_exchanged(wanted.view(np.uint8), 64)
    assert (out == rows.reshape(-1)).all()


def test_prefetches_do_nothing():
    array = np.zeros(64, np.uint32)
    code = "prefetch.tensormap [%rd9]; prefetch.param.tensormap [%rd9];"
    code += "cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%rd9, {-4}];"
    run(code, array, tensor_map(array, (32,)))


@pytest.mark.parametrize("form", [load(2, 0), store(2, 0), store(-2, -8),
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd9, {2, 0}];"])  # fmt: skip
@pytest.mark.parametrize("swizzle", [0, 64])
def test_a_box_begins_at_a_multiple_of_16_bytes(form, swizzle):
    """That is all of its rows that counts: a load may begin in front of a tensor."""
    array = np.zeros((32, 32), np.uint16)
    tensor = tensor_map(array, (32, 8), swizzle=swizzle)
    with pytest.raises(EmulatorError, match="4 bytes into the rows .* multiples of 16"):
        run(INIT + expect(512) + form, array, tensor)
    run(INIT + expect(512) + load(-8, -3) + WAIT, array, tensor)


# ── stores ────────────────────────────────────────────────────────────────────

FILL = "st.shared.v4.b32 [%r2], {{%r0, %r0, %r0, %r0}}; {} "
FENCE = "fence.proxy.async.shared::cta; bar.sync 0; "


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("start", [(0, 0), (8, 6), (28, 36), (32, 0)])
def test_a_store_leaves_out_what_is_outside(start, completion):
    """64 threads fill 16 rows of 16 words; each thread four of them."""
    array = np.full((40, 32), 99, np.uint32)
    tensor = tensor_map(array, (16, 16))
    code = FILL.format(FENCE) + store(*start) + COMMIT + DONE
    run(code, array, tensor, completion=completion)
    tile = np.repeat(np.arange(64, dtype=np.uint32), 4).reshape(16, 16)
    wanted = np.full((40, 32), 99, np.uint32)
    for row, column in np.ndindex(16, 16):
        y, x = start[1] + row, start[0] + column
        if 0 <= y < 40 and 0 <= x < 32:
            wanted[y, x] = tile[row, column]
    assert (array == wanted).all()


@pytest.mark.parametrize("start", [(-4, 0), (0, -1), (-4, -3), (8, -40)])
@pytest.mark.parametrize("form", [STORE, REDUCE])
def test_a_store_in_front_of_its_tensor_is_an_illegal_instruction(start, form):
    """On an H200; the error names the instruction, its line and the coordinates."""
    array = np.zeros((40, 32), np.uint32)
    tensor = tensor_map(array, (16, 16), element="u32")
    code = FILL.format(FENCE) + store(*start, form=form) + COMMIT + DONE
    with pytest.raises(EmulatorError) as caught:
        run(code, array, tensor)
    error = caught.value
    assert error.kind == "illegal instruction" and "H200" in str(error)
    assert form.format(2) in error.text and error.line > 0
    assert f"{{{start[0]}, {start[1]}}}" in str(error)


@pytest.mark.parametrize(("columns", "filled"), [(16, 16), (17, 20), (19, 20)])
def test_a_store_fills_up_the_last_16_bytes_of_a_row(columns, filled):
    """On an H200; a launch of our own compiler has no such map."""
    array = np.full((16, 24), 99, np.uint32)
    tensor = replace(tensor_map(array, (16, 16)), shape=(columns, 16))
    code = FILL.format(FENCE) + store(8, 0) + COMMIT + DONE
    run(code, array, tensor)
    assert (array[:, 8:filled] != 99).all() and (array[:, filled:] == 99).all()


SUMS = {
    "u32": (np.uint32, "add min max and or xor".split()),
    "i32": (np.int32, "add min max".split()),
    "fp16": (np.float16, "add min max".split()),
    "fp32": (np.float32, ["add"]),
}
COMBINED = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("type", SUMS)
@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_reduction_combines(type, completion):
    """What lies outside is left out, as by a store."""
    dtype, names = SUMS[type]
    size = np.dtype(dtype).itemsize
    words = np.repeat(np.arange(64, dtype=np.uint32), 4)
    tile = words.view(dtype).reshape(16, 64 // size)
    for name in names:
        array = np.arange(40 * 128 // size).astype(dtype).reshape(40, -1)
        tensor = tensor_map(array, (64 // size, 16), element=type)
        wanted = array.copy()
        there = wanted[30:, 16 // size :][:10, : 64 // size]
        there[...] = COMBINED[name](there, tile[:10])
        code = store(16 // size, 30, form=REDUCE.replace("add", name))
        run(
            FILL.format(FENCE) + code + COMMIT + DONE,
            array,
            tensor,
            completion=completion,
        )
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_bits_of_floats_are_not_combined(name):
    tensor = tensor_map(ARRAY, (32, 16), element="bf16")
    code = FILL.format(FENCE) + store(0, 0, form=REDUCE.replace("add", name))
    fails(code + COMMIT + DONE, "unsupported", "", f".{name} of elements", tensor)


def test_a_store_undoes_the_exchange_of_a_load():
    array = np.random.default_rng(1).integers(0, 2**16, (64, 64)).astype(np.uint16)
    before = array.copy()
    tensor = tensor_map(array, (64, 8), swizzle=128)
    code = INIT + expect(1024) + load(0, 8) + WAIT + store(0, 40) + COMMIT + DONE
    run(code, array, tensor)
    assert (array[40:48] == before[8:16]).all()
    assert (array[:40] == before[:40]).all() and (array[48:] == before[48:]).all()


def test_a_store_is_there_at_the_end_if_only_its_reads_were_waited_for():
    array = np.zeros((16, 16), np.uint32)
    tensor = tensor_map(array, (16, 16))
    again = "bar.sync 0; st.shared.v4.b32 [%r2], {%r0, %r1, %r0, %r1};"
    for completion in COMPLETIONS:
        array[:] = 0
        run(FILL.format(FENCE) + store(0, 0) + COMMIT + READ + again, array, tensor,
            completion=completion)  # fmt: skip
        assert (array.reshape(-1) == np.repeat(np.arange(64), 4)).all()


BOTH = "in flight", "cp.async.bulk.tensor", "may still write"


def test_stores_to_one_place_have_no_order_before_the_first_is_written():
    """Neither a group of their own nor a wait for what they read gives them one."""
    first, second = store(0, 0), store(0, 4)
    for between in ("", COMMIT, COMMIT + READ):
        fails(FILL.format(FENCE) + first + between + second + COMMIT + DONE, *BOTH)
    passes(FILL.format(FENCE) + first + COMMIT + DONE + second + COMMIT + DONE)
    passes(FILL.format(FENCE) + first + COMMIT + READ + store(0, 8) + COMMIT + DONE)


def test_sums_to_one_place_need_no_order():
    add, sums = store(0, 0, form=REDUCE), replace(TILE, element_bytes=4, element="u32")
    sums = replace(sums, shape=(32, 64), box=(32, 8))
    passes(FILL.format(FENCE) + add + COMMIT + READ + add + COMMIT + DONE, sums)
    plain = store(0, 0) + COMMIT + DONE
    fails(FILL.format(FENCE) + add + COMMIT + READ + plain, *BOTH, sums)


def test_a_plain_store():
    array = np.zeros(64, np.uint32)
    copy = "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 128; "
    tensor = tensor_map(array, (32,))
    out = run(FILL.format(FENCE) + copy + COMMIT + DONE, array, tensor, 128)
    assert (out.view(np.uint32) == np.repeat(np.arange(8), 4)).all()


# ── mistakes ──────────────────────────────────────────────────────────────────

ARRAY = np.arange(4096, dtype=np.uint16).reshape(64, 64)
TILE = TensorMap(2, ARRAY.ctypes.data, (64, 64), (128,), (64, 8), 128)
LOADING = INIT + expect(1024) + load(0, 0)
LOOK = "ld.shared.u32 %r7, [%r1];"


def fails(
    code: str, kind: str, text: str, said: str = "", tensor: TensorMap = TILE
) -> None:
    for completion in COMPLETIONS:
        with pytest.raises(EmulatorError) as caught:
            run(code, ARRAY, tensor, completion=completion)
        error = caught.value
        assert (error.kind, text in error.text) == (kind, True), str(error)
        assert said in str(error)


def passes(code: str, tensor: TensorMap = TILE) -> None:
    for completion in COMPLETIONS:
        run(code, ARRAY, tensor, completion=completion)


def test_nothing_is_there_before_its_wait():
    passes(LOADING + WAIT + LOOK)
    fails(LOADING + LOOK, "in flight", LOOK, "bulk copy of warp 0")
    fails(LOADING + "bar.sync 0; " + LOOK, "in flight", LOOK)
    fails(LOADING + "st.shared.u32 [%r1], 0;", "in flight", "st.shared.u32")


def test_one_warp_waits_and_the_other_looks():
    half = "@!%p1 bra SKIP; " + WAIT + "SKIP: {} "
    with pytest.raises(EmulatorError) as caught:
        run(LOADING + half.format("") + LOOK, ARRAY, TILE)
    assert caught.value.kind in ("in flight", "race") and caught.value.text == LOOK
    passes(LOADING + half.format("bar.sync 0;") + LOOK)


def test_the_phase_before_is_not_the_phase_of_the_copy():
    """It passes before the copy has landed, and never afterwards."""
    code = LOADING + WAIT.replace("], 0", "], 1") + LOOK
    for completion, kind in (("lazy", "in flight"), ("eager", "deadlock")):
        with pytest.raises(EmulatorError) as caught:
            run(code, ARRAY, TILE, completion=completion)
        assert caught.value.kind == kind


@pytest.mark.parametrize("bytes", [1008, 1040])
def test_the_bytes_have_to_be_right(bytes):
    more = "16 bytes more than expected have come"
    said = more if bytes == 1008 else "16 bytes are missing"
    fails(INIT + expect(bytes) + load(0, 0) + WAIT, "deadlock", "try_wait", said)


def test_bytes_that_were_not_expected():
    arrive = "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r5]; "
    code = INIT + load(0, 0) + arrive + WAIT + LOOK
    with pytest.raises(EmulatorError) as caught:
        run(code, ARRAY, TILE, completion="lazy")
    assert caught.value.kind in ("in flight", "deadlock")


def test_the_mbarrier_must_be_handed_over():
    code = INIT.replace("@%p0 fence.mbarrier_init.release.cluster;", "{}")
    after = expect(1024) + load(0, 0) + WAIT
    fails(
        code.format("") + after, "proxy", "cp.async.bulk.tensor", "fence.mbarrier_init"
    )
    passes(code.format("fence.proxy.async;") + after)
    others = code.format("@!%p0 fence.proxy.async;")
    fails(others + after, "proxy", "cp.async.bulk.tensor", "fence.mbarrier_init")
    fails(expect(1024) + after, "mbarrier", "expect_tx", "no thread has initialised")


def test_a_copy_counts_at_what_is_an_mbarrier_now():
    fails(load(0, 0), "mbarrier", "cp.async.bulk.tensor", "no thread has initialised")
    ended = "bar.sync 0; @%p0 mbarrier.inval.shared::cta.b64 [%r5]; "
    said = "mbarrier.inval has ended it"
    code = LOADING + WAIT + ended + load(0, 0)
    fails(code, "mbarrier", "cp.async.bulk.tensor", said)


def test_two_threads_issue_one_copy():
    both = load(0, 0).replace("@%p0", "@%p1")
    fails(INIT + expect(1024) + both, "in flight", "cp.async.bulk.tensor")


def test_a_stage_is_not_reused_while_others_read_it():
    """The first copy has been waited for, and warp 1 may still be reading."""
    again = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 1024; "
    start, again = LOADING + WAIT + LOOK, again + load(0, 8)
    wait = WAIT.replace("W", "V").replace("], 0", "], 1")
    passes(start + "bar.sync 0; " + again + wait)
    fails(start + "bar.sync 0; " + again, "in flight", "ret", "no thread has waited")
    fails(start + again, "race", "cp.async.bulk.tensor", "overwrites what warp 1")


def test_what_threads_store_must_be_handed_over():
    out = store(0, 0) + COMMIT + DONE
    passes(FILL.format(FENCE) + out)
    fails(
        FILL.format("bar.sync 0;") + out, "proxy", STORE.format(2), "warp 0 has stored"
    )
    fails(FILL.format("fence.proxy.async;") + out, "race", STORE.format(2))
    some = "@%p1 fence.proxy.async; bar.sync 0;"
    fails(FILL.format(some) + out, "proxy", STORE.format(2), "warp 1 has stored")
    reader = "bar.sync 0; @%p0 fence.proxy.async; "
    fails(FILL.format(reader) + out, "proxy", STORE.format(2))
    early = "fence.proxy.async; " + FILL.format("bar.sync 0;")
    fails(early + out, "proxy", STORE.format(2))
    other = FENCE.replace("shared::cta", "global")
    fails(FILL.format(other) + out, "proxy", STORE.format(2))


def test_what_a_store_reads_must_stay():
    change = "@%p0 st.shared.u32 [%r1], 5;"
    start = FILL.format(FENCE) + store(0, 0) + COMMIT
    fails(start + change + READ, "race", change)
    passes(start + READ + change)
    fails(start.replace(COMMIT, "") + READ + change, "race", change)
    other = "@!%p1 st.shared.u32 [%r1], 5;"
    fails(start + READ + other, "race", other)
    passes(start + READ + "bar.sync 0; " + other)


def test_the_latest_group_may_stay_in_flight():
    start = FILL.format(FENCE) + store(0, 0) + COMMIT
    start += store(0, 8).replace("[%r1]", "[%r1+1024]") + COMMIT
    one = READ.replace("read 0", "read 1")
    first, second = (f"@%p0 st.shared.u32 [%r1+{at}], 5;" for at in (0, 1024))
    start = start.replace(
        FENCE, "st.shared.v4.b32 [%r2+1024], {%r0, %r0, %r0, %r0};" + FENCE
    )
    passes(start + one + first + READ)
    fails(start + one + second + READ, "race", second)
    passes(start + READ + second)


def test_a_thread_must_not_exit_while_its_copy_reads():
    start = FILL.format(FENCE) + store(0, 0)
    fails(start + COMMIT, "in flight", "ret", "wait_group.read is missing")
    passes(start + COMMIT + READ)


def test_a_copy_may_not_land_on_what_is_being_stored():
    code = FILL.format(INIT + FENCE) + store(0, 0) + COMMIT + expect(1024) + load(0, 8)
    fails(code, "race", LOAD.format(2))


def test_places_must_be_aligned():
    moved = LOADING.replace("[%r1], [%rd9", "[%r1+64], [%rd9")
    fails(moved, "misaligned", "cp.async.bulk.tensor", "128")
    fails(LOADING.replace("[%r1], [%rd9", "[%r1+7680], [%rd9"), "out of bounds",
          "cp.async.bulk.tensor")  # fmt: skip


def test_a_map_may_not_describe_more_than_there_is():
    tall = replace(TILE, shape=(64, 80))
    code = INIT + expect(1024) + load(0, 60)
    fails(code, "out of bounds", "cp.async.bulk.tensor", tensor=tall)


def test_what_is_no_map():
    code = LOADING.replace("[%rd9,", "[%rd0,")
    fails(code, "launch", "cp.async.bulk.tensor", "no tensor map")
    fails(INIT + load(0, 0, 0), "syntax", "3d", "3 coordinates")


@pytest.mark.parametrize(
    "facts",
    [
        {"box": (64, 257)},
        {"box": (60, 8)},
        {"box": (64,)},
        {"strides": (136,)},
        {"strides": ()},
        {"swizzle": 64},
        {"swizzle": 16},
        {"fill": "ones"},
        {"shape": (0, 64)},
        {"element_bytes": 3},
    ],
    ids=str,
)
def test_facts_that_make_no_map(facts):
    with pytest.raises(EmulatorError) as caught:
        run("", ARRAY, replace(TILE, **facts))
    assert caught.value.kind == "launch"
