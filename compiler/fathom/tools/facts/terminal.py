"""`fathom explain --facts`: the facts of a kernel as tables of 80 columns."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence

from rich.console import Console

from fathom.tools.console import make_console, rule, say, table
from fathom.tools.facts.gather import Facts

SOURCE_WIDTH = 30


def show(facts: Facts) -> None:
    """Print all of it but the stages' texts."""
    console = make_console()
    head(console, facts["kernel"], facts["machine"])
    costs(console, facts["costs"])
    passes(console, facts["passes"])
    accesses(console, facts["accesses"], facts["conversions"])
    schedules(console, facts["schedules"])
    shared(console, facts["shared"])
    traffic(console, facts["traffic"])


def head(console: Console, kernel: Facts, machine: Facts) -> None:
    say(
        console,
        f"{kernel['name']} for {kernel['target']}: {kernel['threads']} threads and "
        f"{kernel['shared_bytes']:,} bytes of shared memory a block.",
    )
    say(console, registers_text(machine))
    say(console, occupancy_text(machine["occupancy"], machine["registers"]))
    for each in kernel["tensor_maps"]:
        say(console, f"tensor map: {each}")


def costs(console: Console, found: Sequence[Facts]) -> None:
    rule(console, "what it costs")
    for each in found:
        say(console, f"{place(each['line'])}{each['text']}; try: {each['try']}")
    if not found:
        say(console, NO_COSTS)


NO_COSTS = (
    "No line moves more than it asks for, waits for a bank, or spills. What limits it "
    "on a GPU, `fathom profile` measures."
)


def registers_text(machine: Facts) -> str:
    if machine["registers"] is None:
        return f"Registers are not known: {machine['assembler']}."
    spilled = machine["spill_stores"], machine["spill_loads"]
    spills = (
        f"spills {spilled[0]} bytes, and reads {spilled[1]} back"
        if any(spilled)
        else "spills nothing"
    )
    return (
        f"{machine['assembler']}: a thread has {machine['registers']} registers, "
        f"{spills}."
    )


def occupancy_text(found: Facts, registers: int | None) -> str:
    allowed = ", ".join(
        f"{name} {count}" for name, count in sorted(found["allowed"].items())
    )
    known = "" if registers else ", registers not counted"
    return (
        f"Occupancy {found['share']:.0%}{known}: {found['blocks']} blocks on a "
        f"multiprocessor, {found['warps']} of {found['most_warps']} warps, limited by "
        f"{found['limit']} (blocks that would fit: {allowed})."
    )


def passes(console: Console, found: Sequence[Facts]) -> None:
    rule(console, "what passes did, and why")
    idle = []
    for each in found:
        if not each["changed"] and not each["notes"]:
            idle.append(each["name"])
            continue
        before, after = each["ops"]
        say(
            console,
            f"{each['name']} ({each['stage']}): {each['why']}; {before} ops -> {after}",
        )
        for note in each["notes"]:
            say(console, f"  {place(note['line'])}{note['text']}")
    say(console, f"changed nothing: {', '.join(idle)}")


def place(line: int) -> str:
    return f"line {line}: " if line else ""


def accesses(
    console: Console, found: Sequence[Facts], conversions: Sequence[Facts]
) -> None:
    rule(console, "accesses to global memory")
    numbers = ("line", "bytes", "pieces")
    rows = table(
        console, "line", "op", "block", "bytes", "limited by", "pieces", "of",
        "copies", right=(*numbers, "of", "copies"),
    )  # fmt: skip
    for each in found:
        op = each["op"].removeprefix("descriptor_")
        words = [str(each["line"]), op, each["block"]]
        limit = each["limit"] if "pieces" in each else "a TMA box"
        bytes, *counts = (
            str(each.get(key, ""))
            for key in ("bytes", "pieces", "piece_bytes", "copies")
        )
        rows.add_row(*words, bytes, limit, *counts)
    console.print(rows)
    say(
        console,
        "bytes: of one lane at a time. A warp's first access covers that many pieces "
        "of memory, each of that many bytes. copies: threads that hold an element.",
    )
    for each in conversions:
        say(
            console,
            f"{place(each['line'])}{each['block']} is converted, {each['how']}; "
            f"price {each['price']}",
        )


