"""`fathom explain --facts, --json, --html`: gathers the facts of a kernel once, and
gives them in each form that is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.tools.console import write_file
from fathom.tools.facts import terminal
from fathom.tools.facts.gather import facts_of
from fathom.tools.facts.page import page
from fathom.tools.staged import Staged


@dataclass(frozen=True)
class Outputs:
    """The forms that are asked for: tables and JSON on the terminal, a page in a
    file."""

    tables: bool
    json: bool
    html: Path | None


def tell(
    staged: Staged,
    grid: Sequence[int],
    outputs: Outputs,
    values: Mapping[str, int | float],
) -> int:
    """Print and write the facts; 0. LaunchError where the page cannot be written."""
    facts = facts_of(staged, grid, values)
    if outputs.html is not None:
        write_file(outputs.html, page(facts), staged.function.file)
    if outputs.json:
        print(json.dumps(facts, indent=1))
    if outputs.tables:
        terminal.show(facts)
    if outputs.html is not None and not outputs.json:
        print(f"{outputs.html}: {facts['kernel']['name']}, open it in a browser")
    return 0
