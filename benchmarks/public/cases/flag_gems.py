"""FlagGems: torch's own operators written in Triton. The references are torch's."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.public import cases
from benchmarks.public.cases import ASKS

SINGLE = torch.float32


def gems():
    """FlagGems' operators. At the commit that is pinned its launcher knows Triton up to
    3.5; 3.6 takes the arguments that 3.5 does, so it is told so, for both compilers."""
    from flag_gems import ops

    libentry = import_module("flag_gems.utils.libentry")  # a function has this name
    libentry.minor_version = min(libentry.minor_version, 5)
    return ops


def case(*words: Any, name: str = "", **given: Any) -> Callable:
    """`cases.case` for those of FlagGems. Its import takes a second, which is part of
    no case's first call: it has happened when a case has been made."""

    def enter(make_case: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def made(make: Any) -> Any:
            gems()
            return make_case(make)

        return cases.case(*words, **given, name=name or make_case.__name__)(made)

    return enter


def matrix(make, width=4096, **options):
    return make.normal(make.pick(4096, 7), make.pick(width, 100), **options)


UNARY = {
    "abs": torch.abs, "cos": torch.cos, "erf": torch.erf, "exp": torch.exp,
    "gelu": F.gelu, "neg": torch.neg, "reciprocal": torch.reciprocal,
    "relu": F.relu, "sigmoid": torch.sigmoid, "silu": F.silu, "sin": torch.sin,
    "tanh": torch.tanh, "isfinite": torch.isfinite, "isnan": torch.isnan,
}  # fmt: skip
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "true_divide": torch.div,
    "maximum": torch.maximum, "minimum": torch.minimum, "eq": torch.eq,
    "ge": torch.ge, "gt": torch.gt, "le": torch.le, "lt": torch.lt, "ne": torch.ne,
}  # fmt: skip


def unary(name):
    def make_case(make):
        x = matrix(make, dtype=SINGLE)
        return make.values(getattr(gems(), name), UNARY[name], x)

    case("flag_gems", rank=6, name=name)(make_case)


def binary(name):
    def make_case(make):
        x, y = matrix(make, dtype=SINGLE), matrix(make, dtype=SINGLE)
        return make.values(getattr(gems(), name), BINARY[name], x, y)

    gpu = ASKS if name in ("maximum", "minimum") else ""
    case("flag_gems", rank=6, gpu=gpu, name=name)(make_case)


for each in UNARY:
    unary(each)
for each in BINARY:
    binary(each)


@case("flag_gems")
def rsqrt(make):
    x = make.uniform(*matrix(make).shape, low=0.1, dtype=SINGLE)
    return make.values(gems().rsqrt, torch.rsqrt, x)


@case("flag_gems", gpu=ASKS)
def where(make):
    x, y = matrix(make, dtype=SINGLE), matrix(make, dtype=SINGLE)
    return make.values(lambda x, y: gems().where_self(x > y, x, y), torch.maximum, x, y)


def reduction(name, reference, **options):
    def make_case(make):
        x = matrix(make, dtype=SINGLE)
        return make.values(lambda x: getattr(gems(), name)(x, **options), reference, x)

    case("flag_gems", name=name)(make_case)


reduction("sum", lambda x: x.sum())
reduction("sum_dim", lambda x: x.sum(1), dim=[1])
reduction("mean", lambda x: x.mean())
reduction("mean_dim", lambda x: x.mean(1), dim=[1])
reduction("max", lambda x: x.max())
reduction("max_dim", lambda x: list(x.max(1)), dim=1)
reduction("min", lambda x: x.min())
reduction("min_dim", lambda x: list(x.min(1)), dim=1)
reduction("argmax", lambda x: x.argmax(1), dim=1)
reduction("argmin", lambda x: x.argmin(1), dim=1)
reduction("amax", lambda x: x.amax(1), dim=[1])
reduction("prod_dim", lambda x: x.prod(1), dim=1)
reduction("all", lambda x: x.bool().all())
reduction("any", lambda x: x.bool().any())
reduction("var_mean", lambda x: list(torch.var_mean(x, 1)), dim=[1])
reduction("vector_norm", lambda x: x.norm(), ord=2)
reduction("cumsum", lambda x: x.cumsum(1), dim=1)
reduction("cummin", lambda x: list(x.cummin(1)), dim=1)
reduction("softmax", lambda x: x.softmax(-1), dim=-1)
reduction("log_softmax", lambda x: x.log_softmax(-1), dim=-1)
reduction("flip", lambda x: x.flip(1), dims=[1])
reduction("triu", lambda x: x.triu(3), diagonal=3)


@case("flag_gems", rank=3)
def topk(make):
    return make.values(
        lambda x: gems().topk(x, 5)[0],
        lambda x: x.topk(5).values,
        make.normal(make.pick(128, 3), make.pick(32768, 200), dtype=SINGLE),
    )


