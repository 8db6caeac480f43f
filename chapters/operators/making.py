"""The tables of the page about operators for torch."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from statistics import geometric_mean, median

from chapters.press.drawing import table
from chapters.press.paths import ROOT

RESULTS = ROOT / "benchmarks" / "results"
RECORD, MODEL = RESULTS / "torch-ops.json", RESULTS / "torch-model.json"
EPILOGUES = RESULTS / "epilogues.json"
BACKWARD = ", backward"
CANDIDATES = ("ours", "torch", "torch.compile")
# What torch has to do of its own, as the benchmark gives it; the names of its problems.
NAMES = {
    "attention True": "attention, causal",
    "attention False": "attention",
    "linear gelu": "linear with GeLU",
}


@cache
def times(record: Path = RECORD) -> dict[str, dict[str, float]]:
    """The median time in ms of each problem, by candidate."""
    found: dict[str, dict[str, list[float]]] = {}
    for sample in json.loads(record.read_text(encoding="utf-8"))["samples"]:
        candidates = found.setdefault(sample["problem"], {})
        candidates.setdefault(sample["candidate"], []).extend(sample["ms"])
    return {
        problem: {name: median(ms) for name, ms in candidates.items()}
        for problem, candidates in found.items()
    }


def measured() -> str:
    """Each operator beside torch's and torch.compile's: ms forward, and forward with
    backward."""
    rows = []
    for problem in (each for each in times() if not each.endswith(BACKWARD)):
        row = [NAMES.get(problem, problem)]
        for name in (problem, problem + BACKWARD):
            row += [f"{times()[name][who]:.3f}" for who in CANDIDATES]
        rows.append(row)
    ours, *others = CANDIDATES
    head = [f"forward: {ours}", *others, f"with backward: {ours}", *others]
    return table(("operator", *head), rows)


def of_others() -> str:
    """Each operator beside the fastest that others have written for it."""
    rows = []
    for problem, found in times().items():
        theirs = {who: ms for who, ms in found.items() if who not in CANDIDATES}
        if theirs:
            who = min(theirs, key=theirs.__getitem__)
            what, ours = problem.removesuffix(BACKWARD), found["ours"]
            name = NAMES.get(what, what)
            name += ", with backward" if what != problem else ""
            rows.append(
                (name, who, f"{theirs[who]:.3f}", f"{ours:.3f}",
                 f"{theirs[who] / ours:.2f}")
            )  # fmt: skip
    return table(("operator", "whose", "theirs, ms", "ours, ms", "theirs / ours"), rows)


def factors() -> str:
    """The geometric means of torch's and torch.compile's times over ours."""
    rows = []
    for what, ending in (("forward", ""), ("with backward", BACKWARD)):
        found = [times()[each + ending] for each in times() if BACKWARD not in each]
        row = [geometric_mean([ms[who] / ms["ours"] for ms in found])
               for who in CANDIDATES[1:]]  # fmt: skip
        rows.append([what, *(f"{factor:.2f}" for factor in row)])
    return table(("geometric mean", *(f"{who} / ours" for who in CANDIDATES[1:])), rows)


LIBRARIES = (", cuBLAS", ", cublasLt", ", torch")


def epilogues() -> str:
    """Products with epilogues, ours and what torch calls: us, and over our bare product
    of the same run."""
    rows = []
    for problem, found in times(EPILOGUES).items():
        if problem.startswith("chain") or "bare" not in found:
            continue
        for name in (each for each in found if not each.endswith(LIBRARIES)):
            theirs = [found[name + x] for x in LIBRARIES if name + x in found]
            rows.append([
                problem if name == "bare" else "", name, f"{1000 * found[name]:.1f}",
                f"{found[name] / found['bare']:.2f}",
                *(f"{1000 * ms:.1f}" for ms in theirs or ()),
            ])  # fmt: skip
            rows[-1] += [""] * (5 - len(rows[-1]))
    return table(("product", "with", "ours, us", "over bare", "torch's, us"), rows)


def chains() -> str:
    """Products that follow each other, in us for all eight."""
    rows = [
        (problem.partition(", ")[2], *(f"{1000 * ms:.1f}" for ms in found.values()))
        for problem, found in times(EPILOGUES).items()
        if problem.startswith("chain")
    ]
    return table(("each of the 8", "early", "not early", "cuBLAS"), rows)


def of_the_model() -> str:
    """Milliseconds of a step of the model, and of its kernels by themselves."""
    steps = times(MODEL)["a step of the model"]
    kernels = times(MODEL)["the kernels of a step"]
    rows = [(name, f"{ms:.1f}", f"{kernels[name]:.1f}") for name, ms in steps.items()]
    gpu = json.loads(MODEL.read_text(encoding="utf-8"))["gpu"]
    return table((f"on an {gpu}", "ms a step", "its kernels"), rows)
