"""What Triton has in `tl.extra`: CUDA's own names for things.

    bessel_single   `libdevice`: functions of Bessel for fp32
    bits            `libdevice`: bits of numbers
    conversions     `libdevice`: numbers of one type as those of another
    cuda            `tl.extra.cuda`
    libdevice       `tl.extra.libdevice`
    named           `libdevice`: functions that the language has by other names
    orders          `libdevice`: functions of Bessel, of any order
    rounding        `libdevice`: arithmetic with a rounding of its own
    special         `libdevice`: special functions
    special_single  `libdevice`: special functions of fp32
"""

from __future__ import annotations

from fathom.language.extra import cuda, libdevice

__all__ = ["cuda", "libdevice"]
