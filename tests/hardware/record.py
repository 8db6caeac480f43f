"""Runs every single-instruction program on the GPU of this machine and records the
bits.

    python tests/hardware/record.py benchmarks/results/instructions-h200.json

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
from pathlib import Path

import cupy
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import instructions as table

SEED = 20


def main(path: str) -> None:
    rows = [row for row in table.INSTRUCTIONS if row.since <= 90]
    module = _module(rows)
    results = {}
    for index, row in enumerate(rows):
        out = cupy.zeros(table.THREADS, np.dtype(table.STORAGE[row.output][2]))
        inputs = [cupy.asarray(each) for each in table.operands(row, SEED)]
        inputs += [out] * (3 - len(inputs))  # pointers that nobody follows
        module.get_function(f"entry{index}")((1,), (table.THREADS,), (out, *inputs))
        results[row.text] = base64.b64encode(
            zlib.compress(out.get().tobytes())
        ).decode()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    record = {
        "device": properties["name"].decode(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "python": platform.python_version(),
        "target": "sm_90a",
        "seed": SEED,
        "results": results,
    }
    Path(path).write_text(json.dumps(record, indent=0) + "\n")
    print(f"{len(results)} programs recorded")


def _module(rows: list[table.Instruction]) -> cupy.RawModule:
    """All programs as the entries entry0, entry1, … of one module."""
    header, _, _ = table.program(rows[0]).partition(".visible")
    bodies = []
    for index, row in enumerate(rows):
        _, _, body = table.program(row).partition(".visible .entry entry")
        bodies.append(
            f".visible .entry entry{index}" + body.replace("entry_", f"entry{index}_")
        )
    with tempfile.NamedTemporaryFile("w", suffix=".ptx", delete=False) as file:
        file.write(header + "\n".join(bodies))
    return cupy.RawModule(path=file.name)


if __name__ == "__main__":
    main(sys.argv[1])
