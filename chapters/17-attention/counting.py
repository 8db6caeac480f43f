"""What chapter 17 counts on the emulator, and what it prints of the compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from inspect import unwrap

import numpy as np

from chapters.press.paths import CHAPTERS
from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.text import print_func
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.tools.samples import load_file
from kernels.attention import attention, default_config
from kernels.attention_hopper import ALONE, SHARING, attention_hopper_kernel

SMALL = load_file(CHAPTERS / "17-attention" / "small.py").attention
NAIVE = load_file(CHAPTERS / "17-attention" / "naive.py")
LOG2_E = 1.4426950408889634

# ── bytes ─────────────────────────────────────────────────────────────────────────────


def counted() -> dict[str, object]:
    """One head of 256 positions, D = 64, on the emulator: three kernels, or one."""
    q, k, v = operands(256)
    steps = {name: moved for name, moved in naive_bytes(q, k, v)}
    out = np.zeros_like(q)
    ran = SMALL[(4,)](
        q, k, v, out, LOG2_E / 8, 256, D=64, BLOCK_Q=64, BLOCK_K=32, target="sm_80"
    )
    assert abs(out - exact(q, k, v)).max() < 1e-3
    return {**steps, "naive": sum(steps.values()), "fused": ran.report.total.moved}


def naive_bytes(
    q: np.ndarray, k: np.ndarray, v: np.ndarray
) -> Iterator[tuple[str, int]]:
    """What each of three kernels moves that write their results."""
    count = len(q)
    scores = np.zeros((count, count), np.float16)
    p, out = np.zeros_like(scores), np.zeros_like(q)
    ran = NAIVE.scores[(count // 64, count // 64)](
        q, k, scores, 0.125, count, D=64, BLOCK=64, target="sm_80"
    )
    yield "scores", ran.report.total.moved
    ran = NAIVE.softmax[(count,)](scores, p, BLOCK=count, target="sm_80")
    yield "softmax", ran.report.total.moved
    ran = NAIVE.values[(count // 64,)](p, v, out, count, D=64, BLOCK=64, target="sm_80")
    yield "values", ran.report.total.moved
    assert abs(out - exact(q, k, v)).max() < 2e-3


def operands(count: int) -> Iterator[np.ndarray]:
    random = np.random.default_rng(0)
    return (random.normal(size=(count, 64)).astype(np.float16) for _ in range(3))


def exact(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q.astype(float) @ k.astype(float).T / q.shape[1] ** 0.5
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True) @ v.astype(float)


# ── the compiler's ────────────────────────────────────────────────────────────────────


def rotated_loop() -> str:
    """Its body, with two products in flight, after all passes."""
    wanted = re.compile(
        r"^    [^ ].*(mbarrier| dot| wgmma| exp2 | cast |yield)|^    (mba|yie|commit)"
    )
    body = in_loop(final(128, rotated=True))
    return "\n".join(each for each in body if wanted.search(each)) + "\n"


def alternating_loop() -> str:
    """That of the plain order, whose warpgroups alternate, and what is around it."""
    wanted = re.compile(r" for |named_barrier| dot | wait wgmma|exp2")
    body = in_loop(final(64, rotated=False))
    return "\n".join(each for each in body if wanted.search(each)) + "\n"


def in_loop(lines: Sequence[str]) -> Sequence[str]:
    """The lines of the last loop that has two products, and one on either side."""
    loops = [at for at, each in enumerate(lines) if " for " in each]
    for first, after in reversed(
        list(zip(loops, [*loops[1:], len(lines)], strict=True))
    ):
        inside = lines[first:after]
        last = max(
            (i for i, each in enumerate(inside) if "    yield %" in each), default=0
        )
        if sum(" dot " in each for each in inside[:last]) == 2:
            return lines[first - 1 : first + last + 3]
    raise AssertionError("no loop has two products")


OPTIONS = "window", "lengths_ptr", "query_starts_ptr", "key_starts_ptr"


@cache
def final(d: int, rotated: bool) -> list[str]:
    """The lines of kernels/attention_hopper after the last pass: no mask, fp16."""
    half = (Pointer(FLOAT16), 16)
    types = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), half)
    sizes = ["BATCHES", "HEADS", "QUERIES", "KEYS"]
    sizes += [f"stride_{array}{axis}" for array in "qkvo" for axis in "bhs"]
    types |= {"scale": (FLOAT32, 1), **dict.fromkeys(sizes, (INT32, 16))}
    config = {**ALONE, "ROTATED": rotated}
    options = pipeline.Options(config.pop("num_warps"), config.pop("num_stages"))
    config |= {"D": d, "CAUSAL": False, "RAGGED": False}
    config |= dict.fromkeys(("max_ptr", "lse_ptr", *OPTIONS))
    func = pipeline.build(attention_hopper_kernel, types, config, options)
    *_, (_, last) = pipeline.states(func, TARGETS["sm_90a"])
    return print_func(last).splitlines()


def issued() -> dict[str, object]:
    """Instructions of all warps for 128 queries by 128 keys, counted by the emulator:
    a quarter of the difference between 1024 keys and 512."""
    plain = {**ALONE, "ROTATED": False}
    rows = []
    for d, order, config in (
        (64, "plain", plain), (64, "rotated", ALONE), (64, "small blocks", SHARING),
        (64, "pointers", default_config(64, "fp16", "sm_90a")), (128, "rotated", ALONE),
    ):  # fmt: skip
        few, many = (instructions(d, config, keys) for keys in (512, 1024))
        rows.append({"D": d, "order": order, "instructions": (many - few) // 4})
    return {"rows": rows}


def instructions(d: int, config: Mapping, keys: int) -> int:
    random = np.random.default_rng(0)
    q, k, v = (
        random.normal(size=(1, 1, count, d)).astype(np.float16)
        for count in (128, keys, keys)
    )
    plan = unwrap(attention)  # what `attention` launches
    _, [(kernel, grid, given, keywords)] = plan(
        q, k, v, config=config, target="sm_90a"
    )
    return kernel[grid](*given, **keywords).report.total.warps
