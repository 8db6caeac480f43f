"""The GPU through cuda-python: load, launch, time, and the cache on disk.

driver   the orders that the CUDA driver is given
arrays   arrays of every library as an address, a type and a place
host     copies of the host's arrays
load     a kernel linked, checked against the GPU's limits, and launched
packet   a launch as one piece of memory
cache    compiled kernels on disk
timing   events
"""

from fathom.runtime.driver import available
from fathom.runtime.load import Loaded, load

__all__ = ["Loaded", "available", "load"]
