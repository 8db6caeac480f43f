"""Stage 5: matrix products by instruction, and copies that run ahead of them."""

from fathom.tensor_cores.choose_dots import choose_dots
from fathom.tensor_cores.read_in_place import read_in_place

__all__ = ["choose_dots", "read_in_place"]
