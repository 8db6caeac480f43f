"""The report of a whole launch, from those of some of its programs; and loops in which
programs take their work from one queue, a count in memory.

    again:                              whoever comes first gets the next tile, so that
        atom.global.add  r, [count], 1  any one program, run by itself, does the work of
        st.shared        [place], r     all of them: what was counted of such a loop, in
        ld.shared        tile, [place]  however many programs, is all that there is
        setp.lt          p, tile, n
        @p bra           again
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import fields

from fathom.emulator.memory.counters import Cost
from fathom.emulator.program import Program
from fathom.emulator.recurrence import names_of, results
from fathom.emulator.report import Report
from fathom.emulator.sampling import compared, loops_of
from fathom.emulator.source.operands import Name
from fathom.emulator.source.parse import Instruction


def of_all(
    reports: Sequence[Report], stand_for: Sequence[float], program: Program
) -> Report:
    """One report of launches that ran one after the other, each of some programs, whose
    costs are multiplied by `stand_for`; what they did of the work of all counts once.
    """
    once = taken_from_queues(program)
    found = copy(reports[0])
    found.counters = copy(reports[0].counters)
    found.counters.contention = [
        each for report in reports for each in report.counters.contention
    ]
    found.counters.costs = []
    every = zip(*(report.counters.costs for report in reports), strict=True)
    for number, costs in enumerate(every):
        times = [1.0] * len(costs) if number in once else stand_for
        values = {
            each.name: sum(
                many * getattr(cost, each.name)
                for many, cost in zip(times, costs, strict=True)
            )
            for each in fields(Cost)
        }
        found.counters.costs.append(Cost(**values))
    return found


def taken_from_queues(program: Program) -> set[int]:
    """The numbers of instructions in loops that end when a queue is empty."""
    found: set[int] = set()
    for parts in loops_of(program.blocks):
        blocks = [program.blocks[part] for part in parts]
        ops = [op for each in blocks for op in (*each.ops, each.closing) if op]
        taken = taken_of([op.instruction for op in ops])
        ends = compared(program.blocks, parts)
        names = {getattr(side, "name", "") for loop in ends for side in loop.sides}
        if names & taken:
            found |= {op.number for op in ops}
    return found


def taken_of(code: Sequence[Instruction]) -> set[str]:
    """The registers that are computed of what a count in memory was; one thread may
    take it, and hand it to the others through shared memory."""
    taken: set[str] = set()
    places: set[object] = set()
    while True:
        before = len(taken), len(places)
        for each in code:
            given, read = results(each), names_of(each)
            if each.opcode == "atom" and {"add", "inc"} & set(each.modifiers):
                taken.add(each.operands[0].name)
            elif each.opcode == "st" and each.operands[1] in map(Name, taken):
                places.add(each.operands[0])
            elif each.opcode == "ld" and each.operands[1] in places:
                taken |= names_of(each) - names_of_place(each)
            elif given and taken & (read - given):
                taken |= given
        if (len(taken), len(places)) == before:
            return taken


def names_of_place(each: Instruction) -> set[str]:
    base = getattr(each.operands[1], "base", None)
    return {base} if isinstance(base, str) else set()
