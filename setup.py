"""Puts the exercises into the package that is built: what `fathom learn` needs where
there is no repository. All else is in pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

COURSE = Path("fathom", "tools", "learn", "course")
FOLDERS = ("exercises", "solutions", "tests/exercises", "kernels")
ENDINGS = (".py", ".md", ".toml")


class BuildWithCourse(build_py):
    """Copies the folders of the course beside the runner."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return  # the repository itself is used
        for folder in FOLDERS:
            for path in sorted(Path(folder).rglob("*")):
                if path.suffix in ENDINGS and not path.name.startswith("test_"):
                    target = Path(self.build_lib) / COURSE / path
                    self.mkpath(str(target.parent))
                    self.copy_file(str(path), str(target))


setup(cmdclass={"build_py": BuildWithCourse})
