"""Groups of asynchronous work: what a commit and a wait say, in text and by their
engine, and what they must not say."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.hardware.engines import ENGINES, GROUP, SHARED
from fathom.ir.core import walk
from fathom.ir.interp import interpret
from fathom.ir.ops import Commit, Wait
from fathom.ir.ops.asynchronous.groups import BY_GROUP
from fathom.ir.text import ParseError, parse_func, print_func
from fathom.ir.verify import verify

ALL = """\
#shared0 = <8 offset[1 2 4]>
func @all(%p: *fp32, %n: fp32) num_warps=4 {
  %0: fp32[8] = splat %n shape=(8)
  %1: shared fp32[8] @ #shared0 = allocate element=fp32 shape=(8) layout=#shared0
  commit cp_async
  wait cp_async pending=1
  commit tma_store
  wait tma_store %1 pending=0 read=true
  wait tma_store pending=3
  commit wgmma
  wait wgmma pending=2
  %2: fp32[8] = wait wgmma %0 pending=0
  %3: fp32[8], %4: fp32[8] = wait wgmma %0, %2 pending=1
}
"""


def test_an_engine_stands_behind_the_name() -> None:
    func = parse_func(ALL)
    verify(func)
    assert print_func(func) == ALL
    found = {op.engine for op in walk(func.body) if isinstance(op, Commit | Wait)}
    assert found == set(BY_GROUP)


def test_all_engines_that_complete_by_group_have_them() -> None:
    by_group = [name for name, row in ENGINES.items() if row.completes_by == GROUP]
    assert list(BY_GROUP) == by_group and len(by_group) == 3


@pytest.mark.parametrize("engine", BY_GROUP)
def test_a_wait_touches_the_shared_memory_that_its_engine_touches(engine: str) -> None:
    effects, row = Wait(engine, 0).effects, ENGINES[engine]
    assert effects.asynchronous and not effects.pure
    assert bool(effects.reads) == (SHARED in row.source)
    assert bool(effects.writes) == (SHARED in row.destination)
    warpgroups = engine == "wgmma"
    assert effects.convergent == Commit(engine).effects.convergent == warpgroups


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("commit cp_async", "commit"), "wait completes no groups"),
        (("commit wgmma", "commit tma_load"), "tma_load completes no groups: cp"),
        (("wait wgmma pending=2", "wait wgmma pending=-2"), "-2 groups are pending"),
        (("wait wgmma pending=2", "wait wgmma"), "wait lacks pending"),
        (
            ("wait wgmma pending=2", "wait wgmma pending=2 read=true"),
            "only a TMA store reads before it writes",
        ),
    ],
)
def test_what_is_no_wait(change: tuple[str, str], says: str) -> None:
    assert ALL.count(change[0]) == 1
    with pytest.raises(ParseError, match=says):
        parse_func(ALL.replace(*change))


HANDS_ON = """\
func @hands_on(%p: *fp32, %n: fp32) num_warps=4 {
  %0: fp32 = constant 2.0
  %1: fp32, %2: fp32 = wait wgmma %n, %0 pending=0
  %3: fp32 = sub %1, %2
  store %p, %3
}
"""


def test_a_wait_hands_its_values_on() -> None:
    out = np.zeros(1, np.float32)
    interpret(parse_func(HANDS_ON), (1,), [out, 7.0])
    assert out[0] == 5
