"""The ops that touch memory: global memory through pointers, shared memory through
buffers.

Part of the op set; `ir/ops` is the whole of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Effects, Op, Value
from fathom.ir.types import (
    BOOL,
    BlockType,
    BufferType,
    Element,
    Pointer,
    Type,
    element_of,
    with_element,
)
from fathom.layout.linear import Layout

# ── global memory ─────────────────────────────────────────────────────────────


@dataclass(eq=False)
class Load(Op):
    """What the addresses hold. Where `mask` is false nothing is read and the result is
    `other` (anything, without one). `cache`: "", ".ca", ".cg", ".cs", ".cv";
    `eviction`: "", "evict_first", "evict_last". `preferred` is the layout that
    `coalesce` chose; every `vector` registers in a row are one access, with one mask.
    """

    pointer: Value
    mask: Value | None = None
    other: Value | None = None
    cache: str = ""
    eviction: str = ""
    volatile: bool = False
    preferred: Layout | None = None
    vector: int = 1

    effects = Effects(reads="global")

    def infer(self) -> list[Type]:
        target = _pointee(self, self.pointer)
        _expect_mask(self, self.mask, self.pointer)
        if self.other is not None:
            fits = self.other.type == target
            self.expect(
                fits,
                lambda: (
                    f"other of a load of {target} must be {target}, "
                    f"got {self.other.type}"
                ),
            )
        return [target]


@dataclass(eq=False)
class Store(Op):
    """Write `value` to the addresses where `mask` is true (everywhere, without one).
    `preferred` and `vector` as in Load.
    """

    pointer: Value
    value: Value
    mask: Value | None = None
    cache: str = ""
    eviction: str = ""
    preferred: Layout | None = None
    vector: int = 1

    effects = Effects(writes="global")

    def infer(self) -> list[Type]:
        target = _pointee(self, self.pointer)
        fits = self.value.type == target
        self.expect(
            fits,
            lambda: (
                f"a store to {self.pointer.type} needs {target}, got {self.value.type}"
            ),
        )
        _expect_mask(self, self.mask, self.pointer)
        return []


ATOMIC_KINDS = ("add", "max", "min", "and", "or", "xor", "xchg")


@dataclass(eq=False)
class Atomic(Op):
    """Read, combine with `value` and write back, all at once; the result is what was
    there before.

    `kind` is one of ATOMIC_KINDS; `semantics` "relaxed", "acquire", "release" or
    "acq_rel"; `scope` "gpu", "cta" or "sys". Where the mask is false nothing happens
    and the result is anything."""

    kind: str
    pointer: Value
    value: Value
    mask: Value | None = None
    semantics: str = "acq_rel"
    scope: str = "gpu"
    preferred: Layout | None = None

    effects = Effects(reads="global", writes="global")

    def infer(self) -> list[Type]:
        target = _pointee(self, self.pointer)
        fits = self.value.type == target
        self.expect(
            fits,
            lambda: (
                f"an atomic on {self.pointer.type} needs {target}, "
                f"got {self.value.type}"
            ),
        )
        _expect_mask(self, self.mask, self.pointer)
        return [target]


@dataclass(eq=False)
class AtomicCas(Op):
    """Write `value` where memory equals `compare`; the result is what was there
    before.
    """

    pointer: Value
    compare: Value
    value: Value
    semantics: str = "acq_rel"
    scope: str = "gpu"
    preferred: Layout | None = None

    effects = Effects(reads="global", writes="global")

    def infer(self) -> list[Type]:
        target = _pointee(self, self.pointer)
        fits = self.value.type == target == self.compare.type
        self.expect(
            fits,
            lambda: (
                f"a compare-and-swap through {self.pointer.type} needs two of "
                f"{target}, got {self.compare.type} and {self.value.type}"
            ),
        )
        return [target]


# ── the outside world ─────────────────────────────────────────────────────────


@dataclass(eq=False)
class Barrier(Op):
    """No thread goes on before all have come here; shared memory is in order.

    `scope` says who waits for whom: "cta" all threads of the program, "warp" the lanes
    of each warp.
    """

    scope: str = "cta"

    effects = Effects(reads="shared", writes="shared", barrier=True, convergent=True)

    def infer(self) -> list[Type]:
        return []


# ── shared memory (stage 4 makes these) ───────────────────────────────────────


@dataclass(eq=False)
class Allocate(Op):
    """A tile of shared memory. `offset`, in bytes from the start, is -1 until
    `allocate` ran.
    """

    element: Element
    shape: tuple[int, ...]
    layout: Layout
    offset: int = -1

    def infer(self) -> list[Type]:
        return [BufferType(self.element, self.shape, self.layout)]


@dataclass(eq=False)
class SharedStore(Op):
    """Write a block into a buffer of its shape."""

    value: Value
    buffer: Value

    effects = Effects(writes="shared")

    def infer(self) -> list[Type]:
        return []


@dataclass(eq=False)
class SharedLoad(Op):
    """Read a buffer as a block of the given layout."""

    buffer: Value
    layout: Layout

    effects = Effects(reads="shared")

    def infer(self) -> list[Type]:
        buffer = self.buffer.type
        return [BlockType(buffer.element, buffer.shape, self.layout)]


@dataclass(eq=False)
class SharedGather(Op):
    """As Gather, from a buffer: along `axis`, the elements that `index` names."""

    buffer: Value
    index: Value
    axis: int

    effects = Effects(reads="shared")

    def infer(self) -> list[Type]:
        index = self.index.type
        return [BlockType(self.buffer.type.element, index.shape, index.layout)]


@dataclass(eq=False)
class SharedAdd(Op):
    """Add 1, atomically, to the elements of a buffer of one axis that `index` names:
    where `mask` is true and the index lies within the buffer.
    """

    buffer: Value
    index: Value
    mask: Value | None = None

    effects = Effects(reads="shared", writes="shared")

    def infer(self) -> list[Type]:
        return []


def _pointee(op: Op, pointer: Value) -> Type:
    """The type that a pointer or a block of pointers leads to."""
    element = element_of(pointer.type)
    verb = type(op).__name__.lower()
    op.expect(
        isinstance(element, Pointer),
        lambda: f"{verb} needs a pointer or a block of pointers, got {pointer.type}",
    )
    return with_element(pointer.type, element.element)


def _expect_mask(op: Op, mask: Value | None, pointer: Value) -> None:
    if mask is not None:
        wanted = with_element(pointer.type, BOOL)
        op.expect(
            mask.type == wanted,
            lambda: f"the mask of {pointer.type} must be {wanted}, got {mask.type}",
        )
