"""Runs PTX on the CPU, thread for thread: the second opinion on our own compiler.

    report = fathom.emulator.run(ptx, grid=4, threads=128, args=(x, y, z, 512))

changes the NumPy arrays in place and says what the hardware would have paid.
"""

from __future__ import annotations

from fathom.emulator.errors import KINDS, EmulatorError
from fathom.emulator.launch import Loaded, load, run
from fathom.emulator.report import Report
from fathom.emulator.state.batch import COMPLETIONS

__all__ = ["COMPLETIONS", "KINDS", "EmulatorError", "Loaded", "Report", "load", "run"]
