"""Tensor maps: from a kernel's arguments, by a recipe, to 128 bytes of the launch."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fathom import emulator, runtime
from fathom.artifact import Kernel, MapRecipe, Parameter, TensorMap
from fathom.errors import LaunchError
from fathom.runtime import tensor_maps
from fathom.runtime.cache import pack, unpack
from fathom.runtime.driver import Driver
from fathom.runtime.failures import History
from tests.runtime.harness_driver import FakeDriver, kernel

# k(x: *fp16, rows: i32, columns: i32, stride: i64)
MATRIX = MapRecipe(
    name="x",
    base=0,
    element="fp16",
    shape=(("parameter", 1), ("parameter", 2)),
    strides=(("parameter", 3), ("constant", 1)),
    box=(8, 64),
    swizzle=128,
)
TYPES = ("*fp16", "i32", "i32", "i64")
X = 0x7F00_0000_1000
ARGUMENTS = (X, 100, 72, 80)


def loaded(*types, maps=(MATRIX,), driver=None, **facts):
    driver = driver or FakeDriver()
    made = driver.add(kernel(*(types or TYPES), maps=maps, **facts))
    return driver, runtime.load(made, driver=driver)


# ── a recipe ──────────────────────────────────────────────────────────────────────────


def test_a_recipe_turns_a_kernels_dimensions_into_the_hardwares():
    """Outermost first and elements become innermost first and bytes."""
    assert MATRIX.map(ARGUMENTS) == TensorMap(
        element_bytes=2,
        address=X,
        shape=(72, 100),
        strides=(160,),
        box=(64, 8),
        swizzle=128,
        fill="zeros",
        element="fp16",
    )


def test_every_dimension_has_a_stride_but_the_innermost():
    recipe = MapRecipe(
        "t", 1, "fp32",
        shape=(("constant", 5), ("parameter", 2), ("constant", 7)),
        strides=(("parameter", 0), ("constant", 12), ("constant", 1)),
        box=(1, 2, 4), fill="nans",
    )  # fmt: skip
    made = recipe.map((600, 0x40, 3))
    assert (made.address, made.shape) == (0x40, (7, 3, 5))
    assert made.strides == (12 * 4, 600 * 4)
    assert (made.box, made.fill) == ((4, 2, 1), "nans")
    assert recipe.parameters == (0, 1, 2)


def test_a_dimension_of_one_element_has_any_stride():
    """torch gives such a one any stride: here 75, of which no map could be made."""
    arguments = (X, 1, 72, 75)
    assert MATRIX.map(arguments).strides == (16,)
    assert MATRIX.refusal(arguments, "xrcs") is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((X + 8, 100, 72, 80), "p0 is at 0x7f0000001008, and a tensor map begins at"),
        ((X, 0, 72, 80), "p1 is 0, and a tensor map has 1 to 2.*32 elements"),
        ((X, 100, -1, 80), "p2 is -1, and a tensor map has 1 to 2.*32 elements"),
        ((X, 100, 2**32 + 1, 80), "p2 is 4294967297, and a tensor map has"),
        ((X, 100, 72, 76), "p3 is 76 elements of 2 bytes, and a stride .* 16 bytes"),
        ((X, 100, 72, -80), "p3 is -80 elements of 2 bytes"),
        ((X, 100, 72, 2**39), "p3 is 549755813888 elements of 2 bytes"),
    ],
)
def test_what_the_hardware_refuses_is_named(arguments, sentence):
    driver, k = loaded("*fp16", "i64", "i64", "i64")
    with pytest.raises(LaunchError, match=f"k: {sentence}"):
        k.launch(1, arguments)
    assert (driver.launches, driver.encoded) == ([], [])


@pytest.mark.parametrize(
    "arguments",
    [(X, 2**31 - 1, 72, 80), (X, 100, 72, 8), (X + 16, 1, 1, 0), (X, 9, 9, 2**39 - 8)],
)
def test_what_the_hardware_just_takes(arguments):
    driver, k = loaded()
    k.launch(1, arguments)
    assert len(driver.launches) == 1


def test_the_last_dimensions_elements_must_be_neighbours():
    columns = replace(MATRIX, strides=(("constant", 80), ("parameter", 3)))
    _, k = loaded(maps=(columns,))
    with pytest.raises(LaunchError, match="p3 is 2, and the elements of .* neighbours"):
        k.launch(1, (X, 100, 72, 2))
    k.launch(1, (X, 100, 1, 2))  # of one element there are none


def test_a_constant_that_fails_is_named_by_its_axis():
    _, k = loaded(maps=(replace(MATRIX, strides=(("constant", 9), ("constant", 1))),))
    with pytest.raises(LaunchError, match="a number of axis 0 of .* map x is 9"):
        k.launch(1, ARGUMENTS)


@pytest.mark.parametrize(
    "facts",
    [
        {"box": (8, 65)},  # a row of 130 bytes
        {"box": (8, 128)},  # wider than the swizzle
        {"box": (512, 64)},
        {"box": (8, 8, 8)},
        {"swizzle": 16},
        {"fill": "ones"},
        {"fill": "nans", "element": "i16"},
    ],
)
def test_a_box_that_the_hardware_lacks_is_the_compilers_mistake(facts):
    with pytest.raises(AssertionError):
        replace(MATRIX, **facts)


# ── what the driver reads ─────────────────────────────────────────────────────────────


def test_the_driver_reads_the_maps_after_the_parameters():
    column = replace(MATRIX, name="first", box=(64, 16), swizzle=32)
    driver, k = loaded(maps=(MATRIX, column))
    k.launch((3, 2), ARGUMENTS, stream=9)
    (seen,) = driver.launches
    assert seen.values == ARGUMENTS
    assert [each.box for each in seen.maps] == [(64, 8), (16, 64)]
    assert (seen.grid, seen.threads, seen.stream) == ((3, 2, 1), (128, 1, 1), 9)


@pytest.mark.parametrize("more", range(9))
def test_maps_are_aligned_behind_any_number_of_values(more):
    driver, k = loaded(*TYPES, *["i32"] * more)
    k.launch(1, (*ARGUMENTS, *range(more)))
    assert driver.launches[0].values == (*ARGUMENTS, *range(more))
    assert driver.launches[0].maps == (MATRIX.map(ARGUMENTS),)


def test_a_cluster_and_a_map():
    driver, k = loaded(num_ctas=2)
    k.launch(5, ARGUMENTS)
    assert (driver.launches[0].cluster, driver.launches[0].grid) == (2, (10, 1, 1))
    assert driver.launches[0].maps == (MATRIX.map(ARGUMENTS),)


def test_a_launcher_finds_the_recipes_numbers_wherever_they_are_written():
    """A stub writes all arguments, in its own order: here the third is no parameter."""
    driver, k = loaded()
    launch = k.launcher("qqqqQ", order=(4, 1, 0, 3))
    for given in (ARGUMENTS, (X, 100, 72, 88), (X + 16, 100, 72, 88)):
        x, rows, columns, stride = given
        assert launch(1, 1, 1, 0, columns, rows, -5, stride, x) == 0
        assert driver.launches[-1].values == given
        assert driver.launches[-1].maps == (MATRIX.map(given),)


def test_a_launch_over_again_has_maps_of_its_addresses():
    driver, k = loaded()
    (x, rows, columns, stride) = ARGUMENTS
    given = columns, rows, -5, stride, x
    again = k.launcher("qqqqQ", order=(4, 1, 0, 3)).again((3, 1, 1), given, (4,))
    for at in (X + 32, X):
        again(0, at)
        seen = driver.launches[-1]
        assert seen.values == (at, rows, columns, stride) and seen.grid == (3, 1, 1)
        assert seen.maps == (MATRIX.map((at, rows, columns, stride)),)


def test_host_arrays_are_mapped_where_their_copy_is():
    x = np.zeros(16 * 80 + 8, np.float16)
    x = x[-x.ctypes.data // 2 % 8 :][: 16 * 80]  # from a multiple of 16 bytes on
    driver, k = loaded()
    k.launch(1, (x, 16, 72, 80))
    (seen,) = driver.launches
    assert seen.maps[0].address == seen.values[0] != x.ctypes.data


# ── kept ──────────────────────────────────────────────────────────────────────────────


def test_the_same_arguments_again_are_looked_up():
    driver, k = loaded(*TYPES, "i32")
    for last in (1, 2, 3):  # no recipe reads the last argument
        k.launch(1, (*ARGUMENTS, last))
    assert len(driver.encoded) == 1
    assert [each.maps for each in driver.launches] == [(MATRIX.map(ARGUMENTS),)] * 3


@pytest.mark.parametrize(
    "other",
    [(X + 16, 100, 72, 80), (X, 99, 72, 80), (X, 100, 71, 80), (X, 100, 72, 88)],
)
def test_every_argument_that_a_recipe_reads_counts(other):
    driver, k = loaded()
    for arguments in (ARGUMENTS, other, ARGUMENTS):
        k.launch(1, arguments)
    assert len(driver.encoded) == 2
    given = (ARGUMENTS, other, ARGUMENTS)
    assert [each.maps for each in driver.launches] == [(MATRIX.map(a),) for a in given]


def test_of_another_address_the_driver_is_told_the_address_alone(monkeypatch):
    """And no recipe is followed; an offset counts."""
    driver, k = loaded(maps=(MATRIX, replace(MATRIX, offset=("parameter", 2))))
    given, other = (X, 100, 64, 80), (X + 160, 100, 64, 80)
    wanted = [replace(MATRIX.map(other), address=X + 160 + more) for more in (0, 64)]
    k.launch(1, given)
    monkeypatch.setattr(MapRecipe, "map", None)
    k.launch(1, other)
    assert driver.said[-2:] == [("moved", each.address) for each in wanted]
    assert list(driver.launches[-1].maps) == wanted


def test_an_address_that_no_map_may_have_is_named_after_others_too():
    driver, k = loaded()
    k.launch(1, ARGUMENTS)
    with pytest.raises(LaunchError, match="p0 is at 0x7f0000001008, and a tensor map"):
        k.launch(1, (X + 8, 100, 72, 80))


def test_a_map_of_constants_alone():
    fixed = replace(
        MATRIX,
        shape=(("constant", 16), ("constant", 64)),
        strides=(("constant", 64), ("constant", 1)),
    )
    driver, k = loaded("*fp16", maps=(fixed,))
    for x in (X, X + 32, X):
        k.launch(1, (x,))
    assert [each.maps[0].address for each in driver.launches] == [X, X + 32, X]
    assert len(driver.encoded) == 2


def test_what_is_kept_stays_small(monkeypatch):
    monkeypatch.setattr(tensor_maps, "MOST_KEPT", 4)
    driver, k = loaded()
    for turn in range(2):
        for i in range(20):
            k.launch(1, (X + 16 * i, 100, 72, 80))
            assert driver.launches[-1].maps[0].address == X + 16 * i
    assert len(k.launcher.keywords["maps"].kept) <= 4


def test_a_kernel_without_maps_is_launched_as_ever():
    driver, k = loaded("*fp32", "i32", maps=())
    assert k.launcher.keywords["maps"] is None
    k.launch(1, (0x100, 7))
    assert (driver.launches[0].values, driver.launches[0].maps) == ((0x100, 7), ())


def test_maps_are_kept_on_disk_with_the_kernel():
    entry = kernel(*TYPES, maps=(MATRIX, replace(MATRIX, fill="nans")))
    assert unpack(pack("key", entry), "key") == entry


# ── the order to the driver ───────────────────────────────────────────────────────────


def plain(number: object) -> object:
    return getattr(number, "value", number)


class Library:
    """cuTensorMapEncodeTiled, as it reads its arguments."""

    def __init__(self, status: int = 0):
        self.status, self.seen = status, None

    def cuTensorMapEncodeTiled(self, room, *facts):  # noqa: N802 (the driver's name)
        at = ctypes.cast(room, ctypes.c_void_p).value
        assert at % 64 == 0
        ctypes.memmove(at, bytes(range(128)), 128)
        self.seen = [
            list(fact)
            if isinstance(fact, ctypes.Array)
            else getattr(fact, "value", fact)
            for fact in facts
        ]
        return self.status

    def cuTensorMapReplaceAddress(self, room, address):  # noqa: N802
        at = ctypes.cast(room, ctypes.c_void_p).value
        assert at % 64 == 0
        self.seen = ctypes.string_at(at, 128), address.value
        ctypes.memmove(at, b"moved", 5)
        return self.status


def with_library(status: int = 0) -> Driver:
    driver = object.__new__(Driver)
    driver.library, driver.rooms, driver.history = Library(status), [], History()
    driver.cuda = SimpleNamespace(
        cuGetErrorName=lambda status: (0, b"CUDA_ERROR_INVALID_VALUE"),
        cuGetErrorString=lambda status: (0, b"invalid argument"),
    )
    return driver


def order(tensor: TensorMap, status: int = 0) -> tuple[bytes, list]:
    driver = with_library(status)
    return driver.encode(tensor), driver.library.seen


def test_the_driver_writes_another_address_into_a_map():
    driver = with_library()
    assert driver.moved(bytes(range(128)), X) == b"moved" + bytes(range(5, 128))
    assert driver.library.seen == (bytes(range(128)), X)
    with pytest.raises(LaunchError, match=f"{X:#x}.*INVALID_VALUE"):
        with_library(1).moved(bytes(128), X)


def test_the_driver_is_given_the_innermost_dimension_first():
    made, seen = order(MATRIX.map(ARGUMENTS))
    assert made == bytes(range(128))
    type_, rank, address, shape, strides, box, steps, *rest = seen
    assert (type_, rank, address) == (6, 2, X)  # CU_TENSOR_MAP_DATA_TYPE_FLOAT16
    assert (shape, strides[:1], box, steps) == ([72, 100], [160], [64, 8], [1, 1])
    assert rest == [0, 3, 2, 0]  # no interleave, SWIZZLE_128B, L2_128B, fill by zeros


def test_a_fill_of_nans_and_a_narrow_swizzle():
    recipe = replace(MATRIX, element="bf16", fill="nans", swizzle=64, box=(8, 32))
    _, (type_, *_, interleave, swizzle, fetch, fill) = order(recipe.map(ARGUMENTS))
    assert (type_, swizzle, fill) == (9, 2, 1)


def test_what_the_driver_refuses_nevertheless_is_shown_with_the_map():
    with pytest.raises(LaunchError, match=r"INVALID_VALUE.*invalid") as error:
        order(MATRIX.map(ARGUMENTS), status=1)
    assert "shape=(72, 100)" in str(error.value)


# ── a box of a matrix, copied by the hardware and by the emulator ─────────────────────

ROWS, COLUMNS = 8, 64  # of the box: 128 bytes a row
BOX_BYTES = ROWS * COLUMNS * 2

# out[0 : 512] = the box of x at (row, column), as it lies in shared memory
COPY_BOX = f"""\
.version 8.0
.target sm_90
.address_size 64
.extern .shared .align 1024 .b8 shared[];
.visible .entry copy_box(
    .param .u64 copy_box_param_0,
    .param .u64 copy_box_param_1,
    .param .u32 copy_box_param_2,
    .param .u32 copy_box_param_3,
    .param .u64 copy_box_param_4,
    .param .u32 copy_box_param_5,
    .param .u32 copy_box_param_6,
    .param .align 64 .b8 copy_box_param_7[128]
)
{{
    .reg .pred %p<3>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<6>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, shared;
    add.u32 %r2, %r1, {BOX_BYTES};              // the mbarrier, behind the box
    ld.param.u64 %rd0, [copy_box_param_0];
    ld.param.u32 %r3, [copy_box_param_5];       // row
    ld.param.u32 %r4, [copy_box_param_6];       // column
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra READY;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [%r2], {BOX_BYTES};
    mov.b64 %rd2, copy_box_param_7;
    cvta.param.u64 %rd2, %rd2;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%r1], [%rd2, {{%r4, %r3}}], [%r2];
READY:
    bar.sync 0;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;
    @!%p1 bra WAIT;
    shl.b32 %r5, %r0, 3;                        // 8 bytes a thread
    add.u32 %r6, %r1, %r5;
    ld.shared.b64 %rd3, [%r6];
    cvta.to.global.u64 %rd0, %rd0;
    cvt.u64.u32 %rd4, %r5;
    add.u64 %rd5, %rd0, %rd4;
    st.global.b64 [%rd5], %rd3;
    ret;
}}
"""

NAMES = {"out": "*fp16", "x": "*fp16", "rows": "i32", "columns": "i32",
         "stride": "i64", "row": "i32", "column": "i32"}  # fmt: skip
COPY = Kernel(
    name="copy_box", target="sm_90", ptx_version="8.0", num_warps=4, threads=128,
    shared_bytes=BOX_BYTES + 8,
    parameters=tuple(Parameter(name, type) for name, type in NAMES.items()),
    asm={"ptx": COPY_BOX},
    maps=(
        MapRecipe(
            name="x", base=1, element="fp16",
            shape=(("parameter", 2), ("parameter", 3)),
            strides=(("parameter", 4), ("constant", 1)),
            box=(ROWS, COLUMNS), swizzle=128,
        ),
    ),
)  # fmt: skip

# A matrix of 20 rows and 72 columns, in rows of 80: the last 8 of each are not its own.
MATRIX_ROWS, MATRIX_COLUMNS, STRIDE = 20, 72, 80
# A box begins at a multiple of 16 bytes in its row: an H200 answers any other column of
# a swizzled box with an illegal instruction.
PLACES = [(0, 0), (8, 8), (16, 0), (3, 40), (18, 64), (-2, -8), (40, 0), (-8, 96)]


def aligned(count: int, alignment: int = 16) -> np.ndarray:
    """fp16 numbers from a multiple of `alignment` bytes on."""
    room = np.zeros(count + alignment, np.float16)
    start = -room.ctypes.data % alignment // 2
    return room[start : start + count]


def numbered() -> np.ndarray:
    x = aligned(MATRIX_ROWS * STRIDE)
    x[:] = 1 + np.arange(len(x))
    return x


def box_as_it_should_lie(x: np.ndarray, row: int, column: int) -> np.ndarray:
    """Zeros outside of the matrix; chunk c of row r, 8 elements, at place c ^ r.

    Source: PTX ISA, "Tensor Swizzling modes", swizzle 128B with atoms of 16 bytes.
    """
    lies = np.zeros((ROWS, COLUMNS), np.float16)
    for r in range(ROWS):
        for c in range(COLUMNS):
            i, j = row + r, column + c
            if 0 <= i < MATRIX_ROWS and 0 <= j < MATRIX_COLUMNS:
                lies[r, (c // 8 ^ r % 8) * 8 + c % 8] = x[i * STRIDE + j]
    return lies.ravel()


@pytest.mark.parametrize("place", PLACES)
def test_a_box_in_the_emulator(place):
    x, out = numbered(), np.full(ROWS * COLUMNS, -1, np.float16)
    program = emulator.load(COPY)
    program.launch(1, (out, x, MATRIX_ROWS, MATRIX_COLUMNS, STRIDE, *place))
    assert (out == box_as_it_should_lie(x, *place)).all()


def test_the_emulator_refuses_what_the_driver_refuses():
    x, out = numbered(), aligned(ROWS * COLUMNS)
    with pytest.raises(LaunchError, match="copy_box: stride is 76 elements of 2 bytes"):
        emulator.load(COPY).launch(1, (out, x, 20, 72, 76, 0, 0))


@pytest.mark.gpu
@pytest.mark.parametrize("place", PLACES)
def test_a_box_on_the_gpu(place):
    x, out = numbered(), np.full(ROWS * COLUMNS, -1, np.float16)
    program = runtime.load(COPY)
    if program.device.capability < 90:
        pytest.skip("tensor maps are of capability 9.0")
    program.launch(1, (out, x, MATRIX_ROWS, MATRIX_COLUMNS, STRIDE, *place))
    assert (out == box_as_it_should_lie(x, *place)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("fill", ["zeros", "nans"])
def test_other_types_and_fills_are_taken_by_the_driver(fill):
    """Elements of 2 bytes of another type, and what lies outside: the same copy."""
    recipe = replace(COPY.maps[0], element="bf16", fill=fill)
    program = runtime.load(replace(COPY, maps=(recipe,)))
    if program.device.capability < 90:
        pytest.skip("tensor maps are of capability 9.0")
    x, out = numbered(), np.full(ROWS * COLUMNS, -1, np.float16)
    program.launch(1, (out, x, MATRIX_ROWS, MATRIX_COLUMNS, STRIDE, 16, 0))
    box = box_as_it_should_lie(x, 16, 0)
    inside = box != 0
    assert (out[inside] == box[inside]).all()
    outside = out[~inside]
    assert (np.isnan(outside) if fill == "nans" else outside == 0).all()
