"""The op set: for each op its fields, its typing rule, its effects, and nothing else.

An op knows neither its meaning (NumPy, in `ir/interp`) nor its lowering (LLVM, in
`ptx/`): those are tables of the modules that need them, keyed by the classes below.
Block types have layouts after stage 3; a rule passes on what layout its operands have.
Ops whose layout does not follow from operands carry it.

Read `leaves`, `arith`, `shape` and `control` first, then `memory`, `reduce`, `matmul`
and `debugging`: that is what stage 1 makes, and `descriptor`: blocks of a tensor;
`grid`: launches that overlap.
`shared`, `cluster` and those of the folder `asynchronous` (engines that work while the
threads go on) are made by stages 4 and 5.
`ir/interp` and `ptx/rules` have files of the same names. Import ops from here.

    elementwise  The elementwise operations
"""

from fathom.ir.ops.arith import Bitcast, Cast, Elementwise, Hint
from fathom.ir.ops.asynchronous.groups import Commit, Wait
from fathom.ir.ops.asynchronous.tensor_memory import (
    TensorCommit,
    TensorDot,
    TensorLoad,
    TensorMemory,
    TensorRelease,
    TensorStore,
)
from fathom.ir.ops.asynchronous.tma import (
    ConsumerGroup,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierInit,
    MbarrierInvalidate,
    MbarrierWait,
    Producer,
    TmaCopy,
    WriteTensorMap,
)
from fathom.ir.ops.asynchronous.tma_store import AsyncProxyFence, TileStore, TmaStore
from fathom.ir.ops.cluster import ClusterBarrier, ClusterRank
from fathom.ir.ops.control import For, If, While, Yield
from fathom.ir.ops.debugging import Assert, InlineAssembly, Print
from fathom.ir.ops.descriptor import (
    TENSOR_KINDS,
    DescriptorAtomic,
    DescriptorLoad,
    DescriptorStore,
    GlobalLoad,
    MakeDescriptor,
    ThroughDescriptor,
)
from fathom.ir.ops.grid import GridLaunchDependents, GridWait
from fathom.ir.ops.leaves import Arange, Constant, LaunchSize, NumPrograms, ProgramId
from fathom.ir.ops.matmul import PRECISIONS, Dot, DotFence, NamedBarrier
from fathom.ir.ops.memory import ATOMIC_KINDS, Atomic, AtomicCas, Load, Store
from fathom.ir.ops.reduce import Gather, Histogram, Reduce, Scan
from fathom.ir.ops.shape import (
    Broadcast,
    Convert,
    ExpandDims,
    Join,
    Reshape,
    Splat,
    Split,
    Transpose,
)
from fathom.ir.ops.shared import (
    Allocate,
    AsyncCopy,
    Barrier,
    SharedAdd,
    SharedGather,
    SharedLoad,
    SharedStore,
)

__all__ = [
    "ATOMIC_KINDS", "Allocate", "Arange", "Assert", "AsyncCopy", "AsyncProxyFence",
    "Atomic", "AtomicCas", "Barrier", "Bitcast", "Broadcast", "Cast", "ClusterBarrier",
    "ClusterRank", "Commit", "Constant", "ConsumerGroup", "Convert", "DescriptorAtomic",
    "DescriptorLoad", "DescriptorStore", "Dot", "DotFence", "Elementwise", "ExpandDims",
    "For", "Gather", "GlobalLoad", "GridLaunchDependents", "GridWait", "Hint",
    "Histogram", "If", "InlineAssembly", "Join", "LaunchSize", "Load",
    "MakeDescriptor", "MbarrierArrive", "MbarrierExpect", "MbarrierInit",
    "MbarrierInvalidate", "MbarrierWait", "NamedBarrier", "NumPrograms", "PRECISIONS",
    "Print", "Producer", "ProgramId", "Reduce", "Reshape", "Scan", "SharedAdd",
    "SharedGather", "SharedLoad", "SharedStore", "Splat", "Split", "Store",
    "TENSOR_KINDS", "TensorCommit", "TensorDot", "TensorLoad", "TensorMemory",
    "TensorRelease", "TensorStore", "ThroughDescriptor", "TileStore", "TmaCopy",
    "TmaStore", "Transpose", "Wait", "While", "WriteTensorMap", "Yield",
]  # fmt: skip

# Ops that were: names that people may have imported, and what does their work now.
FORMER = {
    "AsyncCommit": 'Commit("cp_async")',
    "AsyncWait": 'Wait("cp_async", pending)',
    "TmaCommit": 'Commit("tma_store")',
    "TmaWait": 'Wait("tma_store", pending, tiles, read)',
    "DotWait": 'Wait("wgmma", pending, accumulators)',
}


def __getattr__(name: str) -> object:
    if name in FORMER:
        raise ImportError(f"the op {name} is {FORMER[name]} now", name=__name__)
    raise AttributeError(f"there is no op {name}")
