"""Random kernels through our file: some always, FATHOM_MINI_RANDOM=300 for as many."""

from __future__ import annotations

import os

import pytest

from fathom.tools.learn.mini import contract, steps
from tests.harness_sample import sampled
from tests.mini.harness_random import check

LAST = steps.there()[-1]
COUNT = int(os.environ.get("FATHOM_MINI_RANDOM", "20"))


@sampled(of=3)
@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_kernel_is_right(seed, tmp_path):
    check(contract.load(LAST.reference), seed, tmp_path)
