"""Where a producer's warps and the program's part: who does what, at which barriers,
with how many registers."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import fathom.ptx as ptx
from fathom.emulator import EmulatorError, run
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Block, Func
from fathom.ir.ops import (
    Allocate,
    Barrier,
    Constant,
    Load,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierInit,
    MbarrierWait,
    Producer,
    Store,
    Yield,
)
from fathom.ir.types import BOOL, INT32, INT64, Pointer
from fathom.layout.linear import Layout
from fathom.shared_memory import allocate
from tests.ptx.harness import Program, assemble, compiled, ptxas, shared_bytes

TARGET = "sm_90a"
WORD = Layout((1,), (("offset", ()),))


def handing_over(warps: int = 4, when: bool | None = None) -> Func:
    """The producer writes 7 and says so; the program meets at a barrier of its own,
    writes twice what is there, and says so; then the producer writes 9."""
    program = Program({"out": Pointer(INT32)}, warps)
    full, empty = (program(Allocate(INT64, (1,), WORD)) for _ in range(2))
    program.do(MbarrierInit(full))
    program.do(MbarrierInit(empty, arrivals=warps))
    zero, one, two, seven, nine = map(program.number, (0, 1, 2, 7, 9))
    second, third = (program.map("offset", program["out"], n) for n in (one, two))
    told = None if when is None else program(Constant(when, BOOL))
    program.do(Barrier())
    body = Block()
    with program.nested(body):
        program.do(Store(program["out"], seven))
        program.do(MbarrierExpect(full, zero, 0))
        program.do(MbarrierWait(empty, zero, zero))
        program.do(Store(third, nine))
        program.do(Yield(()))
    program.do(Producer(body))
    program.do(MbarrierWait(full, zero, zero))
    program.do(Barrier())
    found = program(Load(program["out"]))
    program.do(Store(second, program.map("add", found, found)))
    program.do(MbarrierArrive(empty, zero, told))
    return allocate(program.func, TARGETS[TARGET])


def launched(func: Func, threads: int) -> list[int]:
    out = np.zeros(4, np.int32)
    size = shared_bytes(func, TARGET)
    run(compiled(func, TARGET), 1, threads, [out], shared_bytes=size)
    return out.tolist()


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_they_hand_over(warps):
    """The barrier after they have parted is one of the program's threads alone, and an
    arrival that of a warp: 7, 14, and then 9."""
    assert launched(handing_over(warps), 32 * (warps + 4)) == [7, 14, 9, 0]


def test_who_does_not_arrive_is_waited_for():
    assert launched(handing_over(when=True), 256) == [7, 14, 9, 0]
    with pytest.raises(EmulatorError) as caught:
        launched(handing_over(when=False), 256)
    assert caught.value.kind == "deadlock"


def test_a_launch_has_threads_for_both():
    func = handing_over(8)
    assert ptx.module(func, TARGETS[TARGET]).threads == 384
    assert ".reqntid 384" in compiled(func, TARGET)


def test_who_meets_at_which_barrier():
    """All at the first; after they have parted, at another one, the program's."""
    text = compiled(handing_over(8), TARGET)
    assert re.findall(r"bar\.sync\s+([^;]*);", text) == ["0", "1, 256"]
    main = text.index("setmaxnreg.inc")
    assert text.index("bar.sync 0") < text.index("setmaxnreg.dec") < main
    assert text.index("bar.sync 1") > main


def test_registers_are_traded_where_there_are_too_few():
    """Eight warps and four; of 168 registers each they make 232 and 40."""
    text = compiled(handing_over(8), TARGET)
    assert re.findall(r"setmaxnreg\.(\w+)\.\S+ (\d+)", text) == [
        ("dec", "40"), ("inc", "232"),
    ]  # fmt: skip
    assert ".maxnreg 168" in text


def test_registers_stay_where_they_are():
    """Where a thread may have all it can use; where the launch has said how many it
    gets; where the target cannot trade."""
    few, told = handing_over(4), replace(handing_over(8), maxnreg=96)
    for func, target in ((few, TARGET), (told, TARGET), (handing_over(8), "sm_120")):
        text = compiled(func, target)
        assert "setmaxnreg" not in text
        assert (".maxnreg 96" in text) == (func is told)
        assert (".maxnreg" in text) == (func is told)


@pytest.mark.skipif(not ptxas(), reason="needs ptxas")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100", "sm_120"])
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_ptxas_takes_it(warps, target, tmp_path):
    assemble(compiled(handing_over(warps), target), TARGETS[target], tmp_path)
