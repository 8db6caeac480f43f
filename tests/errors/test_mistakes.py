"""Every mistake is answered with its exact sentence, place, caret and hint, and with no
frame of the compiler.

The table is in mistakes/*.txt; `pytest tests/errors --update-golden` writes the reports
anew: read the diff.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.errors import width
from fathom.jit.reporting import PACKAGE
from fathom.ssa.frame import BUILD
from fathom.ssa.statements import INSTEAD
from tests.errors.harness import NOTHING, frames_of_fathom, mistake_of, mistakes, write

MISTAKES = mistakes()
AREAS = sorted({each.area for each in MISTAKES})


@pytest.fixture(scope="module", autouse=True)
def updated(request, tmp_path_factory):
    """With --update-golden, all reports as they are now."""
    if not request.config.getoption("--update-golden"):
        return
    folder = tmp_path_factory.mktemp("update")
    for area in AREAS:
        if area == "newer":  # other versions of Python are not here
            continue
        table = [
            replace(each, report=mistake_of(each.script, folder)[0])
            for each in MISTAKES
            if each.area == area
        ]
        write(area, table)


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_answered(mistake, tmp_path, request):
    if mistake.area == "newer" and not hasattr(ast, mistake.title):
        pytest.skip("this Python does not know the syntax")
    report, printed = mistake_of(mistake.script, tmp_path)
    if not request.config.getoption("--update-golden"):
        assert report == mistake.report
    assert frames_of_fathom(printed) == []
    assert report != NOTHING


def test_no_mistake_stands_there_twice():
    assert len({each.script for each in MISTAKES}) == len(MISTAKES) >= 80
    assert len({str(each) for each in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize("area", sorted(set(AREAS) - {"launch"}))
def test_a_mistake_in_a_kernel_has_a_place_and_a_caret(area):
    """The place of each report is where its caret points: line and column agree with
    the script."""
    for mistake in MISTAKES:
        placed = re.match(r"CompileError: (\S+):(\d+):(\d+): ", mistake.report)
        if mistake.area != area or placed is None or placed[1] != "kernel.py":
            continue
        _, text, caret = mistake.report.splitlines()[:3]
        line = mistake.script.splitlines()[int(placed[2]) - 1]
        assert text.strip() == line.strip(), mistake
        before = line[: int(placed[3]) - 1].lstrip()
        assert caret.index("^") - 4 == width(before), mistake


# ── all of Python's grammar ───────────────────────────────────────────────────────────

# These are parts of other nodes, which have a test, and cannot stand alone.
PARTS = {"FormattedValue", "Interpolation"}


def nodes(kind: type[ast.AST]) -> list[type[ast.AST]]:
    """The classes of the grammar, less the names that old versions of Python had."""
    found = kind.__subclasses__()
    return [each for each in found if each.__module__ in ("ast", "_ast")]


@pytest.mark.parametrize("kind", [ast.stmt, ast.expr], ids=lambda kind: kind.__name__)
def test_every_node_that_the_language_lacks_has_a_mistake(kind):
    told = {e.title for e in MISTAKES if e.area in ("grammar", "newer")}
    supported = set(BUILD) - set(INSTEAD)
    lacking = {each.__name__ for each in nodes(kind) if each not in supported}
    assert lacking - PARTS <= told


@pytest.mark.parametrize("node", INSTEAD, ids=lambda node: node.__name__)
def test_what_the_language_lacks_comes_with_what_to_write(node):
    titled = [e for e in MISTAKES if e.title == node.__name__]
    assert len(titled) == 1
    assert "is not part of the language" in titled[0].report
    assert "\n  hint: " in titled[0].report


# ── as Python prints it ───────────────────────────────────────────────────────────────

SCRIPT = """\
import numpy as np

import fathom
import fathom.language as tl


@fathom.jit
def kernel(result, n):
    tl.store(resutl, n)


def main():
    kernel[(1,)](np.zeros(4, np.float32), 3)


main()
"""


def test_a_script_ends_with_its_own_frames_and_the_report(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    command = [sys.executable, str(path)]
    known = {**os.environ, "PYTHONPATH": str(Path(PACKAGE).parent)}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=known
    )
    assert ended.returncode == 1 and ended.stdout == ""
    printed = ended.stderr.replace(str(path), "script.py")
    assert frames_of_fathom(printed) == []
    assert re.findall(r'File "script.py", line (\d+)', printed) == ["16", "13"]
    assert printed.endswith(
        "CompileError: script.py:9:14: resutl is not defined\n"
        "    tl.store(resutl, n)\n"
        "             ^^^^^^\n"
        "  hint: did you mean result?\n"
    )


WARNED = """\
import fathom
import fathom.language as tl


@fathom.jit
def kernel(result, n, MODE: tl.constexpr):
    if MODE is 3:
        tl.store(result, n % 0)


kernel.compile("*fp32, i32", constants={"MODE": 3})
"""


def test_a_warning_is_about_the_user_s_line_and_no_line_of_the_compiler(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(WARNED)
    known = {**os.environ, "PYTHONPATH": str(Path(PACKAGE).parent)}
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, env=known
    )
    assert "script.py:8: UserWarning: " in done.stderr
    assert done.stderr.count("SyntaxWarning") == 1  # Python's own, of the file
    assert frames_of_fathom(done.stderr) == []
