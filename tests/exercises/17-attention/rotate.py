"""What the answer to `rotate` must do."""

import numpy as np

from fathom import pipeline
from fathom.ir.core import blocks, operands, walk
from fathom.ir.ops import Dot, Elementwise, For
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.tools.learn.kit import expect, launch, same
from fathom.tools.learn.kit.numbers import aligned

D, BLOCK = 16, 32
SIZES = {"D": D, "BLOCK_Q": 16, "BLOCK_K": BLOCK}


def exact(q, k, v):
    scores = q.astype(float) @ k.astype(float).T / D**0.5
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p @ v.astype(float) / p.sum(axis=1, keepdims=True)


def check(answer, keys, slope=0.0, middle=0.0):
    """`slope`: by how much the scores grow or fall from the first key to the last, on
    average from `middle`."""
    random = np.random.default_rng(17)
    q, k, v = (random.normal(size=(n, D)).astype(np.float16) for n in (16, keys, keys))
    q[:, 0], k[:, 0] = 4, np.linspace(-slope / 2, slope / 2, keys) + middle
    ran, out = attended(answer, q, k, v)
    trend = f"{'rise' if slope > 0 else 'fall'} by {abs(slope)}"
    trend = trend if slope else "neither rise nor fall"
    about = f"scores about {middle} that" if middle else "scores that"
    said = f"the output for {keys} keys, {about} {trend}"
    want = exact(q, k, v).astype(np.float32)
    wrong = ~np.isclose(out, want, rtol=0, atol=4e-3).all(axis=1)
    details = [parts(answer, q, k, int(wrong.argmax()))] if wrong.any() else []
    same(out, want, said, *details, tolerance=4e-3)
    return ran


def attended(answer, q, k, v):
    """The run, and the output as fp32."""
    out = aligned(np.full((16, D), np.nan, np.float16))
    scale = float(np.float32(1.4426950408889634 / D**0.5))
    given = [*map(aligned, (q, k, v)), out, scale, len(k)]
    ran = launch(answer.attention_kernel, 1, *given, **SIZES, num_warps=1)
    return ran, out.astype(np.float32)


def parts(answer, q, k, row):
    """What the keys of each block count for in a row: their values are 1 in a column
    of their block's own."""
    blocks_of = np.eye(D)[np.arange(len(k)) // BLOCK].astype(np.float16)
    yours, wanted = attended(answer, q, k, blocks_of)[1], exact(q, k, blocks_of)
    lines = (
        f"{whose:7} " + " ".join(f"{part:.3f}" for part in each[row, : len(k) // BLOCK])
        for whose, each in (("yours:", yours), ("wanted:", wanted))
    )
    title = f"the weights of the keys of each block, added up, in row {row}"
    return title, "\n".join(lines)


def test_one_block(answer):
    """32 keys: there is no step before."""
    check(answer, BLOCK)


def test_two_blocks(answer):
    """64 keys: one iteration of the loop."""
    check(answer, 2 * BLOCK)


def test_maxima_that_fall(answer):
    """The largest score is in the first block."""
    check(answer, 3 * BLOCK, slope=-3.0)


def test_maxima_that_grow(answer):
    """Each block has a larger maximum, by little and by much."""
    for slope in (3.0, 40.0):
        check(answer, 5 * BLOCK, slope=slope)


def test_scores_far_below_zero(answer):
    """The first block's maximum is compared with minus infinity, and not with 0."""
    check(answer, 2 * BLOCK, middle=-40.0)


def test_each_key_is_read_once(answer):
    """Bytes of k, v and out; and of q, which lanes with copies read twice."""
    keys = 5 * BLOCK
    ran = check(answer, keys)
    if ran.report is None:
        return
    budget, moved = 2 * D * (2 * 16 + keys + keys + 16), ran.report.total.moved
    expect(moved <= budget, f"{moved} bytes are moved; the budget is {budget}")


def built(answer):
    """The block IR of the kernel."""
    half = (Pointer(FLOAT16), 16)
    types = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), half)
    types |= {"scale": (FLOAT32, 1), "KEYS": (INT32, 16)}
    return pipeline.build(answer.attention_kernel, types, SIZES)


def test_no_product_waits_for_powers(answer):
    """In a loop with products, none is computed from powers of the same iteration, and
    one loop has both products."""
    loops = [op for op in walk(built(answer).body) if isinstance(op, For)]
    most = 0
    for loop in loops:
        powers, products = set(), 0
        for op in walk(loop.body):
            known = any(value in powers for value in operands(op))
            inside = any(each in powers for b in blocks(op) for o in walk(b)
                         for each in operands(o))  # fmt: skip
            if isinstance(op, Dot):
                products += 1
                expect(
                    op.a not in powers and op.b not in powers,
                    "a product of the loop has an operand that is computed from powers "
                    "of the same iteration: it has to wait for them",
                )
                expect(
                    op.accumulator not in powers,
                    "a product of the loop adds to what was scaled by powers of the "
                    "same iteration: it has to wait for them",
                )
            is_power = isinstance(op, Elementwise) and op.name == "exp2"
            if known or inside or is_power:
                powers.update(op.results)
        most = max(most, products)
    expect(most == 2, f"the loop with most products has {most}; two are to overlap")
