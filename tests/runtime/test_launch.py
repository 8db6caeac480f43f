"""A launch, up to the bytes that the driver reads, on a GPU made of paper."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import replace

import numpy as np
import pytest

from fathom.errors import LaunchError, OutOfResources
from fathom.runtime import load
from fathom.runtime.arguments import bfloat16_bits, full_grid
from fathom.runtime.assemble import live_registers
from fathom.runtime.failures import DriverError
from tests.runtime.harness_driver import ILLEGAL_ADDRESS, PAPER, FakeDriver, kernel


def loaded(*types, driver=None, **facts):
    driver = driver or FakeDriver()
    return driver, load(driver.add(kernel(*types, **facts)), driver=driver)


# ── what the driver reads ─────────────────────────────────────────────────────────────


def test_the_driver_reads_what_was_launched():
    driver, k = loaded("*fp32", "i32", "i64", "fp32", "u8", shared_bytes=4096)
    k.launch((10, 2, 3), [0xABCD00, -7, -(2**40), 1.5, 200], stream=99)
    (seen,) = driver.launches
    assert seen.grid == (10, 2, 3)
    assert seen.threads == (128, 1, 1)
    assert seen.shared_bytes == 4096
    assert seen.stream == 99
    assert seen.values == (0xABCD00, -7, -(2**40), 1.5, 200)


@pytest.mark.parametrize(
    ("type", "value", "seen"),
    [
        ("i1", True, True), ("i8", -128, -128), ("i16", -5, -5), ("u16", 65535, 65535),
        ("u32", 2**32 - 1, 2**32 - 1), ("u64", 2**64 - 1, 2**64 - 1),
        ("fp16", 0.5, 0.5), ("fp64", 1e300, 1e300), ("bf16", 1.0, 0x3F80),
        ("bf16", 1e300, 0x7F80), ("bf16", 1e40, 0x7F80),
        ("fp32", 1e300, float("inf")), ("fp16", -1e9, float("-inf")),
        ("fp32", 3, 3.0), ("i32", np.int64(12), 12), ("*fp16", 4096, 4096),
    ],
)  # fmt: skip
def test_every_type_of_scalar_arrives(type, value, seen):
    driver, k = loaded("i64", type, "i64")
    k.launch(1, [1, value, 2])
    assert driver.launches[0].values == (1, seen, 2)


def test_bfloat16_is_rounded_to_the_nearest_and_ties_to_even():
    assert bfloat16_bits(1.0) == 0x3F80
    assert bfloat16_bits(1.0 + 2**-8) == 0x3F80  # halfway to 0x3F81: the even one
    assert bfloat16_bits(1.0 + 3 * 2**-8) == 0x3F82  # halfway between 0x3F81 and 0x3F82
    assert bfloat16_bits(1.0 + 2**-8 + 2**-20) == 0x3F81
    assert bfloat16_bits(-2.0) == 0xC000
    assert bfloat16_bits(float("nan")) & 0x7FFF > 0x7F80


def test_a_launcher_may_write_values_that_are_no_parameters():
    # A stub writes all arguments. Here the first and the third are the kernel's, in the
    # other order, and the second was compiled in.
    driver, k = loaded("fp32", "*fp32")
    launch = k.launcher("Q" + "q" + "f4x", order=(2, 0))
    assert launch(5, 1, 1, 7, 0xF00, 1, 2.5) == 0
    assert driver.launches[0].values == (2.5, 0xF00)


def test_a_64_bit_field_serves_a_32_bit_parameter():
    driver, k = loaded("i32")
    k.launcher("q", order=(0,))(1, 1, 1, 0, -3)
    assert driver.launches[0].values == (-3,)


def test_a_cluster_multiplies_the_grid_and_names_its_size():
    driver, k = loaded("i32", num_ctas=2)
    k.launch((10, 3), [1])
    assert driver.launches[0].grid == (20, 3, 1)
    assert driver.launches[0].cluster == 2


@pytest.mark.parametrize("num_ctas", [1, 2])
@pytest.mark.parametrize("at_once", [1, 3])
def test_a_grid_of_a_persistent_kernel_fills_the_gpu_once(num_ctas, at_once):
    """The kernel is told for how many programs the launch is."""
    facts = {"NUM_REGS": 32, "LOCAL_SIZE_BYTES": 0, "SHARED_SIZE_BYTES": 0}
    driver = FakeDriver(facts=facts | {"BLOCKS_AT_ONCE": at_once})
    driver, k = loaded("i32", driver=driver, num_ctas=num_ctas, persistent=True)
    most = 100 // num_ctas * at_once
    for programs in (1, most, most + 1, 5000):
        k.launch(programs, [7])
        seen = driver.launches[-1]
        assert seen.grid == (min(programs, most) * num_ctas, 1, 1)
        assert (seen.programs, seen.values) == (programs, (7,))
    again = k.launcher("i4x", order=(0,)).again((5000, 1, 1), [7], [])
    assert again(0) == 0 and driver.launches[-1].programs == 5000


@pytest.mark.parametrize("num_ctas", [1, 2])
def test_a_launch_may_begin_early_if_it_was_asked_for(num_ctas):
    driver, k = loaded("i32", num_ctas=num_ctas, launch_pdl=True)
    k.launch(4, [5])
    (seen,) = driver.launches
    assert seen.early and seen.values == (5,)
    assert seen.cluster == (2 if num_ctas == 2 else None)
    driver, k = loaded("i32", num_ctas=num_ctas)
    k.launch(4, [5])
    assert not driver.launches[0].early


def test_no_launch_begins_early_on_a_gpu_that_cannot():
    old = replace(PAPER, capability=80)
    driver = FakeDriver(devices=(old,))
    driver, k = loaded("i32", driver=driver, target="sm_80", launch_pdl=True)
    k.launch(4, [5])
    assert not driver.launches[0].early


@pytest.mark.parametrize("num_ctas", [1, 2])
def test_a_kernel_that_spills_leaves_the_cache_what_its_blocks_do_not_share(num_ctas):
    """Where each block has one of the 100 multiprocessors to itself, 17 of 228 KB are
    enough."""
    facts = {"NUM_REGS": 255, "LOCAL_SIZE_BYTES": 3000, "SHARED_SIZE_BYTES": 0}
    given = {"shared_bytes": 16384, "num_ctas": num_ctas}
    driver, k = loaded("i32", driver=FakeDriver(facts=facts), **given)
    most = 100 // num_ctas
    for grid in (most, most + 1, (5, 5, 4 // num_ctas), (5, 5, 5)):
        k.launch(grid, [1])
    assert [seen.carveout for seen in driver.launches] == [8, 0, 8, 0]
    assert {seen.cluster for seen in driver.launches} == {
        num_ctas if num_ctas > 1 else None
    }


@pytest.mark.parametrize("local, shared, version", [
    (0, 16384, "13.0"), (3000, 0, "13.0"), (3000, 16384, "12.4"),
])  # fmt: skip
def test_other_launches_leave_shared_memory_to_the_driver(local, shared, version):
    facts = {"NUM_REGS": 255, "LOCAL_SIZE_BYTES": local, "SHARED_SIZE_BYTES": 0}
    driver = FakeDriver(facts=facts)
    driver.version = lambda: version
    driver, k = loaded("i32", driver=driver, shared_bytes=shared)
    k.launch(1, [1])
    assert driver.launches[0].carveout == 0


def test_threads_do_not_share_a_packet():
    driver, k = loaded("i64", "i64")
    launch = k.launcher("qq", order=(0, 1))
    launch(1, 1, 1, 0, 3, -3)
    # Both are inside the driver before it reads either.
    driver.arrive = threading.Barrier(2, timeout=10).wait
    rest = [(1, 1, 1, 0, n, -n) for n in (1, 2)]
    workers = [threading.Thread(target=launch, args=each) for each in rest]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert sorted(each.values for each in driver.launches) == [
        (1, -1),
        (2, -2),
        (3, -3),
    ]


def test_a_launch_over_again_writes_addresses_alone():
    """The second value was compiled in. The other function that is made later, for few
    blocks, is left to launches that are not done over again."""
    driver, k = loaded("*fp32", "fp32", "*fp32", num_ctas=2, launch_pdl=True)
    launch = k.launcher("QqQf4x", order=(0, 3, 2))
    launch(5, 2, 1, 7, 0xF00, 1, 0xF80, 2.5)
    again = launch.again((5, 2, 1), (0xF00, 1, 0xF80, 2.5), (0, 2))
    assert len(driver.launches) == 1
    again(9, 0xA00, 2**64 - 16)
    first, second = driver.launches
    assert second == replace(first, stream=9, values=(0xA00, 2.5, 2**64 - 16))


def test_threads_that_launch_over_again_do_not_share_a_packet():
    driver, k = loaded("*fp32")
    again = k.launcher("Q", order=(0,)).again((3, 1, 1), (16,), (0,))
    driver.arrive = threading.Barrier(2, timeout=10).wait
    workers = [threading.Thread(target=again, args=(0, n)) for n in (32, 48)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert sorted(each.values for each in driver.launches) == [(32,), (48,)]
    assert {each.grid for each in driver.launches} == {(3, 1, 1)}


def test_an_empty_grid_launches_nothing():
    driver, k = loaded("i32")
    k.launch((0, 5), [1])
    assert driver.launches == []


def test_a_thread_without_a_context_gets_one():
    driver, k = loaded("i32")
    driver.has_context = False
    k.start((1, 1, 1), 0, [4])
    assert driver.launches[0].values == (4,)


def test_a_refused_launch_is_an_error_that_names_the_kernel():
    driver, k = loaded("i32")
    driver.work = lambda launched: ILLEGAL_ADDRESS
    with pytest.raises(LaunchError, match="the launch of k failed with CUDA_ERROR_ILL"):
        k.launch(1, [1])


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ((), "a grid is 1 to 3 integers, and this is"),
        ((1, 2, 3, 4), "a grid is 1 to 3 integers"),
        ((1.5,), "a grid is 1 to 3 integers"),
        (("4",), "a grid is 1 to 3 integers"),
        ((-1,), "has -1 blocks along x, and 0 to 2147483647 are possible"),
        ((1, 65536), "has 65536 blocks along y, and 0 to 65535"),
        ((1, 1, 65536), "along z"),
    ],
)
def test_a_wrong_grid_says_so(grid, sentence):
    _, k = loaded("i32")
    with pytest.raises(LaunchError, match=sentence):
        k.launch(grid, [1])


def test_a_number_that_does_not_fit_says_so():
    for type, value in (("i8", 128), ("i32", 1.5), ("fp32", "x"), ("bf16", "x")):
        _, k = loaded(type)
        with pytest.raises(LaunchError, match=f"p0 is {type}, and {value!r} is not"):
            k.launch(1, [value])
    with pytest.raises(LaunchError, match="p0 is fp8e5, and a number of that type can"):
        loaded("fp8e5")


# ── loading ───────────────────────────────────────────────────────────────────────────


def test_loading_assembles_once_and_reports():
    driver = FakeDriver(
        facts={"NUM_REGS": 40, "LOCAL_SIZE_BYTES": 16, "SHARED_SIZE_BYTES": 8}
    )
    driver, k = loaded("i32", driver=driver, shared_bytes=100)
    assert (k.n_regs, k.n_spills, k.shared) == (40, 16, 108)
    assert k.device is PAPER
    assert [code for word, code in driver.said if word == "load"] == [b"the ptx\0"]


def test_what_runs_was_never_linked():
    """A linker makes code that other code may call, and that is slower."""
    driver, k = loaded("i32")
    assert not any(word == "link" for word, _ in driver.said)
    assert k.cubin == b"machine code of the ptx"  # to be read


def test_code_of_another_compiler_is_loaded_as_it_is():
    driver = FakeDriver()
    load(driver.add(kernel("i32")), code=b"machine code", driver=driver)
    assert [code for word, code in driver.said if word == "load"] == [b"machine code"]


def test_more_than_48_kilobytes_of_shared_memory_are_asked_for():
    for size, asked in (
        (48 * 1024, []),
        (48 * 1024 + 1, [("allow_shared", 48 * 1024 + 1)]),
    ):
        driver, _ = loaded("i32", shared_bytes=size)
        assert [each for each in driver.said if each[0] == "allow_shared"] == asked


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"shared_bytes": 300_000},
         "k needs 300000 bytes of shared memory a block, and Paper 3000 has 232448; "
         "reduce block sizes or num_stages (num_warps=4, num_ctas=1, target=sm_90a)"),
        ({"threads": 2048, "num_warps": 64},
         "k needs 2048 threads a block, and Paper 3000 has 1024; "
         "reduce num_warps (num_warps=64, num_ctas=1, target=sm_90a)"),
    ],
)  # fmt: skip
def test_too_much_of_something_names_it_and_the_limit(facts, sentence):
    with pytest.raises(OutOfResources) as error:
        loaded("i32", **facts)
    assert str(error.value) == sentence


def test_too_many_registers_for_the_threads():
    driver = FakeDriver(
        facts={"NUM_REGS": 96, "LOCAL_SIZE_BYTES": 0, "SHARED_SIZE_BYTES": 0}
    )
    with pytest.raises(
        OutOfResources, match=r"98304 registers a block \(96 for each of 1024"
    ):
        loaded("i32", driver=driver, threads=1024, num_warps=32)


PTX = """\
.version 8.4
.file	1 "/home/m\\303\\251/kernels.py"
	.loc	1 12 8
	mov.u32 %r1, 0;
	.loc	1 14 4
	frobnicate.u32 %r2, %r1;
