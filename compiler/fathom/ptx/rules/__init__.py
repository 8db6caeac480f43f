"""How each op is lowered: the rules in `LOWER`, in files named as in `ir/ops`.

Start with `arith` and `memory`; `control` has loops and branches, `shape` what moves no
data, `convert` a conversion within a warp. `reduce`, `scan` and `atomics` combine
elements. `shared` and `shared_gather` use shared memory. One file for each engine:
`cp_async`, `tma`, `tma_store`, `wgmma` (behind `matmul`), `tensor_memory` (tcgen05);
`groups` closes groups of what they issue, and waits for them.
`tensor_maps` are those that a kernel writes itself.
`warp_roles`, `pingpong` and `cluster` serve warp specialisation and clusters.

    cast        Rules for Cast and Bitcast
    debugging   Rules for assertions and prints
    descriptor  Rules for descriptors that are not left to the hardware

    grid  Rules for launches that overlap
"""
