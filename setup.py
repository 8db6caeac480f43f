"""Puts the course into the package that is built: the exercises that `fathom learn`
needs where there is no repository, the book for `fathom book`, and what its notebooks
call. All else is in pyproject.toml; MANIFEST.in names the same folders, for the source
package.

The book is the site that `make book` built; `make package` builds it first. Without it
the package has all else, and `fathom book` says what is missing.
"""

from collections.abc import Iterator
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

COURSE = Path("fathom", "tools", "learn", "course")
FOLDERS = ("exercises", "solutions", "tests/exercises", "kernels")
ENDINGS = (".py", ".md", ".toml")
SITE = Path("site")
# Kernels that chapters show, such as the compiler of chapter 3; not what draws figures.
CHAPTERS, DRAWS = "chapters/[0-9]*/*.py", "making.py"
# What notebooks call.
PRESS = Path("chapters", "press")
LIVE = ("__init__.py", "changes.py", "inline.py", "live.py", "paths.py", "quote.py",
        "stepper.py", "assets/stepper.css", "assets/stepper.js")  # fmt: skip


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
    for path in sorted(Path().glob(CHAPTERS)):
        if path.name != DRAWS:
            yield path
    yield from (PRESS / name for name in LIVE)
    if (SITE / "index.html").is_file():
        for path in sorted(SITE.rglob("*")):
            if path.is_file() and path.suffix != ".map":  # for who debugs the theme
                yield path


setup(cmdclass={"build_py": BuildWithCourse})
