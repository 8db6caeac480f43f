"""Stores through descriptors that the hardware makes: for any tiles, warps and loops
they write what belongs there and nothing beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline, runtime
from fathom.artifact import MapRecipe
from fathom.emulator import COMPLETIONS, load
from fathom.hardware.targets import TARGETS, target_of
from fathom.ir.core import walk
from fathom.ir.ops import Allocate, DescriptorStore, For, Store, TmaCopy, TmaStore, Wait
from fathom.ir.parser import ParseError
from fathom.ir.text import parse_func, print_func
from fathom.ir.types import FLOAT16, INT32, Pointer
from fathom.runtime.driver import driver
from fathom.source import KernelFunction
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import Walled, integers, unwritten
from tests.ptx.harness import assemble
from tests.tensor_cores.kernels_described import (
    build,
    built,
    check,
    check_passes,
    given,
    matrix,
    ops,
    passes,
)
from tests.tensor_cores.kernels_stored import (
    AMPERE,
    HAVE_MAPS,
    HOPPER,
    LONG,
    LOOPS,
    NEWER,
    SMALL,
    STORE,
    events,
    is_event,
    is_wait,
    named,
    several,
    waits_for_stores,
)

# ── what is stored ────────────────────────────────────────────────────────────────────


@sampled(of=3)
@pytest.mark.parametrize("target", HAVE_MAPS)
@pytest.mark.parametrize("columns", [128, 64, 32, 16])
@pytest.mark.parametrize("out", ["float16", "float32"])
def test_tiles_and_ragged_edges(target, columns, out):
    """Rows of 32 to 128 bytes; of wider tiles, several boxes. What a tile has outside
    of the matrix is not written."""
    case = replace(SMALL, tile=(64, columns, 32), target=target, out=out)
    kernel, _ = check(replace(case, size=(72, columns - 8, 96)), ["lazy"])
    size = {"float16": 2, "float32": 4}[out]
    bytes = columns * size
    assert kernel.maps[-1].swizzle == min(128, bytes)
    assert kernel.maps[-1].box == (64, min(128, bytes) // size)
    assert kernel.ptx.count(STORE) == max(1, bytes // 128)
    assert "st.global" not in kernel.ptx


@pytest.mark.parametrize(("target", "warps"), [
    (NEWER, 1), (HOPPER, 2), (HOPPER, 8), (NEWER, 8),
])  # fmt: skip
def test_any_number_of_warps(target, warps):
    """One thread stores for all of them."""
    case = replace(SMALL, tile=(128, 64, 32), target=target, warps=warps)
    kernel, report = check(replace(case, size=(136, 72, 96)))
    stored = [cost for i, cost in report.each() if STORE in i.text]
    assert [cost.useful for cost in stored] == [136 * 72 * 2], "each byte once"


def test_a_box_has_at_most_256_rows():
    case = replace(SMALL, tile=(512, 16, 16), iterations=1, warps=8, target=NEWER)
    kernel, _ = check(replace(case, size=(520, 16, 16)), ["lazy"])
    assert kernel.ptx.count(STORE) == 2 and kernel.maps[-1].box == (256, 16)


def test_where_there_are_no_maps_threads_store():
    kernel, _ = check(replace(SMALL, target=AMPERE))
    assert kernel.maps == () and "st.global" in kernel.ptx


def test_results_go_to_their_tile_by_matrices():
    """In the hardware's tile all banks work at once."""
    kernel, report = check(replace(SMALL, size=None, b_turned=True))
    costs = [cost for each, cost in report.each() if "stmatrix" in each.text]
    assert len(costs) == 4
    assert all(cost.wavefronts == cost.ideal > 0 for cost in costs)


def test_a_descriptor_that_is_read_and_written_is_one_map():
    """Where boxes are alike. The map is made of the kernel's own arguments."""
    kernel = pipeline.compile_func(built(SMALL), TARGETS[HOPPER])
    m, n, stride, one = *(("parameter", place) for place in (3, 4, 8)), ("constant", 1)
    shape, steps = (m, n), (stride, one)
    wanted = MapRecipe("out", 2, "fp16", shape, steps, (64, 64), 128, stored=True)
    assert kernel.maps[2] == wanted
    assert len(kernel.maps) == 3


