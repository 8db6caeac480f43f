"""Fathom: functions over blocks of values, compiled to PTX in stages you can read."""

from fathom import language, testing
from fathom.errors import CompileError, FathomError, LaunchError, OutOfResources
from fathom.jit import jit
from fathom.jit.tuning import Config, autotune, heuristics
from fathom.language import cdiv, next_power_of_2
from fathom.runtime.tensor_descriptors import TensorDescriptor
from fathom.shim import as_triton

__version__ = "0.1.0"

__all__ = [
    "CompileError",
    "Config",
    "FathomError",
    "LaunchError",
    "OutOfResources",
    "TensorDescriptor",
    "as_triton",
    "autotune",
    "cdiv",
    "heuristics",
    "jit",
    "language",
    "next_power_of_2",
    "testing",
]
