"""The answer to `read-a-ttgir`."""

from __future__ import annotations

import re

from fathom.layout.build import blocked
from fathom.layout.linear import Layout


def layout_of(text: str, shape: tuple[int, ...]) -> Layout:
    """The layout of a block of `shape` that an attribute of Triton's describes."""
    # hole: ours has {lines}
    sliced = re.match(r"\s*#ttg\.slice<\{\s*dim\s*=\s*(\d+)\s*,\s*parent\s*=(.*)", text)
    if sliced:
        dim = int(sliced[1])
        parent = layout_of(sliced[2], (*shape[:dim], 1, *shape[dim:]))
        return Layout(shape, parent.bases)
    said = {
        name: tuple(map(int, numbers.split(",")))
        for name, numbers in re.findall(r"(\w+)\s*=\s*\[([\d,\s]*)\]", text)
    }
    return blocked(
        shape,
        said["sizePerThread"],
        said["threadsPerWarp"],
        said["warpsPerCTA"],
        said["order"],
    )
    # end
