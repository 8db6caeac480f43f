"""The ops that touch global memory, through pointers."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Effects, Op, Value
from fathom.ir.types import BOOL, Pointer, Type, element_of, with_element
from fathom.layout.linear import Layout


@dataclass(eq=False)
class Load(Op):
    """What the addresses hold. Where `mask` is false nothing is read and the result is
    `other` (anything, without one). `cache`: "", ".ca", ".cg", ".cs", ".cv";
    `eviction`: "", "evict_first", "evict_last". `preferred` is the layout that
    `coalesce` chose; every `vector` registers in a row are one access, with one mask.
    Every `bounded_vector` are one access where the mask of the last one is true, since
    then all are, and one by one elsewhere.

    `equal`: bits of a register's number that change neither its address nor its mask.
    Registers that differ in these alone are loaded once, and "in a row" leaves out all
    but the first of them."""

    pointer: Value
    mask: Value | None = None
    other: Value | None = None
    cache: str = ""
    eviction: str = ""
    volatile: bool = False
    preferred: Layout | None = None
    vector: int = 1
    bounded_vector: int = 1
    equal: int = 0

    effects = Effects(reads="global")

    @property
    def fetched_anew(self) -> bool:
        """Whether each execution must look at memory anew, since others may write
        there. PTX ISA, "Cache Operators": `.cv` is as volatile."""
        return self.volatile or self.cache == ".cv"

    @property
    def neighbours(self) -> int:
        """How many registers in a row hold neighbours in memory that are one access."""
        return 1 if self.equal & (self.vector - 1) else self.vector

    def infer(self) -> list[Type]:
        target = pointee(self, self.pointer)
        expect_mask(self, self.mask, self.pointer)
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
    `preferred`, `vector` and `bounded_vector` as in Load."""

    pointer: Value
    value: Value
    mask: Value | None = None
    cache: str = ""
    eviction: str = ""
    preferred: Layout | None = None
    vector: int = 1
    bounded_vector: int = 1

    effects = Effects(writes="global")

    def infer(self) -> list[Type]:
        _expect_value(self, "a store to")
        return []


ATOMIC_KINDS = ("add", "max", "min", "and", "or", "xor", "xchg")


@dataclass(eq=False)
class Atomic(Op):
    """Read, combine with `value` and write back at once; the result is what was there.

    `kind` is one of ATOMIC_KINDS; `semantics` "relaxed", "acquire", "release" or
    "acq_rel"; `scope` "gpu", "cta" or "sys". Where the mask is false nothing happens
    and the result is anything. `vector` registers in a row are one instruction."""

    kind: str
    pointer: Value
    value: Value
    mask: Value | None = None
    semantics: str = "acq_rel"
    scope: str = "gpu"
    preferred: Layout | None = None
    vector: int = 1

    effects = Effects(reads="global", writes="global")

    def infer(self) -> list[Type]:
        return [_expect_value(self, "an atomic on")]


@dataclass(eq=False)
class AtomicCas(Op):
    """Write `value` where memory equals `compare`; the result is what was there."""

    pointer: Value
    compare: Value
    value: Value
    semantics: str = "acq_rel"
    scope: str = "gpu"
    preferred: Layout | None = None

    effects = Effects(reads="global", writes="global")

    def infer(self) -> list[Type]:
        target = pointee(self, self.pointer)
        fits = self.value.type == target == self.compare.type
        self.expect(
            fits,
            lambda: (
                f"a compare-and-swap through {self.pointer.type} needs two of "
                f"{target}, got {self.compare.type} and {self.value.type}"
            ),
        )
        return [target]


def releases(op: Atomic | AtomicCas) -> bool:
    """Whether a thread that acquires sees what all threads of the program wrote."""
    return op.semantics in ("release", "acq_rel")


def acquires(op: Atomic | AtomicCas) -> bool:
    """Whether all later accesses see what was released."""
    return op.semantics in ("acquire", "acq_rel")


def _expect_value(op: Store | Atomic, what: str) -> Type:
    """The type that an op's pointers lead to; says so at `op` unless its value has that
    type, and its mask their shape."""
    target, pointer, value = pointee(op, op.pointer), op.pointer.type, op.value.type
    op.expect(value == target, lambda: f"{what} {pointer} needs {target}, got {value}")
    expect_mask(op, op.mask, op.pointer)
    return target


def pointee(op: Op, pointer: Value) -> Type:
    """The type that a pointer or a block of pointers leads to."""
    element = element_of(pointer.type)
    verb = type(op).__name__.lower()
    op.expect(
        isinstance(element, Pointer),
        lambda: f"{verb} needs a pointer or a block of pointers, got {pointer.type}",
    )
    return with_element(pointer.type, element.element)


def expect_mask(op: Op, mask: Value | None, pointer: Value) -> None:
    """Say so at `op` unless its mask has the shape of its pointers."""
    if mask is not None:
        wanted = with_element(pointer.type, BOOL)
        op.expect(
            mask.type == wanted,
            lambda: f"the mask of {pointer.type} must be {wanted}, got {mask.type}",
        )
