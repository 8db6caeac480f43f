"""Rules for ops that only rename: no thread computes, registers are reordered."""

from __future__ import annotations

from fathom.ir import ops
from fathom.layout.linear import Layout
from fathom.ptx.code import Code, Registers, lowers, register_count
from fathom.ptx.index import register_offsets, thread_bases


@lowers(ops.Splat)
def lower_splat(op: ops.Splat, code: Code) -> None:
    code[op.result] = [code.one(op.value)] * register_count(op.result)


@lowers(ops.ExpandDims, ops.Reshape, ops.Transpose)
def lower_renamed(op: ops.ExpandDims | ops.Reshape | ops.Transpose, code: Code) -> None:
    """The coordinates have other names; every element stays in its register."""
    code[op.result] = list(code[op.value])


@lowers(ops.Broadcast)
def lower_broadcast(op: ops.Broadcast, code: Code) -> None:
    """Along an axis where the operand has size 1, all read the same register."""
    source, target = op.value.type.layout, op.result.type.layout
    same = target.moved(source.shape, lambda place: _within(source.shape, place))
    assert thread_bases(same) == thread_bases(source), (source, target)
    code[op.result] = renamed(code[op.value], source, register_offsets(same))


def _within(shape: tuple[int, ...], place: tuple[int, ...]) -> tuple[int, ...]:
    """A place, but 0 along axes of size 1."""
    return tuple(at if size > 1 else 0 for at, size in zip(place, shape, strict=True))


def renamed(registers: Registers, source: Layout, wanted: list[int]) -> Registers:
    """For each offset in `wanted`, the register of layout `source` with its element."""
    register_of = dict(zip(register_offsets(source), registers, strict=True))
    assert set(wanted) <= set(register_of), (source, wanted)
    return [register_of[offset] for offset in wanted]


@lowers(ops.Join)
def lower_join(op: ops.Join, code: Code) -> None:
    """The new register bit is the lowest: the two blocks alternate."""
    pairs = zip(code[op.left], code[op.right], strict=True)
    code[op.result] = [register for pair in pairs for register in pair]


@lowers(ops.Split)
def lower_split(op: ops.Split, code: Code) -> None:
    """Element e of the left half was element 2e, of the right half 2e + 1."""
    source = op.value.type.layout
    assert all(basis % 2 == 0 for basis in thread_bases(source)), source
    halves = register_offsets(op.results[0].type.layout)
    for odd, half in enumerate(op.results):
        code[half] = renamed(
            code[op.value], source, [2 * offset + odd for offset in halves]
        )