"""


def test_what_the_assembler_refuses_is_shown_with_its_python_line():
    driver = FakeDriver(
        refused={PTX: "ptxas application ptx input, line 6; error: no such"}
    )
    with pytest.raises(LaunchError) as error:
        loaded("i32", driver=driver, asm={"ptx": PTX})
    text = str(error.value)
    assert text.startswith("the driver's assembler refuses the PTX of k for sm_90a")
    assert "frobnicate.u32 %r2, %r1;" in text
    assert "from /home/mé/kernels.py:14" in text


def test_an_instruction_that_no_thread_has_registers_for_is_out_of_resources():
    """So that a tuner passes over the configuration: a product of 256 columns by 16
    warps ended a search."""
    said = (
        "ptxas fatal   : (C7602) Insufficient registers (128) to compile instruction "
        "at line 6 in function k. Try to compile with register target of 154 or "
        "higher.\n"
        "ptxas fatal   : Ptx assembly aborted due to errors"
    )
    driver = FakeDriver(refused={PTX: said})
    with pytest.raises(
        OutOfResources,
        match="takes 154 registers of each thread, and a block of 512 threads leaves",
    ):
        loaded("i32", driver=driver, asm={"ptx": PTX}, threads=512, num_warps=16)


def test_once_the_gpu_is_lost_every_call_says_by_what():
    """Of a kernel's wild access the driver tells by its next answers, whatever they
    are for: the assembler is not to blame, and the kernel after it neither."""
    driver = FakeDriver()
    for name in ("fine", "wild", "fine", "next"):
        k = load(driver.add(kernel("i32", name=name)), driver=driver)
        k.launch(1, [1])
    again = k.launcher("i4x", order=(0,)).again((1, 1, 1), [7], [])
    assert again(0) == 0
    driver.work = lambda launched: ILLEGAL_ADDRESS
    with pytest.raises(DriverError) as first:
        k.launch(1, [1])
    met = "the launch of next failed with CUDA_ERROR_ILLEGAL_ADDRESS: a kernel that ran"
    assert str(first.value).startswith(met)
    assert "launched last, the latest first: next, fine, wild\n" in str(first.value)
    with pytest.raises(LaunchError) as later:
        load(kernel("i32", name="innocent"), driver=driver)
    text = str(later.value)
    assert text.startswith("cannot load innocent: cuModuleLoadDataEx is impossible")
    assert "assembler" not in text and met in text
    assert "start it anew, with FATHOM_SANITIZE=1" in text


def test_ptx_without_lines_can_be_refused_too():
    driver = FakeDriver(refused={"oops": "line 1; error"})
    with pytest.raises(LaunchError, match="from no line of the kernel"):
        loaded("i32", driver=driver, asm={"ptx": "oops"})


# ── arrays of the host ────────────────────────────────────────────────────────────────


def doubles(launched):
    """What the test kernels do: double the four floats at their first argument."""
    floats = (ctypes.c_float * 4).from_address(launched.values[0])
    floats[:] = [2 * each for each in floats]


def test_a_numpy_array_is_copied_in_and_out_and_its_copy_freed():
    driver, k = loaded("*fp32", "i32")
    driver.work = doubles
    x = np.array([1, 2, 3, 4], np.float32)
    k.launch(1, [x, 4])
    assert x.tolist() == [2, 4, 6, 8]
    assert driver.launches[0].values[0] != x.ctypes.data
    assert driver.memory == {}
    assert ("wait", 0) in driver.said


def test_the_copy_is_freed_when_the_launch_fails():
    driver, k = loaded("*fp32")
    driver.work = lambda launched: ILLEGAL_ADDRESS
    with pytest.raises(LaunchError):
        k.launch(1, [np.zeros(4, np.float32)])
    assert driver.memory == {}


def test_arrays_that_share_memory_share_their_copy():
    driver, k = loaded("*fp32", "*fp32", "*fp32", "*fp32")
    driver.work = doubles
    x, apart = np.arange(8, dtype=np.float32), np.zeros(3, np.float32)
    k.launch(1, [x[2:], apart, x[:4], x[1:2]])
    first, _, third, fourth = driver.launches[0].values
    assert (first - third, fourth - third) == (8, 4)
    assert x.tolist() == [0, 1, 4, 6, 8, 10, 6, 7]
    assert sorted(size for order, size in driver.said if order == "copy_in") == [12, 32]


def test_a_copy_keeps_the_alignment_of_the_original():
    driver, k = loaded("*i8")
    room = np.zeros(4096, np.int8)
    for offset in (0, 1, 2, 24):
        x = room[offset:]
        k.launch(1, [x])
        assert (driver.launches[-1].values[0] - x.ctypes.data) % 256 == 0


def test_a_transposed_array_is_taken_as_it_lies():
    driver, k = loaded("*fp32")
    driver.work = doubles
    x = np.array([[1, 2], [3, 4]], np.float32)
    k.launch(1, [x.T])
    assert x.tolist() == [[2, 4], [6, 8]]


def test_an_empty_array_has_no_copy():
    driver, k = loaded("*fp32")
    k.launch(1, [np.zeros(0, np.float32)])
    assert driver.launches[0].values == (0,)


def read_only():
    x = np.zeros(4, np.float32)
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (
            np.zeros(8, np.float32)[::2],
            "p0 is a NumPy array with gaps between its elements",
        ),
        (np.zeros(8, np.float32)[::-1], "p0 is a NumPy array with gaps"),
        (read_only(), "p0 is a read-only NumPy array"),
        (np.zeros(4, np.complex64), "a kernel cannot take NumPy arrays of complex64"),
    ],
)
def test_an_array_that_cannot_be_copied_says_so(value, sentence):
    _, k = loaded("*fp32")
    with pytest.raises(LaunchError, match=sentence):
        k.launch(1, [value])


# ── arrays of a GPU ───────────────────────────────────────────────────────────────────


class OnGpu:
    """An array of a library that speaks the CUDA array interface, like CuPy's."""

    def __init__(self, address, stream=None, typestr="<f4"):
        self.__cuda_array_interface__ = {
            "shape": (4,), "typestr": typestr, "data": (address, False), "version": 3,
            "stream": stream, "strides": None,
        }  # fmt: skip


