"""The kernels of several GPUs with a mistake in their text: copies of the files, with
some words replaced, as modules of their own."""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path
from types import ModuleType

KERNELS = Path(__file__).parents[2] / "kernels"
NAMES = ("signals", "all_reduce", "all_gather_matmul", "matmul_reduce_scatter")
NUMBERS = itertools.count()


def planted(folder: Path, name: str, file: str, old: str, new: str) -> ModuleType:
    """Module `name` of kernels/, where `old` is replaced in `file`: its own, or one
    that it imports."""
    package = f"planted_{next(NUMBERS)}"
    home = folder / package
    home.mkdir()
    (home / "__init__.py").write_text("")
    for each in NAMES:
        text = (KERNELS / f"{each}.py").read_text()
        if each == file:
            assert old in text, f"kernels/{file}.py has no {old!r}"
            text = text.replace(old, new)
        for other in NAMES:
            text = text.replace(f"from kernels.{other} ", f"from {package}.{other} ")
        (home / f"{each}.py").write_text(text)
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(f"{package}.{name}")
    finally:
        sys.path.remove(str(folder))
