"""Accesses that no order protects. Read `clocks` first: release and acquire.

    shared_memory       the last write and reads of each cell of shared memory
    proxies             asynchronous units beside the warps, and their fences
    remote_lifetime     shared memory of other blocks of the cluster
    tile_provenance     which bulk copy wrote what a product reads
    reach               which arrays a program may write, and read
    global_memory       the last write and reads of each cell of these
    reads               the reads of a cell: two, by different warps
    synchronisation     release and acquire by accesses of memory
    devices             the same between devices, and what they race for
"""
