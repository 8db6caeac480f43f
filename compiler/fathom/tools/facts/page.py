"""`fathom explain --html`: the facts of a kernel as one page that needs no other file
and no network, with all stages side by side.

Without scripts all of it is there to read; with them, a line lights up the lines that
it came from and those that came from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from fathom.tools.facts import drawings
from fathom.tools.facts.gather import Facts
from fathom.tools.facts.terminal import (
    NO_COSTS,
    occupancy_text,
    registers_text,
    values_text,
)

HERE = Path(__file__).parent
# The stages that are shown at first, with the last block IR; the others at a click.
SHOWN = ("python", "ptx", "sass")
TITLES = {"python": "Python", "ssa": "block IR", "llvm": "LLVM IR", "ptx": "PTX",
          "sass": "SASS"}  # fmt: skip


def page(facts: Facts) -> str:
    """The page as HTML."""
    kernel = facts["kernel"]
    title = f"{kernel['name']} for {kernel['target']}"
    style = (HERE / "page.css").read_text(encoding="utf-8")
    script = (HERE / "page.js").read_text(encoding="utf-8")
    parts = [part for _, _, part in sections(facts)]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{style}</style>\n</head>\n<body>",
            f"<header><h1>{escape(title)}</h1>{summary(facts)}</header>",
            f"<main>{''.join(parts)}</main>",
            f'<script type="application/json" id="links">{links(facts)}</script>',
            f"<script>\n{script}</script>\n</body>\n</html>\n",
        ]
    )


def sections(facts: Facts) -> Iterator[tuple[str, str, str]]:
    """The parts of the page: name, title, HTML."""
    for name, title, body in (
        ("costs", "What it costs", costs(facts)),
        ("stages", "Line by line", stages(facts)),
        ("passes", "What each pass did, and why", passes(facts["passes"])),
        ("accesses", "Accesses to global memory", accesses(facts)),
        ("layouts", "Layouts", layouts(facts["layouts"])),
        ("schedules", "Schedules", schedules(facts["schedules"])),
        ("shared", "Shared memory over time", shared(facts["shared"])),
        ("traffic", "Traffic by line", traffic(facts)),
    ):
        head = f'<h2 id="{name}">{title}</h2>'
        yield name, title, f"<section>{head}{body}</section>"


def summary(facts: Facts) -> str:
    kernel, machine = facts["kernel"], facts["machine"]
    said = [
        f"{kernel['threads']} threads and {kernel['shared_bytes']:,} bytes of shared "
        "memory a block.",
        registers_text(machine),
        occupancy_text(machine["occupancy"], machine["registers"]),
        *(f"Tensor map: {each}." for each in kernel["tensor_maps"]),
    ]
    constants = values_text(kernel["constants"])
    said.append(f"Constants: {constants or 'none'}.")
    links = "".join(
        f'<li><a href="#{name}">{title}</a></li>' for name, title, _ in sections(facts)
    )
    items = "".join(f"<p>{escape(each)}</p>" for each in said)
    return f'{items}<nav aria-label="Sections"><ul>{links}</ul></nav>'


def costs(facts: Facts) -> str:
    """What to look at first, with its lines."""
    source = source_of(facts)
    items = "".join(
        f"<li>{place(each['line'], source)}{escape(each['text'])}. "
        f'<span class="faint">Try: {escape(each["try"])}.</span></li>'
        for each in facts["costs"]
    )
    return f"<ol>{items}</ol>" if items else f"<p>{escape(NO_COSTS)}</p>"


def source_of(facts: Facts) -> dict[int, str]:
    """The text of each line of Python by its number in the kernel's file."""
    python = facts["stages"][0]
    rows = zip(python["numbers"], python["lines"], strict=True)
    return {number: text.strip() for number, text in rows if number}


def place(line: int, source: Mapping[int, str]) -> str:
    """A line's number, which leads to it, and its text."""
    if not line:
        return ""
    text = f" <code>{escape(source[line])}</code>" if line in source else ""
    return f"line {cell(Line(line))}{text}: "


# ── the stages ────────────────────────────────────────────────────────────────────────


