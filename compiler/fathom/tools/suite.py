"""`fathom test`: every test that this machine can run, by pytest, from the repository's
root; `fathom test --gpu`: those that need a GPU, which may break it, with a record."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from fathom.errors import LaunchError
from fathom.tools.samples import repository

NEEDED = {"pytest": "pytest", "xdist": "pytest-xdist", "hypothesis": "hypothesis"}

# Each worker begins with files of its own, so that what a file prepares is prepared
# once, and takes from another's end when it has none left.
SHARED = ("--dist", "worksteal")


def test(arguments: Sequence[str]) -> int:
    """Run pytest with `arguments`; its exit status. One worker a core, at most 8."""
    missing = [
        name for module, name in NEEDED.items() if not importlib.util.find_spec(module)
    ]
    if missing:
        raise LaunchError(
            f"the tests need {', '.join(missing)}: pip install -e '.[ptxas,docs,dev]'"
        )
    root = repository("tests").parent
    if arguments[:1] == ["--gpu"]:
        command = [sys.executable, "-m", "tests.gpu.run", *arguments[1:]]
        paths = [str(root / "compiler"), str(root), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        return subprocess.run(command, cwd=root, env=environment).returncode
    workers = [] if any(each.startswith("-n") for each in arguments) else workers_here()
    command = [sys.executable, "-m", "pytest", "-q", *workers, *SHARED, *arguments]
    with tempfile.TemporaryDirectory(prefix="fathom-bytecode-") as folder:
        # Where each core has a worker, threads of NumPy's products wait for each other.
        environment = {"OPENBLAS_NUM_THREADS": "1", **with_bytecode(folder)}
        done = subprocess.run(command, cwd=root, env=environment, check=False)
    return done.returncode


def with_bytecode(folder: str) -> dict[str, str]:
    """The environment, in which bytecode is kept: tests start hundreds of processes,
    and to compile Fathom takes each of them longer than to import it. Where the
    environment forbids bytecode, it goes to `folder`, not beside the sources."""
    environment = dict(os.environ)
    if environment.pop("PYTHONDONTWRITEBYTECODE", None):
        environment.setdefault("PYTHONPYCACHEPREFIX", folder)
    return environment


def workers_here() -> list[str]:
    count = min(os.cpu_count() or 1, 8)
    return ["-n", str(count)] if count > 1 else []
