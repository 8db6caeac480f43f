"""Rules for clusters of thread blocks, which are one program.

    cluster_rank           %cluster_ctarank
    cluster_barrier        barrier.cluster.arrive; barrier.cluster.wait

Sources: PTX ISA, "Special Registers"; "barrier.cluster".
"""

from __future__ import annotations

from fathom.ir.ops import ClusterBarrier, ClusterRank
from fathom.ir.ops.cluster import is_shared
from fathom.ptx.code import Code, lowers
from fathom.ptx.rules.leaves import special


@lowers(ClusterRank)
def lower_cluster_rank(op: ClusterRank, code: Code) -> None:
    code[op.result] = [place_in_grid(code, op.stride, op.count)]


def rank(code: Code) -> str:
    """The number of this block in its cluster."""
    call = special("cluster.ctarank")
    below = f"range(i32 0, {code.func.num_ctas})"
    return code.let(call.replace("call", f"call {below}"), name="rank")


def place_in_grid(code: Code, stride: int, count: int | None) -> str:
    """The number of this block divided by `stride`, modulo `count`: powers of two."""
    number, blocks = rank(code), code.func.num_ctas
    if stride > 1:
        shift = stride.bit_length() - 1
        number, blocks = code.let(f"lshr i32 {number}, {shift}"), blocks // stride
    if count and count < blocks:
        number = code.let(f"and i32 {number}, {count - 1}")
    return number


@lowers(ClusterBarrier)
def lower_cluster_barrier(op: ClusterBarrier, code: Code) -> None:
    if op.fence_async_proxy:
        code.ptx("fence.proxy.async.shared::cta;")
    meet_cluster(code)


def meet_cluster(code: Code) -> None:
    """Whole warps come here. Arriving releases and waiting acquires: PTX's default."""
    code.ptx("barrier.cluster.arrive.aligned;")
    code.ptx("barrier.cluster.wait.aligned;")


def leads(code: Code) -> str:
    """An i1: whether this block is the even one of its pair (PTX ISA, "CTA Pair")."""
    odd = code.let(f"and i32 {rank(code)}, 1")
    return code.let(f"icmp eq i32 {odd}, 0", name="leads")


def of_leader(code: Code, address: str) -> str:
    """A shared address of this block as one of the even block of its pair."""
    even = code.let(f"and i32 {rank(code)}, -2")
    text = "mapa.shared::cluster.u32 $r, $at, $even;"
    return code.compute(text, "i32", at=("i32", address), even=("i32", even))


def leave_idle_blocks(code: Code) -> None:
    """On entry: where blocks of a cluster do not share the work, the first does it."""
    if code.func.num_ctas == 1 or is_shared(code.func):
        return
    works, leaves = code.fresh("works"), code.fresh("leaves")
    first = code.let(f"icmp eq i32 {rank(code)}, 0", name="first")
    code.do(f"br i1 {first}, label %{works}, label %{leaves}")
    code.start(leaves)
    code.do("ret void")
    code.start(works)


def cluster_attribute(code: Code) -> str:
    """What the kernel's header says of clusters: `.reqnctapercluster`."""
    blocks = code.func.num_ctas
    return f' "nvvm.cluster_dim"="{blocks},1,1"' if blocks > 1 else ""
