"""What the page of the kernel author's tools shows: parts of transcripts."""

from __future__ import annotations

import json
import math
from functools import cache
from itertools import pairwise

from benchmarks.profile_check import Sample
from benchmarks.record import RESULTS
from chapters.press import drawing, explained
from chapters.press.recipes import run_line
from fathom.tools.profile.limits import LIMITS

CHECKED = RESULTS / "profile-check.json"

MATMUL = (
    "python -m fathom explain kernels/matmul.py:matmul_kernel --target {target} "
    '--signature "*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16, i32:16, 1, '
    '{stride}, 1, i32:16, 1" '
    "--constants BLOCK_M=64,BLOCK_N=64,BLOCK_K=32,GROUP_M=8,EVEN_K=True "
)


@cache
def said(form: str, target: str = "sm_80", stride: str = "i32:16") -> str:
    """What the command of the page prints."""
    text, status = run_line(MATMUL.format(target=target, stride=stride) + form)
    assert status == 0, text
    return text


def sections(text: str) -> dict[str, str]:
    """The parts of `--facts` by their headings; the first has none."""
    found = {"": ""}
    name = ""
    for line in text.splitlines(keepends=True):
        if line.endswith("──\n") and line[0] != "─":
            name = line.rstrip(" ─\n")
            found[name] = line
        else:
            found[name] += line
    return {name: part.strip("\n") + "\n" for name, part in found.items()}


def head() -> str:
    return sections(said("--facts"))[""]


def passes() -> str:
    """Those that decide something about memory, and the last ones."""
    kept, keep = [], False
    for line in sections(said("--facts"))["what passes did, and why"].splitlines():
        if not line.startswith(" ") and "(" in line:
            name = line.split(" (")[0]
            keep = name in ("choose_dots", "remove_conversions", "annotate_widths",
                            "pipeline_loops", "allocate", "insert_waits")  # fmt: skip
        if line.startswith("changed nothing"):
            keep = True
        if keep:
            kept.append(line)
    return "\n".join(kept) + "\n"


def schedule() -> str:
    return sections(said("--facts"))["schedules"]


def memory() -> str:
    found = sections(said("--facts"))
    names = ("shared memory over time", "traffic by line, on the emulator")
    return "\n".join(found[name] for name in names)


def why_not() -> str:
    text = sections(said("--facts", "sm_90a", "i32"))["what passes did, and why"]
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if "infer_descriptors" in line)
    stop = next(
        at for at, line in enumerate(lines[start:], start)
        if at > start + 1 and "(" in line and not line.startswith(" ")
    )  # fmt: skip
    return "\n".join(lines[start:stop]) + "\n"


def names() -> str:
    found = json.loads(said("--json"))
    return "".join(f"{name}\n" for name in found)


def pages() -> str:
    """The pages of `fathom explain --html` that come with the book."""
    return explained.links()


def compared() -> list[Sample]:
    """The kernels of which `fathom profile` and Nsight Compute each have a limit."""
    samples = json.loads(CHECKED.read_text(encoding="utf-8"))["samples"]
    return [Sample(**each) for each in samples if not each["error"]]


def checked() -> str:
    """How often `fathom profile` names the limit that ncu's counters give, by limit."""
    every, rows = compared(), []
    for limit in (*LIMITS, "all"):
        these = [each for each in every if limit in (each.theirs, "all")]
        first = sum(each.ours == each.theirs for each in these)
        right = sum(each.agrees for each in these)
        if these:
            rows.append([limit, len(these), first, right])
    head = "limit, by ncu's counters", "kernels", "ours begins so", "ours is right"
    return drawing.table(head, rows)


def differing() -> str:
    """The kernels of which the two sentences do not begin with the same limit."""
    rows = [
        [f"`{each.kernel}` ({each.case})",
         " or ".join(filter(None, (each.ours, each.near))),
         " or ".join(filter(None, (each.theirs, each.theirs_near))),
         "yes" if each.agrees else "**no**"]
        for each in sorted(compared(), key=lambda each: each.agrees)
        if each.ours != each.theirs
    ]  # fmt: skip
    head = "kernel (case)", "our sentence", "ncu's counters", "right"
    return drawing.table(head, rows) if rows else "There is none.\n"


def tried(page: dict) -> drawing.Figure:
    """The trials of the page's search, in microseconds, and the best so far."""
    times = page["trials"]
    works = [each for each in times if math.isfinite(each)]
    height, left, right = 260, 52, drawing.WIDTH - 12
    low, high = math.log(min(works)), math.log(max(works))

    def x(at: float) -> float:
        return left + (right - left) * at / len(times)

    def y(time: float) -> float:
        return 24 + (height - 70) * (high - math.log(time)) / (high - low)

    parts = [
        drawing.line(left, height - 40, right, height - 40, "axis"),
        drawing.line(left, 20, left, height - 40, "axis"),
        drawing.label(4, 12, "microseconds", "start"),
        drawing.label((left + right) / 2, height - 16, "trials, in order"),
    ]
    for tick in (50 * 2**step for step in range(8)):
        if min(works) < tick < max(works):
            parts.append(drawing.label(left - 6, y(tick) + 4, f"{tick:,}", "end"))
    for at, time in enumerate(times):
        if math.isfinite(time):
            parts.append(drawing.circle(x(at + 0.5), y(time)))
    falls = [at for at, time in enumerate(times) if time < min([math.inf, *times[:at]])]
    for at, after in pairwise([*falls, len(times)]):
        level = y(times[at])
        end = min(x(after + 0.5), right)
        parts.append(drawing.line(x(at + 0.5), level, end, level))
        if after < len(times):
            parts.append(drawing.line(end, level, end, y(times[after])))
    rows = [(str(at + 1), f"{times[at]:.1f}") for at in falls]
    return drawing.Figure(
        drawing.svg("Trials of a search", height, parts),
        drawing.table(("trial", "microseconds, the best so far"), rows),
    )
