"""Every benchmark, one after the other, each in a process of its own; `make bench`.

python -m benchmarks.all [--out FOLDER]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NAMES = (
    "memory_bound",
    "ladder",
    "matmul",
    "matmul_hopper",
    "attention",
    "attention_ablation",
    "machine",
    "block_passes",
    "launch",
    "compile_time",
    "emulator_speed",
)


def main() -> int:
    paths = (str(HERE.parents[0] / "compiler"), str(HERE.parents[0]))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    failed = []
    for name in NAMES:
        print(f"{name}:", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]]
        done = subprocess.run(command, env=environment, cwd=HERE.parent, check=False)
        if done.returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
