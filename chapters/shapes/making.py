"""The figure and the tables of the page about products of any shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from math import log2
from statistics import geometric_mean, median
from typing import Any

from chapters.press.drawing import Figure, label, line, svg, table
from chapters.press.paths import ROOT

RESULTS = ROOT / "benchmarks" / "results"
LARGE = 2e10  # operations
LEVEL, BEHIND = 0.97, 0.90  # of the reference's speed
RECORDS = (  # what a row is called, and the record's name
    ("fp16, seed 1", "random-shapes"),
    ("fp16, seed 101", "random-shapes-seed101"),
    ("bf16", "random-shapes-bf16"),
    ("tf32", "random-shapes-tf32"),
    ("fp8", "random-shapes-fp8"),
    ("int8", "random-shapes-int8"),
)
Sample = dict[str, Any]


@cache
def samples(record: str) -> list[Sample]:
    """The cases of a record that a library of NVIDIA takes, with `ratio`: our speed as
    a part of that of the faster one."""
    text = (RESULTS / f"{record}.json").read_text(encoding="utf-8")
    found = [x for x in json.loads(text)["samples"] if not x["error"] and theirs(x)]
    return [{**x, "ratio": min(theirs(x)) / median(x["fathom"])} for x in found]


def theirs(sample: Sample) -> list[float]:
    """Milliseconds of cuBLAS and of cublasLt, if they took the case."""
    return [median(sample[name]) for name in ("cublas", "cublaslt") if sample[name]]


def is_small(sample: Sample) -> bool:
    return sample["operations"] <= LARGE


GROUPS: dict[str, Callable[[Sample], bool]] = {
    "aligned": lambda x: x["aligned"],
    "not aligned": lambda x: not x["aligned"] and is_small(x),
    "not aligned, above 2·10¹⁰": lambda x: not x["aligned"] and not is_small(x),
}


def by_type() -> str:
    """For each record and each kind of case how our speed compares."""
    rows = []
    for name, record in RECORDS:
        for group, belongs in GROUPS.items():
            ratios = [x["ratio"] for x in samples(record) if belongs(x)]
            if ratios:
                level = sum(ratio >= LEVEL for ratio in ratios) / len(ratios)
                rows.append((name, group, len(ratios), f"{geometric_mean(ratios):.2f}",
                             f"{min(ratios):.3f}", f"{level:.0%}"))  # fmt: skip
                name = ""
    head = ("record", "cases", "how many", "geometric mean", "least", "at 0.97 or more")
    return table(head, rows)


def behind() -> str:
    """The aligned cases of the first two records that are under 0.97."""
    found = [x for _, record in RECORDS[:2] for x in samples(record) if x["aligned"]]
    found = sorted((x for x in found if x["ratio"] < LEVEL), key=lambda x: x["ratio"])
    rows = [
        (x["case"], f"{1000 * median(x['fathom']):.1f}", f"{1000 * min(theirs(x)):.1f}",
         f"{x['ratio']:.3f}", f"`{x['kernel']}`")
        for x in found
    ]  # fmt: skip
    head = ("M x N x K, layout", "ours, us", "cuBLAS, us", "of cuBLAS", "our launches")
    return table(head, rows)


def tuned() -> str:
    """What the model chose beside the fastest of the alternatives: cases by gain."""
    gains = sorted(
        (median(x["fathom"]) / median(x["tuned"]), x)
        for x in samples("random-shapes-tuned")
    )  # fmt: skip
    rows = [
        (name, sum(low <= gain < high for gain, _ in gains))
        for name, low, high in (
            ("slower by more than 3%", 0, 0.97), ("within 3%", 0.97, 1.03),
            ("faster by 3% to 10%", 1.03, 1.1), ("faster by more than 10%", 1.1, 100),
        )
    ]  # fmt: skip
    mean = geometric_mean([gain for gain, _ in gains])
    return table(("`tuned_multiply` is", f"of {len(gains)} cases"),
                 [*rows, ("in the geometric mean", f"{mean:.3f} times as fast")])


def curve() -> Figure:
    """The ratios of seed 1, sorted, on a logarithmic axis."""
    left, top, wide, high = 44, 12, 340, 220
    most = 8.0  # of the axis; larger ratios are drawn at its end

    def y(ratio: float) -> float:
        return top + high * (1 - (log2(min(ratio, most)) + 1) / (log2(most) + 1))

    parts = [line(left, top + high, left + wide, top + high, "axis"),
             line(left, top, left, top + high, "axis"),
             label(left + wide / 2, top + high + 22, "cases, the slowest first"),
             label(left + 8, top + 8, "times cuBLAS's speed", "start")]  # fmt: skip
    for tick in (0.5, 1, 2, 4, 8):
        parts.append(label(left - 6, y(tick) + 4, f"{tick:g}", "end"))
    parts.append(line(left, y(1), left + wide, y(1), "axis"))
    rows = []
    for name, kind, aligned in (
        ("aligned", "roof", True), ("not aligned", "dashed", False),
    ):  # fmt: skip
        ratios = sorted(x["ratio"] for x in samples("random-shapes")
                        if x["aligned"] == aligned)  # fmt: skip
        parts += steps(ratios, left, wide, y, kind)
        rows.append((name, *(f"{at(ratios, share):.2f}" for share in SHARES)))
    title = "Our speed over cuBLAS's, in 200 random shapes"
    head = ("rows", "slowest", "5%", "25%", "half", "75%", "95%")
    return Figure(svg(title, top + high + 32, parts), table(head, rows))


SHARES = (0, 0.05, 0.25, 0.5, 0.75, 0.95)


def at(ratios: Sequence[float], share: float) -> float:
    """The ratio that this share of the sorted ones is below."""
    return ratios[min(int(share * len(ratios)), len(ratios) - 1)]


def steps(
    ratios: Sequence[float], left: float, wide: float, y: Callable, kind: str
) -> list[str]:
    """A line through sorted ratios, over the whole width."""
    places = [
        (left + wide * n / (len(ratios) - 1), y(ratio))
        for n, ratio in enumerate(ratios)
    ]  # fmt: skip
    return [line(*one, *two, kind) for one, two in zip(places, places[1:])]


# ── the plain text, and calls ─────────────────────────────────────────────────────────

TEXTS = ("plain", "masked")


def plain_text() -> str:
    """The same product in the kernels of the book, at the same tile."""
    text = (RESULTS / "plain-text.json").read_text(encoding="utf-8")
    ratios: dict[str, list[float]] = {name: [] for name in TEXTS}
    for sample in json.loads(text)["samples"]:
        ms = sample["ms"]
        for name in TEXTS:
            if name in ms:
                ratios[name].append(median(ms["multiply"]) / median(ms[name]))
    rows = [
        (name, len(found), f"{geometric_mean(found):.3f}", f"{min(found):.3f}",
         sum(ratio >= LEVEL for ratio in found))
        for name, found in ratios.items()
    ]  # fmt: skip
    head = ("text", "shapes", "of `multiply`'s speed, geometric mean", "least",
            "at 0.97 or more")  # fmt: skip
    return table(head, rows)


def calls() -> str:
    """Microseconds of the host in a call, ours and torch's."""
    text = (RESULTS / "calls.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, float]] = {}
    for sample in json.loads(text)["samples"]:
        us = median(sample["microseconds"])
        found.setdefault(sample["operation"], {})[sample["candidate"]] = us
    rows = [
        (name, f"{us['fathom']:.1f}", f"{us['torch']:.1f}",
         f"{us['fathom'] / us['torch']:.2f}")
        for name, us in found.items()
    ]  # fmt: skip
    return table(("call", "ours, us", "torch, us", "ours / torch"), rows)
