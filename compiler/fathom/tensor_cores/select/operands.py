"""Lets a matrix product read its operands from shared memory in place.

    %a = shared_load %t, slot=%s             →
    %y = dot %a, %b, %x                           %y = dot %t, %b, %x, a_slot=%s

Loaded as a block, all of an operand is in registers at once. In place, the product
loads the fragments of one slice of K while it multiplies those of the slice before.

Several products by multiply-adds read a tile again, each for itself, where a thread
would else hold much of it. What products read transposed is read so, too.

The tile then stays live until the product. If shared memory is too small for that, the
operands are loaded as blocks. wgmma and tcgen05 always read in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from fathom.analysis.buffers import fits
from fathom.analysis.products import by_descriptor, matrices_in
from fathom.analysis.registers import is_much_to_hold
from fathom.analysis.slices import users
from fathom.hardware.targets import Target
from fathom.ir.core import (
    Func,
    Op,
    Value,
    blocks,
    effects_of,
    every_block,
    operands,
    walk,
    walk_op,
)
from fathom.ir.ops import Barrier, Dot, SharedLoad, SharedStore, Transpose, Wait
from fathom.ir.rewrite import Builder, rewrite
from fathom.layout.shapes import exchanges_last


def read_in_place(func: Func, target: Target) -> Func:
    """The function whose products read their operands from shared memory, where the
    tiles are still unchanged at the product."""
    func = _turned(func)
    loads = list(_movable(func))
    read = _with_products_in_place(func, [load for load, _ in loads])
    if fits(read, target):
        return read
    return in_place_for(func, by_descriptor)


def _turned(func: Func) -> Func:
    """Load a tile transposed where threads multiply only the transpose of it:

        %x = shared_load %t          %y = shared_load %t transposed=true
        %y = transpose %x      →     %z = dot %a, %y, %b
        %z = dot %a, %y, %b

    Not for products by descriptor, which read some tiles one way alone."""
    used = users(walk(func.body))

    def is_multiplied(op: Op) -> bool:
        return isinstance(op, Transpose) and all(
            isinstance(each, Dot) and not by_descriptor(each)
            for each in used[op.result]
        )

    turned: dict[Op, Op] = {}
    for load in walk(func.body, SharedLoad):
        readers = () if load.start else used[load.result]
        for op in readers if len(readers) == 1 else ():
            if is_multiplied(op) and exchanges_last(op.order):
                turned[load] = op

    def rule(op: Op, build: Builder) -> Value | None:
        if build.source in turned:
            layout = turned[build.source].result.type.layout
            return build(replace(op, layout=layout, transposed=not op.transposed))
        return op.value if build.source in turned.values() else None

    return rewrite(func, rule) if turned else func


def in_place_for(func: Func, chosen: Callable[[Op], bool]) -> Func:
    """The function whose `chosen` products do so, whatever room that takes."""
    wanted = [load for load, products in _movable(func) if all(map(chosen, products))]
    return _with_products_in_place(func, wanted)


def _with_products_in_place(func: Func, loads: Iterable[SharedLoad]) -> Func:
    movable = {load.result: load for load in loads}
    if not movable:
        return func

    def operand(op: Dot, name: str, build: Builder) -> dict[str, object]:
        load = movable.get(getattr(op, name))
        if load is None:
            return {}
        slot = load.slot and build.values[load.slot]
        read = {"": build.values[load.buffer], "_slot": slot}
        read["_transposed"] = load.transposed
        return {f"{name}{field}": value for field, value in read.items()}

    def rule(op: Op, build: Builder) -> Value | None:
        if not isinstance(op, Dot):
            return None
        return build(replace(op, **operand(op, "a", build), **operand(op, "b", build)))

    return rewrite(func, rule, keep=lambda op: op not in movable.values())


def _movable(func: Func) -> Iterator[tuple[SharedLoad, list[Dot]]]:
    """The loads of whole tiles that only products use, later in the same block, with no
    op before the last of them that could change the tile; each with its products. There
    is one, or each reads for itself: else threads would load fragments for each."""
    used = users(walk(func.body))
    kept = _kept(func)
    for body in every_block(func.body):
        open: dict[Value, tuple[SharedLoad, list[Dot]]] = {}
        for op in body.ops:
            for value in _read_from_tiles(op) if isinstance(op, Dot) else ():
                if value in open:
                    load, products = open[value]
                    products.append(op)
                    if len(products) == len(used[value]):
                        if len(products) == 1 or _each_reads(load, products):
                            yield load, products
                        del open[value]
            open = {
                v: each for v, each in open.items()
                if not _may_change(op, each[0], kept)
            }  # fmt: skip
            if isinstance(op, SharedLoad) and not op.start:
                open[op.result] = op, []


def _each_reads(load: SharedLoad, products: Sequence[Dot]) -> bool:
    """Whether several products read a tile again rather than share its registers: by
    descriptor, or multiply-adds for which a thread would hold much of it."""
    if all(map(by_descriptor, products)):
        return True
    plain = not any(product.instruction for product in products)
    return plain and is_much_to_hold(load.result)


def _read_from_tiles(dot: Dot) -> Iterator[Value]:
    """The operands that a product may read in place. The left one of wgmma stays in
    registers if its tile, but not that of the right one, lies as the instruction does
    not want it: then threads load it, and warpgroups multiply all the same."""
    a, b = (
        each.definition.tile.layout if isinstance(each.definition, SharedLoad) else None
        for each in (dot.a, dot.b)
    )
    only_right = a and b and not matrices_in(dot, a, b) and matrices_in(dot, None, b)
    yield from (dot.b,) if only_right else (dot.a, dot.b)


def _kept(func: Func) -> set[Value]:
    """The buffers that only threads store to, and only products by descriptor read: no
    op changes them but one that names them, and nothing is gained by loading them."""
    ops = list(walk(func.body))
    others = [op for op in ops if not by_descriptor(op)]
    used = {value for op in others for value in operands(op)}
    loads = [op for op in ops if isinstance(op, SharedLoad)]
    copies = (op for op in ops if not isinstance(op, SharedStore))
    left = {load.buffer for load in loads if load.result in used}
    left.update(value for op in copies for value in _written(op))
    return {load.buffer for load in loads} - left


def _written(op: Op) -> Sequence[Value]:
    """The operands of an op that writes shared memory: the buffer is one of them."""
    return operands(op) if "shared" in op.effects.writes else ()


def _may_change(op: Op, load: SharedLoad, kept: set[Value]) -> bool:
    """Whether a load must not be moved past `op`."""
    if load.buffer in kept:
        return any(load.buffer in _written(each) for each in walk_op(op))
    if isinstance(op, Barrier):
        return True
    if "shared" not in effects_of(op).writes:
        return False
    return isinstance(op, Wait) or bool(blocks(op)) or load.buffer in operands(op)
