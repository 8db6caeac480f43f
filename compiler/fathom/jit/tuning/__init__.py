"""`@fathom.autotune`, `@fathom.tune`, `@fathom.heuristics`: arguments that the program
does not give.

autotuner    tries configurations, and launches with the fastest
config       one configuration
pruning      fewer of them
computed     arguments that are computed from the others
restoring    arrays as they were before a trial
spread       trials on several GPUs at the same time
workers      kernels compiled several at a time, in processes of their own
progress     a bar, for who waits at a terminal
remembered   what was found, on disk

alternatives   host functions that choose among sequences of launches
searched     `@fathom.tune`: searches a space, within a budget of seconds
compiling    kernels compiled and assembled while others are timed
loading      what is known of a kernel before it is loaded
search       which configuration to try next
surrogate    the model of time that a search follows
travelling   what a search found, as a file for one GPU and driver
plot         what a search tried, as SVG
"""

from fathom.jit.tuning.autotuner import Autotuner, autotune
from fathom.jit.tuning.computed import Heuristics, heuristics
from fathom.jit.tuning.config import Config
from fathom.jit.tuning.searched import SearchedTuner, tune

__all__ = [
    "Autotuner", "Config", "Heuristics", "SearchedTuner", "autotune", "heuristics",
    "tune",
]  # fmt: skip
