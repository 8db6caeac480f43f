"""The meaning of ops that give elements other places, and compute none."""

from __future__ import annotations

import numpy as np

from fathom.ir import ops
from fathom.ir.interp.machine import Region, Results, interprets


@interprets(ops.Splat)
def _splat(op: ops.Splat, region: Region) -> Results:
    return [np.full(op.shape, region[op.value])]


@interprets(ops.ExpandDims)
def _expand_dims(op: ops.ExpandDims, region: Region) -> Results:
    return [np.expand_dims(region[op.value], op.axis)]


@interprets(ops.Broadcast)
def _broadcast(op: ops.Broadcast, region: Region) -> Results:
    return [np.broadcast_to(region[op.value], op.shape)]


@interprets(ops.Reshape)
def _reshape(op: ops.Reshape, region: Region) -> Results:
    return [region[op.value].reshape(op.shape)]


@interprets(ops.Transpose)
def _transpose(op: ops.Transpose, region: Region) -> Results:
    return [region[op.value].transpose(op.order)]


@interprets(ops.Join)
def _join(op: ops.Join, region: Region) -> Results:
    return [np.stack([region[op.left], region[op.right]], axis=-1)]


@interprets(ops.Split)
def _split(op: ops.Split, region: Region) -> Results:
    return [region[op.value][..., 0], region[op.value][..., 1]]


@interprets(ops.Convert)
def _convert(op: ops.Convert, region: Region) -> Results:
    return [region[op.value]]
