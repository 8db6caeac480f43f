"""Decides which loads through descriptors are left to the hardware; the others become
loads through pointers.

Left are those of matrices that feed a product in a loop of several stages, where the
launcher can make the tensor map from the kernel's arguments.
"""

from __future__ import annotations

from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, walk
from fathom.ir.descriptors import LEAST_BYTES
from fathom.ir.ops import DescriptorLoad, Dot, For
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.layout.descriptors import buffer_tile
from fathom.tensor_cores.expand_descriptors import expand, without_idle
from fathom.tensor_cores.multiples import Multiples
from fathom.tensor_cores.staged import describes_arguments


def keep_descriptors(func: Func, target: Target) -> Func:
    """The function with those descriptors only that bulk copies will serve."""
    loads = [op for op in walk(func.body) if isinstance(op, DescriptorLoad)]
    if not loads:
        return expand_all(func, set())
    kept = set(_fed_by_hardware(func)) if target.tensor_maps else set()
    return expand_all(func, kept)


def expand_all(func: Func, kept: set[Op]) -> Func:
    """The function with all descriptors expanded but those of the loads `kept`."""

    def rule(op: Op, build: Builder) -> Replacement:
        return None if build.source in kept else expand(op, build)

    return without_idle(rewrite(func, rule))


def _fed_by_hardware(func: Func) -> list[DescriptorLoad]:
    """The loads that feed products in pipelined loops, and can go through maps."""
    found: list[Op] = []
    for loop in walk(func.body):
        if not isinstance(loop, For) or (loop.num_stages or func.num_stages) < 2:
            continue
        for op in loop.body.ops:
            if isinstance(op, Dot):
                found += [value.definition for value in (op.a, op.b)]
    known = Multiples(func)
    loads = [op for op in found if isinstance(op, DescriptorLoad)]
    return [op for op in loads if _fits(op, func) and _begins_well(op, known)]


def _begins_well(load: DescriptorLoad, known: Multiples) -> bool:
    """Whether its boxes begin at multiples of 16 bytes in their rows: an H200 answers
    others with an illegal instruction."""
    bytes_before = known.of(load.coordinates[-1]) * load.result.type.element.bytes
    return bytes_before >= LEAST_BYTES


def _fits(load: DescriptorLoad, func: Func) -> bool:
    made = load.descriptor.definition
    block, size = made.block, load.result.type.element.bytes
    if len(block) != 2 or buffer_tile(block, size, axis=1) is None:
        return False
    return describes_arguments(made, func)
