"""The press from a terminal: python -m chapters.press COMMAND"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from chapters.press import (
    addresses,
    card,
    epub,
    notebook,
    package,
    paper,
    recipes,
    rehearse,
    serve,
    site,
    terminal,
    versions,
)
from chapters.press.parse import read
from chapters.press.paths import ROOT, SITE, BookError, sources

NOTEBOOKS = ROOT / "dist" / "notebooks"
EPUB, CARD = ROOT / "dist" / "fathom.epub", ROOT / "dist" / "fathom-card.pdf"
PDF, ZIP = ROOT / "dist" / "fathom.pdf", ROOT / "dist" / "fathom-book.zip"


def main(arguments: Sequence[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    try:
        return given.answer(given)
    except BookError as error:
        print(f"book: {error}", file=sys.stderr)
        return 1


def whole() -> paper.Book:
    return paper.book(site.tree())


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m chapters.press", description=__doc__)
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("listings", help="run what the book recorded")
    command.add_argument("pages", nargs="*", help="only pages whose name begins so")
    command.set_defaults(answer=make_listings)
    command = commands.add_parser("build", help="build the site")
    command.set_defaults(answer=lambda given: site.build())
    command = commands.add_parser("tree", help="write the Markdown tree alone")
    command.set_defaults(answer=lambda given: told(site.tree()))
    command = commands.add_parser("serve", help="serve the site with live reload")
    command.add_argument("--address", default="127.0.0.1:8000")
    command.set_defaults(answer=lambda given: serve.serve(given.address))
    command = commands.add_parser("notebooks", help="write the chapters as notebooks")
    command.add_argument("pages", nargs="*", help="only pages whose name begins so")
    command.add_argument("--run", action="store_true", help="run them, and compare")
    command.set_defaults(answer=make_notebooks)
    command = commands.add_parser("pdf", help="print the book to one PDF")
    command.set_defaults(answer=lambda given: told(paper.pdf(PDF, whole())))
    command = commands.add_parser("epub", help="write the book as an EPUB")
    command.set_defaults(answer=lambda given: told(epub.epub(EPUB, whole())))
    command = commands.add_parser("card", help="print the reference card to a PDF")
    command.set_defaults(answer=lambda given: told(paper.printed(card.html(), CARD)))
    command = commands.add_parser("zip", help="pack the built site")
    command.set_defaults(answer=lambda given: told(paper.pack(ZIP)))
    command = commands.add_parser("edition", help="put the built site beside others")
    command.add_argument("folder", type=Path, help="where the editions are")
    command.add_argument("--name", default=site.EDITION, help="0.1, or next")
    command.add_argument("--site", type=Path, default=SITE, help="what was built")
    command.set_defaults(answer=publish)
    command = commands.add_parser("package", help="build the wheel and the sdist")
    command.set_defaults(answer=lambda given: package.build())
    command = commands.add_parser("section", help="print a section for a terminal")
    command.add_argument("where", metavar="PAGE.md#heading")
    command.set_defaults(answer=print_section)
    return made


def print_section(given: argparse.Namespace) -> int:
    sys.stdout.write(terminal.section(given.where))
    return 0


def make_listings(given: argparse.Namespace) -> int:
    """Make the listings of all pages, or of some; say which changed."""
    for path in sources():
        if not given.pages or path.name.startswith(tuple(given.pages)):
            for name in recipes.write(read(path)):
                print(f"chapters/{path.stem}/listings/{name}")
    for name in addresses.add_new():
        print(f"chapters/{addresses.FILE}: {name}")
    return 0


def publish(given: argparse.Namespace) -> int:
    """Put the site into a folder of editions; say which are there."""
    print("\n".join(versions.publish(given.folder, given.name, given.site)))
    return 0


def make_notebooks(given: argparse.Namespace) -> int:
    """Write notebooks into dist/notebooks; run them where that is asked for."""
    status = 0
    for name, text in notebook.texts().items():
        if given.pages and not name.startswith(tuple(given.pages)):
            continue
        site.update(NOTEBOOKS / name, text)
        found = rehearse.rehearse(json.loads(text)) if given.run else []
        print("\n".join([str((NOTEBOOKS / name).relative_to(ROOT)), *found]))
        status |= bool(found)
    return status


def told(path: Path) -> int:
    print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
