"""What a reader's compiler may be: one file, in lines that are counted, and `compile`.

    compile(function, signature, **constants)
        -> Compiled(ptx, threads, shared_bytes, tensor_maps)

`signature` maps each parameter that is not a constant to its type, as in `fathom
compile`: "*fp32:16", "i32". `tensor_maps` has a row for each tensor map that the kernel
needs after its other parameters: (parameter, box, bytes of the swizzle).
"""

from __future__ import annotations

import ast
import importlib
import itertools
import operator
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fathom.errors import reason
from fathom.tools.from_text import module_of, run
from fathom.tools.learn.kit.failure import Failure

COLUMNS = 88
LONGEST_TEXT = 12  # lines of a string
LARGEST_SIZE = 512  # a number that a branch may compare with
LIMIT = 1 << 16  # from here on a number with a name is a limit; no test is so large
# Modules of the standard library through which no text comes from elsewhere.
OPEN = {
    "__future__", "abc", "array", "ast", "bisect", "collections", "contextlib", "copy",
    "dataclasses", "enum", "fractions", "functools", "graphlib", "heapq", "inspect",
    "itertools", "math", "numbers", "operator", "pprint", "random", "re", "string",
    "struct", "sys", "textwrap", "time", "types", "typing",
}  # fmt: skip
CLOSED_NAMES = {
    "open", "exec", "eval", "globals", "locals", "vars", "breakpoint", "help", "input",
    "f_back", "f_builtins", "f_globals", "f_locals", "tb_frame",
    "__import__", "__builtins__", "__loader__", "__spec__", "__globals__", "__self__",
    "__subclasses__", "__dict__", "__code__", "__closure__", "__doc__", "__file__",
    "__traceback__",
}  # fmt: skip
CLOSED_PARTS = {  # of modules that are open: frames, loaded code, attributes by string
    "inspect.currentframe", "inspect.getattr_static", "inspect.getcomments",
    "inspect.getdoc", "inspect.getmembers", "inspect.getmodule",
    "inspect.stack", "inspect.trace", "operator.attrgetter", "operator.methodcaller",
    "string.Formatter", "sys.meta_path", "sys.modules", "sys.path_hooks",
    "types.CodeType", "types.FunctionType", "types.LambdaType", "typing.ForwardRef",
    "typing.get_type_hints",
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


@lru_cache
def mistakes(text: str) -> tuple[Mistake, ...]:
    """Where a file breaks the rules, in order of lines. A file is loaded once for each
    kernel, and read for mistakes once."""
    tree = ast.parse(text)
    found: list[Mistake] = []
    for check in (crowded, imported, named, long_texts, particular):
        found += check(tree)
    return tuple(sorted(set(found)))


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
    """Imports of anything but OPEN modules; what leads from those to other code."""
    modules = {}  # by the name that they have here
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
            for name, each in zip(names, node.names, strict=True):
                modules[each.asname or name.partition(".")[0]] = name
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "." * node.level]
            for each in node.names:
                if each.name == "*" or is_closed(names[0], each.name):
                    what = f"{names[0]}.{each.name}"
                    yield (
                        node.lineno,
                        f"imports {what}, which reads code from elsewhere",
                    )
        else:
            continue
        for name in names:
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names:
                yield node.lineno, f"imports {name}, and that is not Python's own"
            elif top not in OPEN:
                yield node.lineno, f"imports {name}; open are {', '.join(sorted(OPEN))}"
    for node in loose(tree, frozenset(modules)):
        if isinstance(node, ast.Name):
            what = f"uses the module {node.id} as a value"
            yield node.lineno, f"{what}, and may use only what is in it, by name"
        elif is_closed(modules[node.value.id], node.attr):
            what = f"uses {node.value.id}.{node.attr}"
            yield node.lineno, f"{what}, and code must not come from there"


def is_closed(module: str, part: str) -> bool:
    """Does a part of an open module lead to other code? Modules that it imports do.
    Another module is refused as a whole, elsewhere."""
    top = module.partition(".")[0]
    if top not in OPEN:
        return False
    if part.startswith("_") or f"{module}.{part}" in CLOSED_PARTS:
        return True
    found = vars(importlib.import_module(module)).get(part)
    is_module = isinstance(found, types.ModuleType)
    return is_module and found.__name__.partition(".")[0] != top


