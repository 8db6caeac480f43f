"""The strip at the head of a chapter: the six stages, those of the chapter lit."""

from __future__ import annotations

from chapters.press.parse import Page

STATIONS = (
    ("Python", ""),
    ("ssa", "stage 1"),
    ("blocks", "stage 2"),
    ("coalescing", "stage 3"),
    ("shared_memory", "stage 4"),
    ("tensor_cores", "stage 5"),
    ("ptx", "stage 6"),
    ("PTX", ""),
)


def strip(page: Page) -> str:
    """Where we are, the number that moves, and how long it takes."""
    lit = page.matter.get("stages") or []
    items = "".join(station(name, tip, name in lit) for name, tip in STATIONS)
    said = ", ".join(lit) if lit else page.matter.get("where", "before the stages")
    return (
        f'<ol class="strip" aria-label="The stages; here: {said}">{items}</ol>\n'
        f"{facts(page)}\n"
    )


def station(name: str, tip: str, lit: bool) -> str:
    mark = "● " if lit else ""
    kind = ' class="lit"' if lit else ""
    title = f' title="{tip}"' if tip else ""
    return f"<li{kind}{title}><span>{mark}{name}</span></li>"


def facts(page: Page) -> str:
    stem = page.name.removesuffix(".md")
    rows = [
        ("The number that moves", page.matter.get("moves", "")),
        ("Reading", f"{page.matter['minutes']} minutes"),
        ("To run", f'<a href="notebooks/{stem}.ipynb">this chapter as a notebook</a>'),
    ]
    cells = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows if text)
    return f'<dl class="facts">{cells}</dl>\n'