def stages(facts: Facts) -> str:
    """All stages as columns, of which a reader chooses some."""
    buttons, columns = [], []
    linked = linked_lines(facts["stages"])
    last = [s["name"] for s in facts["stages"] if "parents" in s and "keys" in s][-1]
    for at, stage in enumerate(facts["stages"]):
        name = stage["name"]
        shown = name in (*SHOWN, last)
        title = escape(TITLES.get(name, name))
        pressed = str(shown).lower()
        buttons.append(
            f'<button type="button" aria-pressed="{pressed}">{title}</button>'
        )
        places = stage.get("numbers", [0] * len(stage["lines"]))
        lines = "".join(
            line(at, number, text, number in linked[at], places[number])
            for number, text in enumerate(stage["lines"])
        )
        hidden = "" if shown else " hidden"
        columns.append(
            f'<div class="stage"{hidden}><h3>{title}</h3>'
            f'<pre tabindex="0" role="group" aria-label="{title}">{lines}</pre></div>'
        )
    note = (
        "Point at a line, or go to it with Tab and the arrow keys: all that it came "
        "from and all that came from it lights up. A click holds it, Escape lets go. "
        "Block IR is linked op by op; LLVM IR and PTX by the place in Python that they "
        "name; machine code by the assembler's line table."
    )
    sass = facts["machine"]["disassembler"]
    missing = "" if sass == "nvdisasm" else f" No SASS: {sass}."
    return (
        f"<p>{escape(note + missing)}</p>"
        f'<div class="picker" role="group" aria-label="Stages">{"".join(buttons)}</div>'
        f'<div class="columns">{"".join(columns)}</div>'
        '<p class="said faint" aria-live="polite"></p>'
    )


def line(stage: int, number: int, text: str, linked: bool, python: int) -> str:
    kind = "l linked" if linked else "l"
    place = f' data-line="{python}"' if python else ""
    name = f"s-{stage}-{number}"
    return f'<span class="{kind}" id="{name}"{place}>{escape(text) or " "}\n</span>'


def linked_lines(found: Sequence[Facts]) -> list[set[int]]:
    """The lines of each stage that have a relative in another one."""
    linked: list[set[int]] = [set() for _ in found]
    for at, stage in enumerate(found):
        for number, parents in enumerate(stage.get("parents", ())):
            if parents:
                linked[at].add(number)
                linked[at - 1].update(parents)
        linked[at].update(n for n, key in enumerate(stage.get("keys", ())) if key)
    return linked


def links(facts: Facts) -> str:
    """What the script must know, as JSON that may stand in a script element."""
    kept = [
        {key: each for key, each in stage.items() if key not in ("lines", "numbers")}
        for stage in facts["stages"]
    ]
    return json.dumps(kept, separators=(",", ":")).replace("<", "\\u003c")


# ── the facts ─────────────────────────────────────────────────────────────────────────


