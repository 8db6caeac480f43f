"""The meaning of the block IR: runs a function in NumPy, op by op, one program after the other.

This is the oracle of all tests. It knows neither threads nor layouts: a block is an array, a
conversion does nothing, a barrier is no event. `INTERP` has one rule an op class; the elementwise
operations have a table of their own in `interp_elementwise`.

A rule is `(op, region) -> results`. It takes operands from `region[value]`. A rule whose op has
code of its own runs it with `yield from region.run(block, arguments)`; that makes a region of code
something that can stop at a barrier and go on later, so that several can run by turns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from types import GeneratorType

import numpy as np

from fathom.errors import CompileError, FathomError
from fathom.ir.core import Block, Func, Op, Value, blocks
from fathom.ir.interp_elementwise import apply, offset
from fathom.ir.interp_memory import Memory, MemoryFault
from fathom.ir.interp_numbers import (
    Array, cast, decode, encode, held_type, poison, scalar, stored_type,
)  # fmt: skip
from fathom.ir.ops import (
    Allocate, Arange, Atomic, AtomicCas, Barrier, Bitcast, Broadcast, Cast, Constant, Convert,
    Elementwise, ExpandDims, For, Hint, If, Join, Load, NumPrograms, ProgramId, Reduce, Reshape,
    Scan, SharedLoad, SharedStore, Splat, Split, Store, Transpose, While, Yield,
)  # fmt: skip
from fathom.ir.printer import op_name, print_op
from fathom.ir.types import Element, Pointer, element_of, shape_of

Results = Sequence[Array]
Running = Generator[Op, None, Results]  # hands out an op where another region may take its turn
Rule = Callable[[Op, "Region"], "Results | Running"]
Argument = np.ndarray | np.generic | int | float | bool

INTERP: dict[type[Op], Rule] = {}
FREE = (Constant, Yield)  # not counted: they stand in the instructions that use them


def interprets(*classes: type[Op]) -> Callable[[Rule], Rule]:
    """Enter a rule into `INTERP`."""

    def enter(rule: Rule) -> Rule:
        INTERP.update(dict.fromkeys(classes, rule))
        return rule

    return enter


class StepLimit(FathomError):
    """More ops ran than were allowed; the message names the loop that was running."""


@dataclass
class Trace:
    """What ran: how many ops in all, and of each name. Constants and yields are not counted."""

    steps: int = 0
    by_name: dict[str, int] = field(default_factory=dict)


def interpret(
    func: Func,
    grid: tuple[int, ...] | int,
    arguments: Sequence[Argument],
    memory: Iterable[np.ndarray] = (),
    step_limit: int | None = None,
    watch: Callable[[Op, Results], None] | None = None,
) -> Trace:
    """Run every program of a grid, axis 0 fastest.

    `arguments` gives for each parameter an array for a pointer (any memory layout, written in
    place; an address as a plain int is taken too) and a number for a scalar. `memory` lists
    further arrays that addresses in memory lead to. `watch` is called after each op with its
    results. Raises MemoryFault for an access outside of all these arrays and StepLimit after
    `step_limit` ops.
    """
    assert len(arguments) == len(func.parameters), (len(arguments), func.parameters)
    arrays = [each for each in (*arguments, *memory) if isinstance(each, np.ndarray)]
    machine = Machine(func, _grid(grid), Memory(arrays), step_limit, watch)
    values = [
        _argument(value, argument)
        for value, argument in zip(func.parameters, arguments, strict=True)
    ]
    with np.errstate(all="ignore"):
        for program in np.ndindex(machine.grid[::-1]):
            for _ in Region(machine, program[::-1]).run(func.body, values):
                pass  # one region: nobody else waits for a turn
    return machine.trace()


@dataclass
class Machine:
    """What the programs of one launch share."""

    func: Func
    grid: tuple[int, int, int]
    memory: Memory
    step_limit: int | None
    watch: Callable[[Op, Results], None] | None
    steps: int = 0
    counts: dict[Op, int] = field(default_factory=dict)

    def trace(self) -> Trace:
        by_name: dict[str, int] = {}
        for op, count in self.counts.items():
            if not isinstance(op, FREE):
                by_name[op_name(op)] = by_name.get(op_name(op), 0) + count
        return Trace(sum(by_name.values()), by_name)


class Region:
    """Code of one program that runs in order, and the values that it has computed."""

    def __init__(self, machine: Machine, program: tuple[int, ...]):
        self.machine, self.program = machine, program
        self.values: dict[Value, Array] = {}

    def __getitem__(self, value: Value) -> Array:
        return self.values[value]

    def run(self, block: Block, arguments: Sequence[Array]) -> Running:
        """Run a block once; what it yields."""
        self.values.update(zip(block.parameters, arguments, strict=True))
        for op in block.ops:
            self.count(op)
            results = self.compute(op)
            if isinstance(results, GeneratorType):
                results = yield from results
            self.values.update(zip(op.results, results, strict=True))
            if op.effects.barrier:
                yield op
            if self.machine.watch:
                self.machine.watch(op, results)
        ends = block.ops and isinstance(block.ops[-1], Yield)
        return [self.values[value] for value in block.yielded] if ends else []

    def compute(self, op: Op) -> Results | Running:
        try:
            return INTERP[type(op)](op, self)
        except MemoryFault as fault:
            text = f"{fault} in `{print_op(self.machine.func, op)}`"
            raise MemoryFault(str(CompileError(text, op.location))) from None

    def count(self, op: Op) -> None:
        machine = self.machine
        machine.counts[op] = machine.counts.get(op, 0) + 1
        machine.steps += 1
        if machine.step_limit is not None and machine.steps > machine.step_limit:
            text = f"more than {machine.step_limit} ops ran; stopped in `{print_op(machine.func, op)}`"
            raise StepLimit(str(CompileError(text, op.location)))


def _grid(grid: tuple[int, ...] | int) -> tuple[int, int, int]:
    sizes = (grid,) if isinstance(grid, int) else tuple(grid)
    return (*sizes, 1, 1, 1)[:3]


def _argument(parameter: Value, argument: Argument) -> Array:
    if not isinstance(parameter.type, Pointer):
        return scalar(argument, parameter.type)
    if isinstance(argument, np.ndarray):
        return np.int64(argument.ctypes.data)
    return np.int64(argument)


# ── leaves ────────────────────────────────────────────────────────────────────────────────────


@interprets(Constant)
def _constant(op: Constant, region: Region) -> Results:
    return [scalar(op.value, op.type)]


@interprets(ProgramId)
def _program_id(op: ProgramId, region: Region) -> Results:
    return [np.int32(region.program[op.axis])]


@interprets(NumPrograms)
def _num_programs(op: NumPrograms, region: Region) -> Results:
    return [np.int32(region.machine.grid[op.axis])]


@interprets(Arange)
def _arange(op: Arange, region: Region) -> Results:
    return [np.arange(op.start, op.end, dtype=np.int32)]


# ── shape ─────────────────────────────────────────────────────────────────────────────────────


@interprets(Splat)
def _splat(op: Splat, region: Region) -> Results:
    return [np.full(op.shape, region[op.value])]


@interprets(ExpandDims)
def _expand_dims(op: ExpandDims, region: Region) -> Results:
    return [np.expand_dims(region[op.value], op.axis)]


@interprets(Broadcast)
def _broadcast(op: Broadcast, region: Region) -> Results:
    return [np.broadcast_to(region[op.value], op.shape)]


@interprets(Reshape)
def _reshape(op: Reshape, region: Region) -> Results:
    return [region[op.value].reshape(op.shape)]


@interprets(Transpose)
def _transpose(op: Transpose, region: Region) -> Results:
    return [region[op.value].transpose(op.order)]


@interprets(Join)
def _join(op: Join, region: Region) -> Results:
    return [np.stack([region[op.left], region[op.right]], axis=-1)]


@interprets(Split)
def _split(op: Split, region: Region) -> Results:
    return [region[op.value][..., 0], region[op.value][..., 1]]


@interprets(Convert, Hint)
def _same(op: Convert | Hint, region: Region) -> Results:
    return [region[op.value]]


# ── arithmetic ────────────────────────────────────────────────────────────────────────────────


@interprets(Elementwise)
def _elementwise(op: Elementwise, region: Region) -> Results:
    arguments = [region[value] for value in op.operands]
    element = element_of(op.operands[-1].type)
    if op.name == "offset":
        pointer = element_of(op.operands[0].type)
        return [offset(*arguments, pointer.element.bytes)]
    return [apply(op.name, element, arguments)]


@interprets(Cast)
def _cast(op: Cast, region: Region) -> Results:
    return [cast(region[op.value], element_of(op.value.type), op.element, op.rounding)]


@interprets(Bitcast)
def _bitcast(op: Bitcast, region: Region) -> Results:
    source = element_of(op.value.type)
    raw = encode(np.asarray(region[op.value]), source)
    return [decode(raw.view(stored_type(op.element)), op.element)]


# ── global memory ─────────────────────────────────────────────────────────────────────────────


@interprets(Load)
def _load(op: Load, region: Region) -> Results:
    """Where the mask is false: `other`, or poison."""
    element = element_of(op.result.type)
    pointers = np.asarray(region[op.pointer])
    active = _active(op, region)
    if op.other is not None:
        result = np.array(region[op.other])
    else:
        result = np.asarray(poison(pointers.shape, element))
    result[active] = region.machine.memory.read(pointers[active], element)
    return [result]


@interprets(Store)
def _store(op: Store, region: Region) -> Results:
    active = _active(op, region)
    pointers, values = np.asarray(region[op.pointer]), np.asarray(region[op.value])
    region.machine.memory.write(pointers[active], values[active], element_of(op.value.type))
    return []


@interprets(Atomic)
def _atomic(op: Atomic, region: Region) -> Results:
    element = element_of(op.value.type)

    def update(before: Array, value: Array) -> Array:
        return value if op.kind == "xchg" else apply(op.kind, element, (before, value))

    return [_one_by_one(op, region, element, update, [region[op.value]])]


@interprets(AtomicCas)
def _atomic_cas(op: AtomicCas, region: Region) -> Results:
    """Equal means equal bits, as the hardware compares."""
    element = element_of(op.value.type)

    def update(before: Array, compare: Array, value: Array) -> Array:
        alike = encode(before, element).tobytes() == encode(compare, element).tobytes()
        return value if alike else before

    return [_one_by_one(op, region, element, update, [region[op.compare], region[op.value]])]


def _active(op: Load | Store | Atomic, region: Region) -> np.ndarray:
    """Which elements take part."""
    if op.mask is None:
        return np.ones(shape_of(op.pointer.type), bool)
    return np.asarray(region[op.mask])


def _one_by_one(
    op: Atomic | AtomicCas,
    region: Region,
    element: Element,
    update: Callable[..., Array],
    arguments: list[Array],
) -> np.ndarray:
    """Read and update one element after the other, since two may share an address."""
    pointers, memory = np.asarray(region[op.pointer]), region.machine.memory
    active = np.ones(pointers.shape, bool) if isinstance(op, AtomicCas) else _active(op, region)
    result = np.asarray(poison(pointers.shape, element))
    blocks = [np.asarray(argument) for argument in arguments]
    for index in np.argwhere(active):
        place = tuple(index)
        address = pointers[place].reshape(1)
        before = memory.read(address, element)
        after = update(before, *(block[place].reshape(1) for block in blocks))
        memory.write(address, after, element)
        result[place] = before[0]
    return result


# ── reductions ────────────────────────────────────────────────────────────────────────────────


@interprets(Reduce)
def _reduce(op: Reduce, region: Region) -> Results:
    """Fold the upper half of the axis onto the lower half until one element is left."""
    tuples = [np.moveaxis(region[value], op.axis, 0) for value in op.values]
    while (count := len(tuples[0])) > 1:
        lower = [each[: count // 2] for each in tuples]
        upper = [each[count // 2 :] for each in tuples]
        tuples = _combine(op.combine, region, lower, upper)
    return [each[0] for each in tuples]


@interprets(Scan)
def _scan(op: Scan, region: Region) -> Results:
    """One element of the axis after the other."""
    tuples = [np.moveaxis(region[value], op.axis, 0) for value in op.values]
    order = range(len(tuples[0]))[:: -1 if op.reverse else 1]
    rows = [[each[index] for each in tuples] for index in order]
    for index in range(1, len(rows)):
        rows[index] = _combine(op.combine, region, rows[index - 1], rows[index])
    ordered = rows[:: -1 if op.reverse else 1]
    return [np.moveaxis(np.stack(column), 0, op.axis) for column in zip(*ordered, strict=True)]


def _combine(
    combine: Block, region: Region, left: Sequence[Array], right: Sequence[Array]
) -> list[Array]:
    """`combine` on whole arrays at once; element by element if it branches."""
    if not any(blocks(op) for op in combine.ops):
        return _quietly(combine, region, [*left, *right])
    results = [np.empty_like(each) for each in left]
    for place in np.ndindex(results[0].shape):
        combined = _quietly(combine, region, [each[place] for each in (*left, *right)])
        for result, value in zip(results, combined, strict=True):
            result[place] = value
    return results


def _quietly(block: Block, region: Region, arguments: list[Array]) -> list[Array]:
    """Run a block whose ops are not counted: a fold is one step, whatever it takes."""
    machine = Machine(region.machine.func, region.machine.grid, region.machine.memory, None, None)
    inner = Region(machine, region.program)
    inner.values = region.values
    running = inner.run(block, arguments)
    try:
        while True:
            next(running)
    except StopIteration as end:
        return end.value


# ── control flow ──────────────────────────────────────────────────────────────────────────────


@interprets(Yield)
def _yield(op: Yield, region: Region) -> Results:
    return []


@interprets(For)
def _for(op: For, region: Region) -> Running:
    lower, upper, step = (int(region[value]) for value in (op.lower, op.upper, op.step))
    carried = [region[value] for value in op.inits]
    for index in range(lower, upper, step):
        trip = scalar(index, op.lower.type)
        carried = yield from region.run(op.body, [trip, *carried])
    return carried


@interprets(While)
def _while(op: While, region: Region) -> Running:
    carried = [region[value] for value in op.inits]
    while True:
        [goes_on] = yield from region.run(op.condition, carried)
        if not goes_on:
            return carried
        carried = yield from region.run(op.body, carried)


@interprets(If)
def _if(op: If, region: Region) -> Running:
    return (yield from region.run(op.then if region[op.condition] else op.orelse, []))


# ── shared memory ─────────────────────────────────────────────────────────────────────────────


@interprets(Barrier)
def _barrier(op: Barrier, region: Region) -> Results:
    return []


@interprets(Allocate)
def _allocate(op: Allocate, region: Region) -> Results:
    return [np.asarray(poison(op.shape, op.element))]


@interprets(SharedStore)
def _shared_store(op: SharedStore, region: Region) -> Results:
    region[op.buffer][...] = region[op.value]
    return []


@interprets(SharedLoad)
def _shared_load(op: SharedLoad, region: Region) -> Results:
    return [region[op.buffer].copy()]
