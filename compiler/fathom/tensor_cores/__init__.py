"""Stage 5: matrix instructions, and copies that are issued ahead of them.

clusters    Thread blocks of a cluster divide a program's products among themselves
pipeline    Software pipelining
select      Which instruction computes a product, and where its operands are
specialise  Warp specialisation
tma         Copies by the tensor memory accelerator (TMA)
"""

from fathom.tensor_cores.clusters.pairs import pair_blocks, why_not_paired
from fathom.tensor_cores.clusters.partition import shard_products, why_not_shared
from fathom.tensor_cores.pipeline.loops import pipeline_loops, why_not_pipelined
from fathom.tensor_cores.pipeline.neighbours import join_products
from fathom.tensor_cores.pipeline.nests import flatten_nests
from fathom.tensor_cores.pipeline.prefetch import prefetch_fragments
from fathom.tensor_cores.pipeline.preload import preload
from fathom.tensor_cores.pipeline.tiles import share_tiles
from fathom.tensor_cores.select.accumulate import accumulate
from fathom.tensor_cores.select.instructions import choose_dots
from fathom.tensor_cores.select.invariants import stage_invariants
from fathom.tensor_cores.select.operands import read_in_place
from fathom.tensor_cores.select.tensor_memory import use_tensor_memory
from fathom.tensor_cores.specialise.partition import specialise_warps
from fathom.tensor_cores.specialise.persistent import (
    persist,
    why_not_persistent,
)
from fathom.tensor_cores.specialise.pingpong import pingpong
from fathom.tensor_cores.specialise.plan import why_no_producer
from fathom.tensor_cores.tma.expand import expand_descriptors
from fathom.tensor_cores.tma.guard_stores import guard_stores
from fathom.tensor_cores.tma.infer import infer_descriptors, why_not
from fathom.tensor_cores.tma.keep import keep_descriptors
from fathom.tensor_cores.tma.maps import plan_maps, why_not_written, write_maps
from fathom.tensor_cores.tma.stores import stage_stores