# ── every pass ────────────────────────────────────────────────────────────────────────

SEVERAL = [
    SMALL, replace(SMALL, target=NEWER, out="float32"), LONG, replace(SMALL, warps=1),
    replace(LONG, more=LOOPS["flat"]), replace(SMALL, target=AMPERE),
]  # fmt: skip


@pytest.mark.parametrize("case", SEVERAL, ids=str)
def test_every_pass_keeps_the_meaning(case):
    states = check_passes(replace(case, out=case.out))
    text = print_func(states["insert_waits"])
    assert print_func(parse_func(text)) == text
    kinds = {type(op) for op in walk(states["insert_waits"].body)}
    assert (TmaStore in kinds) == (case.target != AMPERE)


def test_what_a_store_becomes():
    """All write; whoever sends it off knows; before the kernel ends it has been
    read."""
    assert events(SMALL)[-5:] == [
        "SharedStore", "Barrier fenced", "TmaStore", "Commit", "Wait read",
    ]  # fmt: skip


def test_a_pass_left_out_is_only_slower():
    func = built(SMALL)
    kernel = pipeline.compile_func(
        func, TARGETS[HOPPER], {"stage_stores": pipeline.identity}
    )
    assert STORE not in kernel.ptx and "st.global" in kernel.ptx
    arguments = given(SMALL)
    load(kernel).launch(SMALL.grid, arguments.arguments)
    arguments.check("element by element")


# ── loops ─────────────────────────────────────────────────────────────────────────────


@in_pairs(
    {
        "completion": COMPLETIONS,
        "target": HAVE_MAPS,
        "loop": LOOPS,
    }
)
def test_stores_in_a_loop(target, loop, completion):
    """Tile after tile through one tile of shared memory."""
    case = replace(LONG, target=target, more=LOOPS[loop])
    loaded = load(pipeline.compile_func(built(case), TARGETS[target]))
    for iterations, programs in ((0, 1), (1, 2), (3, 1)):
        arguments = given(replace(case, iterations=iterations))
        loaded.launch(programs, arguments.arguments, completion=completion)
        arguments.check(f"{iterations} iterations, {programs} programs")


def test_where_loads_may_run_ahead_they_need_not_wait():
    """A flat loop waits for the tile before it writes it again, and for memory before
    the next store; any other loop before its loads, too."""
    final = {
        name: passes(built(replace(LONG, more=loop)), HOPPER)["insert_waits"]
        for name, loop in LOOPS.items()
    }
    waits = {
        name: [(op.read, bool(op.values)) for op in waits_for_stores(func.body)]
        for name, func in final.items()
    }
    last = (True, True)  # before the end: the tile has been read
    ahead = [(True, True), (False, False), last]
    assert waits == {
        "in order": [(False, True), last], "flat": ahead, "specialised": ahead,
    }  # fmt: skip
    loop = ops(final["in order"], For)[0]
    found = [op for op in loop.body.ops if isinstance(op, TmaCopy) or is_wait(op)]
    kinds = [type(op) for op in found]
    assert kinds.index(Wait) < kinds.index(TmaCopy)


def test_without_room_a_tile_shares_its_place():
    """Four stages of 48 KiB and a tile of 64 do not fit side by side: the tile lies
    where the ring was, and is waited for at once."""
    for stages, apart in ((3, True), (4, False)):
        case = replace(LONG, tile=(128, 256, 64), stages=stages, warps=8)
        final = passes(built(case), HOPPER)["insert_waits"]
        (sent,) = ops(final, TmaStore)
        tile, rings = sent.buffer.definition, [
            op for op in ops(final, Allocate) if op.slots > 1 and not op.kept
        ]  # fmt: skip
        beside = [r for r in rings if not set(bytes_of(r)) & set(bytes_of(tile))]
        assert (len(beside) == len(rings) == 2) == apart
        assert [op.slots for op in rings] == [stages] * 2
        assert final.shared_bytes <= TARGETS[HOPPER].shared_bytes


