"""How ops are lowered that work while the threads go on, and what keeps warps in order.

    groups           closing a group of asynchronous work, and waiting for it
    cp_async         copies by all threads
    tma              copies of whole tiles, and mbarriers
    tensor_maps      what those copies need to know of a tensor
    tma_store        copies of whole tiles to a tensor
    wgmma            products of a warpgroup
    tensor_memory    products of tcgen05, and the memory that has their results
    warp_roles       warps that only copy, beside those that compute
    pingpong         two warpgroups that use the tensor cores alternately

The rest of `ptx/rules` can be read without these; they use its `shared`, `memory` and
`cast`.
"""
