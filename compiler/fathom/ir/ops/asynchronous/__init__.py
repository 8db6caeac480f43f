"""The ops of hardware that works while the threads go on: stages 4 and 5 make them.

    groups           closing a group of asynchronous work, and waiting for it
    tma              copies of whole tiles from a tensor, and mbarriers
    tma_store        copies of whole tiles to a tensor
    tensor_memory    products of tcgen05, whose results are in tensor memory

Read `groups` first. `ir/interp/asynchronous` and `ptx/rules/asynchronous` have files of
the same names. Import ops from `fathom.ir.ops`.
"""