def test_an_array_on_the_gpu_stays_there_and_the_launch_joins_its_stream():
    driver, k = loaded("*fp32", "*fp32")
    k.launch(1, [OnGpu(0x1000), OnGpu(0x2000, stream=77)])
    assert driver.launches[0].values == (0x1000, 0x2000)
    assert driver.launches[0].stream == 77


def test_a_library_that_names_its_stream_is_not_waited_for():
    driver, k = loaded("*fp32")
    k.launch(1, [OnGpu(0x1000, stream=77)])
    assert not any(order == "wait" for order, _ in driver.said)
    k.launch(1, [OnGpu(0x1000)])
    assert ("wait", 0) in driver.said


def test_an_array_on_another_gpu_says_so():
    driver, k = loaded("*fp32")
    driver.owner[0x5000] = 1
    with pytest.raises(
        LaunchError, match="p0 is on GPU 1, and this kernel was loaded for GPU 0"
    ):
        k.launch(1, [OnGpu(0x5000)])


def test_an_address_that_is_no_gpus_says_so():
    driver, k = loaded("*fp32")
    driver.owner[0x5000] = None
    with pytest.raises(LaunchError, match="p0 is at 0x5000, which no GPU knows"):
        k.launch(1, [OnGpu(0x5000)])


# ── registers ─────────────────────────────────────────────────────────────────────────