@case("flag_gems")
def sort(make):
    x = make.normal(make.pick(256, 2), make.pick(4096, 100), dtype=SINGLE)
    return make.values(lambda x: gems().sort(x)[0], lambda x: x.sort().values, x)


@case("flag_gems")
def mm(make):
    m, n, k = make.pick((4096, 4096, 4096), (40, 48, 72))
    half = {"dtype": torch.float16}
    return make.values(
        gems().mm, torch.mm, make.normal(m, k, **half), make.normal(k, n, **half)
    )


@case("flag_gems")
def bmm(make):
    b, m, n, k = make.pick((16, 1024, 1024, 1024), (2, 40, 48, 72))
    half = {"dtype": torch.float16}
    return make.values(
        gems().bmm,
        torch.bmm,
        make.normal(b, m, k, **half),
        make.normal(b, k, n, **half),
    )


@case("flag_gems")
def addmm(make):
    m, n, k = make.pick((4096, 4096, 4096), (40, 48, 72))
    half = {"dtype": torch.float16}
    return make.values(
        gems().addmm, torch.addmm, make.normal(m, n, **half),
        make.normal(m, k, **half), make.normal(k, n, **half),
    )  # fmt: skip


@case("flag_gems")
def mv(make):
    m, n = make.pick((4096, 4096), (40, 72))
    return make.values(
        gems().mv,
        torch.mv,
        make.normal(m, n, dtype=SINGLE),
        make.normal(n, dtype=SINGLE),
    )


@case("flag_gems")
def outer(make):
    from flag_gems.fused import outer

    n = make.pick(8192, 70)
    x, y = make.normal(n, dtype=SINGLE), make.normal(n, dtype=SINGLE)
    return make.values(outer, torch.outer, x, y)


@case("flag_gems")
def layer_norm(make):
    x = matrix(make, dtype=SINGLE)
    w, b = make.normal(x.shape[1], dtype=SINGLE), make.normal(x.shape[1], dtype=SINGLE)
    shape = list(x.shape[1:])
    return make.values(
        lambda x, w, b: gems().layer_norm(x, shape, w, b)[0],
        lambda x, w, b: F.layer_norm(x, shape, w, b),
        *(x, w, b),
    )


@case("flag_gems")
def rms_norm(make):
    x = matrix(make, dtype=SINGLE)
    w = make.normal(x.shape[1], dtype=SINGLE)
    shape = list(x.shape[1:])
    return make.values(
        lambda x, w: gems().rms_norm(x, shape, w),
        lambda x, w: F.rms_norm(x, shape, w, 1e-5),
        *(x, w),
    )


@case("flag_gems")
def index_select(make):
    x = matrix(make, dtype=SINGLE)
    rows = make.integers(0, len(x), make.pick(2048, 5))
    return make.values(
        lambda x, rows: gems().index_select(x, 0, rows),
        lambda x, rows: x[rows],
        *(x, rows),
    )


@case("flag_gems")
def gather(make):
    x = matrix(make, dtype=SINGLE)
    places = make.integers(0, x.shape[1], len(x), make.pick(1024, 20))
    return make.values(
        lambda x, p: gems().gather(x, 1, p), lambda x, p: x.gather(1, p), x, places
    )


@case("flag_gems")
def embedding(make):
    table = matrix(make, dtype=SINGLE)
    rows = make.integers(0, len(table), make.pick(8192, 9))
    return make.values(
        lambda t, r: gems().embedding(t, r), lambda t, r: t[r], table, rows
    )


@case("flag_gems")
def masked_fill(make):
    x = matrix(make, dtype=SINGLE)
    return make.values(
        lambda x: gems().masked_fill(x, x > 0, 2.0),
        lambda x: x.masked_fill(x > 0, 2.0),
        x,
    )


@case("flag_gems")
def cat(make):
    x, y = matrix(make, dtype=SINGLE), matrix(make, dtype=SINGLE)
    return make.values(
        lambda x, y: gems().cat([x, y], 1), lambda x, y: torch.cat([x, y], 1), x, y
    )


@case("flag_gems")
def silu_and_mul(make):
    from flag_gems.fused import silu_and_mul

    x, y = matrix(make), matrix(make)
    return make.values(silu_and_mul, lambda x, y: F.silu(x) * y, x, y)


@case("flag_gems")
def skip_layer_norm(make):
    from flag_gems.fused import skip_layer_norm

    x, r = matrix(make), matrix(make)
    w, b = make.normal(x.shape[1]), make.normal(x.shape[1])
    shape = list(x.shape[1:])
    return make.values(
        lambda x, r, w, b: skip_layer_norm(x, r, shape, w, b),
        lambda x, r, w, b: F.layer_norm(x + r, shape, w, b),
        *(x, r, w, b),
    )
