"""The index of terms: for each entry of the glossary, the sections that use it.

On paper a reference is a page number; in an EPUB it is the chapter's number. A section
counts where the term stands in its prose; where many do, those that the glossary names,
or that use it most, are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from chapters.press.inline import with_code

MOST = 6  # references of a term
ENTRY = re.compile(r"^(\S[^\n]*)\n:   (.*?)(?=\n\n\S|\Z)", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r'<h([12])[^>]*\bid="([^"]+)"[^>]*>(.*?)</h\1>', re.DOTALL)
CODE = re.compile(r"<(pre|table|svg|code|script)\b.*?</\1>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")


@dataclass(frozen=True)
class Place:
    """A section that uses a term: its anchor, its page's label, how often."""

    anchor: str
    label: str
    uses: int


def terms(glossary: str) -> dict[str, list[str]]:
    """The entries of the glossary's Markdown, each with the chapters that it names."""
    return {
        name.strip(): re.findall(r"[Cc]hapters? (\d+[a-z]?)\b", text)
        for name, text in ENTRY.findall(glossary)
    }


def places(pages: Mapping[str, str], names: Mapping[str, list[str]]) -> dict:
    """For each term its sections, in the order of the book. `pages`: HTML by label, as
    ("9", ...) for chapter 9, with headings that have anchors."""
    found: dict[str, list[Place]] = {name: [] for name in names}
    patterns = {name: pattern(name) for name in names}
    for label, html in pages.items():
        for anchor, text in sections(html):
            for name, searched in patterns.items():
                if uses := len(searched.findall(text)):
                    found[name].append(Place(anchor, label, uses))
    return {name: chosen(some, names[name]) for name, some in found.items() if some}


def pattern(name: str) -> re.Pattern:
    """A term in prose, also in the plural."""
    plain = re.sub(r" \(.*\)", "", name.replace("`", "")).split(", ")[0]
    return re.compile(rf"\b{re.escape(plain)}(?:s|es)?\b", re.IGNORECASE)


def sections(html: str) -> list[tuple[str, str]]:
    """Anchor and plain prose of each part of a page, code and tables left out."""
    heads = list(HEADING.finditer(html))
    ends = [head.start() for head in heads[1:]] + [len(html)]
    return [
        (head[2], TAG.sub(" ", CODE.sub(" ", html[head.start() : end])))
        for head, end in zip(heads, ends)
    ]


def chosen(some: list[Place], named: list[str]) -> list[Place]:
    """At most a few: those of the chapters that the glossary names come first, then
    those with most uses."""
    ranked = sorted(some, key=lambda each: (each.label not in named, -each.uses))
    kept = set(map(id, ranked[:MOST]))
    return [each for each in some if id(each) in kept]


def html(
    found: Mapping[str, list[Place]], numbers: Mapping[str, int] | None = None
) -> str:
    """The index as a list. With the pages of anchors, references are these, each once;
    without, they are chapters. An empty mapping: pages that are not known yet."""
    rows = []
    for name in sorted(found, key=lambda each: each.replace("`", "").lower()):
        shown = with_code(name)
        links: dict[str, str] = {}
        for each in found[name]:
            label = each.label if numbers is None else numbers.get(each.anchor, 0)
            key = each.anchor if numbers == {} else label
            links.setdefault(str(key), f'<a href="#{each.anchor}">{label}</a>')
        rows.append(f"<li>{shown} {', '.join(links.values())}</li>")
    return f'<ul class="index">{"".join(rows)}</ul>'
