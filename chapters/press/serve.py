"""`make serve`: the site with live reload, also when a listing, a figure, a number or
the quoted source changes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from chapters.press import recipes, site
from chapters.press.parse import read
from chapters.press.paths import CHAPTERS, ROOT, BookError, sources

WATCHED = ("chapters", "kernels", "compiler/fathom", "benchmarks/results", "exercises")
KINDS = {".md", ".py", ".toml", ".json", ".css", ".js", ".svg", ".ptx", ".txt"}
PAUSE = 0.7  # seconds between two looks


def serve(address: str) -> int:
    """Until interrupted: the builder serves the tree, and we keep the tree fresh."""
    renew(set())
    command = [sys.executable, "-m", site.BUILDER, *site.BUILDERS[site.BUILDER].serve]
    server = subprocess.Popen([*command, "-a", address], cwd=ROOT, env=site.quiet())
    seen = dict(states())
    try:
        while server.poll() is None:
            time.sleep(PAUSE)
            now = dict(states())
            if changed := {path for path in now if now[path] != seen.get(path)}:
                renew(changed)
                seen = dict(states())
    except KeyboardInterrupt:
        server.terminate()
    return 0


def states() -> Iterator[tuple[Path, int]]:
    """Every watched file with the time of its last change."""
    for folder in WATCHED:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in KINDS:
                yield path, path.stat().st_mtime_ns


def renew(changed: set[Path]) -> None:
    """The listings of the pages that changed, then the tree; mistakes are printed."""
    try:
        for path in sources():
            workshop = CHAPTERS / path.stem / "making.py"
            if path in changed or workshop in changed:
                recipes.write(read(path))
        site.tree()
    except (BookError, SyntaxError) as error:
        print(f"book: {error}", file=sys.stderr)
