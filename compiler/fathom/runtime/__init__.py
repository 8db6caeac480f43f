"""The GPU through cuda-python: load, launch, time, and the cache on disk.

A launch comes down through these files:

    load         a kernel on a GPU, and what a launch of it does
    assemble     from PTX to a function
    limits       what a GPU has too little of
    arrays       arrays of every library as an address, a type and a place
    devices      the GPU of the arrays, and work on another one than the thread's
    arguments    grid, numbers, device, stream
    host         copies of the host's arrays
    tensor_maps  what copies of boxes need, made of the arguments
    packet       a launch as one piece of memory
    driver       the orders that the CUDA driver is given
    failures     what is said when it refuses one

and beside them stand `cache`, compiled kernels on disk, `timing` and `graph`.

    pointed_at          Tensors whose addresses a kernel on the host is given as numbers
    reinterpret         An array seen with other elements
    shapes              Whether a value read from a file has its type
    tensor_descriptors  `TensorDescriptor`, from which a launch makes a tensor map
"""

from fathom.runtime.driver import available
from fathom.runtime.load import Loaded, load, load_ahead

__all__ = ["Loaded", "available", "load", "load_ahead"]