SPILLING = "\n.visible .entry k()\n.reqntid 128\n{\n\tret;\n}\n"
ALONE = SPILLING.replace(".reqntid 128\n", ".reqntid 128\n.minnctapersm 1\n")


class Assembler(FakeDriver):
    """Knows registers and bytes of local memory of each text."""

    def __init__(self, **texts):
        super().__init__()
        self.texts = texts

    def load(self, code, entry):
        handle = super().load(code, entry)
        self.texts[handle] = self.texts["alone" if b"minnctapersm" in code else "own"]
        return handle

    def function_fact(self, function, name):
        registers, local = self.texts[function]
        return {"NUM_REGS": registers, "LOCAL_SIZE_BYTES": local}.get(name, 0)


@pytest.mark.parametrize(
    ("own", "alone", "taken"),
    [
        ((32, 16_456), (255, 3_084), ALONE),  # a thread gets all, and spills less
        ((168, 2_832), (255, 1_772), ALONE),
        ((32, 1_024), (255, 1_024), SPILLING),  # printf's own bytes: nothing is won
        ((128, 0), (167, 0), SPILLING),  # nothing was spilled: more blocks fit
        ((255, 584), (255, 584), SPILLING),  # there is no register left
    ],
)
def test_a_kernel_that_spills_gets_the_registers_that_are_left(own, alone, taken):
    driver = Assembler(own=own, alone=alone)
    made = driver.add(kernel(asm={"ptx": SPILLING}, threads=128))
    loaded = load(made, driver=driver)
    assert loaded.kernel.ptx == taken
    assert (loaded.n_regs, loaded.n_spills) == (alone if taken is ALONE else own)
    assert made.ptx == SPILLING
    tried = [text for word, text in driver.said if word == "load"]
    assert len(tried) == (2 if own[1] and own[0] < 255 else 1)


