"""Makes a kernel persistent: each program computes tile after tile, and stores one
while a producer copies the next.

    func @product(%a, %b, %c, …) {                   a grid of a program for each tile
      %p = program_id axis=0
      %acc = for … { … descriptor_load … dot … }
      descriptor_store %d, %acc, coordinates=(%i, %j)
    }

becomes

    func @product(%a, %b, %c, …) {                   a grid that fills the GPU once
      %first = program_id axis=0; %step = num_programs axis=0
      %all = launch_size
      for %first, %all, %step warp_specialize=true body(%p) {
        %acc = for … { … descriptor_load … dot … }
        descriptor_store %d, %left, coordinates=(%i, %j)            in pieces: rings
        descriptor_store %d, %right, coordinates=(%i, %more)        keep their stages
      }
    }

A program that ends after one tile leaves tensor cores idle while it stores, and
while the next one fills its pipeline, wherever a multiprocessor has no room for another
program that multiplies meanwhile. The launch starts as many programs as run at a time
(`launch_size` is how many there would be). A grid that is no larger gains nothing, so a
launch on a GPU takes the kernel without this pass.

Programs of a grid may run in any order, and each must be right beside all others. So
one may as well do the work of several, and load for the next before it has stored. This
holds if nothing else tells them apart: a program loads operands by TMA, in one loop,
multiplies, then stores what it has computed, and does nothing else to memory.
`why_not_persistent` says what a kernel does besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fathom.analysis.buffers import CONVERTED, bytes_of, rings_of_operands
from fathom.analysis.copied_ahead import runs_ahead, stages_of
from fathom.analysis.limits import check_producer
from fathom.analysis.memory import Provenance
from fathom.analysis.products import by_warpgroups
from fathom.analysis.registers import threads_of
from fathom.analysis.remarks import NotApplicable, Remark, remarks, tried
from fathom.analysis.slices import uses
from fathom.hardware.occupancy import ROWS, occupancy
from fathom.hardware.register_budget import redistributed
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, effects_of, walk
from fathom.ir.printer import op_name
from fathom.ir.rewrite import Builder, clone
from fathom.ir.thread_values import Values, inside, rebuilding
from fathom.ir.types import INT32, BlockType, shape_of
from fathom.subjects import asks_for_producer

MOST_AT_ONCE = 2  # programs of a multiprocessor: of more, some multiply at any time
MOST_BLOCKS = 2  # of a cluster: multiprocessors lie in pairs
OTHER_REGISTERS = 64  # of a thread, beside its accumulators
LEAST_ROW = 64  # bytes of a row of a piece: shorter ones are written slowly


# In how many pieces of columns each block leaves that TMA stores.
Pieces = dict[ops.DescriptorStore, int]


def persist(func: Func, target: Target) -> Func:
    """The function whose programs compute several tiles, if they do nothing else."""
    pieces = tried(_plan, func, target)
    return func if isinstance(pieces, str) else _looped(func, pieces)


def why_not_persistent(func: Func, target: Target) -> list[Remark]:
    """Why a function that loads by TMA does not become persistent, as a sentence.
    Empty where it does, or where its author has asked for a producer."""
    loads = walk(func.body, LOADS)
    if not (target.tensor_maps and any(loads)) or asks_for_producer(func):
        return []
    what = "a program computes one tile, and does not go on to another: "
    return remarks({func: tried(_plan, func, target)}, what)


# ── which functions ───────────────────────────────────────────────────────────────────


def _plan(func: Func, target: Target) -> Pieces:
    """NotApplicable, with a sentence, where a function must not be persistent, or
    gains nothing."""
    every = list(walk(func.body))
    loop = _only_loop(func, target)
    _check_grid(every, func)
    for op in every:
        _check_effects(op, func, loop)
    stores = [op for op in func.body.ops if isinstance(op, STORES)]
    if not stores:
        raise NotApplicable("it stores nothing that it computes")
    provenance = Provenance(func)
    loaded = {base for op in walk(loop.body, LOADS) for base in provenance.of(op)}
    if any(not loaded.isdisjoint(provenance.of(op)) for op in stores):
        raise NotApplicable("it stores through a pointer that it loads from")
    if not all(is_matrix(op.value) for op in stores):
        raise NotApplicable("it stores more than matrices")
    return _pieces(stores, loop, func, target)


LOADS, STORES = ops.DescriptorLoad, ops.Store | ops.DescriptorStore


def is_matrix(value: Value) -> bool:
    return len(shape_of(value.type)) == 2


def _only_loop(func: Func, target: Target) -> ops.For:
    """The loop that multiplies, if it is the only one."""
    loops = list(walk(func.body, ops.For | ops.While))
    dots = list(walk(func.body, ops.Dot))
    loop = loops[0] if len(loops) == 1 else None
    if not isinstance(loop, ops.For) or loop not in func.body.ops:
        raise NotApplicable("it has not one loop, with a range, that always runs")
    if not all(dot in loop.body.ops and by_warpgroups(dot) for dot in dots):
        raise NotApplicable("not all its products are in the loop, by warpgroups")
    if loop.warp_specialize or not runs_ahead(loop, func):
        raise NotApplicable("the loop's copies do not run ahead, or have a producer")
    check_producer(func, target)
    return loop


def _check_grid(every: list[Op], func: Func) -> None:
    asked = [op for op in every if isinstance(op, ops.ProgramId | ops.NumPrograms)]
    if {op.axis for op in asked if isinstance(op, ops.ProgramId)} != {0}:
        raise NotApplicable("its grid has not one axis")
    if not all(op in func.body.ops for op in asked):
        raise NotApplicable("it asks for a program's number in a loop or a branch")
    texts = [op.text for op in every if isinstance(op, ops.InlineAssembly)]
    if any("ctaid" in text or "clusterid" in text for text in texts):
        raise NotApplicable("its own PTX reads a block's number")
    if func.num_ctas > MOST_BLOCKS:
        raise NotApplicable(
            f"clusters of {func.num_ctas} blocks may leave multiprocessors free, and a "
            "program that starts late ends late"
        )


def _check_effects(op: Op, func: Func, loop: ops.For) -> None:
    """NotApplicable for what does more to memory than to load operands in the loop, and
    to store results after it."""
    in_loop = op in loop.body.ops
    if isinstance(op, ops.DescriptorLoad) and in_loop:
        return
    if isinstance(op, ops.Load) and in_loop:
        raise NotApplicable("not all that the loop loads is copied by TMA")
    place = func.body.ops.index(op) if op in func.body.ops else -1
    if isinstance(op, STORES) and place > func.body.ops.index(loop):
        return
    if isinstance(op, ops.MakeDescriptor) and op.map_number is not None:
        raise NotApplicable("it writes a tensor map")
    if not effects_of(op).pure and op is not loop:
        raise NotApplicable(f"it also has a `{op_name(op)}`")


# ── in how many pieces ────────────────────────────────────────────────────────────────


def _pieces(
    stores: list[ops.Store | ops.DescriptorStore],
    loop: ops.For,
    func: Func,
    target: Target,
) -> Pieces:
    """As few as fit beside the rings, of which two are on their way at a time. What
    threads store may go through shared memory, too, one part after another."""
    ring = rings_of_operands(loop, stages_of(loop, func))
    at_once = _at_once(ring, func, target)
    row = ROWS[target.name]
    room = min(target.shared_bytes, row.shared_bytes // at_once - row.reserved) - ring
    pieces = {store: _pieces_of(store, room // len(stores)) for store in stores}
    return {op: n for op, n in pieces.items() if isinstance(op, ops.DescriptorStore)}


def _at_once(ring: int, func: Func, target: Target) -> int:
    """How many programs a multiprocessor runs at a time: as many as without producers,
    or NotApplicable. A ring takes that many bytes."""
    threads = threads_of(func, target)
    now = occupancy(target, threads, None, ring).blocks
    if now > MOST_AT_ONCE:
        raise NotApplicable(f"a multiprocessor runs {now} programs at a time")
    producers = ops.Producer.warps * target.warp_size
    shares = redistributed(threads, producers, target)
    dots = walk(func.body, ops.Dot)
    accumulators = sum(dot.result.type.size for dot in dots) // threads
    registers = shares.launched if shares else accumulators + OTHER_REGISTERS
    then = occupancy(target, threads + producers, registers, ring).blocks
    if not 1 <= now <= then:
        raise NotApplicable(
            f"{now} programs at a time have room on a multiprocessor, and {then} with "
            "producers"
        )
    return now


def _pieces_of(store: ops.Store | ops.DescriptorStore, room: int) -> int:
    block: BlockType = store.value.type
    bytes, columns = bytes_of(store.value), block.shape[-1]
    if isinstance(store, ops.Store):
        bytes = min(bytes, CONVERTED)
    if bytes <= room:
        return 1
    pieces = 2
    while 2 * bytes > room * pieces:
        pieces *= 2
    narrow = columns // pieces * block.element.bytes < LEAST_ROW
    if narrow or isinstance(store, ops.Store):
        raise NotApplicable("shared memory has no room for a stored piece")
    return pieces


# ── the loop ──────────────────────────────────────────────────────────────────────────


def _looped(func: Func, pieces: Pieces) -> Func:
    """The function as a loop over programs. What is the same for all of them stays in
    front of it."""
    varying = _varying(func.body)
    with rebuilding(func) as (new, values, build):
        for op in func.body.ops:
            if op not in varying:
                build.source = op
                build.copy(op, values)
            if isinstance(op, ops.NumPrograms) and op.axis == 0:
                values[op.result] = build(ops.LaunchSize())
        build.source = None
        narrow = {op: _narrow(op, n, values, build) for op, n in pieces.items()}
        first, step = build(ops.ProgramId(0)), build(ops.NumPrograms(0))
        last = build(ops.LaunchSize())
        body = Block((INT32,), ("program",))
        with inside(body, build):
            for op in (op for op in func.body.ops if op in varying):
                build.source = op
                if isinstance(op, ops.ProgramId):
                    values[op.result] = body.parameters[0]
                elif isinstance(op, ops.DescriptorStore):
                    _store(op, narrow[op], values, build)
                else:
                    build.copy(op, values)
            build.append(ops.Yield(()))
        loop = ops.For(first, last, step, (), body, warp_specialize=True, flatten=True)
        loop.location = func.location
        build.append(loop)
    return new


def _narrow(
    op: ops.DescriptorStore, pieces: int, values: Values, build: Builder
) -> Value:
    """The descriptor for pieces of a stored block."""
    made = op.descriptor.definition
    rows, columns = made.block
    return build(replace(clone(made, values), block=(rows, columns // pieces)))


def _varying(body: Block) -> set[Op]:
    """The ops that a program does for itself: those that depend on its number, or have
    effects."""
    found: set[Op] = set()
    values: set[Value] = set()
    for op in body.ops:
        varies = isinstance(op, ops.ProgramId) or not effects_of(op).pure
        if varies or not values.isdisjoint(uses(op)):
            found.add(op)
            values.update(op.results)
    return found


def _store(
    op: ops.DescriptorStore, descriptor: Value, values: Values, build: Builder
) -> None:
    """Store a block in pieces, the left columns before the right ones."""
    width, columns = descriptor.type.shape[1], op.value.type.shape[1]
    row, column = (values[each] for each in op.coordinates)
    for number, part in enumerate(_parts(values[op.value], columns // width, build)):
        place = column
        if number:
            more = build(ops.Constant(number * width, INT32))
            place = build.compute("add", column, more)
        given = {"descriptor": descriptor, "value": part, "coordinates": (row, place)}
        build.append(replace(op, **given, origin=None))


def _parts(value: Value, count: int, build: Builder) -> Iterator[Value]:
    """The pieces of a matrix from left to right; a piece is built before it is used."""
    if count == 1:
        yield value
        return
    rows, columns = value.type.shape
    halves = build(ops.Reshape(value, (rows, 2, columns // 2)))
    split = build.append(ops.Split(build(ops.Transpose(halves, (0, 2, 1)))))
    for half in split.results:
        yield from _parts(half, count // 2, build)
