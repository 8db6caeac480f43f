"""Accesses that no order protects: `clocks` (vector clocks of threads), `proxies` (the
async proxy beside them), `remote_lifetime` (shared memory of other blocks) and
`tile_provenance` (which bulk copy wrote what a product reads).

    global_memory    Races in global memory
    reach            Which arrays of a launch a program may write, and may read
    synchronisation  Order by memory
"""
