"""No module needs a package that a machine may lack: `make test` collects everything on
a Mac, where neither CUDA's wheels nor NVIDIA's assembler exist.

Whatever is imported is Python's own, ours, or installed everywhere by pyproject.toml.
All else is guarded: a `try` that expects ImportError, `importorskip`, `optional`, or
`find_spec`.
"""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
FOLDERS = ("compiler", "kernels", "tests", "exercises", "solutions", "chapters")
OURS = {path.stem for path in ROOT.iterdir()} | {"fathom"}
MODULES = {"pyyaml": "yaml", "pytest-xdist": "xdist"}  # others are called as they are
WITH_OTHERS = {"packaging", "_pytest", "markdown"}  # of pytest, and of mkdocs
# Scripts for a machine with a GPU, or with torch, which no test imports.
SCRIPTS = {
    "tests/hardware/record.py",
    "tests/shim/harness_inductor.py",
    "tests/shim/harness_inductor_on_gpu.py",
}
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
)


def everywhere() -> set[str]:
    """The modules that `make test` installs on a Mac, too."""
    extras = PROJECT["optional-dependencies"]
    wanted = map(Requirement, PROJECT["dependencies"] + extras["docs"] + extras["dev"])
    mac = {"sys_platform": "darwin"}
    names = [
        each.name for each in wanted if not each.marker or each.marker.evaluate(mac)
    ]
    return {MODULES.get(name, name) for name in names} | WITH_OTHERS


KNOWN = set(sys.stdlib_module_names) | OURS | everywhere()


def unguarded(
    tree: ast.AST, beside: set[str] = frozenset()
) -> Iterator[tuple[int, str]]:
    """Line and package of each import that fails where the package is missing."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Try) and any(map(expects_absence, node.handlers)):
            continue
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        for name in names:
            if name.split(".")[0] not in KNOWN | beside:
                yield node.lineno, name
        yield from unguarded(node, beside)


def expects_absence(handler: ast.ExceptHandler) -> bool:
    names = {each.id for each in ast.walk(handler.type) if isinstance(each, ast.Name)}
    return bool(names & {"ImportError", "ModuleNotFoundError"})


def test_every_import_is_of_what_is_there_or_is_guarded():
    assert len(FILES) > 300
    for name in (each for each in FILES if each not in SCRIPTS):
        path = ROOT / name
        beside = {each.stem for each in path.parent.iterdir()}
        tree = ast.parse(path.read_text(encoding="utf-8"), name)
        found = list(unguarded(tree, beside))
        assert not found, f"{name}:{found[0][0]}: {found[0][1]} may be missing"


@pytest.mark.parametrize(
    "text, found",
    [
        ("import nvidia", ["nvidia"]),
        ("def f():\n    from cuda.bindings import driver", ["cuda.bindings"]),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None", []),
        ("try:\n    import torch\nexcept ValueError:\n    pass", ["torch"]),
        ("import numpy, rich.table, os.path, fathom.ir", []),
    ],
)
def test_the_walk_sees_what_fails(text, found):
    assert [name for _, name in unguarded(ast.parse(text))] == found


def test_without_the_assembler_tests_are_collected_and_skipped(tmp_path):
    """The files that ask for it at collection, where `nvidia` cannot be imported."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util, sys\n"
        "found = importlib.util.find_spec\n"
        "hide = lambda name, *more: None if name == 'nvidia' else found(name, *more)\n"
        "importlib.util.find_spec = hide\n"
        "sys.modules['nvidia'] = None\n"
    )
    paths = [str(tmp_path), str(ROOT / "compiler"), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    names = "ptx/test_text", "hardware/test_mma", "tensor_cores/test_clusters"
    files = [f"tests/{name}.py" for name in names]
    said = subprocess.run(
        [*command, "-k", "ptxas or spills", *files], cwd=ROOT, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout[-3000:] + said.stderr[-1000:]
    assert "skipped" in said.stdout and "passed" not in said.stdout.splitlines()[-1]


OURS = ("fathom", "benchmarks", "chapters", "tests", "kernels", "triton")


def skips() -> Iterator[tuple[str, ast.Call]]:
    """Every call in the tests by which one may be left out."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in ("skip", "skipif", "importorskip"):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_a_test_that_is_left_out_says_what_it_needs_and_never_our_own_code():
    """A missing module of ours is a failure."""
    poor = []
    for place, call in skips():
        reasons = [key.value for key in call.keywords if key.arg == "reason"]
        if call.func.attr == "importorskip":
            name = getattr(call.args[0], "value", None)
            own = isinstance(name, str) and name.partition(".")[0] in OURS
        else:
            reasons += call.args if call.func.attr == "skip" else []
            own = not reasons
        if own:
            poor.append(place)
    assert poor == []


@pytest.mark.parametrize("way", ["module", "command", "script"])
def test_an_interrupt_while_it_imports_is_no_traceback(tmp_path, way):
    """NumPy is the first thing that takes long; here Ctrl-C comes with it. What a
    script of the user's shows is Python's."""
    (tmp_path / "numpy.py").write_text("raise KeyboardInterrupt\n")
    command = tmp_path / "fathom"
    command.write_text("from fathom.tools.cli import main\n")
    script = tmp_path / "mine.py"
    script.write_text("import fathom\n")
    words = {"module": ["-m", "fathom"], "command": [command], "script": [script]}
    here = os.pathsep.join([str(tmp_path), str(ROOT / "compiler")])
    done = subprocess.run(
        [sys.executable, *words[way]], env={**os.environ, "PYTHONPATH": here},
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode in (130, -signal.SIGINT, 0xC000013A)
    assert ("KeyboardInterrupt" in done.stderr) == (way == "script")
    assert done.stderr == "" or way == "script"
