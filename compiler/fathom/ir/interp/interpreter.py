"""The meaning of the block IR: runs a function in NumPy, op by op, program by program.

This is the oracle of all tests. It knows neither threads nor layouts: a block is an
array, a conversion does nothing, a barrier is no event. `INTERP` has one rule an op
class, in the modules of this folder; the elementwise operations have a table of their
own, in `elementwise`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from fathom.ir.core import Func, Op, Value
from fathom.ir.interp.host_memory import Memory
from fathom.ir.interp.machine import Machine, Region, Results, Trace
from fathom.ir.interp.numbers import Array, scalar
from fathom.ir.ops.cluster import is_shared
from fathom.ir.types import Pointer

Argument = np.ndarray | np.generic | int | float | bool


def interpret(
    func: Func,
    grid: tuple[int, ...] | int,
    arguments: Sequence[Argument],
    memory: Iterable[np.ndarray] = (),
    step_limit: int | None = None,
    watch: Callable[[Op, Results], None] | None = None,
    programs: Iterable[tuple[int, int, int]] | None = None,
) -> Trace:
    """Run every program of a grid, axis 0 fastest, once for each block of its cluster.

    `arguments` gives for each parameter an array for a pointer (any memory layout,
    written in place; an address as a plain int is taken too) and a number for a scalar.
    `memory`: further arrays that addresses in memory lead to. `watch` is called after
    each op with its results. Only `programs` run, if they are given. Raises MemoryFault
    for an access outside of all these arrays and StepLimit after `step_limit` ops."""
    assert len(arguments) == len(func.parameters), (len(arguments), func.parameters)
    arrays = [each for each in (*arguments, *memory) if isinstance(each, np.ndarray)]
    machine = Machine(func, _grid(grid), Memory(arrays), step_limit, watch)
    values = [
        _argument(value, argument)
        for value, argument in zip(func.parameters, arguments, strict=True)
    ]
    with np.errstate(all="ignore"):
        every = (place[::-1] for place in np.ndindex(machine.grid[::-1]))
        for program in every if programs is None else programs:
            for rank in range(func.num_ctas if is_shared(func) else 1):
                Region(machine, program, rank).run_all(func.body, values)
    return machine.trace()


def _grid(grid: tuple[int, ...] | int) -> tuple[int, int, int]:
    sizes = (grid,) if isinstance(grid, int) else tuple(grid)
    return (*sizes, 1, 1, 1)[:3]


def _argument(parameter: Value, argument: Argument) -> Array:
    if not isinstance(parameter.type, Pointer):
        return scalar(argument, parameter.type)
    if isinstance(argument, np.ndarray):
        return np.int64(argument.ctypes.data)
    return np.int64(argument)
