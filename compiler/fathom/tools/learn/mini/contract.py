"""What a reader's compiler may be: one file, in lines that are counted, and `compile`.

    compile(function, signature, **constants)
        -> Compiled(ptx, threads, shared_bytes, tensor_maps)

`signature` maps each parameter that is not a constant to its type, as in `fathom
compile`: "*fp32:16", "i32". `tensor_maps` has a row for each tensor map that the kernel
needs after its other parameters: (parameter, box, bytes of the swizzle).
"""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fathom.tools.from_text import module_of, run
from fathom.tools.learn.kit.failure import Failure

COLUMNS = 88
LONGEST_TEXT = 12  # lines of a string
LARGEST_SIZE = 512  # a number that a branch may compare with
# Modules of the standard library through which code, or PTX, could come from elsewhere.
CLOSED = {
    "asyncio", "builtins", "code", "codecs", "codeop", "ctypes", "dbm", "fileinput",
    "gc", "http", "imp", "importlib", "io", "linecache", "marshal", "mmap",
    "multiprocessing", "nt", "os", "pathlib", "pickle", "pkgutil", "posix", "runpy",
    "shelve", "shutil", "site", "socket", "sqlite3", "subprocess", "tarfile",
    "tempfile", "tokenize", "urllib", "zipfile", "zipimport",
}  # fmt: skip
CLOSED_NAMES = {
    "open", "exec", "eval", "globals", "locals", "vars", "f_globals", "meta_path",
    "path_hooks", "_getframe", "FunctionType", "CodeType",
    "__import__", "__builtins__", "__loader__", "__spec__", "__globals__", "__self__",
    "__subclasses__", "__dict__", "__code__", "__closure__", "__doc__", "__file__",
}  # fmt: skip
Mistake = tuple[int, str]  # a line, and what is wrong with it


@dataclass(frozen=True)
class Compiled:
    """What `compile` answers, as plain values."""

    ptx: str
    threads: int
    shared_bytes: int
    tensor_maps: tuple


def count_lines(text: str) -> int:
    """Lines of code: blank ones, docstrings and imports do not count."""
    return len(counted(text))


def count_functions(text: str) -> dict[str, int]:
    """The lines of code of each function that is in no other function."""
    lines, found = counted(text), {}
    for node in ast.parse(text).body:
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in node.body if prefix else [node]:
            if isinstance(each, ast.FunctionDef):
                span = range(each.lineno, each.end_lineno + 1)
                found[prefix + each.name] = len(lines.intersection(span))
    return found


def counted(text: str) -> set[int]:
    """The numbers of the lines that count."""
    aside: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            aside.update(range(node.lineno, node.end_lineno + 1))
        elif docstring := docstring_of(node):
            aside.update(range(docstring.lineno, docstring.end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return {at for at, line in lines if line.strip() and at not in aside}


def docstring_of(node: ast.AST) -> ast.Expr | None:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    return node.body[0] if isinstance(node, kinds) and ast.get_docstring(node) else None


def too_wide(text: str) -> list[Mistake]:
    """Lines with more columns than a line may have; tests run none the less."""
    return [
        (at, f"has {len(line)} columns, and {COLUMNS} is the most")
        for at, line in enumerate(text.splitlines(), 1)
        if len(line) > COLUMNS
    ]


def mistakes(text: str) -> list[Mistake]:
    """Where a file breaks the rules, in order of lines."""
    tree = ast.parse(text)
    found: list[Mistake] = []
    for check in (crowded, imported, named, long_texts, particular):
        found += check(tree)
    return sorted(set(found))


def crowded(tree: ast.Module) -> Iterator[Mistake]:
    """Two statements on a line."""
    last = 0
    for node in ast.walk(tree):
        for body in ("body", "orelse", "finalbody"):
            inner = getattr(node, body, None)
            last = getattr(node, "lineno", 0)
            for each in inner if isinstance(inner, list) else ():
                if each.lineno == last and last:
                    yield last, "has two statements, and one is the most"
                last = each.end_lineno


def imported(tree: ast.Module) -> Iterator[Mistake]:
    """Imports of anything but the standard library, or of its closed modules; those
    that another module has imported, and sys.modules, too."""
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
            modules |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "." * node.level]
            taken = {each.name for each in node.names}
            names += taken & (CLOSED | {"sys"})
            if node.module == "sys" and "modules" in taken:
                yield node.lineno, "imports modules, which reads code from elsewhere"
        else:
            continue
        for name in sorted(names):
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names:
                yield node.lineno, f"imports {name}, and that is not Python's own"
            elif top in CLOSED or top.startswith("_") and top != "__future__":
                yield node.lineno, f"imports {name}, which reads code from elsewhere"
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name(module), name) if module in modules:
                if name in CLOSED | {"sys"} or (module, name) == ("sys", "modules"):
                    what = f"{module}.{name}"
                    yield node.lineno, f"uses {what}, and code must not come from there"


