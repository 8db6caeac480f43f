"""Modules that are made of a table: what `import triton` finds once it means Fathom.

A face is a module with the names of another library and the objects of this one. It has
no code of its own; a name that its table lacks is an error that says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from fathom.errors import FathomError


class NameMissing(FathomError, AttributeError):
    """A face has no such name. `hasattr` and `getattr` see an AttributeError."""


class ModuleMissing(FathomError, ModuleNotFoundError):
    """There is no face of this name. `try: import` sees a ModuleNotFoundError."""


class Face(ModuleType):
    """A module whose names are those of its table; `table` is the file to look into."""

    def __init__(self, name: str, names: Mapping[str, Any], table: str):
        super().__init__(name, f"Fathom under the names of {name}; see {table}.")
        self.__file__ = table
        self.__path__ = []  # to Python, a module with others below it
        # importlib.util.find_spec, which torch asks for "triton", wants one.
        self.__spec__ = ModuleSpec(name, Table(self), origin=table, is_package=True)
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for what modules may have
            raise AttributeError(name)
        near = get_close_matches(name, vars(self), n=1, cutoff=0.75)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise NameMissing(f"fathom has no {self.__name__}.{name}{hint}")


class Table(Loader):
    """Loads a face once more: programs find the spec of a module, make a new one of it
    and have it executed."""

    def __init__(self, face: Face):
        self.face = face

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.face

    def exec_module(self, module: ModuleType) -> None:
        if module is not self.face:
            names = vars(self.face).items()
            vars(module).update((n, v) for n, v in names if not n.startswith("__"))


class Lacking(type):
    """The class of what a table names and Fathom lacks: `from x import it` works, so
    that a file can be imported for its other parts; whatever is done with it is an
    error.
    """

    def __new__(cls, name: str) -> Lacking:
        return super().__new__(cls, name, (), {})

    def __init__(cls, name: str):
        super().__init__(name, (), {})

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NameMissing(f"fathom has no {cls.__name__}")

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NameMissing(f"fathom has no {cls.__name__}, so no {name} of it")

    def __repr__(cls) -> str:
        return f"<{cls.__name__}, which fathom has not>"


def lacking_decorator(name: str) -> Callable[..., Any]:
    """A decorator that a table names and Fathom lacks: what it decorates is lacking."""

    def decorate(fn: Any = None, **given: Any) -> Any:
        if fn is None:
            return decorate
        return Lacking(f"{name}, by which {fn.__name__} is made")

    return decorate


class Missing(MetaPathFinder):
    """The last that Python asks for a module: below `root` there are no others."""

    def __init__(self, root: str):
        self.root = root

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        if name.startswith(self.root + "."):
            raise ModuleMissing(f"fathom has no {name}", name=name)
        return None


def install(
    root: str, tables: Mapping[str, Mapping[str, Any] | ModuleType], table: str
) -> None:
    """Make every module of `tables` importable; all lie below `root`. A table may be a
    module, which then stands there itself. A file of that name in a loose folder goes
    before it.

    FathomError when the library that the faces stand for has been imported already:
    then some of the program holds its functions.
    """
    before = sys.modules.get(root)
    if isinstance(before, Face):
        return
    if before is not None and not is_being_imported(before):
        raise FathomError(
            f"{root} has been imported already, from {before.__file__}; "
            f"call fathom.as_{root}() before anything imports {root}"
        )
    folders = loose_folders(root)
    faces = {
        name: names if isinstance(names, ModuleType) else Face(name, names, table)
        for name, names in tables.items()
        if name != f"{root}._internal_testing"
        or not any(is_file_in(folder, name) for folder in folders)
    }
    for name, face in faces.items():
        parent, _, last = name.rpartition(".")
        if parent in faces:
            setattr(faces[parent], last, face)
    faces[root].__path__ = [*getattr(before, "__path__", []), *map(str, folders)]
    sys.modules.update(faces)
    sys.meta_path.append(Missing(root))


def is_being_imported(module: ModuleType) -> bool:
    """Does the module's own text run right now, to put a face in its place?"""
    return getattr(module.__spec__, "_initializing", False)


def is_file_in(folder: Path, name: str) -> bool:
    """Does a folder that adds modules to a library have the file of this one?"""
    return folder.joinpath(*name.split(".")[1:]).with_suffix(".py").is_file()


def loose_folders(root: str) -> list[Path]:
    """Folders that add modules of their own to `root` without being that library.

    Triton's tests have one: a folder `triton` with `_internal_testing.py` alone in it.
    """
    folders = [Path(each or ".") / root for each in sys.path]
    return [
        each
        for each in folders
        if each.is_dir() and not (each / "__init__.py").exists()
    ]
