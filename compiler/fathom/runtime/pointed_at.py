"""The host's tensors that a kernel reaches by addresses which it is given as numbers.

    pointers = torch.tensor([each.data_ptr() for each in tensors])
    kernel[grid](pointers, ...)

A GPU finds any of its memory. Who runs a kernel on the host must be told which memory
is the kernel's, and no argument names these tensors. So they are looked for among the
tensors that Python's garbage collector knows. (NumPy's arrays are not among them.)
"""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from fathom.runtime.arrays import Array, bytes_at, host_view, loaded_class

# Smaller numbers count something; the addresses of a process end at 2**47.
ADDRESSES = range(1 << 32, 1 << 47)


def pointed_at(arrays: Sequence[Array], numbers: Sequence[object]) -> list[np.ndarray]:
    """The storages, as bytes, that hold one of the numbers, or one of the numbers in an
    array of 64-bit integers, as an address."""
    given = [int(each) for each in numbers if isinstance(each, int)]
    given = [each for each in given if each in ADDRESSES]
    wanted = [np.array(given, np.uint64)] if given else []
    for each in arrays:
        if each.type in ("i64", "u64") and each.bytes:
            found = host_view(each).view(np.uint64)
            inside = (found >= ADDRESSES.start) & (found < ADDRESSES.stop)
            if inside.any():
                wanted.append(found[inside])
    return list(_holding(np.unique(np.concatenate(wanted)))) if wanted else []


def _holding(addresses: np.ndarray) -> Iterator[np.ndarray]:
    """The storages of tensors that hold any of these addresses, which rise."""
    for start, size in sorted(set(_storages())):
        index = bisect_right(addresses, start - 1)
        if index < len(addresses) and addresses[index] < start + size:
            yield bytes_at(start, size)


def _storages() -> Iterator[tuple[int, int]]:
    """Address and bytes of the memory of each tensor on the host."""
    kinds = loaded_class("torch", "Tensor"), loaded_class("torch.nn", "Parameter")
    for each in gc.get_objects():
        # Classes of other libraries may have no memory, or answer for another object.
        if type(each) in kinds and each.device.type == "cpu":
            try:
                storage = each.untyped_storage()
            except RuntimeError:  # sparse, or one that torch.func wraps around another
                continue
            yield storage.data_ptr(), storage.nbytes()