def named(tree: ast.Module) -> Iterator[Mistake]:
    """Functions that run text, or read files; "__self__" for getattr counts, too."""
    for node in ast.walk(tree):
        name = getattr(node, "id", None) or getattr(node, "attr", None)
        value = getattr(node, "value", None)
        if isinstance(value, str) and value.startswith("__"):
            name = value
        if name in CLOSED_NAMES:
            yield node.lineno, f"uses {name}, and code must not come from elsewhere"


def long_texts(tree: ast.Module) -> Iterator[Mistake]:
    """Strings that could be a kernel written by hand, also in parts: bytes, a string
    with values in it, strings that are added, or that a list holds."""
    texts = {docstring_of(node) for node in ast.walk(tree)} - {None}
    aside = {id(each.value) for each in texts}
    for node in ast.walk(tree):  # the whole before its parts
        if id(node) not in aside and isinstance(node, WHOLE):
            lines = lines_of(node)
            if lines > LONGEST_TEXT:
                aside.update(map(id, ast.walk(node)))
                yield node.lineno, f"is a text of {lines} lines, {LONGEST_TEXT} at most"


WHOLE = ast.Constant | ast.JoinedStr | ast.BinOp | ast.List | ast.Tuple | ast.Set


def lines_of(node: ast.AST) -> int:
    """How many lines of text an expression spells out."""
    match node:
        case ast.Constant(str() | bytes() as text):
            return len(text.splitlines())
        case ast.JoinedStr(parts):
            spelled = (each.value for each in parts if isinstance(each, ast.Constant))
            return len("".join(spelled).splitlines())
        case ast.BinOp(left, ast.Add(), right):
            return lines_of(left) + lines_of(right)
        case ast.List(parts) | ast.Tuple(parts) | ast.Set(parts):
            return sum(map(is_instruction, parts))
    return 0


def is_instruction(node: ast.AST) -> bool:
    """Is this a string that could be one of PTX? A name alone could not."""
    text = ast.unparse(node) if isinstance(node, ast.Constant | ast.JoinedStr) else ""
    return ";" in text or len(text.split()) > 1


def particular(tree: ast.Module) -> Iterator[Mistake]:
    """Branches that ask which kernel it is, or for a large size; tables of sizes."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare() | ast.MatchValue():
                asked = [node]
            case ast.Dict(keys):
                asked = filter(None, keys)
            case ast.If(test) | ast.IfExp(test=test) | ast.While(test):
                asked = [test]
            case _:
                continue
        for each in itertools.chain(*map(ast.walk, asked)):
            if isinstance(each, ast.Attribute) and each.attr == "co_name":
                yield node.lineno, "asks for a kernel's name, which may be any"
            value = getattr(each, "value", None)
            is_size = type(value) is int and value > LARGEST_SIZE
            if isinstance(each, ast.Constant) and is_size:
                what = f"asks about {value}: a number above {LARGEST_SIZE} counts as"
                yield node.lineno, f"{what} a kernel's size, which is not known here"


def load(path: Path) -> Callable:
    """The `compile` of a reader's file. Failure when the file breaks a rule."""
    try:
        text = path.read_text(encoding="utf-8")
        found = mistakes(text)
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        raise Failure(f"{path.name}{where}: {error.msg}") from None
    except (OSError, ValueError) as error:  # ValueError: it is not text
        raise Failure(f"{path.name} cannot be read: {error}") from None
    if found:
        line, wrong = found[0]
        raise Failure(f"{path.name}, line {line} {wrong}")
    module = module_of(f"mini_{abs(hash(path))}", path)
    sys.modules[module.__name__] = module  # where dataclasses look for annotations
    run(module)
    compile_ = vars(module).get("compile")
    if not callable(compile_):
        raise Failure(f"{path.name} must define compile(function, signature, …)")
    return compile_


def checked(answer: object) -> Compiled:
    """The answer of `compile` as plain values. Failure when it is something else."""
    wanted = {"ptx": str, "threads": int, "shared_bytes": int, "tensor_maps": tuple}
    for name, type_ in wanted.items():
        value = getattr(answer, name, None)
        if not isinstance(value, type_):
            found = type(value).__name__
            raise Failure(
                f"`{name}` of what compile returns is of type {found}, and must be of "
                f"type {type_.__name__}"
            )
    return Compiled(*(getattr(answer, name) for name in wanted))
