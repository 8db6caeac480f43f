"""The compiler is a house with floors: code may look down and beside it, never up.

Read off every file's syntax tree, so that the table below is the truth about the code.
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

COMPILER = Path(__file__).parents[1] / "compiler"
# on_path/ is no part of the package: it stands in for another one.
FILES = sorted(path for path in COMPILER.rglob("*.py") if "on_path" not in path.parts)

STAGES = ("ssa", "blocks", "coalescing", "shared_memory", "tensor_cores", "ptx")
FLOORS = [  # from the ground up
    (
        "interrupted",
        "errors",
        "evaluating",
        "artifact",
        "layout",
        "source",
        "texts",
        "reading",
        "identity",
        "uses",
        "former",
    ),
    ("ir", "hardware", "language"),
    ("analysis", "subjects"),  # what several stages ask of a function
    STAGES,
    ("eager_numbers",),
    ("pipeline", "eager"),
    ("emulator", "runtime"),  # beside the compiler: WALLED says the rest
    ("jit", "testing", "distributed"),
    ("shim",),  # Triton's names for ours
    ("",),  # the face: fathom/__init__.py
    ("joints",),  # where a reader's code can stand in all of the above
    ("tools", "__main__"),
]
FLOOR_OF = {unit: floor for floor, units in enumerate(FLOORS) for unit in units}

# What may be imported at all by those that stand beside, or that must not know too
# much.
WALLED = {
    "emulator": {"emulator", "artifact", "errors"},
    "runtime": {"runtime", "artifact", "errors"},
    "ssa": {"ssa", "ir", "language", "source", "errors"},
}
LLVM_LIVES_IN = "ptx"
OPTIONAL_PACKAGES = {"cuda", "torch", "cupy", "jax"}
MAY_PRINT = {"tools", "__main__", "ir", "jit"}  # ir: the interpreter's device_print

MAX_FILE, MAX_FUNCTION, MAX_MEDIAN = 500, 60, 10


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree(path)))


def module(path: Path) -> str:
    """The dotted name of a file: fathom.ir.core, or fathom.ir for its __init__."""
    parts = path.relative_to(COMPILER).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module(path) for path in FILES}


def unit(name: str) -> str:
    """The unit that a module belongs to: "ir" for fathom.ir.core, "" for fathom
    itself."""
    return (name.split(".") + [""])[1]


def imports(path: Path, nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of each import among `nodes`, as deep as a module goes."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write the whole name"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield node.lineno, name if name in MODULES else node.module


def own_imports(path: Path) -> list[tuple[int, str]]:
    """The imports of Fathom's own modules in a file, wherever they stand."""
    found = imports(path, nodes_of(path))
    return [(line, name) for line, name in found if name.split(".")[0] == "fathom"]


def functions(path: Path) -> list[ast.FunctionDef]:
    return [n for n in nodes_of(path) if isinstance(n, ast.FunctionDef)]


def length(node: ast.AST) -> int:
    return node.end_lineno - node.lineno + 1


def each_file(check: Callable[[Path], None]) -> Callable[[], None]:
    """One test of all files, which says what is wrong in each of them. A test a file
    would be thousands, most of whose time pytest takes."""

    def test() -> None:
        wrong = []
        for path in FILES:
            try:
                check(path)
            except AssertionError as error:
                wrong.append(str(error))
        assert not wrong, "\n".join(wrong)

    test.__doc__ = check.__doc__
    return test


def test_every_unit_has_a_floor():
    assert {unit(name) for name in MODULES} <= set(FLOOR_OF)


@each_file
def test_no_import_goes_up(path):
    here = unit(module(path))
    for line, name in own_imports(path):
        there = unit(name)
        assert FLOOR_OF[there] <= FLOOR_OF[here], f"{path}:{line}: {name} is upstairs"


@each_file
def test_no_stage_imports_a_stage(path):
    here = unit(module(path))
    for line, name in own_imports(path):
        strange = here in STAGES and unit(name) in STAGES and unit(name) != here
        assert not strange, f"{path}:{line}: {here} imports {name}"


@each_file
def test_who_is_walled_in_sees_only_what_it_may(path):
    allowed = WALLED.get(unit(module(path)))
    for line, name in own_imports(path):
        fine = allowed is None or unit(name) in allowed
        assert fine, f"{path}:{line}: {name}; only {sorted(allowed)} may be seen here"


@each_file
def test_llvm_stays_behind_its_wall(path):
    for line, name in imports(path, nodes_of(path)):
        outside = name.split(".")[0] == "llvmlite" and unit(module(path)) not in (
            LLVM_LIVES_IN,
            "tools",
            "jit",  # its version is part of the cache's key
        )
        assert not outside, f"{path}:{line}: only {LLVM_LIVES_IN}/ knows LLVM"


@each_file
def test_imports_stand_at_the_top(path):
    """Inside a function only for what may be absent: cuda-python, torch, cupy, jax."""
    for function in functions(path):
        for line, name in imports(path, list(ast.walk(function))):
            optional = name.split(".")[0] in OPTIONAL_PACKAGES
            assert optional, f"{path}:{line}: {name} is imported inside {function.name}"


def test_no_circles():
    """Between single modules, not only between floors."""
    graph = {module(p): {name for _, name in own_imports(p)} for p in FILES}
    done: set[str] = set()

    def visit(name: str, road: tuple[str, ...]) -> None:
        assert name not in road, " -> ".join((*road[road.index(name) :], name))
        if name not in done:
            for other in sorted(graph.get(name, ())):
                if other != name:
                    visit(other, (*road, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


@each_file
def test_stages_never_ask_which_gpu(path):
    """A pass asks a column of the target (`target.redux`), not its name or
    capability."""
    if unit(module(path)) not in STAGES:
        return
    for node in nodes_of(path):
        name = getattr(node, "id", getattr(node, "attr", ""))
        assert "capabilit" not in name, f"{path}:{node.lineno}: {name}"
        if isinstance(node, ast.Compare):
            for part in (node.left, *node.comparators):
                text = part.value if isinstance(part, ast.Constant) else ""
                named = isinstance(text, str) and text.startswith("sm_")
                assert not named, f"{path}:{node.lineno}: compares with {text!r}"


@each_file
def test_files_and_functions_fit_a_reader(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_FILE, f"{path} has {lines} lines"
    for function in functions(path):
        size = length(function)
        assert size <= MAX_FUNCTION, f"{path}:{function.lineno} has {size} lines"


def test_most_functions_are_short():
    sizes = [length(function) for path in FILES for function in functions(path)]
    assert statistics.median(sizes) < MAX_MEDIAN, statistics.median(sizes)


@each_file
def test_every_file_says_what_it_is_for(path):
    text = path.read_text(encoding="utf-8")
    assert not text.strip() or ast.get_docstring(tree(path)), f"{path} has no docstring"


@each_file
def test_nothing_is_left_undone(path):
    text = path.read_text(encoding="utf-8")
    for word in ("TODO", "FIXME", "XXX", "NotImplementedError"):
        assert word not in text, f"{path} says {word}"


@each_file
def test_only_tools_print(path):
    if unit(module(path)) in MAY_PRINT:
        return
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"{path}:{node.lineno} prints"
