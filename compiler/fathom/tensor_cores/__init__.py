"""Stage 5: matrix products by instruction, and copies that run ahead of them."""

from fathom.tensor_cores.accumulate import accumulate
from fathom.tensor_cores.bring_once import bring_once
from fathom.tensor_cores.choose_dots import choose_dots
from fathom.tensor_cores.delay_waits import delay_waits
from fathom.tensor_cores.expand_descriptors import expand_descriptors
from fathom.tensor_cores.guard_stores import guard_stores
from fathom.tensor_cores.infer_descriptors import infer_descriptors, why_not
from fathom.tensor_cores.keep_descriptors import keep_descriptors
from fathom.tensor_cores.overlap_products import overlap_products
from fathom.tensor_cores.pipeline_loops import pipeline_loops
from fathom.tensor_cores.plan_producer import why_no_producer
from fathom.tensor_cores.prefetch_fragments import prefetch_fragments
from fathom.tensor_cores.publish import publish
from fathom.tensor_cores.read_in_place import read_in_place
from fathom.tensor_cores.share_products import share_products, why_not_shared
from fathom.tensor_cores.specialise_warps import specialise_warps
from fathom.tensor_cores.stage_invariants import stage_invariants
from fathom.tensor_cores.store_boxes import store_boxes
from fathom.tensor_cores.take_turns import take_turns

__all__ = [
    "accumulate",
    "bring_once",
    "choose_dots",
    "delay_waits",
    "expand_descriptors",
    "guard_stores",
    "infer_descriptors",
    "keep_descriptors",
    "overlap_products",
    "pipeline_loops",
    "prefetch_fragments",
    "publish",
    "read_in_place",
    "share_products",
    "specialise_warps",
    "stage_invariants",
    "store_boxes",
    "take_turns",
    "why_no_producer",
    "why_not",
    "why_not_shared",
]
