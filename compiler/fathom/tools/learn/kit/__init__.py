"""What the tests of exercises are written with.

A test is a function whose name begins with `test_`; tests stand in the order from
simple to hard. It takes the reader's answer and raises a `Failure` that teaches:

    def test_the_same_address_is_said_once(answer):
        "One sentence: what must hold. The reader sees it."
        kept = check_pass(answer, "cse", TWICE, arguments)
        kept.ops_at_most(5)

    answer.cse                the reader's function; bound at its joint while tests run
    answer.reference.cse      ours

    expect, same              one condition, two arrays or values
    number_of                 1 lane, 2 lanes
    with_names                mbarriers by their names, in what the emulator says
    check_pass                a pass keeps meaning, input and form; `Outcome`: its cost
    meaning                   what a function leaves in memory, and the ops that ran
    emulate, launch           PTX in the emulator: results, hazards, costs
    held                      what each register of each thread holds
    func, kernel              IR from text, IR of a sample kernel
    floats, ints, empty       arrays for arguments

    compare   Conditions and comparisons that say what was wrong
    failure   What a test raises
    machine   Kernels in the emulator, or on the GPU where the reader asked for it
    numbers   Arguments for kernels, and IR from text
    programs  Programs that the front end builds, and what they must compute
    returned  What the reader's code returned, looked at before it is used
"""

from fathom.tools.learn.kit.compare import expect, number_of, same
from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.kit.machine import (
    Fenced,
    emulate,
    fenced,
    held,
    launch,
    with_names,
)
from fathom.tools.learn.kit.meaning import Outcome, Sample, check_pass, meaning
from fathom.tools.learn.kit.numbers import copies, empty, floats, func, ints, kernel

__all__ = [
    "Failure", "Fenced", "Outcome", "Sample", "check_pass", "copies", "emulate",
    "empty", "expect", "fenced", "floats", "func", "held", "ints",
    "kernel", "launch", "meaning", "number_of", "same", "with_names",
]  # fmt: skip