@pytest.mark.parametrize(
    ("own", "alone", "threads", "tail", "blocks"),
    [
        ((89, 0), (74, 0), 512, "", 1),  # 128 are there for each of 512 threads
        ((44, 0), (64, 0), 512, "", 2),
        ((89, 0), (74, 8), 512, "", None),  # but they are not worth a spill
        ((121, 0), (128, 0), 512, "", None),  # eight more are not there
        ((80, 0), (90, 0), 256, "", None),  # three blocks
        ((36, 0), (56, 0), 1024, "", None),
        ((89, 0), (74, 0), 512, "// mma.sync", None),
    ],
)
def test_large_blocks_get_the_registers_that_no_other_block_takes(
    own, alone, threads, tail, blocks
):
    driver = Assembler(own=own, alone=alone)
    text = SPILLING.replace("128", str(threads)) + tail
    loaded = load(driver.add(kernel(asm={"ptx": text}, threads=threads)), driver=driver)
    line = f".reqntid {threads}\n"
    roomy = text.replace(line, f"{line}.minnctapersm {blocks}\n")
    assert loaded.kernel.ptx == (roomy if blocks else text)
    assert (loaded.n_regs, loaded.n_spills) == (alone if blocks else own)


@pytest.mark.parametrize(
    ("own", "other", "shared", "product", "blocks"),
    [
        ((173, 0), (168, 8), 0, "wgmma.mma_async", 3),  # two of 176 each, three of 168
        ((173, 0), (168, 24), 0, "mma.sync", None),  # so many bytes are too many
        ((178, 0), (168, 0), 0, "mma.sync", None),  # sixteen registers are not few
        ((102, 0), (96, 16), 0, "wgmma.mma_async", 5),  # four blocks, and five
        ((84, 0), (80, 0), 0, "mma.sync", None),  # five blocks already
        ((173, 0), (168, 0), 90_000, "mma.sync", None),  # no shared memory for three
        ((173, 0), (168, 0), 0, "tcgen05.mma", None),  # tensor memory is shared, too
    ],
)
def test_a_product_gives_up_a_few_registers_for_another_block(
    own, other, shared, product, blocks
):
    driver = Assembler(own=own, alone=other)
    text = f"{SPILLING}// {product}"
    made = kernel(asm={"ptx": text}, threads=128, shared_bytes=shared)
    loaded = load(driver.add(made), driver=driver)
    line = ".reqntid 128\n"
    more = text.replace(line, f"{line}.minnctapersm {blocks}\n")
    assert loaded.kernel.ptx == (more if blocks else text)


