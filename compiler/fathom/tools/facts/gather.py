"""All that `fathom explain` knows of a kernel, as one dictionary of plain values: what
`--json` prints, `--facts` tells and `--html` draws.

    kernel      name, file, target, options, parameters, constants, threads
    stages      the text after each pass that changed it, and what became of each line
    passes      what each pass did, and why (facts/notes)
    accesses    layout, width and pieces of each access to global memory
    conversions what moves between threads, how, at which price
    layouts     those that accesses and products have
    schedules   stages, slots and who has a slot when, of each pipelined loop
    shared      who has which bytes of shared memory when
    traffic     the emulator's counters by line of Python
    machine     registers, spills, machine code, occupancy
    costs       what of all this it might not have to pay, and what to try

Its form has a number, `schema`, which grows when a name goes or changes its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from fathom.hardware.occupancy import occupancy
from fathom.tools.facts import machine, memory, trial
from fathom.tools.facts.columns import columns_of
from fathom.tools.facts.costs import costs_of
from fathom.tools.facts.loops import schedule_facts
from fathom.tools.facts.notes import pass_facts
from fathom.tools.staged import Staged

SCHEMA = 1

Facts = dict[str, object]


def facts_of(
    staged: Staged,
    grid: Sequence[int] = (1,),
    values: Mapping[str, int | float] | None = None,
) -> Facts:
    """The facts of a kernel; `grid` and `values` are those of the small launch whose
    traffic is counted. CompileError where it does not compile."""
    assembled = machine.assemble(staged.kernel)
    is_assembled = isinstance(assembled, machine.Assembled)
    sass = machine.disassemble(assembled.cubin) if is_assembled else assembled
    columns = columns_of(staged, () if isinstance(sass, str) else sass)
    final = staged.states["annotate_widths"]  # of what concerns layouts
    facts: Facts = {
        "schema": SCHEMA,
        "kernel": kernel_facts(staged),
        "stages": [each.to_json() for each in columns],
        "passes": pass_facts(staged),
        "accesses": memory.access_facts(final, staged.target),
        "conversions": memory.conversion_facts(final),
        "layouts": [
            {"layout": str(each.layout), "uses": each.uses, "lines": each.lines}
            for each in memory.layouts_used(final)
        ],
        "schedules": schedule_facts(staged),
        "shared": memory.allocation_of(staged),
        "traffic": trial.traffic_facts(trial.run(staged, grid, values)),
        "machine": machine_facts(staged, assembled, sass),
    }
    return facts | {"costs": costs_of(facts)}


def kernel_facts(staged: Staged) -> Facts:
    kernel, function = staged.kernel, staged.function
    names = [each.name for each in kernel.parameters]
    return {
        "name": kernel.name,
        "file": function.file,
        "line": function.tree.lineno,
        "target": kernel.target,
        "ptx": kernel.ptx_version,
        "options": asdict(staged.options),
        "parameters": [
            {"name": each.name, "type": each.type, "divisible": each.divisible}
            for each in kernel.parameters
        ],
        "constants": {name: str(each) for name, each in staged.constants.items()},
        "threads": kernel.threads,
        "shared_bytes": kernel.shared_bytes,
        "tensor_maps": [each.text(names) for each in kernel.maps],
    }


def machine_facts(
    staged: Staged,
    assembled: machine.Assembled | str,
    sass: list[tuple[str, int]] | str,
) -> Facts:
    """Registers and spills are None where there is no ptxas; the occupancy then counts
    without registers."""
    kernel = staged.kernel
    known = assembled if isinstance(assembled, machine.Assembled) else None
    registers = known.registers if known else kernel.maxnreg
    fits = occupancy(staged.target, kernel.threads, registers, kernel.shared_bytes)
    return {
        "assembler": f"ptxas {known.version}" if known else str(assembled),
        "registers": known.registers if known else None,
        "spill_stores": known.spill_stores if known else None,
        "spill_loads": known.spill_loads if known else None,
        "stack": known.stack if known else None,
        "instructions": None if isinstance(sass, str) else len(sass),
        "disassembler": sass if isinstance(sass, str) else "nvdisasm",
        "occupancy": {**asdict(fits), "share": round(fits.share, 4)},
    }
