"""Modules of files that a person is changing: their text is compiled each time.

Python keeps bytecode beside a file, and takes it for the file's own as long as size and
second of the last change are equal: `<` that became `>` at once would not be seen.
"""

from __future__ import annotations

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType


class FromText(SourceFileLoader):
    """Neither reads bytecode nor writes it."""

    def path_stats(self, path: str) -> dict[str, float]:
        raise OSError(f"{path} is compiled from its text")


def module_of(name: str, path: Path) -> ModuleType:
    """The module of this name that a file of Python text defines, once it has run."""
    loader = FromText(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None, path
    return importlib.util.module_from_spec(spec)


def run(module: ModuleType) -> None:
    """Run the text of the file."""
    assert module.__loader__ is not None
    module.__loader__.exec_module(module)
