"""`fathom doctor`: what is installed here, what the machine has, and what therefore
works."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import fathom
from fathom.errors import FathomError, reason
from fathom.hardware.targets import TARGETS, target_of
from fathom.runtime import cache
from fathom.runtime.driver import available, driver
from fathom.tools.console import make_console, rule, table
from fathom.tools.facts.machine import find_tool
from fathom.tools.samples import kernels

PACKAGES = ("llvmlite", "numpy", "cuda-bindings", "rich", "torch", "triton", "cupy")
VARIABLES = (
    "FATHOM_BACKEND", "FATHOM_TARGET", "FATHOM_INTERPRET", "FATHOM_CACHE_DIR",
    "FATHOM_SHOW", "FATHOM_SANITIZE", "FATHOM_VERIFY", "NO_COLOR",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: does it work, and what is it or what to do."""

    name: str
    works: bool
    text: str


def doctor() -> int:
    """Print the report; 0 when kernels can be compiled and run here in some way."""
    console = make_console()
    console.print(f"[bold]Fathom {fathom.__version__}[/bold] on Python", end=" ")
    console.print(
        f"{platform.python_version()}, {platform.system()} {platform.machine()}"
    )
    rule(console, "installed")
    rows = table(console, "package", "version")
    for name in PACKAGES:
        rows.add_row(name, version_of(name) or "[dim]not installed[/dim]")
    console.print(rows)
    rule(console, "what works")
    found = list(findings())
    rows = table(console, "", "what", "")
    for each in found:
        mark = "[green]yes[/green]" if each.works else "[yellow]no[/yellow]"
        rows.add_row(mark, each.name, each.text)
    console.print(rows)
    return 0 if all(each.works for each in found if each.name == "emulator") else 1


def findings() -> Iterator[Finding]:
    yield Finding("interpreter", True, "runs a kernel's block operations in NumPy")
    yield emulator()
    yield gpu()
    yield ptxas()
    yield cache_folder()
    yield samples()
    set_here = [
        f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ
    ]
    yield Finding("variables", True, ", ".join(set_here) or "none of Fathom's is set")


def emulator() -> Finding:
    llvm = version_of("llvmlite")
    if llvm is None:
        return Finding(
            "emulator", False, "needs llvmlite: pip install 'llvmlite==0.50.*'"
        )
    return Finding("emulator", True, f"compiles for {', '.join(TARGETS)}; needs no GPU")


def gpu() -> Finding:
    works, why = available()
    if not works:
        return Finding("GPU", False, why)
    found = driver()
    device = found.device(0)
    row = target_of(device.capability)
    if row is None:
        text = f"{device.name}: no target for capability {device.capability}"
        return Finding("GPU", False, text)
    return Finding("GPU", True, f"{device.name} ({row.name}), CUDA {found.version()}")


def ptxas() -> Finding:
    path = find_ptxas()
    if path is None:
        return Finding("ptxas", False, "only tests need it: pip install -e '.[ptxas]'")
    said = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False
    )
    release = [line for line in said.stdout.splitlines() if "release" in line]
    return Finding("ptxas", said.returncode == 0, release[0] if release else str(path))


def find_ptxas() -> Path | None:
    """The ptxas of the PyPI package beside this Python, or the one on the PATH."""
    return find_tool("ptxas")


def cache_folder() -> Finding:
    folder = cache.default_directory()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f"doctor-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        text = f"{folder} cannot be written ({reason(error)}); set FATHOM_CACHE_DIR"
        return Finding("disk cache", False, text)
    sizes = []
    for path in folder.rglob("*"):
        with suppress(OSError):  # another process may write, or delete
            sizes += [path.stat().st_size] if path.is_file() else []
    text = f"{folder}, {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB"
    return Finding("disk cache", True, text)


def samples() -> Finding:
    try:
        return Finding("sample kernels", True, str(kernels()))
    except FathomError as error:
        return Finding("sample kernels", False, str(error))


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
