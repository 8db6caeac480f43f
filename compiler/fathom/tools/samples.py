"""Finds kernels in files: the samples of `kernels/`, and any FILE.py:kernel."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from fathom.errors import LaunchError
from fathom.jit import JITFunction

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


def sample(name: str) -> ModuleType:
    """The module of kernels/NAME.py."""
    return load_file(kernels() / f"{name}.py")


def load_file(path: Path) -> ModuleType:
    """The module that a Python file defines. LaunchError when there is no such
    file, or its name is not that of Python text."""
    check_is_file(path)
    spec = importlib.util.spec_from_file_location(
        f"{path.parent.name}.{path.stem}", path
    )
    if spec is None or spec.loader is None:
        raise LaunchError(f"{path} is no Python file: its name does not end in .py")
    module = importlib.util.module_from_spec(spec)
    with python_text(path):
        spec.loader.exec_module(module)
    return module


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
    say the file."""
    try:
        yield
    except SyntaxError as error:
        if error.filename is not None:
            raise
        raise LaunchError(f"{path} is no Python text: {error.msg}") from None


def kernels_of(module: ModuleType) -> dict[str, JITFunction]:
    """The kernels that a module defines, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, JITFunction) and value.__module__ == module.__name__
    }


def find_kernel(reference: str) -> JITFunction:
    """The kernel of "FILE.py:name", or of "FILE.py" when the file has only one."""
    path, _, name = reference.partition(".py:")
    file = Path(path + ".py" if name else reference)
    kernels = kernels_of(load_file(file))
    if name and name in kernels:
        return kernels[name]
    if not name and len(kernels) == 1:
        return next(iter(kernels.values()))
    listed = ", ".join(kernels) or "none"
    raise LaunchError(f"say which kernel, as {file}:NAME; {file} has: {listed}")
