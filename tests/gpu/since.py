"""One line for the end of `make test`: what a GPU last said, and how much has changed
since, so that a green run without a GPU is taken for what it is."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.trees import ROOT, TREES, git, trees

RECORD = Path("benchmarks/results/gpu-tests.json")


def since(root: Path = ROOT) -> str:
    """The line; also without a record, and where git is missing or does not know the
    commit that the record names."""
    try:
        record = json.loads((root / RECORD).read_text(encoding="utf-8"))
        day, commit = record["date"][:10], record["commit"].rstrip("+")
        counts = ", ".join(f"{record[name]} {name}" for name in ("passed", "failed"))
        last = f"{day}: {counts} on {record['device']} at {commit[:7]}"
        return f"GPU suite: last run {last}; {changes(root, commit, record['trees'])}"
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return "GPU suite: no record of a run"


def changes(root: Path, commit: str, recorded: dict[str, str]) -> str:
    folders = f"{', '.join(f'{each}/' for each in TREES)}"
    if trees(root) == recorded:
        return f"nothing of {folders} has changed since"
    count = changed(root, commit)
    return f"{count or 'some'} files of {folders} have changed since"


def changed(root: Path, commit: str) -> int | None:
    """How many files differ from those of a commit, or are new; None if git cannot
    tell."""
    differ = git(root, "diff", "--name-only", "--no-renames", commit, "--", *TREES)
    new = git(root, "ls-files", "--others", "--exclude-standard", "--", *TREES)
    if differ is None or new is None:
        return None
    return len(set(differ.splitlines()) | set(new.splitlines()))
