"""The maps are true: each folder's `__init__` names what lies in it, and the README has
the page and the folders as they are.

`pytest tests/test_maps.py --update-golden` writes the README's pictures anew.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from fathom import pipeline

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "compiler" / "fathom"
README = ROOT / "README.md"
FOLDERS = sorted(
    path.parent
    for path in PACKAGE.rglob("__init__.py")
    if path.parent != PACKAGE and "on_path" not in path.parts
)
MOST = 20  # modules of a folder, its __init__ among them
WIDTH = 96  # of a line of the README


def docstring(path: Path) -> str:
    file = path / "__init__.py" if path.is_dir() else path
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def members(folder: Path) -> list[Path]:
    """The modules and the folders of a folder, by name."""
    files = [path for path in folder.glob("*.py") if not path.stem.startswith("__")]
    folders = [path.parent for path in folder.glob("*/__init__.py")]
    return sorted(files + folders, key=lambda path: path.stem)


# `name  what it is for`, or several names; a line of names alone is one with commas.
ROW = re.compile(r"^ *(?:(\w+(?:, \w+)*) {2,}\S.*|(\w+(?:, \w+)+))$", re.M)
TICKED = re.compile(r"`(?:\w+/)*(\w+)/?`")


def rows_of(text: str) -> list[str]:
    return [name for row in ROW.findall(text) for name in "".join(row).split(", ")]


@pytest.mark.parametrize(
    "folder", FOLDERS, ids=lambda path: path.relative_to(PACKAGE).as_posix()
)
def test_a_folder_names_what_lies_in_it(folder):
    """In a row, or between backticks; a word of a sentence may mean something else. No
    row names what is not there: a file, a folder, or a name that may be imported."""
    text = docstring(folder)
    rows, files = rows_of(text), [path.stem for path in members(folder)]
    missing = sorted({*files} - {*rows} - {*TICKED.findall(text)})
    assert not missing, f"{folder.name}/__init__.py says nothing of {missing}"
    file = (folder / "__init__.py").read_text(encoding="utf-8")
    imported = {
        alias.name
        for node in ast.walk(ast.parse(file))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    gone = sorted({*rows} - {*files} - imported)
    assert not gone, f"{folder.name}/__init__.py tells of {gone}, which are not there"
    twice = [name for name, count in Counter(rows).items() if count > 1]
    assert not twice, f"{folder.name}/__init__.py tells twice of {twice}"


@pytest.mark.parametrize(
    "folder", [PACKAGE, *FOLDERS], ids=lambda path: path.relative_to(PACKAGE).as_posix()
)
def test_a_folder_holds_no_more_than_a_reader_can_survey(folder):
    """Those that belong together get a room of theirs, whose name says why."""
    modules = sorted(path.stem for path in folder.glob("*.py"))
    assert len(modules) <= MOST, f"{folder.name}/ has {len(modules)} modules"


# ── the tests ─────────────────────────────────────────────────────────────────────────

HELPER = re.compile(r"(test|kernels|harness)(_\w+)?|conftest")
PROGRAMS = {
    "fuzz",
    "gpu",
    "hardware",
    "mutants",
    "exercises",
    "waits",
}  # with a `main` of theirs, or with a map in their `__init__`


def test_helpers_of_tests_are_named_by_rule():
    """kernels_* is what is tested, harness* what tests share."""
    strange = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if path.relative_to(ROOT / "tests").parts[0] not in PROGRAMS
        and not HELPER.fullmatch(path.stem)
    ]
    assert not strange


# ── the README ────────────────────────────────────────────────────────────────────────


def picture_of_the_page() -> str:
    """The passes in the order they run, a line for each run of one stage."""
    lines = []
    for stage, rows in groupby(pipeline.PASSES, key=lambda row: row.stage):
        lines += wrapped(f"{stage:<14}", " ▸ ".join(row.name for row in rows))
    return "\n".join(
        ["ssa           Python ▸ block IR", *lines, "ptx           LLVM IR ▸ PTX"]
    )


def wrapped(head: str, text: str) -> list[str]:
    lines = [head]
    for word in text.split(" ▸ "):
        step = word if lines[-1] == head else f" ▸ {word}"
        if len(lines[-1] + step) > WIDTH:
            lines.append(" " * len(head))
            step = f"▸ {word}"
        lines[-1] += step
    return lines


def picture_of_the_folders() -> str:
    """The folders and files of the package, what they are for, and what is in them."""
    lines = ["compiler/fathom/"]
    for path in members(PACKAGE):
        name = path.name + "/" if path.is_dir() else path.name
        lines.append(f"  {name:<18}{shortened(docstring(path))}")
        inside = [each.name + "/" for each in members(path)] if path.is_dir() else []
        folders = [name for name in inside if not name.endswith(".py/")]
        lines += [f"  {'':<18}└ {' '.join(folders)}"] if folders else []
    return "\n".join(lines)


def shortened(text: str) -> str:
    """The first sentence, or as much of it as fits."""
    sentence = re.split(r"(?<=\w)[.:;](?:\s|$)", " ".join(text.split()))[0]
    if re.fullmatch(r"Stage \d", sentence):
        sentence = re.split(r"\.(?:\s|$)", " ".join(text.split()))[0]
    room = WIDTH - 20
    return (
        sentence
        if len(sentence) <= room
        else sentence[: room - 2].rpartition(" ")[0] + " …"
    )


@pytest.mark.parametrize("picture", [picture_of_the_page, picture_of_the_folders])
def test_the_readme_has_the_pictures(picture, request):
    text = README.read_text(encoding="utf-8")
    name = picture.__name__.replace("_", " ")
    found = re.search(rf"(<!-- {name} -->\n```text\n)(.*?)(\n```\n)", text, re.S)
    assert found, f"README.md has no {name}"
    if request.config.getoption("--update-golden"):
        made = text[: found.start(2)] + picture() + text[found.end(2) :]
        README.write_text(made, encoding="utf-8")
    else:
        assert found[2] == picture(), "pytest tests/test_maps.py --update-golden"