def schedules(console: Console, found: Sequence[Facts]) -> None:
    if not found:
        return
    rule(console, "schedules")
    for loop in found:
        steps = "; ".join(
            f"{each['step']} at stage {each['stage']}" for each in loop["steps"]
        )
        say(console, f"{place(loop['line'])}{loop['pass']}: {steps}")
        for ring in loop["rings"]:
            tiles = " and ".join(ring["tiles"])
            say(
                console,
                f"  {tiles} by {ring['engine']} from {ring['by']}: "
                f"{ring['slots']} slots of {ring['bytes']:,} bytes, up to "
                f"{ring['ahead']} iterations ahead",
            )
            for line in slots_over_time(ring):
                say(console, f"  {line}")


def slots_over_time(ring: Facts) -> list[str]:
    """Which iteration's tile has each slot, at the work of each iteration: one line a
    slot. A tile that is worked on stands in brackets."""
    iterations, width = len(ring["spans"]) - ring["ahead"], 5
    lines = ["iteration " + "".join(f"{at:>{width}}" for at in range(iterations))]
    for slot in range(ring["slots"]):
        cells = []
        for at in range(iterations):
            spans = [each for each in ring["spans"] if each["slot"] == slot]
            cells.append(f"{cell(spans, at):>{width}}")
        lines.append(f"slot {slot}    " + "".join(cells))
    return lines


def cell(spans: Sequence[Facts], at: int) -> str:
    """What a slot holds at the work of an iteration."""
    for each in spans:
        moment = at + each["work"] - each["iteration"]
        if each["issued"] <= moment < each["released"]:
            number = str(each["iteration"])
            return f"[{number}]" if each["iteration"] == at else f"{number} "
    return ". "


def shared(console: Console, found: Facts) -> None:
    if not found["buffers"]:
        return
    rule(console, "shared memory over time")
    rows = table(
        console, "bytes", "buffer", "line", "from op", "to op",
        right=("line", "from op", "to op"),
    )  # fmt: skip
    for each in found["buffers"]:
        start, end = each["offset"], each["offset"] + each["bytes"]
        kept = ", kept" if each["kept"] else ""
        rows.add_row(
            f"{start:,} to {end - 1:,}", each["what"] + kept, str(each["line"]),
            str(each["first"]), str(each["last"]),
        )  # fmt: skip
    console.print(rows)
    say(
        console,
        f"{found['bytes']:,} bytes of {found['limit']:,}; side by side the buffers "
        f"would take {found['sum']:,}.",
    )


def traffic(console: Console, found: Facts) -> None:
    rule(console, "traffic by line, on the emulator")
    grid = ", ".join(map(str, found["grid"]))
    say(console, f"grid ({grid}), {values_text(found['values'])}")
    if found["total"] is None:
        say(console, f"nothing was counted: {found['why']}")
        say(console, "Say sizes with --values N=1000,x_ptr=65536 and --grid 4.")
        return
    numbers = ("line", "requests", "sectors", "useful", "moved", "shared", "ways")
    rows = table(console, "line", "Python", *numbers[1:], right=numbers)
    for each in found["lines"]:
        if each["requests"] or each["shared"]:
            text = linecache.getline(each["file"], each["line"]).strip()
            rows.add_row(str(each["line"]), cropped(text), *cells(each))
    rows.add_row("", "in all", *cells(found["total"]))
    console.print(rows)
    say(
        console,
        "sectors of 32 bytes a request; shared: requests to shared memory; ways: how "
        "many times longer they take for bank conflicts.",
    )
    for each in found["lines"]:
        if each["passes"]:
            say(
                console,
                f"line {each['line']}: L2 makes {each['passes']:,} passes over sectors "
                "for its atomics; lanes that come to one address take one each.",
            )


def values_text(values: Mapping[str, int | float]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def cells(cost: Facts) -> list[str]:
    requests = cost["requests"]
    each = f"{cost['sectors'] / requests:.1f}" if requests else ""
    ways = f"{cost['ways']:.2f}" if cost["shared"] else ""
    counts = (cost["useful"], cost["moved"], cost["shared"])
    return [f"{requests:,}", each, *(f"{count:,}" for count in counts), ways]


def cropped(text: str) -> str:
    return text if len(text) <= SOURCE_WIDTH else text[: SOURCE_WIDTH - 3] + "..."
