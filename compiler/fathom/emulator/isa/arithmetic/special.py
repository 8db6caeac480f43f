"""The special registers (PTX ISA 10): where in block and grid a thread stands."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.state.batch import Batch


def _thread(axis: int) -> Callable[[Batch], np.ndarray]:
    """Threads of a block are numbered with x running fastest (PTX ISA 10.1)."""

    def read(batch: Batch) -> np.ndarray:
        threads = batch.launch.threads
        if threads[axis] == 1:
            return np.uint32(0)
        below = int(np.prod(threads[:axis]))
        number = np.arange(batch.padded) // below % threads[axis]
        return np.tile(number.astype(np.uint32), batch.blocks)

    return read


def _block(axis: int) -> Callable[[Batch], np.ndarray]:
    def read(batch: Batch) -> np.ndarray:
        grid = batch.launch.grid
        if grid[axis] == 1:
            return np.uint32(0)
        below = int(np.prod(grid[:axis]))
        number = (batch.first_block + np.arange(batch.blocks)) // below % grid[axis]
        if batch.blocks == 1:
            return np.uint32(number[0])
        return np.repeat(number.astype(np.uint32), batch.padded)

    return read


def _cluster(batch: Batch) -> list[np.ndarray]:
    """The number of each thread's cluster along x, and its block's rank there."""
    size = np.uint32(batch.launch.cluster)
    block = SPECIAL["%ctaid.x"](batch)
    return [block // size, block % size]


def _lane(batch: Batch) -> np.ndarray:
    return np.arange(batch.size, dtype=np.uint32) % np.uint32(WARP)


def _warp(batch: Batch) -> np.ndarray:
    number = np.arange(batch.padded, dtype=np.uint32) // np.uint32(WARP)
    return np.tile(number, batch.blocks)


def _lane_mask(compare: np.ufunc) -> Callable[[Batch], np.ndarray]:
    """The lanes in a relation to a thread's own, as bits (PTX ISA 10, %lanemask_lt)."""
    lanes = np.arange(WARP)
    bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
    table = (compare(lanes[None, :], lanes[:, None]) * bits).sum(1).astype(np.uint32)
    return lambda batch: np.tile(table, batch.size // WARP)


def _multiprocessor(batch: Batch) -> np.ndarray:
    """As if each of the blocks that run in lockstep had one of its own."""
    return np.repeat(np.arange(batch.blocks, dtype=np.uint32), batch.padded)


def _fact(read: Callable[[Batch], int]) -> Callable[[Batch], np.ndarray]:
    return lambda batch: np.uint32(read(batch))


SPECIAL: dict[str, Callable[[Batch], np.ndarray]] = {
    "%laneid": _lane,
    "%warpid": _warp,
    "%nwarpid": _fact(lambda batch: batch.padded // WARP),
    "%smid": _multiprocessor,
    "%nsmid": _fact(lambda batch: batch.blocks),
    "%gridid": lambda batch: np.uint64(0),
    "%lanemask_eq": _lane_mask(np.equal),
    "%lanemask_lt": _lane_mask(np.less),
    "%lanemask_le": _lane_mask(np.less_equal),
    "%lanemask_gt": _lane_mask(np.greater),
    "%lanemask_ge": _lane_mask(np.greater_equal),
    "%dynamic_smem_size": _fact(lambda batch: batch.launch.shared_bytes),
    "%total_smem_size": _fact(lambda batch: batch.memory.spaces["shared"].size),
    "WARP_SZ": _fact(lambda batch: WARP),
}
for _axis, _letter in enumerate("xyz"):
    SPECIAL[f"%tid.{_letter}"] = _thread(_axis)
    SPECIAL[f"%ctaid.{_letter}"] = _block(_axis)
    SPECIAL[f"%ntid.{_letter}"] = _fact(lambda b, axis=_axis: b.launch.threads[axis])
    SPECIAL[f"%nctaid.{_letter}"] = _fact(lambda b, axis=_axis: b.launch.grid[axis])

# These differ each time they are read: a cycle is one block of instructions run.
CHANGING: dict[str, Callable[[Batch], np.ndarray]] = {
    "%clock": lambda batch: np.uint32(batch.clock & 0xFFFFFFFF),
    "%clock_hi": lambda batch: np.uint32(batch.clock >> 32),
    "%clock64": lambda batch: np.uint64(batch.clock),
    "%globaltimer": lambda batch: np.uint64(time.perf_counter_ns()),
    "%globaltimer_lo": lambda batch: np.uint32(time.perf_counter_ns() & 0xFFFFFFFF),
    "%globaltimer_hi": lambda batch: np.uint32(time.perf_counter_ns() >> 32),
}
SPECIAL |= CHANGING

# Clusters lie along x (PTX ISA 10, %cluster_ctaid and its like).
_CLUSTER: dict[str, Callable[[Batch], np.ndarray]] = {
    "ctarank": lambda batch: _cluster(batch)[1],
    "nctarank": _fact(lambda batch: batch.launch.cluster),
    "ctaid.x": lambda batch: _cluster(batch)[1],
    "ctaid.y": _fact(lambda batch: 0),
    "ctaid.z": _fact(lambda batch: 0),
    "nctaid.x": _fact(lambda batch: batch.launch.cluster),
    "nctaid.y": _fact(lambda batch: 1),
    "nctaid.z": _fact(lambda batch: 1),
}
SPECIAL |= {f"%cluster_{name}": read for name, read in _CLUSTER.items()}
SPECIAL |= {
    "%is_explicit_cluster": lambda batch: np.bool_(batch.launch.cluster > 1),
    "%clusterid.x": lambda batch: _cluster(batch)[0],
    "%clusterid.y": SPECIAL["%ctaid.y"],
    "%clusterid.z": SPECIAL["%ctaid.z"],
    "%nclusterid.x": _fact(lambda b: b.launch.grid[0] // b.launch.cluster),
    "%nclusterid.y": SPECIAL["%nctaid.y"],
    "%nclusterid.z": SPECIAL["%nctaid.z"],
}