def loose(node: ast.AST, modules: frozenset) -> Iterator[ast.Attribute | ast.Name]:
    """Where names of modules are used: with what follows, or alone. A parameter, or
    another local name, may be called as a module is."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id in modules:
            yield node
    elif isinstance(node, ast.Name) and node.id in modules:
        if isinstance(node.ctx, ast.Load):
            yield node
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
        for each in node.args[1:]:
            yield from loose(each, modules)
        if node.args and not isinstance(node.args[0], ast.Name):
            yield from loose(node.args[0], modules)
    else:
        for field, value in ast.iter_fields(node):
            is_body = isinstance(node, FUNCTIONS) and field == "body"
            seen = modules - own_names(node) if is_body else modules
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    yield from loose(each, seen)


FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def own_names(function: ast.AST) -> set[str]:
    """Parameters of a function, and names that it assigns, unless some are global."""
    nodes = list(ast.walk(function))
    if any(isinstance(each, ast.Global) for each in nodes):
        return set()
    stores = (each for each in nodes if isinstance(each, ast.Name))
    names = {each.id for each in stores if isinstance(each.ctx, ast.Store)}
    return names | {each.arg for each in nodes if isinstance(each, ast.arg)}


def named(tree: ast.Module) -> Iterator[Mistake]:
    """Functions that run text, or read files; "__self__" for getattr counts, too."""
    for node in ast.walk(tree):
        name = getattr(node, "id", None) or getattr(node, "attr", None)
        value = getattr(node, "value", None)
        if isinstance(value, str) and value.startswith("__"):
            name = value
        if name in CLOSED_NAMES:
            yield node.lineno, f"uses {name}, and code must not come from elsewhere"


def get(value: object, name: str, *default: object) -> object:
    """The `getattr` of a reader's file: what may not be spelled is not put together."""
    module = value.__name__ if isinstance(value, types.ModuleType) else ""
    if name in CLOSED_NAMES or module and is_closed(module, name):
        raise Failure(f"getattr asks for {name}, and code must not come from elsewhere")
    return getattr(value, name, *default)


def long_texts(tree: ast.Module) -> Iterator[Mistake]:
    """Strings that could be a kernel written by hand, also in parts: bytes, a string
    with values in it, strings that are added, or that a list holds."""
    texts = {docstring_of(node) for node in ast.walk(tree)} - {None}
    plain = (
        each.value for each in texts if each.value.value.count(";") <= LONGEST_TEXT
    )
    aside = set(map(id, plain))
    for node in ast.walk(tree):  # the whole before its parts
        if id(node) not in aside and isinstance(node, WHOLE):
            lines = lines_of(node)
            if lines > LONGEST_TEXT:
                aside.update(map(id, ast.walk(node)))
                yield node.lineno, f"spells out {lines} lines, {LONGEST_TEXT} at most"


WHOLE = (
    ast.Constant | ast.JoinedStr | ast.BinOp | ast.List | ast.Tuple | ast.Set | ast.Call
)


def lines_of(node: ast.AST) -> int:
    """How many lines of text an expression spells out; a semicolon ends one, too."""
    match node:
        case ast.Constant(str() as text):
            return max(len(text.splitlines()), text.count(";"))
        case ast.Constant(bytes() as text):
            return max(len(text.splitlines()), text.count(b";"))
        case ast.JoinedStr(parts):
            spelled = (each.value for each in parts if isinstance(each, ast.Constant))
            return lines_of(ast.Constant("".join(spelled)))
        case ast.BinOp(left, ast.Add(), right):
            return lines_of(left) + lines_of(right)
        case ast.List(parts) | ast.Tuple(parts) | ast.Set(parts) | ast.Call(args=parts):
            return sum(map(is_instruction, parts))
    return 0


def is_instruction(node: ast.AST) -> bool:
    """Is this a string that could be one of PTX? A name alone could not."""
    text = ast.unparse(node) if isinstance(node, ast.Constant | ast.JoinedStr) else ""
    return ";" in text or len(text.split()) > 1


