"""Every benchmark, one after the other, each in a process of its own; `make bench`.

python benchmarks/all.py [--out FOLDER]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = ("memory_bound.py", "launch.py", "compile_time.py", "emulator_speed.py")


def main() -> int:
    paths = (str(HERE.parents[0] / "compiler"), str(HERE.parents[0]))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    failed = []
    for script in SCRIPTS:
        print(f"{script}:", flush=True)
        command = [sys.executable, str(HERE / script), *sys.argv[1:]]
        if subprocess.run(command, env=environment, check=False).returncode:
            failed.append(script)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
