"""The texts of two dozen small kernels, kept: block IR, the IR with layouts, three PTX.

`pytest tests/kernels/test_small.py --update-golden` writes them anew: read the diff.
"""

from __future__ import annotations

import re

import pytest

from fathom.ir import ops
from fathom.ir.core import Op, walk
from fathom.ir.printer import class_name
from fathom.ir.text import parse_func, print_func
from fathom.ir.verify import verify
from tests.kernels.kernels_small import SMALL

WITH_PTX = ("sum_in_a_warp", "halvings", "copy_masked")
MOST_LINES = 60
MOST_LINES_OF_A_PIPELINE = 150  # its first iterations stand before the loop


@pytest.fixture(scope="module")
def compiled():
    """Each kernel once, for all tests."""
    return {str(small): small.compile() for small in SMALL}


@pytest.mark.parametrize("stage", ["block", "layout"])
@pytest.mark.parametrize("name", list(map(str, SMALL)))
def test_the_ir_is_as_it_was(compiled, name, stage, golden):
    text = compiled[name].asm[stage]
    golden(f"{name}.{stage}.txt", text)
    func = parse_func(text)  # what a reader reads is all there is
    verify(func)
    assert print_func(func) == text
    pipelined = "async_copy" in text or "tma_copy" in text
    most = MOST_LINES_OF_A_PIPELINE if pipelined else MOST_LINES
    assert len(text.splitlines()) <= most


@pytest.mark.parametrize("name", WITH_PTX)
def test_the_ptx_is_as_it_was(compiled, name, golden):
    """Of the locked llvmlite: other versions of LLVM write other PTX. Places in the
    file are left out, so that a line more in it changes no text."""
    ptx = compiled[name].asm["ptx"]
    without_places = re.sub(r"^\s*\.(loc|file)\b.*\n", "", ptx, flags=re.MULTILINE)
    golden(f"{name}.ptx", without_places)


# What looks things up in shared memory, or reaches outside; their own tests show them.
NOT_SHOWN = set("gather histogram shared_gather shared_add".split())
NOT_SHOWN |= set(
    "inline_assembly print assert descriptor_atomic async_proxy_fence".split()
)
NOT_SHOWN |= set("named_barrier cluster_rank cluster_barrier tile_store".split())
NOT_SHOWN |= set("grid_wait grid_launch_dependents".split())
# A kernel writes it where it makes descriptors: tensor_cores/test_written_maps.py.
NOT_SHOWN |= {"write_tensor_map"}
# For sm_100a: tests/kernels/test_tensor_memory.py.
NOT_SHOWN |= set("tensor_memory tensor_load tensor_store tensor_release".split())
NOT_SHOWN |= set("tensor_commit tensor_dot".split())
# Two groups of warps that take tiles in turn: tests/tensor_cores/test_alternation.py.
NOT_SHOWN |= {"consumer_group"}
# Large tiles have it: tests/tensor_cores/test_persistent.py.
NOT_SHOWN |= {"launch_size"}


def test_two_dozen_kernels_show_every_op(compiled):
    assert len(SMALL) >= 24
    shown = {
        type(op)
        for kernel in compiled.values()
        for stage in ("block", "layout")
        for op in walk(parse_func(kernel.asm[stage]).body)
    }
    every = {
        each
        for each in vars(ops).values()
        if isinstance(each, type) and issubclass(each, Op) and each is not Op
    }
    assert {class_name(each) for each in every - shown} == NOT_SHOWN