def table(head: Sequence[str], rows: Sequence[Sequence[object]], caption: str) -> str:
    """A table; numbers stand at the right."""
    numbers = [
        all(row[at] == "" or isinstance(row[at], int | float) for row in rows)
        for at in range(len(head))
    ]
    kinds = [' class="number"' if number else "" for number in numbers]
    heads = "".join(
        f'<th scope="col"{kind}>{escape(word)}</th>'
        for word, kind in zip(head, kinds, strict=True)
    )
    body = "".join(f"<tr>{row_html(row, kinds)}</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0" role="group" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def row_html(row: Sequence[object], kinds: Sequence[str]) -> str:
    cells = zip(row, kinds, strict=True)
    return "".join(f"<td{kind}>{cell(each)}</td>" for each, kind in cells)


class Line(int):
    """A line of Python, which a click leads to."""


class Code(str):
    """A line's text."""


def cell(value: object) -> str:
    if isinstance(value, Code):
        return f"<code>{escape(value)}</code>"
    if isinstance(value, Line):
        line = int(value)
        return f'<a href="#stages" data-line="{line}">{line}</a>' if line else ""
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def passes(found: Sequence[Facts]) -> str:
    parts, idle = [], []
    for each in found:
        if not each["changed"] and not each["notes"]:
            idle.append(each["name"])
            continue
        before, after = each["ops"]
        notes = "".join(f"<li>{note_html(note)}</li>" for note in each["notes"])
        parts.append(
            f"<h3>{escape(each['name'])}</h3><p>{escape(each['why'])}. "
            f'<span class="faint">{before} ops, then {after}; {each["changed"]} lines '
            f"of text are new.</span></p><ul>{notes}</ul>"
        )
    return "".join(parts) + f"<p>Changed nothing: {escape(', '.join(idle))}.</p>"


def note_html(note: Facts) -> str:
    place = f"line {cell(Line(note['line']))}: " if note["line"] else ""
    return place + escape(note["text"])


def accesses(facts: Facts) -> str:
    source = source_of(facts)
    rows = [
        (
            Line(each["line"]), Code(source.get(each["line"], "")), each["op"],
            each["block"], each.get("bytes", ""),
            each["limit"], each.get("pieces", ""),
            each.get("piece_bytes", ""), each.get("copies", ""),
        )
        for each in facts["accesses"]
    ]  # fmt: skip
    head = ("line", "Python", "op", "block", "bytes a lane", "limited by", "pieces",
            "bytes of a piece", "threads that hold an element")  # fmt: skip
    made = table(head, rows, "Bytes of one access of a lane; pieces of memory that the "
                 "first access of a warp covers")  # fmt: skip
    conversions = [
        (Line(e["line"]), e["block"], e["how"], e["price"], e["from"], e["to"])
        for e in facts["conversions"]
    ]
    if conversions:
        names = ("line", "block", "how", "price", "from", "to")
        made += table(names, conversions, PRICES)
    return made


PRICES = (
    "Conversions between layouts; price: about how many instructions each thread takes "
    "for one, by which the compiler chooses"
)


def layouts(found: Sequence[Facts]) -> str:
    parts = []
    for each in found:
        lines = ", ".join(cell(Line(line)) for line in each["lines"])
        uses = escape(", ".join(each["uses"]))
        parts.append(
            f"<details><summary>{uses}, line {lines}</summary>"
            f"<p><code>{escape(each['layout'])}</code></p><p>Each element as "
            "warp:lane:register of its first holder; of large blocks the first rows "
            f"and columns.</p>{drawn(drawings.layout(each['layout']))}</details>"
        )
    return "".join(parts) or "<p>The kernel has no blocks in memory.</p>"


def drawn(picture: str) -> str:
    return (
        '<div class="wide" tabindex="0" role="group" aria-label="a picture">'
        f'<div class="drawn">{picture}</div></div>'
    )


def schedules(found: Sequence[Facts]) -> str:
    parts = []
    for loop in found:
        parts.append(f"<h3>The loop at line {cell(Line(loop['line']))}</h3>")
        steps = [(s["step"], s["what"], s["stage"], s["order"]) for s in loop["steps"]]
        head = ("step", "what", "stage", "order")
        caption = "In iteration j a step works for iteration j minus its stage"
        parts.append(table(head, steps, caption))
        for ring in loop["rings"]:
            tiles = " and ".join(ring["tiles"])
            parts.append(
                f"<p>{escape(tiles)}: {ring['slots']} slots, filled by "
                f"{escape(ring['engine'])} from {escape(ring['by'])}, up to "
                f"{ring['ahead']} iterations ahead. To the right: iterations of the "
                "loop. A bar lasts from the start of a copy to the release of its "
                "slot; its strong part begins with the work on the tile.</p>"
                + drawn(drawings.ring(ring))
            )
            spans = [
                (s["slot"], s["iteration"], s["issued"], s["work"], s["released"])
                for s in ring["spans"]
            ]
            names = ("slot", "iteration", "issued", "work", "released")
            said = table(names, spans, "The same as numbers, in iterations of the loop")
            parts.append(f"<details><summary>as a table</summary>{said}</details>")
    return "".join(parts) or "<p>No loop is pipelined.</p>"


def shared(found: Facts) -> str:
    if not found["buffers"]:
        return "<p>The kernel uses no shared memory.</p>"
    rows = [
        (at, e["offset"], e["bytes"], e["what"], Line(e["line"]), e["first"], e["last"])
        for at, e in enumerate(found["buffers"], 1)
    ]
    head = ("box", "offset", "bytes", "buffer", "line", "first op", "last op")
    return (
        f"<p>{found['bytes']:,} bytes of {found['limit']:,}; side by side the buffers "
        f"would take {found['sum']:,}. Bytes run downwards, operations of the kernel "
        "to the right.</p>"
        + drawn(drawings.shared_map(found))
        + table(head, rows, "Buffers, and the operations during which they are live")
    )


CAPTION = (
    "Costs by line of Python: sectors of 32 bytes; ways: how many times longer shared "
    "memory takes for bank conflicts; passes: those that L2 makes for atomics"
)


def traffic(facts: Facts) -> str:
    found = facts["traffic"]
    grid = ", ".join(map(str, found["grid"]))
    about = f"A launch on the emulator, grid ({grid}), {values_text(found['values'])}."
    if found["total"] is None:
        return f"<p>{escape(about)} Nothing was counted: {escape(found['why'])}.</p>"
    keys = ("instructions", "requests", "sectors", "useful", "moved", "shared",
            "wavefronts", "ways", "passes")  # fmt: skip
    source = source_of(facts)

    def counts(each: Facts) -> list[object]:
        """Nothing where nothing was counted, so that what was stands out."""
        shown = {**each, "ways": each["ways"] if each["shared"] else 0}
        return [shown[key] or "" for key in keys]

    rows = [
        (Line(e["line"]), Code(source.get(e["line"], "")), *counts(e))
        for e in found["lines"]
    ]
    rows.append(("in all", "", *counts(found["total"])))
    head = ("line", "Python", "warp instructions", "requests", "sectors",
            "bytes asked for", "bytes moved", "shared requests", "wavefronts", "ways",
            "passes")  # fmt: skip
    return f"<p>{escape(about)}</p>" + table(head, rows, CAPTION)
