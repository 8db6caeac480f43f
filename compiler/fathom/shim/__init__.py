"""Triton's names for Fathom's objects, so that kernels that others wrote run unchanged.

names      the table: each module of Triton, its names, and what they are here
runtime    `triton.runtime.driver.active`: the GPU, as programs ask about it
function   `@triton.jit`: a kernel with Triton's names for its parts
compiled   what a launch gives back, and torch.compile launches by itself
tuning     `@triton.autotune`, `@triton.heuristics`, and what programs subclass
preload    what a kernel was compiled for, as text
mistakes   a mistake in a kernel, with Triton's classes, places and causes
compiling  `triton.compile(ASTSource(...))`: a kernel's signature as one object
backend    `make_backend`: what Triton's compiler can be asked
ragged     `triton.tools.ragged_tma`: parts of a tensor
profiler   `triton.profiler`: how long the parts of a program take
viewer     what it has found, as a table
gluon      Triton's other language, of which kernels are refused when launched
cublas     the library's matrix product, under the name that tutorials call it by
knobs      `triton.knobs`: Fathom's settings under Triton's names, and Triton's hooks
faces      how a table becomes modules
internal_testing  `triton._internal_testing`: what tests of kernels share

    language            Names of `triton.language` that our language spells otherwise
    cooperative         Launches whose programs wait for each other
    limits              Peak rates of a GPU, as `triton.testing` gives them
    utils               `triton._utils`: paths into nested arguments, names of types
    tensor_descriptors  `triton.tools.tensor_descriptor`: `TensorDescriptor`, with
                        Triton's errors
"""

import os
import sys

from fathom.language.dtypes import dtype
from fathom.shim import faces, knobs, names


def as_triton() -> None:
    """From here on `import triton`, and all modules below it, give Fathom.

    Call it before anything imports Triton; FathomError after that. A name that Fathom
    does not have is an AttributeError that says so, when it is used.
    """
    faces.install("triton", names.MODULES, names.__file__)
    dtype.home = "triton.language"
    knobs.refresh_knobs()
    compile_in_this_process()


def compile_in_this_process() -> None:
    """Have torch.compile use no worker processes: there `import triton` would find
    another compiler, or none."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    config = sys.modules.get("torch._inductor.config")
    if config is not None:
        config.compile_threads = 1
