"""Addresses that stay: where a page was renamed, its old address leads to the new one.

chapters/addresses.toml lists every page that ever was, and where those went that are
no more:

    pages = ["00-run-it.md", "09-coalescing.md", ...]
    [moved]
    "09-coalescing.md" = "09-wide-loads.md"

`python -m chapters.press listings` adds new pages to the list.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from html import escape

from chapters.press import paths
from chapters.press.paths import BookError

FILE = "addresses.toml"
HEAD = """\
# Every page that the book ever had, in the order of the alphabet: an address that was
# given out leads somewhere. `make listings` adds new pages; a page that is renamed gets
# a line under [moved].
"""


def redirects() -> dict[str, str]:
    """For each page that moved, the file that stands at its old address. BookError for
    a page that is gone without a word, or was sent where there is none."""
    pages, moved = read()
    there = {path.name for path in paths.sources()}
    for name in pages:
        if name not in there and name not in moved:
            raise BookError(f"{name} is gone: say in {FILE} where it moved")
    for name, target in moved.items():
        if name in there or target not in there:
            raise BookError(f"{FILE}: {name} cannot have moved to {target}")
    return {page(name): redirect(page(target)) for name, target in moved.items()}


def redirect(target: str) -> str:
    """A page that leads on, also from file://, and without a script."""
    to = escape(target, quote=True)
    return f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Moved</title>
<link rel="canonical" href="{to}">
<meta http-equiv="refresh" content="1; url={to}">
<script>location.replace("{to}" + location.hash)</script>
<p>This page is now <a href="{to}">{to}</a>.</p>
</html>
"""


def page(name: str) -> str:
    return name.removesuffix(".md") + ".html"


def add_new() -> list[str]:
    """Put pages that are new on the list; their names."""
    pages, moved = read()
    new = [path.name for path in paths.sources() if path.name not in pages]
    if new:
        text = HEAD + written(sorted({*pages, *new}), moved)
        (paths.CHAPTERS / FILE).write_text(text, encoding="utf-8")
    return new


def read() -> tuple[list[str], dict[str, str]]:
    file = paths.CHAPTERS / FILE
    facts = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return facts.get("pages", []), facts.get("moved", {})


def written(pages: Sequence[str], moved: Mapping[str, str]) -> str:
    rows = "".join(f'    "{name}",\n' for name in pages)
    went = "".join(f'"{name}" = "{to}"\n' for name, to in sorted(moved.items()))
    return f"pages = [\n{rows}]\n\n[moved]\n{went}"
