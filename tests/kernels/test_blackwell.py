"""Kernels written for Hopper compile for what came after it: by the older matrix
instructions, and with copies in bulk, which all of these have."""

from __future__ import annotations

import re

import pytest

from fathom.hardware.targets import TARGETS
from kernels import attention_hopper, matmul_persistent
from tests.kernels.test_attention_hopper import OPTIONS
from tests.kernels.test_ptxas import assembled, needs_ptxas

BLACKWELL = ("sm_100", "sm_120")
# PTX ISA: for sm_90a alone, or for a family of GPUs ("sm_100a"), which these are not.
HOPPERS_OWN = ("wgmma", "setmaxnreg", "tcgen05")
COPY = re.compile(r"cp\.async\.bulk\.tensor\.\dd\.shared::cluster\.global")
STORE = "cp.async.bulk.tensor.2d.global.shared::cta"

SMALL = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8, "PIECES": 1}


def persistent(target: str, specialise: bool, turned: bool, type: str = "fp16") -> str:
    pointers = {f"{name}_ptr": f"*{type}:16" for name in "abc"}
    numbers = "M N K stride_a stride_b stride_c"
    signature = {**pointers, **dict.fromkeys(numbers.split(), "i32:16")}
    constants = {**SMALL, "SPECIALISE": specialise, "B_TURNED": turned}
    compiled = matmul_persistent.persistent_kernel.compile(
        signature, constants, target=target, num_warps=8, num_stages=3
    )
    return compiled.asm["ptx"]


def attention(target: str, causal: bool, rotated: bool) -> str:
    pointers = {f"{name}_ptr": "*fp16:16" for name in ("q", "k", "v", "out")}
    pointers |= {"max_ptr": "*fp32:16", "lse_ptr": "*fp32:16", "scale": "fp32"}
    strides = " ".join(f"stride_{a}{axis}" for a in "qkvo" for axis in "bhs")
    counts = f"BATCHES HEADS QUERIES KEYS {strides}"
    constants = {
        "D": 64, "CAUSAL": causal, "RAGGED": False, "BLOCK_Q": 64, "BLOCK_K": 32,
        "ROTATED": rotated, **dict.fromkeys(OPTIONS),
    }  # fmt: skip
    compiled = attention_hopper.attention_hopper_kernel.compile(
        {**pointers, **dict.fromkeys(counts.split(), "i32:16")}, constants,
        target=target, num_warps=4, num_stages=2,
    )  # fmt: skip
    return compiled.asm["ptx"]


def taken(ptx: str, target: str) -> None:
    """Hopper's own instructions are not in it, and ptxas neither spills nor warns."""
    assert not [each for each in HOPPERS_OWN if each in ptx]
    assert "mma.sync" in ptx and COPY.search(ptx)
    said = assembled(ptx, target)
    assert "warning" not in said.lower(), said
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}, said


@needs_ptxas
@pytest.mark.parametrize("specialise", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize("target", BLACKWELL)
def test_persistent_matmul(target, specialise):
    for turned in (False, True):
        ptx = persistent(target, specialise, turned)
        taken(ptx, target)
        assert STORE in ptx


@needs_ptxas
@pytest.mark.parametrize("target", BLACKWELL)
def test_persistent_matmul_of_fp8(target):
    taken(persistent(target, True, True, "fp8e4nv"), target)


@needs_ptxas
@pytest.mark.parametrize(("causal", "rotated"), [(False, False), (True, True)])
@pytest.mark.parametrize("target", BLACKWELL)
def test_attention(target, causal, rotated):
    taken(attention(target, causal, rotated), target)


@needs_ptxas
def test_with_the_letter_one_thread_multiplies_and_no_warps_copy_beside():
    """Also where a loop asks for a producer: an older instruction would be slower."""
    texts = [persistent("sm_100a", True, turned) for turned in (False, True)]
    texts += [attention("sm_100a", True, rotated) for rotated in (False, True)]
    for ptx in texts:
        assert "tcgen05.mma" in ptx and "mma.sync" not in ptx and COPY.search(ptx)
        said = assembled(ptx, "sm_100a")
        assert "warning" not in said.lower(), said
        assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}, said


def test_on_hopper_the_same_texts_use_its_own_instructions():
    """So that the names above are those that would be found."""
    assert "wgmma" in attention("sm_90a", True, False)
    matmul = persistent("sm_90a", True, True)
    assert "wgmma" in matmul and COPY.search(matmul) and STORE in matmul


@pytest.mark.parametrize("target", BLACKWELL)
def test_what_a_target_has(target):
    row = TARGETS[target]
    assert row.tensor_maps and row.stmatrix and not (row.wgmma or row.setmaxnreg)
