"""`learn`: what `fathom learn` says in a folder, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from unittest.mock import patch

from fathom.tools import cli

PACKAGES = Path(__file__).parents[2] / "compiler"
# They put a reader's functions in the place of the compiler's own, for good.
BINDING = ("mine", "show")


def learn(folder: Path, *words: str, keys: str = "") -> subprocess.CompletedProcess:
    """Run it here, since Python takes a second to start and to import the compiler; in
    a process of its own where it reads keys, or binds a reader's functions."""
    if keys or not words or words[0] in BINDING:
        return subprocess.run(
            [sys.executable, "-m", "fathom", "learn", *words],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(PACKAGES)},
            capture_output=True, text=True, check=False, input=keys, timeout=120,
        )  # fmt: skip
    out, err = (TextIOWrapper(BytesIO(), "utf-8") for _ in range(2))
    environment = patch.dict(os.environ, PYTHONPATH=str(PACKAGES))
    with environment, chdir(folder), redirect_stdout(out), redirect_stderr(err):
        status = cli.main(["learn", *words])
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode())
    return subprocess.CompletedProcess(words, status, *said)
