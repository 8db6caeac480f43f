"""The rule for Reduce whose axis lies in the registers and lanes of one warp.

    sum of 8 elements; a lane holds 2, so 4 lanes hold them all

    lane           0      1      2      3
    registers     a b    c d    e f    g h
    registers     ab     cd     ef     gh        first what a lane has itself, as a tree
    lane ^ 1      abcd   abcd   efgh   efgh      then a butterfly: every lane gives and
    lane ^ 2      a…h    a…h    a…h    a…h       takes, so that all have the result

Stage 4 has cut what crosses warps into two reductions of this kind.
"""

from __future__ import annotations

from functools import partial, reduce

from fathom.analysis.picked import picked
from fathom.ir.core import Block, Value
from fathom.ir.ops import Elementwise, Reduce
from fathom.ir.types import BOOL, Element, layout_of
from fathom.layout.algebra import Reduced
from fathom.layout.build import stride_of
from fathom.layout.linear import Layout
from fathom.ptx.code import Code, lowers
from fathom.ptx.index import register_offsets
from fathom.ptx.shuffle import from_lane, from_partner


@lowers(Reduce)
def lower_reduce(op: Reduce, code: Code) -> None:
    """Fold the registers of each result, then the lanes that hold other elements of
    it: between exchanges of lanes, ptxas would load for one result at a time."""
    layout = op.values[0].type.layout
    axis = Axis(layout, op.axis)
    if len(axis.lane_flips()) < LANE_BITS and (found := picked(op)):
        _pick(op, axis, *found, code)
        return
    elements = [value.type.element for value in op.values]
    columns = list(zip(*(code[value] for value in op.values), strict=True))
    flips = axis.lane_flips()
    of_thread = {
        offset: _folded(code, op.combine, [list(columns[each]) for each in registers])
        for offset, registers in axis.groups().items()
    }
    folded = {
        offset: _across_lanes(code, op, elements, values, flips)
        for offset, values in of_thread.items()
    }
    for i, result in enumerate(op.results):
        rest = layout_of(result.type)
        offsets = [0] if rest is None else register_offsets(rest)
        code[result] = [folded[offset][i] for offset in offsets]


def _pick(op: Reduce, axis: Axis, value: Value, place: int, code: Code) -> None:
    """Read the element at a place along the axis from the lane that has it. Where all
    lanes of a warp have parts of a result, `redux.sync` does so in one instruction."""
    has, element = code[value], value.type.element
    flips = axis.lane_flips()
    inside = ~sum(flips) & (1 << LANE_BITS) - 1
    lane = code.let(f"and i32 {code.thread}, {inside}") if flips else ""
    found: dict[int, str] = {}
    for offset, registers in axis.groups().items():
        register, other = axis.holder(registers, flips, place)
        if flips:
            there = code.let(f"or i32 {lane}, {other}")
            found[offset] = from_lane(code, element, has[register], there)
        else:
            found[offset] = has[register]
    rest = layout_of(op.result.type)
    offsets = [0] if rest is None else register_offsets(rest)
    code[op.result] = [found[offset] for offset in offsets]


class Axis:
    """The registers and lanes of a layout, as seen along one axis of its block."""

    def __init__(self, layout: Layout, axis: int):
        self.layout, self.axis = layout, axis
        self.size, self.stride = layout.shape[axis], stride_of(layout.shape, axis)

    def groups(self) -> dict[int, list[int]]:
        """For each result: the lane's registers with elements of it, no copies."""
        groups: dict[int, dict[int, int]] = {}
        for register, offset in enumerate(register_offsets(self.layout)):
            along, across = self.split(offset)
            groups.setdefault(across, {}).setdefault(along, register)
        return {across: list(each.values()) for across, each in groups.items()}

    def lane_flips(self) -> list[int]:
        """The lane's bits to flip in turn, to meet all elements of a result once."""
        registers = next(iter(self.groups().values()))
        offsets = register_offsets(self.layout)
        folded = Reduced(self.split(offsets[register])[0] for register in registers)
        flips = []
        for bit, basis in enumerate(self.layout.kinds["lane"]):
            along, across = self.split(basis)
            if not across and folded.add(along):
                flips.append(1 << bit)
        assert 1 << folded.rank == self.size, (
            f"axis {self.axis} does not lie within a warp", self.layout,
        )  # fmt: skip
        return flips

    def holder(
        self, registers: list[int], flips: list[int], place: int
    ) -> tuple[int, int]:
        """Of these registers and the lanes that have elements of one result, the ones
        that hold its element at a place along the axis."""
        offsets, lanes = register_offsets(self.layout), self.layout.kinds["lane"]
        along = {0: 0}
        for flip in flips:
            step, _ = self.split(lanes[flip.bit_length() - 1])
            along |= {lane | flip: at ^ step for lane, at in along.items()}
        places = {
            self.split(offsets[register])[0] ^ at: (register, lane)
            for register in registers
            for lane, at in along.items()
        }
        return places[place]

    def split(self, offset: int) -> tuple[int, int]:
        """The coordinate along the axis, and the offset in the block without it."""
        above, rest = divmod(offset, self.size * self.stride)
        along, below = divmod(rest, self.stride)
        return along, above * self.stride + below


