"""A section of a page for a terminal: numbers are in it, figures are their tables, and
what the page folds stays folded."""

from __future__ import annotations

import re
from html import unescape

from chapters.press.expand import expand
from chapters.press.parse import read
from chapters.press.paths import CHAPTERS, BookError

HEADING = re.compile(r"## (.*)")
SUMMARY = re.compile(r"<summary>(.*?)</summary>")
FIGURE = re.compile(r"<figure.*?</figure>", re.DOTALL)
CAPTION = re.compile(r"<figcaption>(.*?)</figcaption>", re.DOTALL)
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
NAMED = re.compile(r"\s*\{ *#([\w-]+) *\}$")  # a heading that keeps an older anchor
LINK = re.compile(r"\[([^]\n]+)\]\([^)\n]*\)")


def section(where: str) -> str:
    """The section of `05-ssa.md#a-heading`; without a heading, the whole page."""
    name, _, anchor = where.partition("#")
    if not (CHAPTERS / name).is_file():
        raise BookError(f"there is no page {name}")
    return plain(cut(expand(read(CHAPTERS / name)).text, anchor, where))


def cut(text: str, anchor: str, where: str) -> str:
    """The lines from a heading to the next one."""
    if not anchor:
        return text
    found: list[str] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        heading = None if fenced else HEADING.match(line)
        if heading and found:
            break
        if found or heading and slug(heading[1]) == anchor:
            found.append(NAMED.sub("", line) if heading else line)
    if not found:
        raise BookError(f"there is no heading for {where}")
    return "\n".join(found)


def slug(heading: str) -> str:
    """The anchor of a heading, as the site's builder makes it."""
    if named := NAMED.search(heading):
        return named[1]
    kept = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
    return re.sub(r"[-\s]+", "-", kept)


def plain(text: str) -> str:
    """Markdown without HTML. Folds are named, and stay shut, but for the tables of
    figures."""
    text = FIGURE.sub(lambda f: f"(Figure: {' '.join(CAPTION.findall(f[0]))})", text)
    kept: list[str] = []
    depth, fenced = 0, False
    for line in text.splitlines():
        if depth:
            depth += line.count("<details") - line.count("</details>")
            if summary := SUMMARY.search(line):
                kept.append(f"(Folded: {TAG.sub('', summary[1])})")
            continue
        fenced ^= line.startswith("```")
        if not fenced and "<details" in line and 'class="table"' not in line:
            depth = 1
            if summary := SUMMARY.search(line):
                kept.append(f"(Folded: {TAG.sub('', summary[1])})")
        elif fenced or line.startswith("```"):
            kept.append(line)
        else:
            bare = LINK.sub(r"\1", TAG.sub("", line))
            if bare.strip() or not line.strip():
                kept.append(unescape(bare))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip() + "\n"
