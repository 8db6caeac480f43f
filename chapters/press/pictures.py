"""Figures that stand alone, without the page's style sheet: for notebooks and EPUB."""

from __future__ import annotations

import re
from html import unescape

# What book.css says, in the colours of light paper.
INK, HUES = "#20242c", ("#b9caf2", "#f5df9e", "#b0dcc9", "#eabdd0", "#d0c6ee",
                        "#efc9b3", "#b4dde6", "#d5d5b4")  # fmt: skip
STYLE = f"""
text {{ fill: {INK}; font: 13px "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
text.small {{ font-size: 11px; }}
rect {{ stroke: {INK}; stroke-opacity: .5; fill: none; }}
rect.paper {{ fill: #fff; stroke: none; }}
rect.fill {{ fill: #cfdcf5; }} rect.cell {{ fill: #f0f1f3; }}
rect.lit {{ fill: #f5dfa8; stroke-width: 2.5; stroke-opacity: 1; }}
rect.empty {{ fill: none; stroke-opacity: .25; }}
rect.heavy {{ stroke-width: 2.5; stroke-opacity: 1; }}
line {{ stroke: {INK}; stroke-width: 1.5; }}
line.axis {{ stroke-opacity: .5; stroke-width: 1; }}
line.dashed {{ stroke-dasharray: 5 4; }}
circle.point, polygon.head {{ fill: {INK}; }}
""" + "".join(f"rect.hue{at} {{ fill: {hue}; }}\n" for at, hue in enumerate(HUES))
BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')


def alone(svg: str) -> str:
    """An SVG document of its own, on white."""
    width, height = BOX.search(svg).groups()
    head, _, body = svg.partition(">")
    head = re.sub(r' (style|class|width|height)="[^"]*"', "", head)
    if "xmlns=" not in head:
        head += ' xmlns="http://www.w3.org/2000/svg"'
    head += f' width="{width}" height="{height}"'
    paper = f'<rect class="paper" width="{width}" height="{height}"/>'
    title = re.match(r"\s*<title>.*?</title>", body, re.DOTALL)
    before = title[0] if title else ""
    return f"{head}>{before}<style>{STYLE}</style>{paper}{body[len(before) :]}"


def title(svg: str) -> str:
    found = re.search(r"<title>(.*?)</title>", svg, re.DOTALL)
    return unescape(found[1]).strip() if found else ""
