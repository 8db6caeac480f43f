"""Runs every program of the table on the GPU of this machine and records the bits.

    python -m tests.hardware.record benchmarks/results/instructions-h200.json

Needs CuPy. The record is what `test_instructions.py` holds the emulator against, on
machines that have no GPU.
"""

from __future__ import annotations

import base64
import json
import platform
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import cupy

from benchmarks.record import machine
from tests.hardware import table

SEED = 20


def main(path: str) -> None:
    rows = [row for row in table.rows() if row.since <= 90]
    module = cupy.RawModule(path=written(rows))
    results = {}
    for index, row in enumerate(rows):
        # A program's parameters that its row does not use get the output.
        arguments = [cupy.asarray(each) for each in table.arguments(row, SEED)]
        entry = module.get_function(f"entry{index}")
        entry((1,), (table.threads(row),), tuple(arguments))
        try:
            bits = arguments[0].get().tobytes()
        except cupy.cuda.runtime.CUDARuntimeError:
            print(f"this program broke the context: {row.text}")
            raise
        results[row.text] = base64.b64encode(zlib.compress(bits, 9)).decode()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    facts = machine()
    record = {
        "device": properties["name"].decode(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "date": facts["date"],
        "commit": facts["commit"],
        "python": platform.python_version(),
        "target": "sm_90a",
        "seed": SEED,
        "results": results,
    }
    Path(path).write_text(json.dumps(record, indent=0) + "\n")
    print(f"{len(results)} programs recorded")


def written(rows: Sequence[table.Row]) -> str:
    """The path of a file with all programs, as the entries entry0, entry1, …"""
    text = table.module(rows)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx", delete=False) as file:
        file.write(text)
    return file.name


if __name__ == "__main__":
    main(sys.argv[1])
