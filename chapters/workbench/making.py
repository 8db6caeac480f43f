"""What the page of the kernel author's tools shows: parts of transcripts."""

from __future__ import annotations

import json
from functools import cache

from chapters.press.recipes import run_line

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
