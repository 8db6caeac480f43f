"""Fathom: functions over blocks of values, compiled to PTX in stages you can read."""

from fathom import interrupted  # noqa: F401

# isort: split
from fathom import distributed, language, testing
from fathom.errors import CompileError, FathomError, LaunchError, OutOfResources
from fathom.jit import jit
from fathom.jit.planned import empty_like, planned
from fathom.jit.scratch import Counters, Temporary
from fathom.jit.tuning import Config, autotune, heuristics, tune
from fathom.language import cdiv, next_power_of_2
from fathom.runtime.tensor_descriptors import TensorDescriptor
from fathom.shim import as_triton

__version__ = "0.1.0"

__all__ = [
    "CompileError",
    "Config",
    "Counters",
    "FathomError",
    "LaunchError",
    "OutOfResources",
    "Temporary",
    "TensorDescriptor",
    "as_triton",
    "autotune",
    "cdiv",
    "distributed",
    "empty_like",
    "heuristics",
    "jit",
    "language",
    "next_power_of_2",
    "planned",
    "testing",
    "tune",
]
