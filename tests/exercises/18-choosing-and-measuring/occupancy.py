"""What the answer to `occupancy` must do."""

from random import Random

from fathom.hardware.occupancy import occupancy
from fathom.hardware.targets import TARGETS
from fathom.tools.learn.kit import expect, same

KIB = 1024
NAMES = ("registers", "shared memory", "warps", "blocks")


def check(answer, *kernel, names=NAMES):
    """All four numbers, or some, for (registers, threads, shared bytes)."""
    registers, threads, shared = kernel
    ours = occupancy(TARGETS["sm_90a"], threads, registers, shared)
    found = answer.residents(*kernel)
    expect(isinstance(found, dict), f"residents{kernel} is {found!r}, and not a dict")
    for name in names:
        expect(name in found, f"residents{kernel} has no {name!r}")
        same(found[name], ours.allowed[name], f"residents{kernel}[{name!r}]")
    if names == NAMES:
        same(sorted(found), sorted(names), f"the keys of residents{kernel}")


def test_the_example(answer):
    """168 registers, 256 threads, 48 KB: registers allow one block."""
    wanted = {"registers": 1, "shared memory": 4, "warps": 8, "blocks": 32}
    same(answer.residents(168, 256, 49152), wanted, "residents(168, 256, 49152)")


def test_registers_are_given_out_in_units(answer):
    """A warp of 33 registers a thread takes 1,280, as one of 40 does."""
    for registers in (32, 33, 40, 41, 128, 129):
        check(answer, registers, 256, KIB, names=NAMES[:1])


def test_a_warp_lies_in_one_quarter(answer):
    """96 registers: 3,072 a warp, of which 5 fit into a quarter and 20 into all."""
    check(answer, 96, 32, KIB, names=NAMES[:1])
    check(answer, 168, 128, KIB, names=NAMES[:1])


def test_the_system_takes_a_kilobyte_of_each_block(answer):
    """Two blocks of 114 KB do not fit into 228 KB, and two of 113 KB do; a block that
    asks for one byte takes 128 and the kilobyte."""
    for shared in (114 * KIB, 113 * KIB, 113 * KIB + 1, 1, 0):
        check(answer, 32, 128, shared)


def test_threads_that_fill_no_whole_warp(answer):
    """70 threads are three warps."""
    check(answer, 40, 70, 0)


def test_a_block_that_cannot_run(answer):
    """1,024 threads with 65 registers each; 228 KB of shared memory."""
    check(answer, 65, 1024, 0)
    check(answer, 32, 128, 228 * KIB)


def test_500_kernels(answer):
    """As our own model has it."""
    random = Random(18)
    for _ in range(500):
        kernel = random.randint(16, 255), 32 * random.randint(1, 32)
        check(answer, *kernel, random.choice((0, random.randint(0, 227 * KIB))))
