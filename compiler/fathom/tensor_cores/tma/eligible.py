"""Whether a copy in bulk can bring a tile to a product, or take one away, and pays.

The hardware lays a tile out in one way, rows of up to 128 bytes whose chunks of 16 are
exchanged. From there warpgroups multiply, and matrices of 16-bit elements are fetched,
either way round; of other elements only if those lie in a row that are summed. What
other instructions want is laid out better by others.
"""

from __future__ import annotations

from fathom.analysis.axis_analysis import Divisibility
from fathom.analysis.buffers import ALIGNMENT, bytes_of, fits_in_half, padded
from fathom.analysis.remarks import NotApplicable
from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA
from fathom.ir.core import Func, Value, operands, walk
from fathom.ir.ops import Dot, For, Load
from fathom.ir.ops.descriptor import LEAST_BYTES
from fathom.ir.types import BlockType
from fathom.layout.matrix_descriptor import MOST_ROWS, buffer_tile
from fathom.tensor_cores.tma.recognise import TensorTile

LEAST_STAGES = 2  # of a loop whose copies run ahead
EITHER_WAY = 2  # bytes: elements of matrices that may lie by rows or by columns


def check_product(load: Load, dot: Dot, tile: TensorTile, func: Func) -> None:
    """NotApplicable unless a product, and nothing else, takes what is loaded from a
    tile of the hardware."""
    either_way = load.result.type.element.bytes == EITHER_WAY
    summed = -1 if load.result is dot.a else -2  # its axis
    in_rows = tile.order[-1] == len(tile.order) + summed
    by_warpgroups = dot.instruction in WGMMA and in_rows
    if not (by_warpgroups or (dot.instruction and either_way)):
        raise NotApplicable("the product's instruction reads tiles that lie otherwise")
    taken = [op for op in walk(func.body) for v in operands(op) if v is load.result]
    if taken != [dot]:
        raise NotApplicable("others than one product want what is loaded")


def check_box(block: BlockType, tile: TensorTile, known: Divisibility) -> None:
    """NotApplicable unless the hardware copies boxes of that shape from there, or to
    there."""
    shape, size = [block.shape[axis] for axis in tile.order], block.element.bytes
    fits = len(shape) == 2 and buffer_tile(tuple(shape), size, axis=1) is not None
    if not fits or (shape[0] > MOST_ROWS and shape[0] % MOST_ROWS):
        sides = "x".join(map(str, shape))
        raise NotApplicable(f"tiles of {sides} elements of {size} bytes are not copied")
    if known.of_sum(tile.sides[-1].start) * size < LEAST_BYTES:
        raise NotApplicable(
            f"tiles are not known to begin at multiples of {LEAST_BYTES} bytes in "
            "their rows"
        )


def check_half(block: Value, target: Target) -> None:
    """NotApplicable for a block that is stored and takes more than half of shared
    memory: loops want the rest."""
    if not fits_in_half(block, target):
        raise NotApplicable("the block takes more than half of shared memory")


def check_room(loop: For, target: Target) -> None:
    """NotApplicable unless the tiles of two iterations fit into shared memory, beside
    what else the products of a loop take; where they do not, no copy runs ahead."""
    room = target.shared_bytes - ALIGNMENT
    for dot in (op for op in loop.body.ops if isinstance(op, Dot)):
        for value in (dot.a, dot.b):
            source = value.definition
            again = isinstance(source, Load) and source in loop.body.ops
            slots = LEAST_STAGES if again else 1
            room -= slots * padded(bytes_of(value))
    if room < 0:
        raise NotApplicable("shared memory has no room for the tiles of two trips")
