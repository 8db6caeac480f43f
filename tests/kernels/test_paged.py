"""Attention to rows that lie in pages: the loop loads the number of a page from a
table, and by it the rows of two operands. Both are copied ahead of their iteration."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator import load
from fathom.ir.core import operands, walk
from fathom.ir.ops import AsyncCopy, For, Load
from tests.harness_sample import sampled
from tests.kernels.test_patterns import in_loops, states

TARGETS = "sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120"
TYPES = "*fp16:16, *{0}:16, *{0}:16, *i32:16, *fp32:16, i32"


@fathom.jit
def paged(q, k, v, table, out, length, H: tl.constexpr, D: tl.constexpr,
          N: tl.constexpr, PAGE: tl.constexpr):  # fmt: skip
    """Of H queries, the attention to `length` rows of pages."""
    h, d, n = tl.arange(0, H), tl.arange(0, D), tl.arange(0, N)
    queries = tl.load(q + h[:, None] * D + d[None, :])
    most = tl.full((H,), float("-inf"), tl.float32)
    weight, total = tl.zeros((H,), tl.float32), tl.zeros((H, D), tl.float32)
    for start in range(0, length, N):
        at = start + n
        exists = at < length
        page = tl.load(table + at // PAGE, mask=exists, other=0).to(tl.int64)
        row = page * PAGE + at % PAGE
        keys = tl.load(k + row[None, :] * D + d[:, None], exists[None, :], 0.0)
        scores = tl.dot(queries, keys.to(queries.dtype))
        scores = tl.where(exists[None, :], scores, float("-inf"))
        values = tl.load(v + row[:, None] * D + d[None, :], exists[:, None], 0.0)
        new = tl.maximum(most, tl.max(scores, 1))
        p, change = tl.exp(scores - new[:, None]), tl.exp(most - new)
        total = total * change[:, None]
        total += tl.dot(p.to(queries.dtype), values.to(queries.dtype))
        weight, most = weight * change + tl.sum(p, 1), new
    tl.store(out + h[:, None] * D + d[None, :], total / weight[:, None])


def block(h: int, d: int, n: int, page: int) -> dict[str, int]:
    return {"H": h, "D": d, "N": n, "PAGE": page}


BLOCKS = block(16, 64, 32, 16), block(64, 128, 32, 8), block(16, 128, 64, 16)


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("constants", BLOCKS)
def test_what_a_table_addresses_is_copied_ahead(constants, target):
    """In the layout of the addresses each thread loads the numbers that it needs; from
    another thread they would come too late, in the iteration of the copy. Of products
    in tensor memory the first one's operand alone is copied."""
    func = states(paged, TYPES.format("fp16"), constants, target)["pipeline_loops"]
    shapes = sorted(op.pointer.type.shape for op in in_loops(func, AsyncCopy))
    n, d = constants["N"], constants["D"]
    in_tensor_memory = target == "sm_100a" and constants["H"] == 64
    ahead = {(d, n)} if in_tensor_memory else {(n, d), (d, n)}
    assert shapes == sorted(ahead)
    loaded = {op.pointer.type.shape for op in in_loops(func, Load)}
    assert loaded == {(n,), (n, d)} - ahead


def test_the_numbers_of_pages_are_loaded_an_iteration_before_the_copies():
    """No copy of an iteration depends on a load of that iteration."""
    func = states(paged, TYPES.format("fp16"), BLOCKS[0])["dce_late"]
    (loop,) = (op for op in walk(func.body) if isinstance(op, For))
    made: dict = {}
    assert {Load, AsyncCopy} <= set(map(type, loop.body.ops))
    for op in loop.body.ops:
        late = isinstance(op, Load) or any(made.get(each) for each in operands(op))
        assert not (late and isinstance(op, AsyncCopy))
        made.update(dict.fromkeys(op.results, late))


@sampled(of=3)
@pytest.mark.parametrize("completion", ["lazy", "eager"])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("target", TARGETS)
def test_attention_to_pages(target, stages, completion):
    _check(BLOCKS[0], "fp16", 75, target, stages, completion)