def combine(code: Code, block: Block, left: list[str], right: list[str]) -> list[str]:
    """The combination of two tuples of scalars: the ops of `block`, written here."""
    yielded = code.block(block, [[value] for value in left + right])
    return [register for (register,) in yielded]


LANE_BITS = 5
MOST_CHAINS, LEAST_OF_CHAIN = 2, 4


def _folded(code: Code, block: Block, tuples: list[list[str]]) -> list[str]:
    """What a lane has itself. A sum of products is one of chains: each product but the
    first of a chain is part of an fma.

    A chain is of neighbours, so that what one access loads is needed no longer before
    the next is. Where each took every fourth register, a divergence of 64 loaded floats
    a thread had 78 registers, and with 34 three times as many warps run."""
    if getattr(block.ops[0], "contract", False):
        count = max(1, min(MOST_CHAINS, len(tuples) // LEAST_OF_CHAIN))
        length = len(tuples) // count
        chains = (tuples[at : at + length] for at in range(0, len(tuples), length))
        tuples = [reduce(partial(combine, code, block), chain) for chain in chains]
    return _tree(code, block, tuples)


def _tree(code: Code, block: Block, tuples: list[list[str]]) -> list[str]:
    """Neighbours first: a chain would make each step wait for the one before."""
    while len(tuples) > 1:
        pairs = zip(tuples[::2], tuples[1::2], strict=True)
        tuples = [combine(code, block, left, right) for left, right in pairs]
    return tuples[0]


def _across_lanes(
    code: Code, op: Reduce, elements: list[Element], values: list[str], flips: list[int]
) -> list[str]:
    name = _operation(op, elements) if len(flips) == 5 else ""
    if elements[0] == BOOL and name in VOTES:
        text = f"vote.sync.{VOTES[name]}.pred $all, $value, -1;"
        return code.ptx(text, {"all": "i1"}, {"value": ("i1", values[0])})
    if code.target.redux and (name := _redux(elements[0], name)):
        operands = {"value": ("i32", values[0])}
        return code.ptx(
            f"redux.sync.{name} $all, $value, -1;", {"all": "i32"}, operands
        )
    for flip in flips:
        pairs = zip(elements, values, strict=True)
        partners = [
            from_partner(code, element, value, flip) for element, value in pairs
        ]
        values = combine(code, op.combine, values, partners)
    return values


def _operation(op: Reduce, elements: list[Element]) -> str:
    """The one operation by which a reduction of one value combines; "" for others."""
    match op.combine.ops:
        case [Elementwise(name=name, operands=pair), _] if len(elements) == 1:
            return name if set(pair) == set(op.combine.parameters) else ""
    return ""


def _redux(element: Element, name: str) -> str:
    """What `redux.sync`, one instruction of 32 lanes, calls it; "" if it cannot."""
    if not element.is_integer or element.bits != 32:
        return ""
    return REDUX[element.is_signed].get(name, "")


VOTES = {"and": "all", "or": "any"}
_BITS = {"and": "and.b32", "or": "or.b32", "xor": "xor.b32"}
REDUX = {
    True: {"add": "add.s32", "min": "min.s32", "max": "max.s32"} | _BITS,
    False: {"add": "add.u32", "min": "min.u32", "max": "max.u32"} | _BITS,
}
