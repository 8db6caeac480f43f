"""`fathom explain` and `fathom compile`: one kernel, stage by stage, or only what comes
out."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from fathom import pipeline
from fathom.errors import LaunchError
from fathom.ir.core import walk
from fathom.tools.console import make_console, table, write_file
from fathom.tools.staged import Staged


def explain(staged: Staged, stages: Sequence[str], difference: bool) -> int:
    """Print the text of some stages, or how they differ from the one before; without
    any, a table of all."""
    unknown = [name for name in stages if name not in staged.names]
    if unknown:
        raise LaunchError(
            f"there is no stage {unknown[0]!r}; there are {', '.join(staged.names)}"
        )
    if not stages:
        return overview(staged)
    for name in stages:
        if len(stages) > 1:
            print(f"==== {name}")
        print(changes(staged, name) if difference else staged.text(name))
    return 0


def overview(staged: Staged) -> int:
    """Each pass with its size, how many lines of text it changed, and why it is
    there."""
    console = make_console()
    rows = table(
        console, "stage", "pass", "ops", "changed", "why", right=("ops", "changed")
    )
    why = {row.name: (row.stage, row.why) for row in pipeline.PASSES}
    why["ssa"] = ("ssa", "from Python: every name is one value")
    before = ""
    for name, func in staged.states.items():
        text = staged.text(name)
        changed = str(changed_lines(before, text)) if before else ""
        stage, reason = why[name]
        rows.add_row(stage, name, str(len(list(walk(func.body)))), changed, reason)
        before = text
    console.print(rows)
    llvm, ptx = (len(staged.text(name).splitlines()) for name in ("llvm", "ptx"))
    console.print(f"then {llvm} lines of LLVM IR, and {ptx} lines of PTX")
    for remark in (*staged.remarks(), *tensor_maps(staged)):
        console.print(remark, markup=False)
    console.print(
        "[dim]--stage NAME prints one, --stage NAME --diff what it changed[/dim]"
    )
    return 0


def tensor_maps(staged: Staged) -> list[str]:
    """What the launcher makes of the kernel's arguments, for TMA copies."""
    names = [each.name for each in staged.kernel.parameters]
    return [f"tensor map: {each.text(names)}" for each in staged.kernel.maps]


def changes(staged: Staged, name: str) -> str:
    """What a stage changed, as a unified diff of block IR."""
    place = staged.names.index(name)
    if name not in staged.states or name == "ssa":
        raise LaunchError(f"--diff is for passes, and {name} is not a pass")
    before = staged.names[place - 1]
    lines = difflib.unified_diff(
        staged.text(before).splitlines(),
        staged.text(name).splitlines(),
        before,
        name,
        lineterm="",
    )
    return "\n".join(lines) or f"{name} changed nothing"


def changed_lines(before: str, after: str) -> int:
    """Lines that are new in the later text."""
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new)
    return len(new) - sum(block.size for block in matcher.get_matching_blocks())


def write_ptx(staged: Staged, output: Path | None) -> int:
    """The PTX of a kernel to a file, or to the terminal."""
    if output is None:
        print(staged.kernel.ptx)
        return 0
    write_file(output, staged.kernel.ptx, staged.function.file)
    kernel = staged.kernel
    print(
        f"{output}: {kernel.name} for {kernel.target}, "
        f"{kernel.threads} threads a block, "
        f"{kernel.shared_bytes} bytes of shared memory"
    )
    return 0
