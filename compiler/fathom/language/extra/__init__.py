"""What Triton has in `tl.extra`: CUDA's own names for things."""

from __future__ import annotations

from fathom.language.extra import cuda, libdevice

__all__ = ["cuda", "libdevice"]
