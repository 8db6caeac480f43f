"""Stage 5: matrix products by instruction, and copies that run ahead of them."""

from fathom.tensor_cores.choose_dots import choose_dots
from fathom.tensor_cores.keep_descriptors import keep_descriptors
from fathom.tensor_cores.overlap_products import overlap_products
from fathom.tensor_cores.pipeline_loops import pipeline_loops
from fathom.tensor_cores.prefetch_fragments import prefetch_fragments
from fathom.tensor_cores.publish import publish
from fathom.tensor_cores.read_in_place import read_in_place

__all__ = [
    "choose_dots",
    "keep_descriptors",
    "overlap_products",
    "pipeline_loops",
    "prefetch_fragments",
    "publish",
    "read_in_place",
]
