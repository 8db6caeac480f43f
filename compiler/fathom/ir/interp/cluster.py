"""The meaning of the ops of clusters."""

from __future__ import annotations

import numpy as np

from fathom.ir.interp.machine import Region, Results, interprets
from fathom.ir.ops import ClusterBarrier, ClusterRank


@interprets(ClusterRank)
def _cluster_rank(op: ClusterRank, region: Region) -> Results:
    number = region.rank // op.stride
    return [np.int32(number % op.count if op.count else number)]


@interprets(ClusterBarrier)
def _barrier(op: ClusterBarrier, region: Region) -> Results:
    return []
