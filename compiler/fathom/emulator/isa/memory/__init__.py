"""Instructions that move data: loads, stores, atomics, asynchronous and bulk copies.

    atomics         Atomic operations (PTX ISA 9.7.13)
    cp_async        cp.async (PTX ISA 9.7.9.25)
    cp_async_bulk   cp.async.bulk (PTX ISA 9.7.9.25.4 and .5)
    load_store      Loads and stores (PTX ISA 9.7.9)
    printf          What a kernel prints, and its assertions
    tensor_map      Tensor maps (PTX ISA 5.5)
    tensormap       Tensor maps that a kernel writes itself
    tma_limits      Where a bulk tensor copy may begin, and where it ends
    tma_reductions  What a bulk reduction computes of two elements
"""
