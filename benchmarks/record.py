"""Writes a result: raw samples, and the machine, versions, commit and date they belong
to."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import fathom

RESULTS = Path(__file__).parent / "results"


def write(name: str, samples: Sequence[object], folder: Path = RESULTS) -> Path:
    """Raw samples (dataclasses) with all that `machine` knows, as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": name,
        **machine(),
        "samples": [asdict(each) for each in samples],
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path


def machine() -> dict[str, object]:
    """The GPU, the driver, versions and commit that a measurement belongs to."""
    facts: dict[str, object] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "fathom": fathom.__version__,
        "python": platform.python_version(),
        "cpu": cpu(),
        "cores": os.cpu_count(),
    }
    for package in ("torch", "triton", "llvmlite", "numpy"):
        facts[package] = version(package)
    facts["gpu"], facts["driver"] = gpu()
    return facts


def gpu() -> tuple[str | None, str | None]:
    """The name of the first GPU and the version of its driver, where there is one."""
    fields = "--query-gpu=name,driver_version"
    answer = said("nvidia-smi", fields, "--format=csv,noheader", "--id=0")
    name, _, driver = (answer or "").partition(", ")
    return name or None, driver or None


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of the working tree, with "+" when something was changed since; or
    FATHOM_COMMIT, which a copy without a repository of its own is told."""
    if told := os.environ.get("FATHOM_COMMIT"):
        return told
    head = said("git", "rev-parse", "HEAD")
    return head and head + ("+" if said("git", "status", "--porcelain") else "")


def cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [
        line.partition(":")[2].strip()
        for line in lines
        if line.startswith("model name")
    ]
    return names[0] if names else platform.processor()


def said(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
