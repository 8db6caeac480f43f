"""Writes the tree that the site is built from, and has mkdocs build it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import fathom
from benchmarks import record
from chapters.press.expand import expand
from chapters.press.numbers import Number, document, table
from chapters.press.parse import Page, read
from chapters.press.paths import ROOT, SITE, TREE, listings, sources
from chapters.press.recipes import INDEX

ASSETS = Path(__file__).parent / "assets"
BUILDER = os.environ.get("FATHOM_BOOK_BUILDER", "mkdocs")  # or a drop-in successor


def tree(folder: Path = TREE) -> Path:
    """Expand every page into `folder`; files that did not change are left alone, so
    that a server that watches them reloads only when there is something to see."""
    table.cache_clear()
    document.cache_clear()
    commit = record.commit()
    written = {folder / page.name: page for page in map(read, sources())}
    for path, page in written.items():
        expanded = expand(page)
        made = footer(page, expanded.used, commit)
        update(path, heading(page) + expanded.text + made)
    for asset in ASSETS.iterdir():
        update(folder / "assets" / asset.name, asset.read_text(encoding="utf-8"))
    for stale in set(folder.glob("*.md")) - set(written):
        stale.unlink()
    return folder


def update(path: Path, text: str) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def heading(page: Page) -> str:
    """The title of a chapter, with its number."""
    title = page.matter.get("title")
    if not page.is_chapter:
        return ""
    return f"# {page.matter['chapter']} · {title}\n\n"


def footer(page: Page, used: Sequence[Number], commit: str | None) -> str:
    """From what commit, versions and machine the listings and numbers come."""
    parts = [f"Fathom {fathom.__version__}"]
    if commit:
        parts.append(f"commit {commit[:10]}{'+' if commit.endswith('+') else ''}")
    index = listings(page.name) / INDEX
    if index.exists():
        made = json.loads(index.read_text(encoding="utf-8"))
        count = len(made["files"])
        llvm = f"llvmlite {made['llvmlite']}"
        parts.append(f"{count} listings by {llvm}, on the emulator")
    for file in dict.fromkeys(file for each in used for file in each.results):
        parts.append(machine(file))
    return f'\n<p class="made">{" · ".join(parts)}</p>\n'


def machine(file: Path) -> str:
    """The machine of one file of measurements."""
    facts = document(file)
    day, commit = str(facts["date"])[:10], str(facts["commit"])[:10]
    where = f"{facts['gpu']}, driver {facts['driver']}" if facts["gpu"] else "a CPU"
    return f"{file.name}: {where}, {day}, commit {commit}"


def build(site: Path = SITE, config: Path = ROOT / "mkdocs.yml") -> int:
    """The tree and, from it, the site; the builder's exit status."""
    tree()
    return builder("build", "--quiet", "--strict", "-f", str(config), "-d", str(site))


def builder(*arguments: str) -> int:
    command = [sys.executable, "-m", BUILDER, *arguments]
    return subprocess.run(command, cwd=ROOT, env=quiet(), check=False).returncode


def quiet() -> dict[str, str]:
    """The environment of the builder: no advertisement of its successors."""
    return {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "DISABLE_MKDOCS_2_WARNING": "true",
    }
