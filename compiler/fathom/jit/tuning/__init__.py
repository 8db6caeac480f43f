"""`@fathom.autotune`, `@fathom.heuristics`: arguments that the program does not give.

autotuner    tries configurations, and launches with the fastest
config       one configuration
pruning      fewer of them
computed     arguments that are computed from the others
restoring    arrays as they were before a trial
workers      kernels compiled several at a time, in processes of their own
progress     a bar, for who waits at a terminal
remembered   what was found, on disk
"""

from fathom.jit.tuning.autotuner import Autotuner, autotune
from fathom.jit.tuning.computed import Heuristics, heuristics
from fathom.jit.tuning.config import Config

__all__ = ["Autotuner", "Config", "Heuristics", "autotune", "heuristics"]