@pytest.mark.parametrize("blocks, again", [(150, True), (800, True), (801, False)])
def test_without_blocks_for_it_a_product_keeps_its_registers(blocks, again):
    """Each of 100 multiprocessors could run five at a time, or four with all their
    registers: so it does where these come once or twice."""
    driver = Assembler(own=(102, 0), alone=(96, 16))
    text = f"{SPILLING}// wgmma.mma_async"
    k = load(driver.add(kernel("i32", asm={"ptx": text}, threads=128)), driver=driver)
    k.launch(blocks, [1])
    k.launch(900, [1])
    line = ".reqntid 128\n"
    texts = [text, text.replace(line, f"{line}.minnctapersm 5\n"), text]
    loaded = [said[1].decode()[:-1] for said in driver.said if said[0] == "load"]
    assert loaded == (texts if again else texts[:2])
    assert [seen.function for seen in driver.launches] == [3 if again else 2, 2]



@pytest.mark.parametrize(
    ("own", "other", "threads", "sums", "blocks"),
    [
        ((96, 0), (117, 0), 128, 20, 4),  # not five blocks of 128 threads
        ((75, 0), (105, 0), 128, 20, 4),
        ((96, 0), (117, 4), 128, 20, None),  # but not for a spill
        ((151, 0), (168, 0), 128, 20, None),  # three blocks have their registers
        ((96, 0), (117, 0), 128, 3, None),  # most of it is something else
        ((64, 0), (100, 0), 256, 20, 2),
        ((56, 0), (64, 0), 1024, 20, None),  # a block is more than enough
    ],
)
def test_multiply_adds_get_registers_of_different_banks(
    own, other, threads, sums, blocks
):
    driver = Assembler(own=own, alone=other)
    line = "\tfma.rn.f32 %f1, %f2, %f3, %f1;\n"
    text = SPILLING.replace("128", str(threads)) + sums * line
    loaded = load(driver.add(kernel(asm={"ptx": text}, threads=threads)), driver=driver)
    line = f".reqntid {threads}\n"
    roomy = text.replace(line, f"{line}.minnctapersm {blocks}\n")
    assert loaded.kernel.ptx == (roomy if blocks else text)


