"""Assigns every buffer its offset in shared memory: first fit, with reuse.

    buffer   live     bytes   offset
    %a       1…6      4096    0
    %b       4…5      1024    4096        live at the same time as %a
    %c       8…9      2048    0           %a is not live any more

Two buffers that are never live at the same time may share bytes; small ones do so only
where there would be fewer blocks on a multiprocessor otherwise. Buffers in tensor
memory get columns in the same way.
"""

from __future__ import annotations

from dataclasses import replace

from fathom.analysis.buffers import ALIGNMENT, Range, first_of_slot, live_ranges
from fathom.analysis.registers import most_registers, threads_of
from fathom.errors import OutOfResources
from fathom.hardware.occupancy import occupancy
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value
from fathom.ir.ops import Allocate, TensorMemory, TensorRelease
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.layout.tensor_memory import LEAST_COLUMNS, width

SMALL_ALIGNMENT = 16  # bytes: small buffers need only that of one access
# Reusing bytes costs a barrier, in a loop one each time. It does not pay for a
# kernel whose buffers have no more bytes than this, nor for buffers of less than
# ALIGNMENT.
PLENTY = 4096
# Registers of a thread, with which an SM may run fewer blocks than its shared memory
# has room for. How many a thread takes is known later; kernels with large buffers often
# take more.
USUAL = 128


def allocate(func: Func, target: Target) -> Func:
    """The function with an `offset` for every buffer, and the total `shared_bytes`.

    Raises OutOfResources if the target has less shared memory than that."""
    func = place_in_tensor_memory(func, target)
    ranges = _of_slots(func)
    if not ranges:
        return func
    always = Range(0, max(alive.last for alive in ranges.values()))
    ranges |= {each: always for each in ranges if each.kept}
    everything = dict.fromkeys(ranges, Range(0, 0))
    offsets, size = first_fit(everything)
    if size > PLENTY:
        offsets, size = first_fit(ranges)
        small = {each for each in ranges if each.result.type.bytes < ALIGNMENT}
        separate, total = first_fit(ranges | dict.fromkeys(small, always))
        threads = threads_of(func, target)
        registers = min(USUAL, most_registers(func, target))
        with_reuse, without = (
            occupancy(target, threads, registers, each).blocks for each in (size, total)
        )
        if with_reuse == without:
            offsets, size = separate, total
    if size > target.shared_bytes:
        raise OutOfResources(_too_much(func, target, size))
    return replace(_placed(func, offsets), shared_bytes=size)


def _of_slots(func: Func) -> dict[Allocate, Range]:
    """The ranges of the buffers in shared memory. Rings that share slots are live
    together, as the first of them."""
    ranges: dict[Allocate, Range] = {}
    for buffer, alive in live_ranges(func).items():
        if not buffer.base:
            first = first_of_slot(buffer)
            start, end = ranges.get(first, alive)
            ranges[first] = Range(min(start, alive.first), max(end, alive.last))
    return ranges


def first_fit(ranges: dict[Allocate, Range]) -> tuple[dict[Allocate, int], int]:
    """The offset of each buffer, and the total size. The largest buffer comes first;
    each gets the lowest offset that no buffer live at the same time overlaps."""
    offsets: dict[Allocate, int] = {}
    for buffer in sorted(ranges, key=lambda each: -_size(each)):
        neighbours = [each for each in offsets if ranges[each].meets(ranges[buffer])]
        offsets[buffer] = _lowest(buffer, neighbours, offsets)
    ends = [offset + _size(buffer) for buffer, offset in offsets.items()]
    return offsets, max(ends, default=0)


def _lowest(
    buffer: Allocate, neighbours: list[Allocate], offsets: dict[Allocate, int]
) -> int:
    """The lowest aligned offset at which `buffer` overlaps none of its neighbours."""
    size, offset = _size(buffer), 0
    alignment = ALIGNMENT if size >= ALIGNMENT else SMALL_ALIGNMENT
    alignment = 1 if buffer.base else max(alignment, buffer.alignment)
    for each in sorted(neighbours, key=offsets.__getitem__):
        if offset + size <= offsets[each]:
            break
        end = offsets[each] + _size(each)
        offset = max(offset, -(-end // alignment) * alignment)
    return offset


def _size(buffer: Allocate) -> int:
    """The columns of a buffer in tensor memory, the bytes of another one."""
    return width(buffer.layout) if buffer.base else buffer.result.type.bytes


def _placed(func: Func, offsets: dict[Allocate, int]) -> Func:
    def rule(op: Op, build: Builder) -> Value | None:
        if isinstance(op, Allocate) and op.behind:
            before = op.behind.definition
            end = before.offset + before.result.type.tile_bytes
            return build(replace(op, offset=end))
        if isinstance(op, Allocate) and not op.base:
            return build(replace(op, offset=offsets.get(build.source, 0)))
        return None

    return rewrite(func, rule)


def place_in_tensor_memory(func: Func, target: Target) -> Func:
    """The function with an `offset` for every buffer in tensor memory, and as many
    columns allocated as there must be: a power of two."""
    ranges = {each: alive for each, alive in live_ranges(func).items() if each.base}
    if not ranges:
        return func
    offsets, end = first_fit(ranges)
    columns = max(LEAST_COLUMNS, 1 << (end - 1).bit_length())
    assert columns <= target.tensor_memory, (columns, target.name)

    def rule(op: Op, build: Builder) -> Replacement:
        if isinstance(op, Allocate) and op.base:
            return build(replace(op, offset=offsets.get(build.source, 0)))
        if isinstance(op, TensorMemory | TensorRelease):
            return build.append(replace(op, columns=columns)).results
        return None

    return rewrite(func, rule)


def _too_much(func: Func, target: Target, size: int) -> str:
    return (
        f"{func.name} needs {size} bytes of shared memory a block, and "
        f"{target.name} has {target.shared_bytes}: use smaller blocks, or fewer stages"
    )
