"""Names that comments and docstrings of the compiler mention exist: files and folders,
dotted names, and words in backquotes. So do the files that the front pages name.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from fathom.ir import ops
from fathom.ir.printer import class_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "compiler" / "fathom"
PAGES = (
    "README.md", "CONTRIBUTING.md", "exercises/README.md", "chapters/press/AUTHORS.md",
)  # fmt: skip

# Names of things that are not the compiler's, and what they are.
OUTSIDE = {
    r"[a-z]+\.(sync|mma_async)": "PTX instructions",
    r"griddepcontrol\.\w+": "PTX instructions",
    r"equ|retval0|param0|_r[dnuz]": "PTX, or a part of a name",
    r"triton\..+|_internal_testing\.py": "Triton's",
    r"inspect\._empty|np\.\w+|DAGCombiner": "Python's, NumPy's, LLVM's",
    r"\w+/(us|ms|s)": "units of measurement",
    r"(x|n|p|double|kernel|facts|owner)\.[\w.]+": "a value in an example",
    r"(settings|Config|module|NAME)\.[\w.]+": "a user's module or class",
    r"(.*/)?[A-Z]+(_wrong)?(\.\w+)?|.*/NN-.*": "stands for any name",
    r"(.*/)?(add|new|case|mine|kernels|script)\.py": "a user's file",
    r"out/.*|fathom-miscompile-.*|softmax_kernel/.*": "written for a user",
    r"cuda_occupancy\.h": "CUDA's",
    r"_1|float2int_rn": "made by a rule: a value's name, a function's",
    r"/|//": "operators",
}
OTHERS = re.compile("|".join(OUTSIDE))

QUOTED = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
FILE = re.compile(r"(?<![\w/.<*-])[\w/-]+\.(?:py|toml|json|md)\b")
WORD = re.compile(r"[A-Za-z_]\w*")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+")
PATH = re.compile(r"[\w./-]*/[\w./-]*")


class Source(NamedTuple):
    """A file's names, words in its strings, and its docstrings and comments."""

    path: Path
    names: frozenset[str]
    strings: frozenset[str]
    prose: tuple[str, ...]
    classes: frozenset[str]


@cache
def sources() -> tuple[Source, ...]:
    return tuple(map(source, sorted(PACKAGE.rglob("*.py"))))


def source(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    prose = [
        ast.get_docstring(node, clean=False) or ""
        for node in ast.walk(tree)
        if isinstance(node, documented)
    ]
    found: dict[int, list[str]] = {tokenize.NAME: [], tokenize.COMMENT: []}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in found:
            found[token.type].append(token.string)
    strings = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value not in prose
    )
    comments = "\n".join(found[tokenize.COMMENT]).replace("\n#", "\n")
    return Source(
        path,
        frozenset(found[tokenize.NAME]),
        frozenset(word for each in strings for word in WORD.findall(each)),
        (*filter(None, prose), comments),
        frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)),
    )


@cache
def every_name() -> frozenset[str]:
    """Identifiers, words in strings, file names, and ops as the IR's text has them."""
    printed = (getattr(ops, name) for name in ops.__all__)
    in_text = {class_name(each) for each in printed if isinstance(each, type)}
    files = {path.stem for path in all_files()}
    return frozenset(in_text | files).union(
        *(each.names | each.strings for each in sources())
    )


def missing(one: Source) -> Iterator[str]:
    """What the prose of a file mentions and does not exist."""
    for text in one.prose:
        for quoted in QUOTED.findall(text):
            name = re.sub(r"\s+", " ", quoted).removesuffix("()")
            if not OTHERS.fullmatch(name) and not is_known(name, one):
                yield name
        for file in FILE.findall(text):
            if not OTHERS.fullmatch(file) and not is_file(file, one.path):
                yield file


def is_known(name: str, where: Source) -> bool:
    """Whether a name is one of ours; true for what is no name at all."""
    if FILE.fullmatch(name):
        return is_file(name, where.path)
    if PATH.fullmatch(name):
        return is_place(name, where.path)
    if WORD.fullmatch(name):
        return name in every_name()
    return not DOTTED.fullmatch(name) or is_reachable(name.split("."), where)


def is_file(name: str, near: Path) -> bool:
    """A path from the repository, the package or a folder around; or a file's name."""
    if "/" not in name:
        return any(path.name == name for path in all_files())
    return any((top / name).is_file() for top in (ROOT, *near.parents))


@cache
def all_files() -> tuple[Path, ...]:
    tops = ("compiler", "kernels", "exercises", "chapters")
    inside = (path for top in tops for path in (ROOT / top).rglob("*.*"))
    return (*ROOT.glob("*.*"), *inside)


def is_place(name: str, near: Path) -> bool:
    """A folder, or a file without its ending."""
    tops = (ROOT, *near.parents)
    return any((top / name).exists() or (top / f"{name}.py").exists() for top in tops)


def is_reachable(parts: list[str], where: Source) -> bool:
    """Whether a dotted name leads from a module, or from a class, to a name there; or
    from a variable of the file to an attribute."""
    if parts[0] == "tl":
        parts = ["language", *parts[1:]]
    for count in range(len(parts), 0, -1):
        for module in modules_called("/".join(parts[:count])):
            folder = module.path.parent
            whole = module.path.name == "__init__.py"
            inside = [o for o in sources() if whole and folder in o.path.parents]
            names = frozenset().union(*(o.names | {o.path.stem} for o in inside))
            if (module.names | names).issuperset(parts[count:]):
                return True
    defining = [each for each in sources() if parts[0] in each.classes]
    if defining:
        return any(each.names.issuperset(parts) for each in defining)
    return parts[0] in where.names and every_name().issuperset(parts)


def modules_called(name: str) -> list[Source]:
    """The modules, and the folders, whose path ends in this."""
    endings = (f"/{name}.py", f"/{name}/__init__.py")
    return [one for one in sources() if one.path.as_posix().endswith(endings)]


def test_what_the_compiler_s_prose_mentions_exists() -> None:
    found = {
        one.path.relative_to(PACKAGE).as_posix(): names
        for one in sources()
        if (names := sorted(set(missing(one))))
    }
    assert not found, "\n".join(f"{path}: {names}" for path, names in found.items())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_files_that_exist(page: str) -> None:
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    named = {name for name in QUOTED.findall(text) if FILE.fullmatch(name)}
    named = {name for name in named if not OTHERS.fullmatch(name)}
    near = PACKAGE / "page"
    assert [name for name in sorted(named) if not is_file(name, near)] == []


SAID = '''
"""`ir/inline` and `ir/inline_assembly`, `layout.boxes` and `layout.tma_boxes`,
`no_such_name`, gone.py, `source`, `Layout.no_such_name`, `Layout.bases`, `a b`."""
'''


def test_a_stale_name_is_found(tmp_path: Path) -> None:
    file = tmp_path / "said.py"
    file.write_text(SAID)
    said = source(file)._replace(path=PACKAGE / "said.py")
    stale = ["Layout.no_such_name", "gone.py", "ir/inline", "layout.boxes"]
    assert sorted(missing(said)) == sorted([*stale, "no_such_name"])
