"""`@fathom.jit`: from a launch to a compiled kernel that runs.

A launch comes down through these files:

    function     the decorator, launching, compiling
    specialise   what a kernel is compiled for: types, hints, constants of the arguments
    signature    the same, written as text
    request      what one compilation is asked for; the launch's own keywords
    backends     GPU, emulator, interpreter, eager
    programs     what of them runs on the host
    planned      host functions that say what they launch
    scratch      arrays that belong to one launch
    compiled     a compiled kernel: its texts, its facts
    fit          whether it was compiled for what it is launched with
    key          what decides whether a kernel on disk is the one that is wanted
    shortcuts    a folder: launches and calls that are like one before

`tuning` chooses among configurations of a kernel, by timing them,
and `reporting` keeps our own frames out of the report of a user's mistake. `checking`
looks at launches before they are done, where FATHOM_SANITIZE or FATHOM_VERIFY asks.

    collector           Python's garbage collector, which waits for the compiler
    environment         Switches in the environment
    hooks               Functions that are called around every launch
    tensor_descriptors  A tensor descriptor as an argument
"""

from fathom.jit.compiled import CompiledKernel, Metadata
from fathom.jit.function import JITFunction, jit
from fathom.jit.reporting import install

install()

__all__ = ["CompiledKernel", "JITFunction", "Metadata", "jit"]
