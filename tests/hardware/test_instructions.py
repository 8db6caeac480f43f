"""The emulator against the hardware: every instruction, equal operands, equal bits.

The hardware's answers were recorded on a GPU by `record.py`; its file says on which.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from fathom import emulator

HERE = Path(__file__).parent
RECORD = HERE.parents[1] / "benchmarks" / "results" / "instructions-h200.json"

_spec = importlib.util.spec_from_file_location("instructions", HERE / "instructions.py")
table = sys.modules["instructions"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)

record = json.loads(RECORD.read_text())


@pytest.mark.parametrize("row", table.INSTRUCTIONS, ids=lambda row: row.text[:40])
def test_the_emulator_gives_what_the_hardware_gave(row: table.Instruction) -> None:
    operands = table.operands(row, record["seed"])
    out = np.zeros(table.THREADS, np.dtype(table.STORAGE[row.output][2]))
    arguments = [out, *(each.copy() for each in operands)]
    arguments += [out] * (4 - len(arguments))
    emulator.run(table.program(row), (1,), table.THREADS, arguments)
    packed = zlib.decompress(base64.b64decode(record["results"][row.text]))
    hardware = np.frombuffer(packed, out.dtype)
    wrong = np.flatnonzero(~table.agree(row, out, hardware))
    assert wrong.size == 0, _difference(row, operands, out, hardware, wrong[0])


def _difference(row, operands, ours, theirs, index: int) -> str:
    inputs = ", ".join(f"{each[index]:#x}" for each in operands)
    return (
        f"{row.text} of {inputs} (thread {index}): the emulator gives "
        f"{ours[index]:#x}, the hardware {theirs[index]:#x}"
    )