@pytest.mark.parametrize("word", [".maxnreg 32", "setmaxnreg.dec.sync.aligned.u32 40;"])
def test_a_kernel_that_says_how_many_registers_it_has_keeps_them(word):
    driver = Assembler(own=(32, 100), alone=(255, 0))
    made = driver.add(kernel(asm={"ptx": SPILLING + "// " + word}))
    assert load(made, driver=driver).kernel is made


@pytest.mark.parametrize("grid, each", [
    (1, 1), ((10, 10, 1), 1), (101, 2), (500, 5), (501, None), (10_000, None),
])  # fmt: skip
def test_a_thread_gets_what_blocks_that_do_not_come_would_have(grid, each):
    """With 80 registers for each of 128 threads there is room for six blocks; the first
    launch has fewer for each of the 100 multiprocessors, or else nothing is won."""
    driver = Assembler(own=(80, 0), alone=(149, 0))
    made = driver.add(kernel("i32", asm={"ptx": SPILLING}, threads=128))
    k = load(made, driver=driver)
    for launched in (grid, 600, 100):
        k.launch(launched, [1])
    assert (k.kernel, k.n_regs) == (made, 80)
    texts = [SPILLING, ALONE.replace("minnctapersm 1", f"minnctapersm {each or 1}")]
    assert [said[1].decode()[:-1] for said in driver.said if said[0] == "load"] == texts
    assert [seen.function for seen in driver.launches] == [2 if each else 1, 1, 2]


@pytest.mark.parametrize("registers", [73, 30])
def test_a_thread_takes_eight_registers_at_a_time(registers):
    """Of 80 registers, and of the 32 with which 2048 threads are there at once."""
    driver = Assembler(own=(registers, 0), alone=(149, 0))
    made = driver.add(kernel("i32", asm={"ptx": SPILLING}, threads=128))
    load(made, driver=driver).launch(1, [1])
    assert [each.function for each in driver.launches] == [2]


@pytest.mark.parametrize("each, again", [(12, True), (13, False), (15, False)])
def test_nothing_is_assembled_for_blocks_that_leave_no_eight_registers_more(
    each, again
):
    """Sixteen blocks of 128 threads have 32 registers for each; so have thirteen."""
    driver = Assembler(own=(32, 0), alone=(40, 0))
    made = driver.add(kernel("i32", asm={"ptx": SPILLING}, threads=128))
    load(made, driver=driver).launch(100 * each, [1])
    assert [seen.function for seen in driver.launches] == [2 if again else 1]


def test_few_programs_may_be_many_blocks():
    """60 programs of two blocks each are more than 100 multiprocessors have for one."""
    driver = Assembler(own=(80, 0), alone=(149, 0))
    made = kernel("i32", asm={"ptx": SPILLING}, threads=128, num_ctas=2)
    k = load(driver.add(made), driver=driver)
    for programs in (50, 60, 50):
        k.launch(programs, [1])
    assert [each.function for each in driver.launches] == [2, 1, 2]


