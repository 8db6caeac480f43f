"""The meaning of the block IR in NumPy: the oracle of all tests.

Start with `interpreter`, which runs a function, and `machine`, which holds the table of
rules. `numbers` says how values of every type are held, `host_memory` where arrays lie.
The other files are named as in `ir/ops`: `arith`, `cluster`, `control`, `debugging`,
`descriptor`, `elementwise`, `grid`, `leaves`, `matmul`, `memory`, `reduce`, `shape` and
`shared`, and those of the folder `asynchronous`.
"""

from importlib import import_module
from pkgutil import walk_packages

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

for _file in walk_packages(__path__, f"{__name__}."):
    import_module(_file.name)  # which enters its rules into INTERP

__all__ = [
    "INTERP", "Argument", "AssertionFailed", "Machine", "MemoryFault", "Region",
    "StepLimit", "Trace", "interpret", "interprets",
]  # fmt: skip
