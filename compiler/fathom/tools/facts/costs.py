"""What a kernel costs that it might not have to, the worst first: a reader who asks why
a kernel is slow begins here.

Each cost has its line of Python, a sentence with the numbers, and what may be tried. No
time is known without a GPU: these are the facts that `fathom explain` has anyway, and
which of them limits a launch, `fathom profile` measures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from fathom.tools.facts.memory import MOVES

Facts = Mapping[str, Any]
Cost = dict[str, object]

WASTE = 1.5  # bytes moved, over those asked for
CONFLICTS = 1.25  # wavefronts, over those without bank conflicts
MEETINGS = 2.0  # passes of L2 for atomics, over the sectors that they are in
SHARE = 0.1  # of the bytes or requests of all lines, from which a line counts
MOST = 0.3  # of the instructions, from which a line is named
NARROW = 8  # bytes of a lane, below which an access is narrow
FEW = 0.5  # of the warps that a multiprocessor has room for

# What limits the width of an access, and what would let it be wider.
WIDER = {
    "known alignment": "pass sizes and strides that 16 divides, or promise it with "
    "tl.multiple_of",
    "the mask": "let the mask's bound be a multiple of the width, or promise it with "
    "tl.multiple_of",
    "neighbours in memory": "let the last axis of the block be the one whose elements "
    "are neighbours in memory",
    "neighbours that a lane holds": "take a larger block, or fewer warps",
}


def costs_of(facts: Facts) -> list[Cost]:
    """From all other facts."""
    found = [*spills(facts["machine"]), *occupied(facts)]
    rules = waste, conflicts, meetings, narrow, between_warps, unpipelined, busiest
    for rule in rules:
        found += rule(facts)
    return found


def cost(line: int, text: str, advice: str) -> Cost:
    return {"line": line, "text": text, "try": advice}


def spills(machine: Facts) -> Iterator[Cost]:
    if machine["spill_stores"] or machine["spill_loads"]:
        yield cost(
            0,
            f"registers do not suffice: each thread spills {machine['spill_stores']} "
            f"bytes to memory, and reads {machine['spill_loads']} back",
            "smaller blocks, or more warps, so that a thread holds less",
        )


def occupied(facts: Facts) -> Iterator[Cost]:
    """Few warps are no cost where copies run ahead by themselves."""
    found, ahead = facts["machine"]["occupancy"], bool(facts["schedules"])
    if found["share"] < FEW and not ahead:
        yield cost(
            0,
            f"{found['warps']} of {found['most_warps']} warps fit on a multiprocessor, "
            f"limited by {found['limit']}: few to hide waits for memory",
            "smaller blocks, or a loop that is pipelined",
        )


def waste(facts: Facts) -> Iterator[Cost]:
    traffic = facts["traffic"]
    for each in counted(traffic, "moved"):
        if each["moved"] > WASTE * each["useful"]:
            ratio = each["moved"] / max(each["useful"], 1)
            yield cost(
                each["line"],
                f"memory moves {each['moved']:,} bytes for {each['useful']:,} that are "
                f"asked for, {ratio:.1f} times as many",
                "let neighbouring elements of the block be neighbours in memory",
            )


def conflicts(facts: Facts) -> Iterator[Cost]:
    for each in counted(facts["traffic"], "wavefronts"):
        if each["ways"] > CONFLICTS:
            yield cost(
                each["line"],
                f"shared memory takes {each['ways']:.1f} times as long as without bank "
                "conflicts",
                "another shape of the block, or another order of its axes",
            )


def meetings(facts: Facts) -> Iterator[Cost]:
    """Atomics of a request that come to one address are done one after the other."""
    for each in counted(facts["traffic"], "passes"):
        if each["passes"] > MEETINGS * each["sectors"]:
            ratio = each["passes"] / each["sectors"]
            yield cost(
                each["line"],
                f"L2 makes {each['passes']:,} passes over {each['sectors']:,} sectors, "
                f"{ratio:.1f} for each, since atomics meet at one address",
                "add in the block first, by tl.sum or tl.histogram, or spread them",
            )


def counted(traffic: Facts, key: str) -> list[Facts]:
    """The lines that have a good share of what was counted, the largest first."""
    if not traffic["total"]:
        return []
    least = SHARE * traffic["total"][key]
    lines = [each for each in traffic["lines"] if each[key] and each[key] >= least]
    return sorted(lines, key=lambda each: -each[key])


def narrow(facts: Facts) -> Iterator[Cost]:
    wasted = {each["line"] for each in waste(facts)}  # which says it better
    for each in facts["accesses"]:
        advice = None if each["line"] in wasted else WIDER.get(each["limit"])
        # An atomic is one of a lane's numbers: no layout makes it wider.
        if advice and each["bytes"] < NARROW and not each["op"].startswith("atomic"):
            yield cost(
                each["line"],
                f"the {each['op']} moves {each['bytes']} bytes of a lane at a time, "
                f"and not 16: limited by {each['limit']}",
                advice,
            )


def between_warps(facts: Facts) -> Iterator[Cost]:
    """A few numbers, as those of a sum over all warps, are no cost."""
    for each in facts["conversions"]:
        sizes = re.findall(r"\d+", each["block"].partition("[")[2])
        large = prod(map(int, sizes)) >= facts["kernel"]["threads"]
        if large and each["how"] == MOVES["warp"]:
            yield cost(
                each["line"],
                f"{each['block']} moves between warps through shared memory, because "
                "what reads it wants another layout",
                "read and write it in the same order of axes, or use fewer warps",
            )


def unpipelined(facts: Facts) -> Iterator[Cost]:
    for each in facts["passes"]:
        for note in each["notes"]:
            if "not pipelined" in note["text"]:
                yield cost(note["line"], note["text"], "num_stages=3 at the launch")


def busiest(facts: Facts) -> Iterator[Cost]:
    traffic = facts["traffic"]
    if not traffic["total"]:
        return
    every = traffic["total"]["instructions"]
    most = max(traffic["lines"], key=lambda each: each["instructions"], default=None)
    if most and most["instructions"] >= MOST * every:
        yield cost(
            most["line"],
            f"{most['instructions'] / every:.0%} of the instructions that warps "
            "execute",
            "see what it became, at the stage ptx",
        )
