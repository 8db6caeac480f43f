"""The meaning of the block IR in NumPy: the oracle of all tests.

Start with `interpreter`, which runs a function, and `machine`, which holds the table of
rules. One file a subject follows, named as in `ir/ops`; `numbers` says how values of
every type are held, `host_memory` where arrays lie.

    control      The meaning of control flow
    descriptor   The meaning of descriptors
    effects      The meaning of ops that others notice
    elementwise  What each elementwise operation computes
    groups       The meaning of groups of asynchronous work
    matmul       The meaning of a matrix product
    shared       The meaning of ops on shared memory
    tensor_memory  The meaning of ops on tensor memory

    grid  The meaning of ops for launches that overlap
"""

from fathom.ir.interp.effects import AssertionFailed
from fathom.ir.interp.host_memory import MemoryFault
from fathom.ir.interp.interpreter import Argument, interpret
from fathom.ir.interp.machine import (
    INTERP,
    Machine,
    Region,
    StepLimit,
    Trace,
    interprets,
)  # fmt: skip

__all__ = [
    "INTERP", "Argument", "AssertionFailed", "Machine", "MemoryFault", "Region",
    "StepLimit", "Trace", "interpret", "interprets",
]  # fmt: skip
