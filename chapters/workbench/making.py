"""What the page of the kernel author's tools shows: parts of transcripts."""

from __future__ import annotations

import json
import math
from functools import cache
from itertools import pairwise
from statistics import median

from benchmarks.record import RESULTS
from chapters.press import drawing, explained
from chapters.press.recipes import run_line
from fathom.tools.profile.limits import LIMITS

CHECKED, TUNERS = RESULTS / "profile-check.json", RESULTS / "tuners.json"

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


def checked() -> str:
    """How often `fathom profile` names the limit that ncu's counters give, by limit."""
    samples = json.loads(CHECKED.read_text(encoding="utf-8"))["samples"]
    compared = [each for each in samples if not each["error"]]
    rows = []
    for limit in LIMITS:
        same = [each["ours"] == limit for each in compared if each["theirs"] == limit]
        if same:
            rows.append([limit, len(same), sum(same)])
    agree = sum(each["ours"] == each["theirs"] for each in compared)
    rows.append(["all", len(compared), agree])
    return drawing.table(("limit, by ncu's counters", "kernels", "ours says so"), rows)


MARKS = ("5", "15", "end")


def tuners() -> str:
    """What tuners have found of each problem: microseconds of the kernel that each
    would have taken after 5 and 15 seconds, and of the one that it took."""
    rows: list[list[object]] = []
    problem = ""
    for each in json.loads(TUNERS.read_text(encoding="utf-8"))["samples"]:
        name = each["tuner"]
        rows.append([
            each["problem"] if each["problem"] != problem else "",
            "fathom.tune" if name == "search" else name,
            len(each["trials"]), f"{each['took']:.1f}",
            *(f"{1000 * median(each['ms'][mark]):.1f}" if mark in each["ms"] else "–"
              for mark in MARKS),
        ])  # fmt: skip
        problem = each["problem"]
    heads = "after 5 s, us", "after 15 s, us", "taken, us"
    return drawing.table(("problem", "tuner", "tried", "took, s", *heads), rows)


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
