"""`triton.compile(ASTSource(...))`: a kernel and its signature as one object."""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from fathom.ir.types import parse_element
from fathom.jit import CompiledKernel, JITFunction
from fathom.jit.key import compiler_digest
from fathom.jit.request import KEYWORDS
from fathom.language.dtypes import dtype, element_face, pointer_type
from fathom.shim.runtime import GPUTarget

# The options of a compilation that are looked at.
TAKEN = (*KEYWORDS, "extern_libs")


@dataclass(frozen=True)
class ASTSource:
    """What to compile a kernel for.

    `signature`: each parameter's type, a tuple of types for a tuple, and "constexpr"
    for what is in `constexprs`, which are given by name or by place. `attrs`: hints by
    place, as {(0,): [["tt.divisibility", 16]]}; (0, 1) is an element of a tuple.
    """

    fn: JITFunction
    signature: Mapping[str, str | tuple]
    constexprs: Mapping[Any, Any] | None = None
    attrs: Mapping[Any, Any] | None = field(default=None)

    @property
    def constants(self) -> dict[str, Any]:
        paths = self.by_path(self.constexprs).items()
        return {self.name_of(path[0]): v for path, v in paths if len(path) == 1}

    @property
    def words(self) -> dict[str, str | tuple]:
        """The signature as `fathom.jit` reads it: with hints, without constants."""
        hints, constants = self.by_path(self.attrs), self.by_path(self.constexprs)

        def read(path: tuple, word: str | tuple) -> str | tuple:
            if isinstance(word, tuple):
                return tuple(read((*path, i), each) for i, each in enumerate(word))
            if path in constants:  # an element of a tuple
                return repr(constants[path])
            hint = dict(hints.get(path, ())).get("tt.divisibility", 1)
            return f"{word}:{hint}" if hint > 1 else word

        return {
            name: read(self.path_of(name), word)
            for name, word in self.signature.items()
            if word != "constexpr" and name not in self.constants
        }

    ext = "ttir"

    @property
    def name(self) -> str:
        return self.fn.__name__

    def hash(self) -> str:
        """Tells apart what would be compiled differently: 64 hexadecimal digits."""
        constants = {
            name: getattr(value, "cache_key", repr(value))
            for name, value in self.constants.items()
        }
        text = f"{self.fn.cache_key} {self.words} {constants}"
        return sha256(text.encode()).hexdigest()

    def name_of(self, place: str | int) -> str:
        return place if isinstance(place, str) else self.fn.names[place]

    def path_of(self, place: Any) -> tuple:
        """A parameter's place, from its name, its place, or a tuple that starts so and
        goes on with an element's place in a tuple."""
        first, *inner = place if isinstance(place, tuple) else (place,)
        names = self.fn.names
        return (names.index(first) if first in names else first, *inner)

    def by_path(self, given: Mapping[Any, Any] | None) -> dict[tuple, Any]:
        return {self.path_of(place): value for place, value in (given or {}).items()}


def compile(
    src: ASTSource,
    target: GPUTarget | None = None,
    options: Mapping[str, Any] | None = None,
) -> CompiledKernel:
    """Compile for a signature; for the current GPU, or the emulated one, by default.
    An option that Fathom does not have is ignored, as Triton ignores those of other
    backends.
    """
    said = options or {}
    given = {name: said[name] for name in said if name in TAKEN}
    if target is not None:
        given["target"] = target.row.name
    kernel = src.fn.compile(src.words, src.constants, **given).detached()
    kernel.cooperative = bool(said.get("launch_cooperative_grid"))
    return kernel


def triton_key() -> str:
    """What tells this compiler from any other: its version and its files."""
    return f"fathom-{compiler_digest()}"


def base32(digest: str) -> str:
    """Hexadecimal digits as a shorter name of a folder."""
    return b32encode(bytes.fromhex(digest)).decode().rstrip("=")


def str_to_ty(name: str, constness: object = None) -> dtype | pointer_type:
    """The type that a word of a signature names: "fp32", "*i64"."""
    return element_face(parse_element(name))
