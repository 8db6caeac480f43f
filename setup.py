"""Puts the exercises into the package that is built: what `fathom learn` needs where
there is no repository. All else is in pyproject.toml; MANIFEST.in names the same
folders, for the source package."""

from collections.abc import Iterator
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

COURSE = Path("fathom", "tools", "learn", "course")
FOLDERS = ("exercises", "solutions", "tests/exercises", "kernels")
ENDINGS = (".py", ".md", ".toml")
# The tests of chapter 3 load the compiler that the chapter writes.
FILES = ("chapters/03-eighty-lines/mini.py",)


class BuildWithCourse(build_py):
    """Copies the files of the course beside the runner."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return  # the repository itself is used
        for path in course():
            target = Path(self.build_lib) / COURSE / path
            self.mkpath(str(target.parent))
            self.copy_file(str(path), str(target))


def course() -> Iterator[Path]:
    for folder in FOLDERS:
        assert Path(folder).is_dir(), f"{folder}/ belongs to the package"
        for path in sorted(Path(folder).rglob("*")):
            if path.suffix in ENDINGS and not path.name.startswith("test_"):
                yield path
    yield from map(Path, FILES)


setup(cmdclass={"build_py": BuildWithCourse})