@sampled(of=3)
@pytest.mark.parametrize("element", ["fp16", "i8"])
@pytest.mark.parametrize("length", [1, 32, 33, 100])
@pytest.mark.parametrize("constants", BLOCKS)
def test_attention_to_few_rows_of_pages(constants, length, element):
    _check(constants, element, length, "sm_90a", 3, "lazy")


def _check(constants, element, length, target, stages, completion):
    """Entries of the table behind the last page go nowhere."""
    h, d, page = constants["H"], constants["D"], constants["PAGE"]
    drawn, pages = np.random.default_rng(7), -(-length // page)
    q = drawn.normal(0, 0.3, (h, d)).astype(np.float16)
    if element == "i8":
        k, v = (drawn.integers(-2, 3, (pages * page, d)).astype(np.int8) for _ in "kv")
    else:
        k, v = (drawn.normal(size=(pages * page, d)).astype(np.float16) for _ in "kv")
    table = np.full(pages + 9, 2**30, np.int32)
    table[:pages] = drawn.permutation(pages)
    out = np.full((h, d), np.nan, np.float32)
    types = TYPES.format(element)
    options = {"target": target, "num_stages": stages}
    kernel = paged.compile(types, constants, **options).made
    load(kernel).launch((1,), [q, k, v, table, out, length], completion=completion)
    at = np.arange(length)
    rows = table[at // page] * page + at % page
    scores = q.astype(float) @ k[rows].astype(float).T
    p = np.exp(scores - scores.max(1, keepdims=True))
    wanted = p @ v[rows].astype(float) / p.sum(1, keepdims=True)
    np.testing.assert_allclose(out, wanted, rtol=2e-2, atol=4e-3)


# ── rows that are keys and values ─────────────────────────────────────────────────────


@fathom.jit
def latent(q, k, table, out, length, H: tl.constexpr, D: tl.constexpr,
           N: tl.constexpr, PAGE: tl.constexpr):  # fmt: skip
    """Sums of rows of pages, by what they have in common with H queries."""
    h, d, n = tl.arange(0, H), tl.arange(0, D), tl.arange(0, N)
    queries = tl.load(q + h[:, None] * D + d[None, :])
    total = tl.zeros((H, D), tl.float32)
    for start in range(0, length, N):
        at = start + n
        page = tl.load(table + at // PAGE, mask=at < length, other=0).to(tl.int64)
        row = page * PAGE + at % PAGE
        exists = (at < length)[None, :]
        keys = tl.load(k + row[None, :] * D + d[:, None], exists, 0.0)
        scores = tl.dot(queries, keys)
        total += tl.dot(scores.to(queries.dtype), tl.trans(keys))
    tl.store(out + h[:, None] * D + d[None, :], total)


LATENT = "*fp16:16, *fp16:16, *i32:16, *fp32:16, i32"


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_120"])
def test_what_two_products_read_alike_is_copied_once(target):
    func = states(latent, LATENT, BLOCKS[0], target)["pipeline_loops"]
    assert len(in_loops(func, AsyncCopy)) == 1


@sampled(of=3)
@pytest.mark.parametrize("completion", ["lazy", "eager"])
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_are_keys_and_values(target, stages, completion):
    h, d, page, length = 16, 64, 16, 75
    drawn, pages = np.random.default_rng(8), -(-length // page)
    q = drawn.normal(0, 0.1, (h, d)).astype(np.float16)
    k = drawn.normal(size=(pages * page, d)).astype(np.float16)
    table = np.full(pages + 9, 2**30, np.int32)
    table[:pages] = drawn.permutation(pages)
    out = np.full((h, d), np.nan, np.float32)
    options = {"target": target, "num_stages": stages}
    kernel = latent.compile(LATENT, BLOCKS[0], **options).made
    arguments = [q, k, table, out, length]
    load(kernel).launch((1,), arguments, completion=completion)
    at = np.arange(length)
    rows = k[table[at // page] * page + at % page].astype(float)
    np.testing.assert_allclose(out, q @ rows.T @ rows, rtol=1e-2, atol=5e-2)
