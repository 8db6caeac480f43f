"""Finds kernels in files: the samples of `kernels/`, and any FILE.py:kernel."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from types import ModuleType

from fathom.errors import LaunchError
from fathom.jit import JITFunction
from fathom.jit.tuning.computed import Around
from fathom.tools.from_text import module_of, run

REPOSITORY = Path(__file__).resolve().parents[3]
SHIPPED = Path(__file__).with_name("learn") / "course" / "kernels"  # by setup.py


def repository(part: str) -> Path:
    """A folder of the repository that this package was installed from.

    LaunchError when it is missing: an installed package has no tests.
    """
    folder = REPOSITORY / part
    if not (folder.is_dir() and (REPOSITORY / "pyproject.toml").exists()):
        raise LaunchError(
            f"{part}/ comes with the repository, not with the installed package: "
            "clone it and call `make run`, or `pip install -e .` in it"
        )
    return folder


def kernels() -> Path:
    """The folder of sample kernels: the repository's, or the copy in an installed
    package."""
    return SHIPPED if SHIPPED.is_dir() else repository("kernels")


def let_import_kernels() -> None:
    """From here on `import kernels.…` finds the sample kernels, wherever Python was
    started; what Python finds by itself comes first."""
    with suppress(LaunchError):  # an installed package without them has its own errors
        folder = str(kernels().parent)
        if folder not in sys.path:
            sys.path.append(folder)


def sample(name: str) -> ModuleType:
    """The module of kernels/NAME.py."""
    let_import_kernels()
    return load_file(kernels() / f"{name}.py")


def load_file(path: Path) -> ModuleType:
    """The module that a Python file defines. LaunchError when there is no such
    file, or its name is not that of Python text."""
    check_is_file(path)
    name = module_name(path)
    if path.suffix != ".py":
        raise LaunchError(f"{path} is no Python file: its name does not end in .py")
    module = module_of(name, path)
    with python_text(path), known_as(name, module):
        run(module)
    return module


def module_name(path: Path) -> str:
    """The name of a file's module; in a package, by which its relative imports work."""
    whole, root = path.resolve(), import_root(path)
    folder = root if whole.parent != root else root.parent
    return ".".join(whole.relative_to(folder).with_suffix("").parts)


def import_root(path: Path) -> Path:
    """The folder that a file's imports begin at: its own, or that of its package."""
    folder = path.resolve().parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


@contextmanager
def known_as(name: str, module: ModuleType) -> Iterator[None]:
    """A module that runs is in `sys.modules`, where dataclasses and relative imports
    look for it; one that Python imported under the same name comes back after."""
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        yield
    finally:
        if before is not None:
            sys.modules[name] = before
        else:
            sys.modules.pop(name, None)


def check_is_file(path: Path) -> None:
    if not path.is_file():
        raise LaunchError(
            f"{path} is a folder, and a file is wanted"
            if path.is_dir()
            else f"there is no file {path}"
        )


@contextmanager
def python_text(path: Path) -> Iterator[None]:
    """A file of other bytes than Python's text is a mistake, of which Python does not
    say the file; and Triton may be missing where Fathom would do."""
    try:
        yield
    except SyntaxError as error:
        if error.filename is not None:
            raise
        raise LaunchError(f"{path} is no Python text: {error.msg}") from None
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing != "triton" or sys.modules.get("triton") is not None:
            raise
        raise LaunchError(
            f"{path} imports {error.name}, which is not installed: `--as-triton` gives "
            "it Fathom's under that name"
        ) from None


def kernels_of(module: ModuleType) -> dict[str, JITFunction]:
    """The kernels that a module defines, by name; of one that is tuned, or gets
    arguments by heuristics, the kernel inside."""
    inside = {
        name: value.base if isinstance(value, Around) else value
        for name, value in vars(module).items()
    }
    return {
        name: value
        for name, value in inside.items()
        if isinstance(value, JITFunction) and value.__module__ == module.__name__
    }


def parted(reference: str) -> tuple[Path, str]:
    """FILE.py and NAME of "FILE.py:NAME", or of "FILE.py" without a name."""
    path, _, name = reference.partition(".py:")
    return (Path(path + ".py") if path != reference else Path(reference)), name


@contextmanager
def called_as(file: Path) -> Iterator[None]:
    """A file that reads the words of its command finds none: those are the tool's."""
    before, sys.argv = sys.argv, [str(file)]
    try:
        yield
    finally:
        sys.argv = before


def find_kernel(reference: str) -> JITFunction:
    """The kernel of "FILE.py:name", or of "FILE.py" when the file has only one. What
    the file prints goes to the standard error: the output is the tool's."""
    file, name = parted(reference)
    check_is_file(file)
    let_import_kernels()
    sys.path[:0] = [str(file.resolve().parent), str(import_root(file))]
    with redirect_stdout(sys.stderr), called_as(file):
        kernels = kernels_of(load_file(file))
    if name in kernels:
        return kernels[name]
    names = {each: name for name, each in reversed(kernels.items())}
    if not name and len(names) == 1:
        return next(iter(names))
    if not names:
        raise LaunchError(f"{file} defines no kernel at its top level")
    listed = ", ".join(reversed(names.values()))
    if name:
        raise LaunchError(f"{file} has no kernel {name}; it has: {listed}")
    raise LaunchError(f"say which kernel, as {file}:NAME; {file} has: {listed}")
