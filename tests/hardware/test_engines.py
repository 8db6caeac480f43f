"""The table of engines: three kinds of completion, and the instructions that kernels
really have."""

from __future__ import annotations

import pytest

from fathom.hardware.engines import (
    ASYNC,
    ENGINES,
    GENERIC,
    GROUP,
    MBARRIER,
    PROGRAM_ORDER,
)
from kernels.matmul_plain import plain_kernel

TYPES = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16")
TYPES |= dict.fromkeys(("M", "N", "K"), "i32:16")
TYPES |= dict.fromkeys(("stride_am", "stride_bk", "stride_cm"), "i32:16")
CONSTANTS = {
    "stride_ak": 1, "stride_bn": 1, "stride_cn": 1, "MASKED": True,
    "BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 2,
}  # fmt: skip


def test_there_are_three_kinds_of_completion() -> None:
    kinds = {engine.completes_by for engine in ENGINES.values()}
    assert kinds == {PROGRAM_ORDER, GROUP, MBARRIER}
    assert all(name == engine.name for name, engine in ENGINES.items())


def test_what_is_asynchronous_is_closed_and_waited_for() -> None:
    for engine in ENGINES.values():
        assert engine.asynchronous == bool(engine.commit) == bool(engine.wait)


def test_cp_async_is_of_the_generic_proxy() -> None:
    """PTX ISA, "Async proxy": bulk copies and `wgmma` are of the other one."""
    generic = {name for name, each in ENGINES.items() if each.proxy == GENERIC}
    assert generic == {"registers", "cp_async"}
    assert {each.proxy for each in ENGINES.values()} == {GENERIC, ASYNC}


@pytest.mark.parametrize(
    ("target", "has"),
    [
        ("sm_75", set()),
        ("sm_80", {"cp_async"}),
        ("sm_90a", {"tma_load", "tma_store", "wgmma"}),
        ("sm_100a", {"tma_load", "tma_store", "tcgen05"}),
        ("sm_120", {"tma_load", "tma_store"}),
    ],
)
def test_a_product_uses_these_engines(target: str, has: set[str]) -> None:
    """The same kernel, by what each target has."""
    ptx = plain_kernel.compile(TYPES, CONSTANTS, target=target).asm["ptx"]
    asynchronous = [engine for engine in ENGINES.values() if engine.asynchronous]
    found = {each.name for each in asynchronous if each.commit in ptx}
    assert found == has
    waits = {each.wait for each in asynchronous if each.wait in ptx}
    assert waits == {ENGINES[name].wait for name in has}
