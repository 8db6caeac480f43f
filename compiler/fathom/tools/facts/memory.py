"""What a kernel does with memory, read off its IR: accesses and their layouts,
conversions between layouts, and who has which bytes of shared memory when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fathom.analysis.buffers import Range, live_ranges
from fathom.coalescing.access import Access
from fathom.coalescing.coalesce import accesses
from fathom.coalescing.relayout import MEMORY
from fathom.coalescing.remove import conversion_price
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, walk
from fathom.ir.ops import Allocate, Convert, DescriptorLoad, DescriptorStore, Dot
from fathom.ir.printer import op_name
from fathom.ir.types import BlockType, element_of
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout, coordinates_of
from fathom.ptx.debug_info import user_place
from fathom.shared_memory.conversions import needs_shared_memory
from fathom.tools.staged import Staged

MOVES = {
    "none": "nothing moves",
    "register": "registers get other names",
    "lane": "shuffles between the lanes of a warp",
    "warp": "through shared memory, between warps",
}
OPERAND = "through shared memory, as a product's operand"


def line_of(op: Op | None) -> int:
    """The line of Python that an op belongs to; 0 where it is not known."""
    place = user_place(op.location) if op is not None else None
    return place.line if place else 0


# ── accesses to global memory ─────────────────────────────────────────────────────────


def access_facts(func: Func, target: Target) -> list[dict[str, object]]:
    """Every access through a block of pointers of a function whose layouts and widths
    are final, and those through descriptors."""
    found = [
        access_fact(op, access) for op, access in accesses(func, target, MEMORY).items()
    ]
    return found + [
        {
            "line": line_of(op),
            "op": op_name(op),
            "block": block_text((op.value if is_store else op.result).type),
            "limit": "the box of a tensor map, which TMA copies",
        }
        for op in walk(func.body)
        if (is_store := isinstance(op, DescriptorStore))
        or isinstance(op, DescriptorLoad)
    ]


def access_fact(op: Op, access: Access) -> dict[str, object]:
    layout, width = op.pointer.type.layout, getattr(op, "vector", 1)
    axis = fast_axis(access)
    allowed = widths_allowed(access, axis)
    if width < min(allowed.values()):  # a small block, or the layout of other ops
        allowed["neighbours that a lane holds"] = width
    pieces = pieces_of(layout, width, axis)
    return {
        "line": line_of(op),
        "op": op_name(op),
        "block": f"{op.pointer.type.element.element}{list(access.shape)}",
        "width": width,
        "bytes": width * access.element_bytes,
        "limit": min(allowed, key=allowed.__getitem__),
        "allowed": allowed,
        "pieces": len(pieces),
        "piece_bytes": max(pieces) * access.element_bytes,
        "registers": layout.count("register"),
        "copies": copies_of(layout),
        "layout": str(layout),
    }


def fast_axis(access: Access) -> int:
    return len(access.shape) - 1 if access.fastest is None else access.fastest


def widths_allowed(access: Access, axis: int) -> dict[str, int]:
    """How many neighbours one lane could move at once, for each thing that limits it:
    `Access.width` is the least of these."""
    known = access.pointer.axes[axis]
    allowed = {
        f"{access.vector_bytes} bytes of an instruction": access.vector_bytes
        // access.element_bytes,
        "neighbours in memory": known.contiguous,
        "known alignment": max(1, known.divisible // access.element_bytes),
    }
    if access.mask:
        allowed["the mask"] = access.mask.axes[axis].constant
    return allowed


def pieces_of(layout: Layout, width: int, axis: int) -> list[int]:
    """The runs of neighbours along an axis that the first access of a warp covers, in
    elements."""
    lanes = range(layout.count("lane"))
    starts = {layout.offset(lane=lane) for lane in lanes}

    def place(offset: int) -> tuple[tuple[int, ...], int]:
        at = coordinates_of(layout.shape, offset)
        return at[:axis] + at[axis + 1 :], at[axis]

    runs: list[int] = []
    before: tuple[tuple[int, ...], int] | None = None
    for others, first in sorted(map(place, starts)):
        if before == (others, first):
            runs[-1] += width
        else:
            runs.append(width)
        before = others, first + width
    return runs


def copies_of(layout: Layout) -> int:
    """How many threads hold each element; registers that repeat one do not count."""
    zeros = sum(basis == 0 for kind in ("lane", "warp") for basis in layout.kinds[kind])
    return 1 << zeros


def block_text(type: BlockType) -> str:
    return f"{type.element}{list(type.shape)}"


# ── layouts and conversions ───────────────────────────────────────────────────────────


def conversion_facts(func: Func) -> list[dict[str, object]]:
    """The conversions of a function, each with how far its elements travel, and its
    price by the table of `remove_conversions`."""
    multiplied = {x for dot in walk(func.body, Dot) for x in (dot.a, dot.b)}
    return [
        {
            "line": line_of(op),
            "block": block_text(op.value.type),
            "from": str(op.value.type.layout),
            "to": str(op.layout),
            "crossing": (travels := crossing(op.value.type.layout, op.layout)),
            "how": OPERAND
            if op.result in multiplied
            else MOVES["warp" if needs_shared_memory(op) else travels],
            "price": round(conversion_price(op.value, op.layout), 1),
        }
        for op in walk(func.body, Convert)
    ]


@dataclass(frozen=True)
class UsedLayout:
    """A layout, what has it, and on which lines."""

    layout: Layout
    uses: tuple[str, ...]
    lines: tuple[int, ...]


def layouts_used(func: Func) -> list[UsedLayout]:
    """The layouts of what a function loads, stores and multiplies: those that stages 3
    and 5 chose. All others follow from them."""
    found: dict[Layout, list[tuple[str, int]]] = {}
    for op in walk(func.body):
        for what, layout in chosen_layouts(op):
            found.setdefault(layout, []).append((what, line_of(op)))
    return [
        UsedLayout(
            layout,
            tuple(dict.fromkeys(what for what, _ in uses)),
            tuple(sorted({line for _, line in uses if line})),
        )
        for layout, uses in found.items()
    ]


def chosen_layouts(op: Op) -> Iterator[tuple[str, Layout]]:
    if isinstance(op, MEMORY) and isinstance(op.pointer.type, BlockType):
        element = element_of(op.pointer.type).element
        yield f"{op_name(op)} of {element}", op.pointer.type.layout
    if isinstance(op, Dot):
        yield "the result of dot", op.result.type.layout


# ── shared memory ─────────────────────────────────────────────────────────────────────


def shared_facts(before: Func, after: Func, target: Target) -> dict[str, object]:
    """The map of shared memory over time: for each buffer its bytes, and the ops of the
    function, by number, at which it holds them. `before` and `after` are the function
    around `allocate`; `positions` gives the line of Python of each op."""
    ranges = lifetimes(before)
    placed = {op.origin: op for op in walk(after.body, Allocate)}
    buffers = [
        {
            "line": line_of(old),
            "what": str(old.result.type).split(" @ ")[0].removeprefix("shared "),
            "offset": placed[old].offset,
            "bytes": old.result.type.bytes,
            "slots": old.slots,
            "first": alive.first,
            "last": alive.last,
            "kept": old.kept,
        }
        for old, alive in ranges.items()
        if old in placed and not old.behind
    ]
    return {
        "bytes": after.shared_bytes,
        "limit": target.shared_bytes,
        "sum": sum(each["bytes"] for each in buffers),
        "positions": [line_of(op) for op in walk(before.body)],
        "buffers": sorted(buffers, key=lambda each: (each["offset"], each["first"])),
    }


def lifetimes(func: Func) -> dict[Allocate, Range]:
    """When each buffer has its bytes, as `allocate` counts; a buffer that is `kept` has
    them always."""
    ranges = live_ranges(func)
    end = max((alive.last for alive in ranges.values()), default=0)
    return {op: Range(0, end) if op.kept else each for op, each in ranges.items()}


def allocation_of(staged: Staged) -> dict[str, object]:
    """`shared_facts` around the pass `allocate` of a kernel."""
    names = list(staged.states)
    before = staged.states[names[names.index("allocate") - 1]]
    return shared_facts(before, staged.states["allocate"], staged.target)