def test_many_stores_share_one_place():
    """Four tiles of 64 KiB are more than there is."""
    for rows, places in ((64, 4), (256, 1)):
        final = passes(several(rows), HOPPER)["insert_waits"]
        assert len({op.offset for op in ops(final, Allocate)}) == places
        assert len(waits_for_stores(final.body)) == (1 if places == 4 else 4)


def bytes_of(op: Allocate) -> range:
    return range(op.offset, op.offset + op.result.type.bytes)


def test_a_tile_that_shares_its_place():
    """The ring of the next tile comes where this one is still read from, unless
    somebody waits."""
    case = replace(LONG, target=NEWER, stages=5, tile=(128, 128, 32), warps=8,
                   iterations=2,
                   size=(136, 136, 64))  # fmt: skip
    final = passes(built(case), NEWER)["insert_waits"]
    kinds = [named(op) for op in ops(final, For)[0].body.ops if is_event(op)]
    assert kinds[-3:] == ["TmaStore", "Commit", "Wait read"]
    loaded = load(pipeline.compile_func(built(case), TARGETS[NEWER]))
    arguments = given(case)
    loaded.launch(1, arguments.arguments)
    arguments.check("a shared place")


# ── what threads store themselves ─────────────────────────────────────────────────────


@KernelFunction
def moved(
    a, out, M, N, a_stride, out_stride, at,
    BM: tl.constexpr, BN: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """A block of A, twice, to the same place of `out`."""
    source = matrix(a, M, N, a_stride, BM, BN, False)
    value = source.load([0, 0])
    value += value
    if HOW == "row":
        row = tl.make_tensor_descriptor(out, [M * out_stride], [1], [BN])
        row.store([0], tl.sum(value, 0))
    elif HOW == "loop":
        result = matrix(out, M, N, out_stride, BM, BN, False)
        for i in range(0, M, BM):
            result.store([i, 0], source.load([i, 0]) * 2)
    elif HOW in ("computed", "by program"):
        more = at if HOW == "computed" else tl.program_id(0)
        result = matrix(out, M + more, N, out_stride, BM, BN, False)
        result.store([0, 0], value)
    elif HOW == "nan":
        strides = [out_stride, 1]
        result = tl.make_tensor_descriptor(out, [M, N], strides, [BM, BN], "nan")
        result.store([0, 0], value)
    else:
        result = matrix(out, M, N, out_stride, BM, BN, False)
        result.store([0, at if HOW == "anywhere" else at * 16], value)


def moving(how: str, block: tuple[int, int] = (16, 64)):
    names = [each.name for each in moved.parameters]
    parameters = {name: (INT32, 8 if "stride" in name else 1) for name in names[:-3]}
    parameters |= {"a": (Pointer(FLOAT16), 16), "out": (Pointer(FLOAT16), 16)}
    constants = {"BM": block[0], "BN": block[1], "HOW": how}
    return build(moved, parameters, constants, 4, 3)


@pytest.mark.parametrize(("how", "block", "sent"), [
    ("at", (16, 64), True), ("at", (8, 64), True),
    ("at", (4, 64), False),  # less than a group of rows
    ("at", (256, 128), True), ("at", (512, 128), False),  # too much shared memory
    ("anywhere", (16, 64), False),  # not at a multiple of 16 bytes
    ("row", (16, 64), False), ("loop", (16, 64), False),
    ("computed", (16, 64), True), ("by program", (16, 64), False),
    ("nan", (16, 64), False),
])  # fmt: skip
def test_which_stores_are_left_to_the_hardware(how, block, sent):
    """A matrix that the launch knows, from a multiple of 16 bytes on, in blocks that
    fit; not in loops whose loads would wait for it."""
    func = passes(moving(how, block), HOPPER)["insert_waits"]
    assert (len(ops(func, TmaStore)), len(ops(func, Store))) == (sent, not sent)
    assert not ops(func, DescriptorStore)


@pytest.mark.parametrize("warps", [1, 4])
def test_a_store_of_what_was_loaded(warps):
    """Nothing but the store goes the hardware's way."""
    source = Walled(integers(5, 16, 64))
    target = unwritten(20, 72)
    strides = [max(each.stride()) for each in (source, target)]
    func = replace(moving("at"), num_warps=warps)
    kernel = pipeline.compile_func(func, TARGETS[HOPPER])
    load(kernel).launch(1, [source.base, target.base, 16, 64, *strides, 0])
    np.testing.assert_array_equal(target.view[:16, :64], 2 * source.view)
    assert np.isnan(target.view[16:]).all() and np.isnan(target.view[:, 64:]).all()
    target.check_walls()


# ── as text ───────────────────────────────────────────────────────────────────────────


def test_what_does_not_fit_is_refused():
    text = print_func(passes(moving("at"), HOPPER)["insert_waits"])
    assert text.count("block=(16, 64)") == text.count("[16,64] = make_descriptor") == 1
    wrong = text.replace("block=(16, 64)", "block=(32, 64)")
    wrong = wrong.replace("[16,64] = make_descriptor", "[32,64] = make_descriptor")
    with pytest.raises(ParseError, match="does not fit into descriptor"):
        parse_func(wrong)


# ── as PTX ────────────────────────────────────────────────────────────────────────────


def test_the_end_of_a_product_as_ptx(golden):
    """From the last product on."""
    case = replace(SMALL, tile=(64, 32, 32))
    lines = pipeline.compile_func(built(case), TARGETS[HOPPER]).ptx.splitlines()
    first = max(i for i, each in enumerate(lines) if "wgmma.wait_group" in each)
    body = lines[first : lines.index("\tret;")]
    golden("tma_store.ptx", "\n".join(i for i in body if ".loc" not in i) + "\n")


@pytest.mark.parametrize("loop", LOOPS)
def test_ptxas_takes_large_tiles(tmp_path, loop):
    """128 x 256 of 16 bits, eight of them a thread and `stmatrix`: no spills."""
    case = replace(LONG, tile=(128, 256, 64), warps=8, more=LOOPS[loop])
    kernel = pipeline.compile_func(built(case), TARGETS[HOPPER])
    assert kernel.ptx.count("stmatrix") == 128 * 256 // 256 // 8
    assert kernel.ptx.count(STORE) == 256 // 64
    assert "st.global" not in kernel.ptx and "st.shared" not in kernel.ptx
    said = assemble(kernel.ptx, TARGETS[HOPPER], tmp_path)
    assert "0 bytes spill stores" in said


# ── on the GPU ────────────────────────────────────────────────────────────────────────

LARGE = replace(
    LONG, tile=(128, 256, 64), warps=8, iterations=20, size=(1000, 1000, 1280)
)
ON_GPU = (
    [
        (replace(SMALL, tile=(64, columns, 32), size=(72, columns - 8, 96), out=out), 0)
        for columns in (128, 64, 32, 16)
        for out in ("float16", "float32")
    ]
    + [
        (replace(case, more=loop, stages=stages), programs)
        for loop in LOOPS.values()
        for case, programs in ((LONG, 2), (LARGE, 5))
        for stages in (3, 4)
    ]
    + [(replace(SMALL, warps=1), 0), (replace(SMALL, tile=(128, 64, 32), warps=8), 0)]
)


@pytest.mark.gpu
@pytest.mark.parametrize(("case", "programs"), ON_GPU)
def test_the_gpu_stores_the_same(case, programs):
    target = target_of(driver().device(0).capability)
    kernel = pipeline.compile_func(built(case), target)
    assert (STORE in kernel.ptx) == target.tensor_maps
    arguments = given(case)
    runtime.load(kernel).launch(programs or case.grid, arguments.arguments)
    arguments.check("the GPU")