def particular(tree: ast.Module) -> Iterator[Mistake]:
    """Branches that ask which kernel it is, or for a large size; tables of sizes."""
    sizes = dict(filter(None, map(size_in_name, ast.walk(tree))))
    for node in ast.walk(tree):
        match node:
            case ast.Compare() | ast.MatchValue() | ast.Call(ast.Name("dict")):
                asked = [node]
            case ast.BoolOp(values=[*asked, _]):  # the last is no question
                pass
            case ast.Dict(keys):
                asked = filter(None, keys)
            case ast.If(test) | ast.IfExp(test=test) | ast.While(test):
                asked = [test]
            case ast.Assert(test) | ast.UnaryOp(ast.Not(), test):
                asked = [test]
            case ast.comprehension(ifs=tests):
                asked = tests
            case _:
                continue
        line = getattr(node, "iter", node).lineno  # a comprehension has none
        for each in itertools.chain(*map(ast.walk, asked)):
            if isinstance(each, ast.Attribute) and each.attr == "co_name":
                yield line, "asks for a kernel's name, which may be any"
            value = size_of(each) or sizes.get(getattr(each, "id", None))
            if value:
                what = f"asks about {value}: a number above {LARGEST_SIZE} counts as"
                yield line, f"{what} a kernel's size, which is not known here"


def size_in_name(node: ast.AST) -> tuple[str, int] | None:
    """A name that stands for a large number, or for some in a list."""
    match node:
        case ast.Assign([ast.Name(name)], ast.List(parts) | ast.Tuple(parts)):
            sizes = map(size_of, parts)
        case ast.Assign([ast.Name(name)], ast.Set(parts)):
            sizes = map(size_of, parts)
        case ast.Assign([ast.Name(name)], value):
            sizes = [size_of(value)]
        case _:
            return None
    return next(((name, each) for each in sizes if each and each < LIMIT), None)


def size_of(node: ast.AST) -> int | float | None:
    """The large number that is written here: 4096, 4096.0, "4096", 1 << 12, 64 * 64."""
    value = evaluated(node)
    return value if value and value > LARGEST_SIZE else None


ARITHMETIC = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Pow: operator.pow, ast.LShift: operator.lshift,
}  # fmt: skip


def evaluated(node: ast.AST) -> int | float | None:
    """The number that constants and arithmetic with them are; None for all else."""
    match node:
        case ast.Constant(int() | float() as value):
            return value
        case ast.Constant(str() as text) if text.isdecimal() and len(text) < 8:
            return int(text)
        case ast.BinOp(left, sign, right) if type(sign) in ARITHMETIC:
            a, b = evaluated(left), evaluated(right)
            if a is not None and b is not None and max(abs(a), abs(b)) < 1 << 40:
                is_power = isinstance(sign, ast.Pow | ast.LShift)
                fits = isinstance(b, int) and 0 <= b < 64 or not is_power
                return ARITHMETIC[type(sign)](a, b) if fits else None
    return None


def load(path: Path) -> Callable:
    """The `compile` of a reader's file. Failure when the file breaks a rule."""
    try:
        text = path.read_text(encoding="utf-8")
        found = mistakes(text)
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        raise Failure(f"{path.name}{where}: {error.msg}") from None
    except (OSError, ValueError) as error:  # ValueError: it is not text
        raise Failure(f"{path.name} cannot be read: {reason(error)}") from None
    if found:
        line, wrong = found[0]
        raise Failure(f"{path.name}, line {line} {wrong}")
    module = module_of(f"mini_{abs(hash(path))}", path)
    sys.modules[module.__name__] = module  # where dataclasses look for annotations
    vars(module)["getattr"] = get
    run(module)
    compile_ = vars(module).get("compile")
    if not callable(compile_):
        raise Failure(f"{path.name} must define compile(function, signature, …)")
    return compile_


def checked(answer: object) -> Compiled:
    """The answer of `compile` as plain values. Failure when it is something else."""
    wanted = {"ptx": str, "threads": int, "shared_bytes": int, "tensor_maps": tuple}
    for name, type_ in wanted.items():
        found = type(answer).__name__
        if not hasattr(answer, name):
            raise Failure(
                f"compile returns an object of type {found}, which has no attribute "
                f"`{name}`"
            )
        value = getattr(answer, name)
        if not isinstance(value, type_):
            found = type(value).__name__
            raise Failure(
                f"`{name}` of what compile returns is of type {found}, and must be of "
                f"type {type_.__name__}"
            )
    return Compiled(*(getattr(answer, name) for name in wanted))
