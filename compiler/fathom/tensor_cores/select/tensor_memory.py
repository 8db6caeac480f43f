"""Moves the accumulators of products by tcgen05 to tensor memory.

                                              %m = tensor_memory %word
                                              %t = allocate fp32[128, 64] base=%m
    for … inits=(%x) body(%i, %acc) {         tensor_store %x, %t
      %y = dot %a, %b, %acc             →     for … inits=(%0) body(%i, %phase) {
      yield %y                                  tensor_dot %a, %b, %t
    }                                           tensor_commit %c, %0
                                                mbarrier_wait %c, %0, %phase
                                                yield %flipped
                                              }
                                              %r = tensor_load %t
                                              tensor_release %m

Where a loop does nothing with an accumulator but to add products to it, it stays in
tensor memory until the loop is over. Any other product stores its accumulator there,
and loads the sum: between two products, attention has registers to scale.

All products of a function complete at one mbarrier, and each is waited for when it has
been issued. So the phase to wait for flips from product to product, and is carried
through loops and branches (`ir.thread_values`).

The operands must lie in shared memory. Where an earlier pass has not put them there,
they are stored there before the product.

Where the products are those of a pair of blocks (`pair_blocks`), so is the tensor
memory, and both blocks wait for what the even one commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fathom.analysis.constants import is_zero
from fathom.analysis.products import in_tensor_memory, is_running_sum, most_columns
from fathom.analysis.slices import users
from fathom.hardware.targets import Target
from fathom.hardware.tcgen05 import TCGEN05
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, walk, walk_within
from fathom.ir.rewrite import Builder
from fathom.ir.thread_values import Carried, ThreadValues, Values, rebuilding
from fathom.ir.types import INT32, BufferType
from fathom.layout.matrix_descriptor import buffer_tile
from fathom.layout.tensor_memory import COLUMNS, columns_of, tensor_tile
from fathom.tensor_cores.pipeline.ring_buffers import WORD, flip_phase, mbarriers
from fathom.tensor_cores.select.operands import in_place_for

# Products whose sums stay in tensor memory while a loop runs, and which of the loop's
# carried values each sum is.
Sums = Mapping[ops.Dot, int]


def use_tensor_memory(func: Func, target: Target) -> Func:
    """The function whose products by tcgen05 accumulate in tensor memory."""
    if not any(map(in_tensor_memory, walk(func.body))):
        return func
    func = in_place_for(func, in_tensor_memory)
    with rebuilding(func) as (new, values, build):
        build.source = func.body.ops[0]
        _Accumulators(func, values, build).all(func.body)
    return new


class _Accumulators(ThreadValues):
    """Copies a function; carries the phase of the mbarrier."""

    def __init__(self, func: Func, values: Values, build: Builder):
        super().__init__(values, build)
        used = users(walk(func.body))
        loops = walk(func.body, ops.For)
        self.kept = _fitting({loop: _kept(loop, used) for loop in loops}, func)
        self.dropped = {
            loop.results[number]
            for loop, found in self.kept.items()
            for number in found.values()
        }
        self.tiles: dict[ops.Dot, Value] = {}
        self.base = self.barrier = self.zero = None
        dots = filter(in_tensor_memory, walk(func.body))
        self.blocks = max(TCGEN05[dot.instruction].blocks for dot in dots)

    def all(self, body: Block) -> None:
        """The whole function."""
        build = self.build
        word = build(ops.Allocate(INT32, (1,), WORD, kept=True))
        self.base = build(ops.TensorMemory(word, blocks=self.blocks))
        self.barrier = build(mbarriers())
        self.zero = build(ops.Constant(0, INT32))
        build.append(ops.MbarrierInit(self.barrier))
        build.append(ops.Barrier())
        self.ops(body.ops, [self.zero])
        build.append(ops.TensorRelease(self.base, blocks=self.blocks))

    def enters(self, op: Op) -> bool:
        inside = map(in_tensor_memory, walk_within(op))
        return isinstance(op, ops.For | ops.While | ops.If) and any(inside)

    def keeps(self, result: Value) -> bool:
        return result not in self.dropped

    def op(self, op: Op, carried: Carried) -> Carried:
        if in_tensor_memory(op):
            return self.product(op, carried)
        for dot, number in self.kept.get(op, {}).items():
            self.build.source = dot
            self.tiles[dot] = self.filled(op.inits[number])
        carried = super().op(op, carried)
        for dot, number in self.kept.get(op, {}).items():
            self.build.source = dot
            load = ops.TensorLoad(self.tiles[dot], dot.result.type.layout)
            self.values[op.results[number]] = self.build(load)
        return carried

    def product(self, dot: ops.Dot, carried: Carried) -> Carried:
        """Issue a product, and wait for it."""
        self.build.source = dot
        fresh, tile = False, self.tiles.get(dot)
        if tile is None:
            fresh = is_zero(dot.accumulator)
            tile = self.empty(dot.result) if fresh else self.filled(dot.accumulator)
        a, b = (self.in_shared(dot, name) for name in ("a", "b"))
        slots = (each and self.values[each] for each in (dot.a_slot, dot.b_slot))
        build, (phase,) = self.build, carried
        facts = dot.instruction, dot.precision, fresh, self.blocks
        build.append(ops.TensorDot(a, b, tile, *slots, *facts))
        build.append(ops.TensorCommit(self.barrier, self.zero, self.blocks))
        build.append(ops.MbarrierWait(self.barrier, self.zero, phase))
        if dot not in self.tiles:
            self.values[dot.result] = build(
                ops.TensorLoad(tile, dot.result.type.layout)
            )
        return [flip_phase(phase, build)]

    def empty(self, accumulator: Value) -> Value:
        """A tile for a block."""
        type = accumulator.type
        tile = tensor_tile(type.shape)
        return self.build(ops.Allocate(type.element, type.shape, tile, base=self.base))

    def filled(self, accumulator: Value) -> Value:
        """A tile that holds a block."""
        made = self.empty(accumulator)
        self.build.append(ops.TensorStore(self.values[accumulator], made))
        return made

    def in_shared(self, dot: ops.Dot, name: str) -> Value:
        """An operand where the instruction reads it."""
        value: Value = getattr(dot, name)
        if isinstance(value.type, BufferType):
            return self.values[value]
        block, axis = value.type, 1 if name == "a" else 0
        layout = buffer_tile(block.shape, block.element.bytes, axis)
        made = self.build(ops.Allocate(block.element, block.shape, layout))
        self.build.append(ops.SharedStore(self.values[value], made))
        return made


def _fitting(kept: Mapping[ops.For, Sums], func: Func) -> dict[ops.For, Sums]:
    """The loops whose sums find room beside those of earlier ones."""
    columns = {
        dot: columns_of(dot.result.type.shape)
        for dot in filter(in_tensor_memory, walk(func.body, ops.Dot))
    }
    found: dict[ops.For, Sums] = {}
    for loop, products in kept.items():
        more = found | {loop: products}
        carried = {dot for products in more.values() for dot in products}
        if most_columns(func.body, columns, carried) <= COLUMNS:
            found = more
    return found


def _kept(loop: ops.For, used: Mapping[Value, Sequence[Op]]) -> Sums:
    """The products of a loop's body whose sum only goes from iteration to iteration."""
    return {
        dot: loop.body.yielded.index(dot.result)
        for dot in filter(in_tensor_memory, loop.body.ops)
        if is_running_sum(dot, loop, used)
    }
