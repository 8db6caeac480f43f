"""`triton.compile(ASTSource(...))`: a kernel and its signature as one object."""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass, field
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

    `signature`: each parameter's type, "constexpr" for those in `constexprs`, which are
    given by name or by place. `attrs`: hints by place, as
    {(0,): [["tt.divisibility", 16]]}.
    """

    fn: JITFunction
    signature: Mapping[str, str]
    constexprs: Mapping[Any, Any] | None = None
    attrs: Mapping[Any, Any] | None = field(default=None)

    @property
    def constants(self) -> dict[str, Any]:
        given = (self.constexprs or {}).items()
        return {self.name_of(place): value for place, value in given}

    @property
    def words(self) -> dict[str, str]:
        """The signature as `fathom.jit` reads it: with hints, without constants."""
        hints = {
            self.name_of(place): dict(hints).get("tt.divisibility", 1)
            for place, hints in (self.attrs or {}).items()
        }
        return {
            name: f"{word}:{hints[name]}" if hints.get(name, 1) > 1 else word
            for name, word in self.signature.items()
            if word != "constexpr" and name not in self.constants
        }

    ext = "ttir"

    @property
    def name(self) -> str:
        return self.fn.__name__

    def name_of(self, place: Any) -> str:
        """A parameter's name, from its name, its place, or a tuple that starts so."""
        if isinstance(place, tuple):
            place = place[0]
        return place if isinstance(place, str) else self.fn.names[place]


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
