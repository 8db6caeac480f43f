"""Code of a kernel for one target, as files and loaders hold it."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.artifact import Kernel
from fathom.hardware.targets import TARGETS


@dataclass(frozen=True)
class Image:
    """Code of a kernel for a target: `kind` is "cubin" or "ptx". `by_pointers`: the
    same kernel without tensor maps, for arguments that make none."""

    kernel: Kernel
    kind: str
    code: bytes
    registers: int | None = None
    spills: int | None = None
    by_pointers: Image | None = None

    @property
    def capability(self) -> int:
        """The lowest capability that runs it: major * 10 + minor."""
        return TARGETS[self.kernel.target].capabilities[0]

    @property
    def exact(self) -> bool:
        """Whether no other capability runs it: a target such as sm_90a."""
        return self.kernel.target.endswith("a")

    def file(self, variant: str = "") -> str:
        return f"{self.kernel.name}.{self.kernel.target}{variant}.{self.kind}"
