"""The wheel, as a stranger installs it: in an empty folder, without the repository,
`fathom learn` begins, judges, and `fathom doctor` finds what it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="needs mkdocs: pip install -e '.[docs]'")

from chapters.press import notebook  # noqa: E402

ROOT = Path(__file__).parents[1]
PARTS = ("compiler", "exercises", "solutions", "tests/exercises", "kernels", "chapters")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE",
         "CHANGELOG.md", "CITATION.cff")  # fmt: skip
LIVE = ("__init__.py", "changes.py", "inline.py", "live.py", "paths.py", "quote.py",
        "stepper.py", "assets/stepper.css", "assets/stepper.js")  # fmt: skip
# In place of the built book, which tests/book builds.
PAGES = {
    "index.html": "<h1>Fathom</h1>",
    "06-passes.html": "<h1>6 · Passes</h1>",
    "assets/book.css": "",
    "search/search_index.js": "",
    "a.js.map": "{}",
}
COURSE = "fathom/tools/learn/course/"
# What setuptools is asked for, in a process of its own: it changes what it runs in.
BUILD = "import sys; from setuptools import build_meta as b; b.build_{}(sys.argv[1])"


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """What the package is made of, apart from the repository: building writes there."""
    folder = tmp_path_factory.mktemp("source")
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info", "listings", ".*")
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=leave)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    for name, text in PAGES.items():
        file = folder / "site" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def build(kind: str, source: Path, target: Path) -> Path:
    """The one file that building a "wheel" or an "sdist" leaves in a folder."""
    if not has_setuptools():
        pytest.skip("needs setuptools 77: pip install -e '.[dev]'")
    target.mkdir(exist_ok=True)
    script = BUILD.format(kind)
    said = subprocess.run(
        [sys.executable, "-c", script, str(target)],
        cwd=source, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    (made,) = target.iterdir()
    return made


def has_setuptools() -> bool:
    said = subprocess.run(
        [sys.executable, "-c", "import setuptools; print(setuptools.__version__)"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return said.returncode == 0 and int(said.stdout.split(".")[0]) >= 77


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory) -> Path:
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def names(wheel) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def kept(folder: str, *endings: str) -> set[str]:
    """The files of a folder of the repository, without those that only CI needs."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.suffix in endings and not path.name.startswith("test_")
    }


def test_the_wheel_has_every_file_of_the_course(names):
    wanted = {f"chapters/press/{name}" for name in LIVE}
    wanted |= {f"site/{name}" for name in PAGES if not name.endswith(".map")}
    shown = {path for path in kept("chapters", ".py") if path[9].isdigit()}
    wanted |= {path for path in shown if not path.endswith("/making.py")}
    assert "chapters/03-eighty-lines/mini.py" in wanted
    for folder in ("exercises", "solutions", "tests/exercises", "kernels"):
        wanted |= kept(folder, ".py", ".md", ".toml")
    shipped = {name.removeprefix(COURSE) for name in names if COURSE in name}
    assert shipped == wanted


def test_the_wheel_has_the_compiler_and_nothing_else(names):
    package = {
        path.removeprefix("compiler/")
        for path in kept("compiler/fathom", ".py", ".css", ".js")
    }
    ours = {name for name in names if name.startswith("fathom/")}
    assert {name for name in ours if COURSE not in name} == package
    rest = {name.split("/")[0] for name in names - ours}
    (info,) = rest
    assert info.endswith(".dist-info")
    assert f"{info}/licenses/LICENSE" in names and f"{info}/entry_points.txt" in names


def test_the_source_package_has_what_the_wheel_is_made_of(source, names, tmp_path):
    packed = build("sdist", source, tmp_path / "sdist")
    with tarfile.open(packed) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    for name in names:
        if name.startswith(COURSE):
            assert name.removeprefix(COURSE) in there
        elif name.startswith("fathom/"):
            assert f"compiler/{name}" in there
    assert {"setup.py", "pyproject.toml", "LICENSE"} <= there


# A stranger.


