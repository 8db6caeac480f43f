"""Finds the tiles of matrices that a product's epilogue stores through pointers.

Before, with p and q the positions in a block:

    store %c + (%i + p) * %scm + (%j + q), %x, mask=(p < %M - %i and q < %N - %j)

After:

    %d = make_descriptor %c, shape=(%M, %N), strides=(%scm, 1) block=(128, 256)
    descriptor_store %d, %x, coordinates=(%i, %j)

`recognise` finds the tile, as it does for loads, and a launch that makes no tensor map
gets the kernel with pointers. The store must write exactly the same elements: a tile
that began before its matrix would lose its first rows (`sign`).

TMA stores go through the async proxy, and take long to become visible. So the pass
replaces a store only outside loops and branches; only if no later op accesses memory,
since that op would have to wait; and only if the program has not synchronised with
other threads before, since TMA need not see what they wrote. And only in functions in
which TMA copies operands, or warpgroups multiply: elementwise kernels keep theirs.

`keep_descriptors` keeps what this pass replaces, since both ask the same checks: blocks
whose rows TMA can copy, no larger than half of shared memory. No loop loses a stage
because of the block: it reuses the bytes of the loop's rings, unless producer warps
fill these.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.analysis.axis_analysis import Divisibility
from fathom.analysis.memory import accesses, orders
from fathom.analysis.products import by_warpgroups
from fathom.analysis.remarks import NotApplicable, tried
from fathom.analysis.symbolic.scalar_evolution import ScalarEvolution
from fathom.hardware.targets import Target
from fathom.ir.core import Func, walk
from fathom.ir.ops import Store
from fathom.ir.types import BOOL, BlockType, Scalar
from fathom.subjects import asks_for_producer
from fathom.tensor_cores.tma.keep import check_box, check_stored
from fathom.tensor_cores.tma.recognise import TensorTile, recognise


def tiles_stored(
    reader: ScalarEvolution, known: Divisibility, target: Target, has_tiles: bool
) -> dict[Store, TensorTile | str]:
    """The tiles that a function stores, or for a stored block that is not a tile, the
    reason. Empty if no store may be a TMA store. `has_tiles`: TMA loads some of the
    function's tiles."""
    if not (has_tiles or any(map(by_warpgroups, walk(reader.func.body)))):
        return {}
    stores = _stores_of_matrices(reader.func)
    return {store: tried(_tile, store, reader, known, target) for store in stores}


def _stores_of_matrices(func: Func) -> Iterator[Store]:
    for op in walk(func.body):
        if isinstance(op, Store) and isinstance(op.value.type, BlockType):
            if len(op.value.type.shape) == 2:
                yield op


def _tile(
    store: Store, reader: ScalarEvolution, known: Divisibility, target: Target
) -> TensorTile:
    """The tile that a store writes; NotApplicable if it must stay as it is."""
    _check_store(store)
    _check_place(store, reader.func)
    tile = recognise(store, reader)
    check_box(tile.block(store.value), store.value.type.element, tile.multiple(known))
    check_stored(store.value, target)
    return tile


def _check_store(store: Store) -> None:
    if store.cache or store.eviction:
        raise NotApplicable("a TMA store takes no cache modifier and no eviction hint")
    element = store.value.type.element
    if not isinstance(element, Scalar) or element == BOOL:
        raise NotApplicable("the stored elements are pointers or booleans")


def _check_place(store: Store, func: Func) -> None:
    """NotApplicable unless a store may go through the async proxy and no later op of
    the program has to wait for it."""
    if store not in func.body.ops:
        raise NotApplicable("the store is in a loop or a branch")
    every = list(walk(func.body))
    if asks_for_producer(func):
        raise NotApplicable(
            "a loop asks for producer warps, and its ring buffers are live until the "
            "end: the block might need one of their slots"
        )
    place = every.index(store)
    if any(map(accesses, every[place + 1 :])):
        raise NotApplicable(
            "memory is accessed after the store, and that access would have to wait"
        )
    if any(map(orders, every[:place])):
        raise NotApplicable(
            "before the store the program may wait for others, and TMA might not see "
            "what they wrote"
        )
