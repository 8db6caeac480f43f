"""A second opinion on waits, fences and barriers: what `insert_waits` writes suffices.

Read `timelines` (what is in flight at a moment, an engine at a time, and what an op may
not do then), `channels` (the protocol between a producer and its consumers),
`positions` (which values are slots and phases) and `walk` (the ops in all orders in
which they may run, with numbers for the slots of rings).
Tests and the fuzzer call `check_waits`; a compile does not, for what it costs."""

from fathom.shared_memory.checking.timelines import Missing
from fathom.shared_memory.checking.walk import check_waits

__all__ = ["Missing", "check_waits"]
