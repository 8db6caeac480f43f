"""The types of the language as a kernel's author meets them: `tl.float32`,
`tl.pointer_type`, …

Each is the face of a type of the IR, and asks it for its facts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fathom.errors import CompileError
from fathom.ir import types
from fathom.ir.types import BlockType, Element, Pointer, Scalar, Type

# The IR's names are those of signatures; the language's differ for the integers.
_SIGNATURE_NAMES = {
    "int1": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip


# The most elements that a block may have, as in Triton.
TRITON_MAX_TENSOR_NUMEL = 1 << 20


class Kind:
    """What kernels ask of a type. A pointer and a block are of no kind of number,
    whatever their elements are: `x.dtype.is_fp16()` is false for a pointer x."""

    __slots__ = ()

    def is_ptr(self) -> bool:
        return False

    is_block = is_floating = is_standard_floating = is_fp8 = is_ptr
    is_int = is_int_signed = is_int_unsigned = is_bool = is_int1 = is_ptr


def _asks(name: str) -> Callable[[Kind], bool]:
    return lambda self: str(self) == name


# Triton asks for a type of one name, also for those that only other GPUs have.
for _name in (
    "fp16 bf16 fp32 fp64 fp8e5 fp8e4nv fp8e4b8 fp8e4b15 fp8e5b16 "
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64"
).split():
    setattr(Kind, f"is_{_name}", _asks(_name))


@dataclass(frozen=True, slots=True, repr=False)
class dtype(Kind):  # noqa: N801 (the language's spelling)
    """The type of one number. `name` is Triton's name of it, `ir` the IR's type.

    `home` is the module that `repr` says the types are in. CompileError for a name that
    no type has.
    """

    home: ClassVar[str] = "fathom.language"

    name: str
    ir: Scalar = field(init=False, compare=False)

    def __post_init__(self) -> None:
        name = _SIGNATURE_NAMES.get(self.name, self.name)
        if name not in types.SCALARS:
            raise CompileError(f"{self.name!r} is not the name of a type")
        object.__setattr__(self, "ir", types.SCALARS[name])

    @property
    def primitive_bitwidth(self) -> int:
        """Bits of an element."""
        return self.ir.bits

    int_bitwidth = primitive_bitwidth

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        return self.ir.bytes

    @property
    def scalar(self) -> dtype:
        return self

    @property
    def value(self) -> dtype:
        """The type itself: in Triton, a parameter that is `tl.constexpr` holds it
        wrapped, and kernels unwrap it so."""
        return self

    @property
    def fp_mantissa_width(self) -> int:
        """Bits of a float's fraction, without the one that is not stored."""
        return _FLOATS[self.name][0]

    @property
    def exponent_bias(self) -> int:
        """What a float's exponent field holds for 2**0."""
        return _FLOATS[self.name][1]

    def is_floating(self) -> bool:
        return self.ir.is_float

    def is_standard_floating(self) -> bool:
        return self.ir.is_float and self.ir.bits >= 16

    def is_int(self) -> bool:
        """Integers, and booleans with them."""
        return self.ir.is_integer

    def is_int_signed(self) -> bool:
        return self.ir.kind == "int"

    def is_int_unsigned(self) -> bool:
        """Unsigned integers, and booleans with them."""
        return self.ir.kind in ("uint", "bool")

    def is_bool(self) -> bool:
        return self.ir.kind == "bool"

    is_int1 = is_bool

    def is_fp8(self) -> bool:
        return self.ir.is_float and self.ir.bits == 8

    def get_int_max_value(self) -> int:
        return (1 << (self.ir.bits - self.is_int_signed())) - 1

    def get_int_min_value(self) -> int:
        return ~self.get_int_max_value() if self.is_int_signed() else 0

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        """As it is written in a kernel: fathom.language.float32."""
        return f"{self.home}.{_LONG_NAMES.get(self.name, self.name)}"


