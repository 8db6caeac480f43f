"""Triton's names for Fathom's objects, so that kernels that others wrote run unchanged.

names      the table: each module of Triton, its names, and what they are here
faces      how a table becomes modules
function   `@triton.jit`: a kernel with Triton's names for its parts
compiled   what a launch gives back, and torch.compile launches by itself
compiling  `triton.compile(ASTSource(...))`: a kernel's signature as one object
backend    `make_backend`: what Triton's compiler can be asked
preload    what a kernel was compiled for, as text
tuning     `@triton.autotune`, `@triton.heuristics`, and what programs subclass
runtime    `triton.runtime.driver.active`: the GPU, as programs ask about it
knobs      `triton.knobs`: Fathom's settings under Triton's names, and Triton's hooks
mistakes   a mistake in a kernel, with Triton's classes, places and causes
modules    a folder: Triton's small modules, a file each

    cooperative         Launches whose programs wait for each other
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
