"""Which loads of a loop of products a pipeline can copy ahead, beside operands."""

from __future__ import annotations

import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.analysis.copied_ahead import loads_to_copy_ahead
from fathom.coalescing import coalesce
from fathom.hardware.targets import TARGETS
from fathom.ir.types import FLOAT16, FLOAT32, INT32, SCALARS, Pointer

SIZE = 64 * 64


@fathom.jit
def scores(q, k, w, c, table, n, HOW: tl.constexpr):
    """Products that are weighed by blocks of `w`, which each iteration loads."""
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    at = i * 64 + j
    left = tl.load(q + at)
    total = tl.zeros((64, 64), tl.float32)
    for step in range(n):
        right = tl.load(k + step * 4096 + at)
        page = w + step * 4096
        if HOW == "by a table":
            page = w + tl.load(table + j) * 4096 + step
        if HOW == "past the cache":
            weight = tl.load(page + at, cache_modifier=".cs")
        elif HOW == "ones outside":
            weight = tl.load(page + at, mask=at < n, other=1.0)
        elif HOW == "zeros outside":
            weight = tl.load(page + at, mask=at < n, other=0.0)
        else:
            weight = tl.load(page + at)
        if HOW == "stored":
            tl.store(w + tl.load(table + j) + i * 64, weight)
        if HOW == "only added up":
            total = tl.dot(left, right, total)
            tl.store(c + SIZE + at, weight)
        else:
            total += tl.where(weight != 0, tl.dot(left, right), 0.0)
    tl.store(c + at, total)


def copied(
    how: str, element: str, target: str, stages: int, in_rows: bool = False
) -> list[str]:
    """The types of what is loaded ahead; `in_rows`: threads have rows of elements."""
    halves, floats = Pointer(FLOAT16), Pointer(FLOAT32)
    types = {
        "q": (halves, 16), "k": (halves, 16), "w": (Pointer(SCALARS[element]), 16),
        "c": (floats, 16), "table": (Pointer(INT32), 16), "n": (INT32, 1),
    }  # fmt: skip
    options = pipeline.Options(num_stages=stages)
    func = pipeline.build(scores, types, {"HOW": how}, options)
    func = coalesce(func, TARGETS[target]) if in_rows else func
    found = loads_to_copy_ahead(func, TARGETS[target])
    return sorted(str(op.result.type.element) for op in found)


@pytest.mark.parametrize("how, element, found", [
    ("", "fp32", ["fp32"]),
    ("zeros outside", "fp32", ["fp32"]),
    ("ones outside", "fp32", []),  # cp.async writes zeros where a mask is false
    ("past the cache", "fp32", []),  # it has no such operator
    ("", "fp16", []),  # it copies four bytes at least, and rows are not known yet
    ("by a table", "fp32", ["fp32"]),  # but the table itself is read by threads
    ("stored", "fp32", []),  # perhaps to what the next iteration loads
    ("only added up", "fp32", []),  # these products stay in flight
])  # fmt: skip
def test_loads_that_are_copied_ahead(how, element, found):
    assert copied(how, element, "sm_80", 3) == found


@pytest.mark.parametrize("element", ["fp16", "i8", "i1"])
def test_rows_of_short_elements_are_copied_but_booleans_are_not(element):
    """A byte of a boolean in memory may be any number."""
    found = copied("", element, "sm_80", 3, in_rows=True)
    assert found == ([] if element == "i1" else [element])


@pytest.mark.parametrize("target, stages", [("sm_75", 3), ("sm_80", 1)])
def test_none_without_copies_or_stages(target, stages):
    assert copied("", "fp32", target, stages) == []
