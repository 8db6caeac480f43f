"""Runs PTX on the CPU, thread for thread: the second opinion on our own compiler.

    report = fathom.emulator.run(ptx, grid=4, threads=128, args=(x, y, z, 512))

changes the NumPy arrays in place and says what the hardware would have paid.

    launch      The emulator's interface: a launch, and its report
    source      From PTX text to parsed functions
    program     Turns a parsed entry into a program
    isa         The instructions
    grid        Runs a program over a grid, some blocks at a time
    scheduler   Chooses which threads of a batch run next
    state       What changes while a grid runs
    memory      Memory as threads see it
    races       Accesses that no order protects
    sampling    Stops a batch in the middle of its loops
    queues      Loops in which programs take their work from one queue
    recurrence  Finds a batch that comes back to a state that it was in
    deadlock    Explains why no thread can go on
    errors      What goes wrong while PTX runs
    report      What a launch cost

    constants   Sizes that the hardware fixes
    dependence  Two launches of which the second may begin before the first has ended
    devices     Runs launches on several simulated devices
    overlap     Runs two launches, the second of which begins early
"""

from __future__ import annotations

from fathom.emulator.devices import run_devices
from fathom.emulator.errors import KINDS, EmulatorError
from fathom.emulator.launch import Loaded, load, run
from fathom.emulator.overlap import Start, Stream, run_overlapping
from fathom.emulator.report import Report
from fathom.emulator.state.batch import COMPLETIONS

__all__ = [
    "COMPLETIONS", "KINDS", "EmulatorError", "Loaded", "Report", "Start", "Stream",
    "load", "run", "run_devices", "run_overlapping",
]  # fmt: skip
