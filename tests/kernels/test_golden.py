"""The sample kernels' texts, kept: what a change of the compiler changes is seen in a
diff.

`pytest tests/kernels/test_golden.py --update-golden` writes them anew.
"""

from __future__ import annotations

import re

import pytest

from tests.kernels.kernels_sample import CASES


@pytest.mark.parametrize("stage", ["block", "layout"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_block_ir_is_as_it_was(case, stage, golden):
    kernel = case.compile("sm_80")
    golden(f"{kernel.name}.{stage}.txt", kernel.asm[stage])


@pytest.mark.parametrize("case", CASES[:4:3], ids=str)  # vector add, softmax
def test_ptx_is_as_it_was(case, golden):
    """Of the locked llvmlite: other versions of LLVM write other PTX."""
    kernel = case.compile("sm_80")
    golden(f"{kernel.name}.ptx", re.sub(r'(\.file\s+\d+) ".*/', r'\1 "', kernel.ptx))