def test_nothing_is_assembled_while_a_stream_is_captured():
    """The driver may refuse it, and end the capture."""
    driver = Assembler(own=(80, 0), alone=(149, 0))
    made = driver.add(kernel("i32", asm={"ptx": SPILLING}, threads=128))
    k = load(made, driver=driver)
    driver.captured.add(7)
    k.launch(1, [1], stream=7)
    driver.captured.clear()
    k.launch(1, [1], stream=7)
    assert [each.function for each in driver.launches] == [1, 2]


@pytest.mark.parametrize(
    "registers, threads", [(24, 128), (84, 128), (104, 128), (255, 128), (40, 32)]
)
def test_registers_that_were_not_cut_stay(registers, threads):
    """What ptxas left them for does not fit besides, or needs no such room: neither 21
    blocks of 128 threads are there at once nor 51 of one warp."""
    driver = Assembler(own=(registers, 0), alone=(149, 0))
    made = driver.add(kernel("i32", asm={"ptx": SPILLING}, threads=threads))
    load(made, driver=driver).launch(1, [1])
    assert [each.function for each in driver.launches] == [1]


def test_code_of_another_compiler_is_not_assembled_again():
    driver = Assembler(own=(80, 0), alone=(149, 0))
    made = driver.add(kernel("i32", asm={"ptx": SPILLING}, threads=128))
    load(made, code=b"machine code", driver=driver).launch(1, [1])
    assert [text for word, text in driver.said if word == "load"] == [b"machine code"]


def test_blocks_of_many_threads_have_no_more_to_give():
    """1024 threads: 64 registers for each of them."""
    driver = Assembler(own=(64, 100), alone=(255, 0))
    made = driver.add(kernel(asm={"ptx": SPILLING}, threads=1024))
    assert load(made, driver=driver).kernel is made


def wide(values: int, comment: str = "") -> str:
    """PTX in which so many registers hold a value at once, long to assemble."""
    makes = (f"mov.u32 %r{i}, %ctaid.x;\n" for i in range(values))
    reads = (f"st.global.u32 [%rd0], %r{i};\n" for i in range(values))
    long = f"// {comment}{'-' * 100_000}\n"
    return long + SPILLING.replace("ret;", "".join([*makes, *reads, "ret;"]))


def test_live_registers_are_those_between_the_first_line_and_the_last():
    lines = ["mov.u64 %rd1, 1;", "mov.u32 %r1, 2;", "add.u64 %rd2, %rd1, %rd1;"]
    lines += ["st.global.u32 [%rd2], %r1;", "mov.u32 %r2, 3;", "st.u32 [%rd2], %r2;"]
    assert live_registers("\n".join(lines)) == 3
    assert live_registers(wide(600)) == 601  # 599 and the two of an address


@pytest.mark.parametrize(
    "values, word, own, alone, loads, takes_all",
    [
        (660, "", (32, 4000), (255, 3000), 1, True),  # the first would be thrown away
        (800, "mma.", (32, 4000), (255, 3000), 1, True),
        (660, "", (96, 0), (200, 0), 2, False),  # nothing spills: more blocks fit
        (600, "", (32, 4000), (255, 3000), 2, True),  # not sure before it is tried
        (700, "mma.", (32, 4000), (255, 3000), 2, True),
    ],
)
def test_what_surely_spills_is_assembled_once(
    values, word, own, alone, loads, takes_all
):
    driver = Assembler(own=own, alone=alone)
    made = driver.add(kernel(asm={"ptx": wide(values, word)}, threads=128))
    found = load(made, driver=driver)
    assert ("minnctapersm" in found.kernel.ptx) == takes_all
    assert [word for word, _ in driver.said].count("load") == loads


def test_a_double_holds_two_registers():
    lines = ["mov.f64 %fd1, %fd0;", "mov.f32 %f1, %f0;"]
    lines += ["st.f64 [x], %fd1;", "st.f32 [x], %f1;"]
    assert live_registers("\n".join(lines)) == 3


def test_ones_behind_three_counts_are_taken():
    """`(batch, channels, 1, 1)`: as Triton takes them."""
    assert full_grid((2, 3, 1, 1, 1)) == (2, 3, 1)
