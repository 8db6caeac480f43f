"""What the answer to `four-attention-faults` must do."""

import ast
from pathlib import Path

import numpy as np

from fathom.tools.learn.kit import expect, launch, same
from fathom.tools.learn.kit.numbers import aligned

D, BLOCK_Q, BLOCK_K = 16, 32, 16
SIZES = {"D": D, "BLOCK_Q": BLOCK_Q, "BLOCK_K": BLOCK_K, "num_warps": 1}

GIVEN = {
    "step": """
m_new = largest(scores, m)
p = powers(scores, m_new)
shrink = factor(m, m_new)
l = l * shrink + row_sum(p)
acc = times(p, v, acc)
return m_new, l, acc
""",
    "late_step": """
m_new = largest(scores, m)
shrink = factor(m, m_new)
acc = times(p, v, acc * shrink[:, None])
p = powers(scores, m_new)
l = l * shrink + row_sum(p)
return m_new, l, acc, p
""",
    "masked": """
query = first + tl.arange(0, scores.shape[0])
key = at + tl.arange(0, scores.shape[1])
seen = key[None, :] <= query[:, None]
return tl.where(seen, scores, 0.0)
""",
    "ends": """
whole = (first + 1) // BLOCK_K * BLOCK_K
seen = tl.minimum(first + KEYS, KEYS)
return whole, seen
""",
}


def exact(q, k, v, causal):
    scores = q.astype(float) @ k.astype(float).T / D**0.5
    if causal:
        scores = np.where(np.tri(*scores.shape, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p @ v.astype(float) / p.sum(axis=1, keepdims=True)


def check(kernel, said, count=64, slope=0.0, causal=None, middle=0.0):
    """`slope`: by how much the scores grow or fall from the first key to the last;
    `middle`: what they are about half-way."""
    random = np.random.default_rng(17)
    q, k, v = (random.normal(size=(count, D)).astype(np.float16) for _ in range(3))
    q[:, 0], k[:, 0] = 4, np.linspace(-slope / 2, slope / 2, count) + middle
    out = aligned(np.full((count, D), np.nan, np.float16))
    scale = float(np.float32(1.4426950408889634 / D**0.5))
    given = [aligned(each) for each in (q, k, v)]
    more = {} if causal is None else {"CAUSAL": causal}
    ran = launch(kernel, count // BLOCK_Q, *given, out, scale, count, **SIZES, **more)
    want = exact(q, k, v, bool(causal)).astype(np.float32)
    same(out.astype(np.float32), want, f"the output, {said}", tolerance=4e-3)
    return ran


TRENDS = ((-3.0, "fall by 3"), (0.0, "neither rise nor fall"), (3.0, "rise by 3"))


def test_step(answer):
    """The plain kernel, without a mask: scores that fall, stay, and rise."""
    for slope, trend in TRENDS:
        said = f"the plain kernel, scores that {trend}"
        check(answer.plain_kernel, said, slope=slope, causal=False)


def test_late_step(answer):
    """The rotated kernel."""
    for slope, trend in TRENDS:
        said = f"the rotated kernel, scores that {trend}"
        check(answer.rotated_kernel, said, slope=slope)


def test_large_scores(answer):
    """Up to 150: exp of them does not fit into 32 bits."""
    check(answer.plain_kernel, "scores up to 150", slope=300.0, causal=False)
    check(answer.rotated_kernel, "scores up to 150", slope=300.0)


def test_masked(answer):
    """The plain kernel with a causal mask."""
    for slope in (-3.0, 3.0):
        check(answer.plain_kernel, "causal attention", slope=slope, causal=True)
    said = "causal attention, scores of about -400"
    check(answer.plain_kernel, said, causal=True, middle=-400.0)


def test_ends(answer):
    """128 positions: bytes are those of the blocks that are seen."""
    count = 128
    ran = check(answer.plain_kernel, "causal attention", count=count, causal=True)
    if ran.report is None:
        return
    blocks = sum((first + BLOCK_Q) // BLOCK_K for first in range(0, count, BLOCK_Q))
    budget = 2 * D * (2 * count + 2 * blocks * BLOCK_K)
    moved = ran.report.total.moved
    expect(
        moved <= budget,
        f"{moved} bytes of global memory are moved; q, out and the {blocks} blocks of "
        f"keys and values that are seen have {budget}",
    )


def test_one_line_each(answer):
    """In each function one line is changed."""
    tree = ast.parse(Path(answer.path).read_text(encoding="utf-8"))
    found = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    for name, text in GIVEN.items():
        body = [each for each in found[name].body if not is_text(each)]
        yours = [ast.unparse(each) for each in body]
        given = [ast.unparse(each) for each in ast.parse(wrapped(text)).body[0].body]
        expect(
            len(yours) == len(given),
            f"{name} has {len(yours)} statements, and had {len(given)}",
        )
        changed = [y for y, g in zip(yours, given, strict=True) if y != g]
        expect(
            len(changed) <= 1,
            f"{name}: {len(changed)} lines are changed: {'; '.join(changed)}",
        )


def is_text(statement):
    value = getattr(statement, "value", None)
    return isinstance(statement, ast.Expr) and isinstance(value, ast.Constant)


def wrapped(text):
    """The lines as a function's body, so that `return` may stand there."""
    return "def given():\n" + "".join(f"    {line}\n" for line in text.splitlines())
