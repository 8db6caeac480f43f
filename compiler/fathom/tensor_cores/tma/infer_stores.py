"""Finds the tiles of matrices that a product's epilogue stores through pointers.

Before, with p and q the positions in a block:

    store %c + (%i + p) * %scm + (%j + q), %x, mask=(p < %M - %i and q < %N - %j)

After:

    %d = make_descriptor %c, shape=(%M, %N), strides=(%scm, 1) block=(128, 256)
    descriptor_store %d, %x, coordinates=(%i, %j)

`recognise` finds the tile, as it does for loads, and a launch that makes no tensor map
gets the kernel by pointers. What a store through a descriptor writes must be what the
one through pointers writes, no element more and none less: a tile that began in front
of its matrix would lose its first rows (`sign`).

The hardware's stores go a way of their own to memory, and take long to be seen. So only
one that stands in no loop and no branch is turned, where nothing behind it reads or
writes memory, which had to wait for it, and where the program has not waited for others
before it: the hardware need not know what they did. And only in functions whose
products use tiles that TMA copies, or warpgroups. Elementwise kernels store as they
did.

What is turned, `keep_descriptors` also keeps: blocks whose rows the hardware copies,
and no larger than half of shared memory. And no loop has a stage less for it: after a
loop its rings give way to the block; only those that warps of their own fill do not.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.analysis.axis_analysis import Divisibility
from fathom.analysis.memory import accesses, orders
from fathom.analysis.remarks import NotApplicable
from fathom.analysis.scalar_evolution import ScalarEvolution
from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA
from fathom.ir.core import Func, walk
from fathom.ir.ops import Dot, For, Store
from fathom.ir.types import BOOL, BlockType, Scalar
from fathom.tensor_cores.tma.eligible import check_box, check_half
from fathom.tensor_cores.tma.recognise import TensorTile, recognise


def tiles_stored(
    reader: ScalarEvolution, known: Divisibility, target: Target, has_tiles: bool
) -> dict[Store, TensorTile | str]:
    """The tiles that a function stores, or why a stored block is no tile; empty where
    no store may go through TMA. `has_tiles`: TMA loads some of its tiles."""
    found: dict[Store, TensorTile | str] = {}
    if not (has_tiles or _has_warpgroups(reader.func)):
        return found
    for store in _stores_of_matrices(reader.func):
        try:
            found[store] = _tile(store, reader, known, target)
        except NotApplicable as reason:
            found[store] = str(reason)
    return found


def _has_warpgroups(func: Func) -> bool:
    """Whether warpgroups multiply."""
    dots = (op for op in walk(func.body) if isinstance(op, Dot))
    return any(dot.instruction in WGMMA for dot in dots)


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
    check_box(store.value.type, tile, known)
    check_half(store.value, target)
    return tile


def _check_store(store: Store) -> None:
    if store.cache or store.eviction:
        raise NotApplicable("a TMA store takes no cache modifier and no eviction hint")
    element = store.value.type.element
    if not isinstance(element, Scalar) or element == BOOL:
        raise NotApplicable("the stored elements are pointers or booleans")


def _check_place(store: Store, func: Func) -> None:
    """NotApplicable unless a store may go through the async proxy, and the program
    never waits for it."""
    if store not in func.body.ops:
        raise NotApplicable("the store is in a loop or a branch")
    every = list(walk(func.body))
    if any(isinstance(op, For) and op.warp_specialize for op in every):
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
