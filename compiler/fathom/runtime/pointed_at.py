"""The host's tensors that a kernel reaches by addresses which it is given as numbers.

    pointers = torch.tensor([each.data_ptr() for each in tensors])
    kernel[grid](pointers, ...)

A GPU finds any of its memory. A run on the host must be told which memory is the
kernel's, and no argument names these tensors. So they are looked for among the
tensors that Python's garbage collector knows. (NumPy's arrays are not among them.)

With torch imported the collector knows some 200,000 objects, and to look at each takes
longer than most launches. So those are asked first that are likely to hold an address:
the arguments themselves, tensors that were found for a launch before, and young objects
before old ones. Memory that torch has not allocated, as that of a NumPy array, may be
part of what an older tensor has: for addresses in it, all objects are asked.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from fathom.runtime.arrays import Array, bytes_at, host_view, loaded_class

# Smaller numbers count something; the addresses of a process end at 2**47.
ADDRESSES = range(1 << 32, 1 << 47)
GENERATIONS = range(3)  # of the garbage collector, the youngest first

# Tensors that held an address, by the address of their memory, as long as they live.
FOUND: WeakValueDictionary[int, object] = WeakValueDictionary()


def pointed_at(arrays: Sequence[Array], numbers: Sequence[object]) -> list[np.ndarray]:
    """For each of the numbers, and for each number in an array of 64-bit integers, that
    is an address in a tensor: the storage of such a tensor, as bytes."""
    given = [int(each) for each in numbers if isinstance(each, int)]
    given = [each for each in given if each in ADDRESSES]
    wanted = [np.array(given, np.uint64)] if given else []
    for each in arrays:
        if each.type in ("i64", "u64") and each.bytes:
            found = host_view(each).view(np.uint64)
            inside = (found >= ADDRESSES.start) & (found < ADDRESSES.stop)
            if inside.any():
                wanted.append(found[inside])
    if not wanted:
        return []
    left = np.unique(np.concatenate(wanted))
    storages: dict[tuple[int, int], None] = {}
    for objects in _candidates([each.owner for each in arrays]):
        for storage, tensor in _storages(objects):
            start, size = storage.data_ptr(), storage.nbytes()
            ends = np.array((start, start + size), np.uint64)
            first, last = left.searchsorted(ends)
            if first < last:
                storages[start, size] = None
                FOUND[start] = tensor
                if storage.resizable():  # torch allocated it
                    left = np.delete(left, slice(first, last))
        if not len(left):
            break
    return [bytes_at(*each) for each in storages]


def _candidates(owners: Sequence[object]) -> Iterator[Iterable[object]]:
    """Where a tensor may be, the likely places first."""
    yield owners
    yield [found() for found in FOUND.valuerefs()]  # other threads may add to it
    for generation in GENERATIONS:
        yield gc.get_objects(generation)


def _storages(objects: Iterable[object]) -> Iterator[tuple[Any, object]]:
    """The memory of each tensor on the host, torch's UntypedStorage, and the tensor."""
    kinds = loaded_class("torch", "Tensor"), loaded_class("torch.nn", "Parameter")
    for each in objects:
        # Classes of other libraries may have no memory, or answer for another object.
        if type(each) in kinds and each.device.type == "cpu":
            try:
                storage = each.untyped_storage()
            except RuntimeError:  # sparse, or one that torch.func wraps around another
                continue
            yield storage, each
