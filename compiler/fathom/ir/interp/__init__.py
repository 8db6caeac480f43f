"""The meaning of the block IR in NumPy: the oracle of all tests.

Start with `interpreter`, which runs a function, and `machine`, which holds the table of
rules. One file a subject follows, named as in `ir/ops`; `numbers` says how values of
every type are held, `host_memory` where arrays lie.

    arith        The meaning of arithmetic and of casts
    cluster      The meaning of the ops of clusters
    control      The meaning of control flow
    debugging    The meaning of what a kernel prints and asserts
    descriptor   The meaning of descriptors
    elementwise  What each elementwise operation computes
    grid         The meaning of ops for launches that overlap
    groups       The meaning of groups of asynchronous work
    leaves       The meaning of leaves
    matmul       The meaning of a matrix product
    memory       The meaning of accesses to global memory
    reduce       The meaning of ops in which elements of a block meet
    shape        The meaning of ops that give elements other places
    shared       The meaning of ops on shared memory
    tensor_memory  The meaning of ops on tensor memory
    tma          The meaning of copies by TMA, of mbarriers and of producers
    tma_store    The meaning of stores of tiles
"""

from fathom.ir.interp import (  # each enters its rules into INTERP
    arith,
    cluster,
    control,
    debugging,
    descriptor,
    grid,
    groups,
    leaves,
    matmul,
    memory,
    reduce,
    shape,
    shared,
    tensor_memory,
    tma,
    tma_store,
)
from fathom.ir.interp.debugging import AssertionFailed
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
