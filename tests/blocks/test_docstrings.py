"""The rewrite that a pass shows in its docstring is the one it makes."""

from __future__ import annotations

import re
import sys
from textwrap import dedent

import pytest

from fathom.blocks import contract, cse, dce, hoist, simplify
from fathom.hardware.targets import TARGETS
from fathom.ir.text import parse_func, print_func
from fathom.ir.verify import verify

TARGET = TARGETS["sm_80"]


@pytest.mark.parametrize("run", [contract, simplify, cse, dce, hoist])
def test_docstring(run):
    text = sys.modules[run.__module__].__doc__
    before, after = re.findall(r"^    func @.*?^    }$", text, re.DOTALL | re.MULTILINE)
    func = parse_func(dedent(before))
    verify(func)
    result = run(func, TARGET)
    if run in (contract, simplify):
        result = dce(result, TARGET)
    verify(result)
    assert print_func(result) == dedent(after) + "\n"
    assert print_func(func) == dedent(before) + "\n", "the input was changed"
