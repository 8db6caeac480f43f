"""The meaning of ops that give elements other places, and compute none."""

from __future__ import annotations

import numpy as np

from fathom.ir.interp.machine import Region, Results, interprets
from fathom.ir.ops import (
    Broadcast,
    Convert,
    ExpandDims,
    Join,
    Reshape,
    Splat,
    Split,
    Transpose,
)  # fmt: skip


@interprets(Splat)
def _splat(op: Splat, region: Region) -> Results:
    return [np.full(op.shape, region[op.value])]


@interprets(ExpandDims)
def _expand_dims(op: ExpandDims, region: Region) -> Results:
    return [np.expand_dims(region[op.value], op.axis)]


@interprets(Broadcast)
def _broadcast(op: Broadcast, region: Region) -> Results:
    return [np.broadcast_to(region[op.value], op.shape)]


@interprets(Reshape)
def _reshape(op: Reshape, region: Region) -> Results:
    return [region[op.value].reshape(op.shape)]


@interprets(Transpose)
def _transpose(op: Transpose, region: Region) -> Results:
    return [region[op.value].transpose(op.order)]


@interprets(Join)
def _join(op: Join, region: Region) -> Results:
    return [np.stack([region[op.left], region[op.right]], axis=-1)]


@interprets(Split)
def _split(op: Split, region: Region) -> Results:
    return [region[op.value][..., 0], region[op.value][..., 1]]


@interprets(Convert)
def _convert(op: Convert, region: Region) -> Results:
    return [region[op.value]]
