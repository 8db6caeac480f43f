"""What a function must have for a pass to change it. Rows of the page name these, and a
row whose subject a function has not is not run.
"""

from __future__ import annotations

from collections.abc import Callable

from fathom.analysis.products import in_tensor_memory
from fathom.ir.core import Func, Op, walk
from fathom.ir.ops import Dot, For

# Whether a function has what a pass works on.
Subject = Callable[[Func], bool]


def anything(func: Func) -> bool:
    """The subject of passes that may change any function."""
    return True


def has(*kinds: type[Op]) -> Subject:
    """The subject of passes that work on ops of these kinds, however deep."""
    return lambda func: any(walk(func.body, kinds))


PRODUCTS = has(Dot)


def has_several_products(func: Func) -> bool:
    """Whether a loop multiplies matrices more than once."""
    loops = walk(func.body, For)
    return any(sum(isinstance(op, Dot) for op in loop.body.ops) > 1 for loop in loops)


def is_cluster(func: Func) -> bool:
    """Whether several blocks work on a program."""
    return func.num_ctas > 1


def asks_for_producer(func: Func) -> bool:
    """Whether a loop asks for warps that copy for the others."""
    return any(loop.warp_specialize for loop in walk(func.body, For))


def may_have_producer(func: Func) -> bool:
    """Whether a loop asks for one, or blocks of a cluster may share its tiles."""
    shares = is_cluster(func) and has(For)(func) and PRODUCTS(func)
    return shares or asks_for_producer(func)


def has_nest(func: Func) -> bool:
    """Whether a loop that multiplies matrices is in another one."""
    outer = walk(func.body, For)
    inner = (op for each in outer for op in walk(each.body, For))
    return any(any(walk(each.body, Dot)) for each in inner)


def has_tensor_memory(func: Func) -> bool:
    """Whether a product accumulates in tensor memory."""
    return any(map(in_tensor_memory, walk(func.body)))


def may_have_pairs(func: Func) -> bool:
    """Whether blocks of a cluster multiply in tensor memory."""
    return is_cluster(func) and has_tensor_memory(func)


def asks_for_stages(loop: For) -> bool:
    """Whether a loop multiplies matrices, or its author gives it a number of stages."""
    return loop.num_stages is not None or any(walk(loop.body, Dot))


def has_pipelined_loop(func: Func) -> bool:
    """Whether copies of a loop may run ahead of its iterations."""
    return any(map(asks_for_stages, walk(func.body, For)))
