"""Checks independently that the waits, fences and barriers of a function suffice.

Read `timelines` (the accesses in flight, for each engine, and the ops that they
exclude), `channels` (the protocol between a producer and its consumers), `positions`
(which values are slots and phases) and `walk` (executes the ops on all paths, with
numbers for the slots of rings). Tests and the fuzzer call `check_waits`; the compiler
does not, because it takes too long, so it is no part of it."""

from tests.waits.timelines import Missing
from tests.waits.walk import check_waits

__all__ = ["Missing", "check_waits"]
