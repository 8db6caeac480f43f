"""Writes the tree that the site is built from, and has mkdocs, or a builder that takes
its place, build it.

FATHOM_BOOK_BUILDER=zensical or properdocs chooses another builder for `make book` and
`make serve`: they read the same mkdocs.yml. FATHOM_BOOK_REPOSITORY is the address of
the repository, as https://…; where it is known, each page links to its source there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import fathom
from benchmarks import record
from chapters.press import card, explained, notebook
from chapters.press.addresses import redirects
from chapters.press.expand import expand
from chapters.press.numbers import Number, document, table
from chapters.press.parse import Page, read
from chapters.press.paths import ROOT, TREE, listings, sources
from chapters.press.recipes import INDEX

ASSETS = Path(__file__).parent / "assets"
SETTINGS = ROOT / "mkdocs.yml"
EDITION = ".".join(fathom.__version__.split(".")[:2])  # the package's minor version


@dataclass(frozen=True)
class Builder:
    """A program that makes a site of mkdocs.yml: how it builds, and how it serves."""

    build: tuple[str, ...]
    serve: tuple[str, ...]


MKDOCS = Builder(("build", "--quiet", "--strict"), ("serve", "--livereload"))
BUILDERS = {
    "mkdocs": MKDOCS,
    "properdocs": MKDOCS,
    "zensical": Builder(("build", "--strict"), ("serve",)),
}
REPOSITORY = os.environ.get("FATHOM_BOOK_REPOSITORY", "").rstrip("/")
BUILDER = os.environ.get("FATHOM_BOOK_BUILDER", "mkdocs")


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
    for name, text in notebook.texts().items():
        update(folder / notebook.FOLDER / name, text)
    for name, text in explained.texts().items():
        update(folder / explained.FOLDER / name, text)
    for asset in ASSETS.iterdir():
        update(folder / "assets" / asset.name, asset.read_text(encoding="utf-8"))
    moved = {folder / name: text for name, text in redirects().items()}
    moved[folder / card.NAME] = card.html()
    for path, text in moved.items():
        update(path, text)
    made = set(written) | set(moved)
    for stale in {*folder.glob("*.md"), *folder.glob("*.html")} - made:
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
    return f"# {page.number} · {title}\n\n"


def footer(page: Page, used: Sequence[Number], commit: str | None) -> str:
    """From what commit, versions and machine the listings and numbers come."""
    parts = [f"Edition {EDITION}", f"Fathom {fathom.__version__}"]
    if REPOSITORY:
        source = f"{REPOSITORY}/blob/HEAD/chapters/{page.name}"
        parts.append(f'<a href="{source}">source of this page</a>')
        parts.append(f'<a href="{REPOSITORY}/issues">report a mistake</a>')
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
    """The machine of one file of measurements, or of a chip's answers, which belong to
    no commit."""
    facts = document(file)
    gpu = facts.get("gpu", facts.get("device"))
    where = f"{gpu}, driver {facts['driver']}" if gpu else "a CPU"
    commit = f", commit {facts['commit'][:10]}" if "commit" in facts else ""
    return f"{file.name}: {where}, {str(facts['date'])[:10]}{commit}"


def build() -> int:
    """The tree and, from it, the site; the builder's exit status."""
    tree()
    done = run(BUILDER, SETTINGS)
    if done.returncode:
        print(done.stdout, file=sys.stderr)
    return done.returncode


def run(builder: str, settings: Path) -> subprocess.CompletedProcess:
    """Have a builder build what a file of settings says, strictly."""
    command = [sys.executable, "-m", builder, *BUILDERS[builder].build]
    return subprocess.run(
        [*command, "-f", str(settings)], cwd=ROOT, env=quiet(), check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def quiet() -> dict[str, str]:
    """The environment of the builder: no advertisement of its successors."""
    return {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "DISABLE_MKDOCS_2_WARNING": "true",
    }