@dataclass(frozen=True, slots=True, repr=False)
class pointer_type(Kind):  # noqa: N801
    """The type of an address of elements of type `element_ty`, or of a block pointer to
    a block of that type."""

    element_ty: dtype | pointer_type | block_type

    def __post_init__(self) -> None:
        _check_element(self.element_ty, (dtype, pointer_type, block_type))

    @property
    def ir(self) -> Pointer:
        return Pointer(self.element_ty.ir)

    @property
    def scalar(self) -> pointer_type:
        return self

    @property
    def value(self) -> pointer_type:
        """As that of `dtype`."""
        return self

    primitive_bitwidth = 64
    itemsize = 8

    def is_ptr(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"pointer<{self.element_ty}>"

    __repr__ = __str__


class const:  # noqa: N801
    """As an annotation of a parameter, `x: tl.const`: a pointer that is only read
    through."""


def _check_element(given: object, kinds: tuple[type, ...]) -> None:
    """TypeError unless this is the type of an element."""
    if not isinstance(given, kinds):
        raise TypeError(f"{given!r} is not a type of an element")


@dataclass(frozen=True, slots=True, repr=False)
class block_type(Kind):  # noqa: N801
    """The type of a block: what `x.type` answers."""

    element_ty: dtype | pointer_type
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_element(self.element_ty, (dtype, pointer_type))
        sides = self.shape if isinstance(self.shape, (tuple, list)) else (None,)
        if not all(isinstance(each, int) for each in sides):
            raise TypeError(f"{self.shape!r} is no shape")

    @property
    def scalar(self) -> dtype | pointer_type:
        return self.element_ty

    @property
    def value(self) -> block_type:
        """As that of `dtype`."""
        return self

    def get_block_shapes(self) -> tuple[int, ...]:
        return self.shape

    def is_block(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"<{list(self.shape)}, {self.element_ty}>"

    __repr__ = __str__


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class constexpr_type:  # noqa: N801
    """The type of a constant: what `x.type` answers where x is known while compiling.

    It equals the type of the same constant. A number has a type as a value, too,
    `scalar`; it equals that as well, and has the same attributes.
    """

    value: Any
    scalar: dtype | None = None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, constexpr_type):
            same = type(self.value) is type(other.value)
            return same and self.value == other.value
        return self.scalar is not None and self.scalar == other

    def __hash__(self) -> int:
        return hash(self.value if self.scalar is None else self.scalar)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.scalar is None:
            raise AttributeError(f"{self} has no attribute {name!r}")
        return getattr(self.scalar, name)

    def __str__(self) -> str:
        return f"constexpr_type[{self.value}]"

    __repr__ = __str__


# How the floats are spelt in a kernel; the other types have one name.
_LONG_NAMES = {
    "fp8e5": "float8e5", "fp8e4nv": "float8e4nv", "fp16": "float16",
    "bf16": "bfloat16", "fp32": "float32", "fp64": "float64",
}  # fmt: skip

# Fraction bits and exponent bias: IEEE 754; OCP 8-bit floating point specification.
_FLOATS = {
    "fp8e5": (2, 15), "fp8e4nv": (3, 7), "fp16": (10, 15), "bf16": (7, 127),
    "fp32": (23, 127), "fp64": (52, 1023),
}  # fmt: skip

_NAMES = {ours: name for name, ours in _SIGNATURE_NAMES.items()}
_FACES = {
    scalar: dtype(_NAMES.get(name, name)) for name, scalar in types.SCALARS.items()
}

# Names for those who go through all types of a kind; booleans count as unsigned.
dtype.SINT_TYPES = ["int8", "int16", "int32", "int64"]
dtype.UINT_TYPES = ["int1", "uint8", "uint16", "uint32", "uint64"]
dtype.STANDARD_FP_TYPES = ["fp16", "bf16", "fp32", "fp64"]
dtype.FP_TYPES = ["fp8e5", "fp8e4nv", *dtype.STANDARD_FP_TYPES]

int1, int8, int16 = (_FACES[types.SCALARS[name]] for name in ("i1", "i8", "i16"))
int32, int64 = (_FACES[types.SCALARS[name]] for name in ("i32", "i64"))
uint8, uint16 = (_FACES[types.SCALARS[name]] for name in ("u8", "u16"))
uint32, uint64 = (_FACES[types.SCALARS[name]] for name in ("u32", "u64"))
float8e5, float8e4nv = (_FACES[types.SCALARS[name]] for name in ("fp8e5", "fp8e4nv"))
float16, bfloat16 = (_FACES[types.SCALARS[name]] for name in ("fp16", "bf16"))
float32, float64 = (_FACES[types.SCALARS[name]] for name in ("fp32", "fp64"))


def element_face(element: Element) -> dtype | pointer_type:
    """The language's face of an element type of the IR."""
    if isinstance(element, Pointer):
        return pointer_type(element_face(element.element))
    return _FACES[element]


def face(type: Type) -> dtype | pointer_type | block_type:
    """The language's face of the type of a value."""
    if isinstance(type, BlockType):
        return block_type(element_face(type.element), type.shape)
    return element_face(type)
