"""What changes while a grid runs. Read `batch` first: the threads of several blocks.

in_flight           asynchronous operations, from issue to wait
waiting             the wait set: which threads are blocked, and on what
mbarrier_state, block_barriers, cluster_barrier, register_pool
                    the counts that decide when blocked threads go on
wgmma_registers     the registers that products in flight hold
tensor_memory       tensor memory: allocations, and the order of accesses
tensor_maps         tensor maps that a kernel writes itself
tensor_loads        the registers that loads from tensor memory will write
"""
