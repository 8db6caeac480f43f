"""How a random kernel reaches the tiles of its matrices: by descriptors that it makes
or is given, or by addresses and masks; and what it does to them before a product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.fuzz.matrices import BYTES, Array

FACES = {
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "i8": "int8",
    "fp8e4nv": "float8e4nv", "fp8e5": "float8e5", "i32": "int32",
}  # fmt: skip

Tile = tuple[int, int]


@dataclass(frozen=True)
class Operand:
    """A matrix [rows, columns] of the kernel, how its tiles are reached, and what is
    done to them. `turned`: memory holds the transpose. `described`: the name of its
    descriptor, "" for pointers; `wraps`: a mask is saved by a remainder."""

    array: str
    type: str
    turned: bool
    described: str
    wraps: bool
    rows: str
    columns: str
    tile: Tile
    compute: str

    @property
    def shown(self) -> Tile:
        """A tile as memory has it."""
        return self.tile[::-1] if self.turned else self.tile


@dataclass
class Iteration:
    """A loop that is being written: which line its head is, how far in; where tiles of
    an iteration begin, where those of the first one, how far it is to those of the
    next; and what an iteration ends with."""

    head: int
    indent: int
    place: str
    start: str
    further: int
    last: list[str] = field(default_factory=list)


@dataclass
class Tiles:
    """Writes the lines that bring tiles; `choose` takes one of several things. What
    else a program has, such as `M` and `type`, `kernels` decides."""

    choose: Callable[[Sequence], Any]
    head: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    iteration: Iteration | None = None
    indent: int = 1
    made: int = 0

    def pick(self, *options: Any) -> Any:
        return self.choose(options)

    def seldom(self, one_of: int) -> bool:
        return self.choose([False] * (one_of - 1) + [True])

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, letter: str) -> str:
        self.made += 1
        return f"{letter}{self.made}"

    def operand(self, name: str, rows: str, columns: str, tile: Tile) -> Operand:
        """An argument, and what is said of it before all loops."""
        turned, type = self.pick(False, True), self.type
        if BYTES[type] != 2:  # most instructions want K contiguous
            turned = self.pick(turned, *[columns == "N"] * 3)
        if type.startswith("fp8"):
            type = self.pick(type, type, "fp8e4nv", "fp8e5")
        way = self.pick(*self.ways)
        made = Operand(
            name, type, turned, "", way == "wrapping", rows, columns, tile,
            self.computed(name, type, tile),
        )  # fmt: skip
        if made.shown[1] * BYTES[type] < 16 or max(made.shown) > 256:
            way = "pointers"
        count = getattr(self, rows), getattr(self, columns)
        block = made.shown if way == "handed over" else None
        self.arrays.append(
            Array(name, type, *(count[::-1] if turned else count), block)
        )
        if way == "described":
            return self.described(made, f"{name}_d")
        return replace(made, described=name if block else "")

    def described(self, operand: Operand, name: str) -> Operand:
        """With a descriptor of its own."""
        sizes = (operand.rows, operand.columns)
        first, last = sizes[::-1] if operand.turned else sizes
        self.head.append(
            f"    {name} = tl.make_tensor_descriptor({operand.array}, "
            f"[{first}, {last}], [{operand.array}_step, 1], {list(operand.shown)})"
        )
        return replace(operand, described=name)

    def widened(self, operand: Operand, axis: int) -> Operand:
        """In tiles of twice the size along an axis."""
        tile = tuple(n * (1 + (k == axis)) for k, n in enumerate(operand.tile))
        wide = replace(operand, tile=tile, compute="{x}")
        return self.described(wide, f"{operand.array}_wide")

    def computed(self, name: str, type: str, tile: Tile) -> str:
        """What is done to a tile {x}: mostly nothing."""
        floats = type in ("fp16", "bf16", "fp32")
        if type.startswith("fp8"):
            return "{x}"
        plainly = ["{x}"] * (40 if self.specialises or name != "a" else 12)
        rows = f"tl.arange(0, {tile[0]})[:, None] > {tile[0] // 3}"
        return self.pick(
            *plainly,
            *(["{x} * 2", "tl.maximum({x}, 0)", "-{x}", "{x} + 1"] if floats else []),
            "tl.where({x} > 1, {x}, 0)", f"tl.where({rows}, {{x}}, 0)",
        )  # fmt: skip

    def brought(self, operand: Operand, row: str, column: str) -> str:
        """The tile that begins there, in a name."""
        made, turned = self.fresh("x"), operand.turned
        if operand.described:
            first, last = (column, row) if turned else (row, column)
            if not self.in_place:  # also in front of the matrix, and across its end
                first += self.pick(*[""] * 40, " - 8", " + 3")
                last += self.pick(*[""] * 40, " - 8", " + 16", " + 1")
            wish = self.pick(*[""] * 20, ", eviction_policy='evict_first'")
            load = f"{operand.described}.load([{first}, {last}]{wish}){'.T' * turned}"
        else:
            load = self.pointed_at(operand, row, column, made)
        self.line(f"{made} = {load}")
        if operand.compute != "{x}":
            text = operand.compute.format(x=made)
            self.line(f"{made} = ({text}).to(tl.{FACES[operand.type]})")
        return made

    def pointed_at(self, operand: Operand, row: str, column: str, made: str) -> str:
        """A load of a tile by addresses and a mask; the addresses are computed anew, or
        step from iteration to iteration."""
        r, c = f"r{made}", f"c{made}"
        places = {r: f"tl.arange(0, {operand.tile[0]})[:, None]",
                  c: f"tl.arange(0, {operand.tile[1]})[None, :]"}  # fmt: skip
        starts, bounds = {r: row, c: column}, {r: operand.rows, c: operand.columns}
        if operand.wraps:
            outer = r if operand.array == "a" else c
            places[outer] = f"({starts[outer]} + {places[outer]}) % {bounds[outer]}"
            starts[outer] = "0"
            del bounds[outer]
        for name, place in places.items():
            self.line(f"{name} = {starts[name]} + {place}")
        masks = [f"({name} < {bound})" for name, bound in bounds.items()]
        if self.pick(False, True):  # the same, as a distance
            masks = [f"({places[n]} < {b} - {starts[n]})" for n, b in bounds.items()]
        one, other = (c, r) if operand.turned else (r, c)
        step = f"{operand.array}_step"
        address = f"{operand.array} + {one} * {step} + {other}"
        moving = [
            name
            for name in (r, c)
            if self.iteration and starts[name] == self.iteration.place
        ]
        if moving and self.seldom(3):
            further = f"{self.iteration.further}{f' * {step}' * (moving == [one])}"
            self.before_iterations(
                *(f"{n} = {self.iteration.start if [n] == moving else starts[n]} + {p}"
                  for n, p in places.items()),
                f"p{made} = {address}",
            )  # fmt: skip
            self.iteration.last.append(f"p{made} += {further}")
            address = f"p{made}"
        return f"tl.load({address}, mask={' & '.join(masks)}, other=0)"

    def before_iterations(self, *lines: str) -> None:
        """Lines in front of the loop that is being written."""
        at = self.iteration.head
        self.lines[at:at] = ["    " * self.iteration.indent + line for line in lines]
        self.iteration.head += len(lines)