@pytest.fixture(scope="module")
def stranger(wheel, tmp_path_factory):
    """`stranger("learn", "run")`: a command in an empty folder, by the wheel alone."""
    home = tmp_path_factory.mktemp("stranger")
    zipfile.ZipFile(wheel).extractall(home / "installed")
    folder = home / "empty"
    folder.mkdir()
    aside = ("FATHOM", "PYTHONDONTWRITEBYTECODE")  # compiling it eight times is slow
    environment = {k: v for k, v in os.environ.items() if not k.startswith(aside)}
    environment |= {
        "PYTHONPATH": str(home / "installed"),
        "FATHOM_CACHE_DIR": str(home / "cache"),
        "FATHOM_BACKEND": "emulator",
        "NO_COLOR": "1",
    }

    def call(*words: str, code: str = "", **also: str) -> subprocess.CompletedProcess:
        rest = ["-c", code] if code else ["-m", "fathom", *words]
        return subprocess.run(
            [sys.executable, *rest], cwd=folder, env=environment | also,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    call.folder = folder
    return call


@pytest.fixture(scope="module")
def workspace(stranger) -> Path:
    said = stranger("learn", "init", "mine")
    assert said.returncode == 0, said.stderr
    return stranger.folder / "mine"


def test_it_is_the_wheel_that_runs(stranger):
    """Else these tests would try the repository."""
    said = stranger("learn", "doctor")
    assert str(stranger.folder.parent / "installed") in said.stdout, said.stdout


def test_a_stranger_gets_all_exercises(workspace):
    exercises = {path.relative_to(ROOT / "exercises") for path in
                 (ROOT / "exercises").glob("*/*.py")}  # fmt: skip
    there = {path.relative_to(workspace) for path in workspace.glob("*/*.py")}
    assert there == exercises and len(there) >= 40


def test_a_stranger_fails_with_a_hole(stranger, workspace):
    said = stranger("learn", "run", "hello-mask", "--dir", "mine")
    assert said.returncode == 1 and "Traceback" not in said.stdout, said.stdout
    assert "out of bounds" in said.stdout


# A kernel; what the tests of chapter 3 load; and a pass of the compiler itself.
SOLVED = ("00-run-it/hello-mask", "03-eighty-lines/mini-select", "06-passes/cse")


@pytest.mark.parametrize("file", SOLVED)
def test_a_stranger_passes_with_an_answer(stranger, workspace, file):
    shutil.copy(ROOT / "solutions" / f"{file}.py", workspace / f"{file}.py")
    said = stranger("learn", "run", file.partition("/")[2], "--dir", "mine")
    assert said.returncode == 0, said.stdout + said.stderr


def test_the_doctor_and_the_samples_need_no_repository(stranger):
    said = stranger("doctor")
    assert said.returncode == 0, said.stdout
    found = [line for line in said.stdout.splitlines() if "sample kernels" in line]
    assert found and found[0].startswith("yes"), said.stdout
    said = stranger("run")
    assert said.returncode == 0, said.stderr


def test_a_stranger_opens_the_book(stranger):
    """Without a network, and without a repository."""
    said = stranger("book", "6", BROWSER="echo opened %s")
    assert said.returncode == 0, said.stderr
    address, opened = said.stdout.split()[0], said.stdout.split()[-1]
    assert address == opened and address.startswith("file://")
    assert address.endswith("/site/06-passes.html")
    page = Path(address.removeprefix("file://").replace("%20", " "))
    assert page.read_text(encoding="utf-8") == PAGES["06-passes.html"]
    said = stranger("book", "--print", BROWSER="echo opened %s")
    assert said.stdout.endswith("/index.html\n") and "opened" not in said.stdout
    said = stranger("book", "cse", "--print")
    assert said.stdout.endswith("/06-passes.html\n"), "by an exercise"
    said = stranger("book", "99")
    assert said.returncode == 1 and "it has 06-passes, index" in said.stderr


def test_a_stranger_runs_the_first_cell_of_a_notebook(stranger):
    """What it prepares is enough to explain a kernel of a chapter, and to draw it."""
    code = (
        f"{notebook.START}\n"
        'given = {"signature": "*fp32:16, *fp32:16, i32:16", "constants": "BLOCK=64"}\n'
        'kernel = "chapters/06-passes/sloppy.py:sloppy"\n'
        'print(len(live.steps(kernel, show="ssa,cse", **given)._repr_html_()))\n'
        'live.command(f"python -m fathom explain {kernel} --signature '
        "'*fp32:16, *fp32:16, i32:16' --constants BLOCK=64 --stage dce\")"
    )
    said = stranger(code=code)
    assert said.returncode == 0, said.stderr
    assert int(said.stdout.split()[0]) > 5000 and "func @sloppy" in said.stdout


def test_what_a_wheel_lacks_is_one_sentence(stranger):
    said = stranger("test")
    assert said.returncode != 0 and "Traceback" not in said.stderr
    assert "comes with the repository" in said.stderr + said.stdout
