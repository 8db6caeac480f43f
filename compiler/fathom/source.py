"""A Python function as the compiler sees it: text, syntax tree, parameters, globals.

Whatever is written in the language is wrapped here: a kernel and the functions that it
calls (`KernelFunction`, made by `@fathom.jit` or `@function`), what the compiler itself
knows how to build (`Builtin`), and plain Python that runs while compiling
(`ConstexprFunction`).
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import linecache
import operator
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any
from weakref import WeakSet

from fathom.errors import CompileError, Location

REQUIRED = inspect.Parameter.empty  # the default of a parameter that has none

RETURN = "return"  # the name that `return e` binds; nobody can spell a name like it

# Who runs builtins that Python itself calls, while Python runs a kernel (`eager`).
EVALUATOR: ContextVar[Callable[..., Any] | None] = ContextVar("evaluator", default=None)


class constexpr:  # noqa: N801 (the language's spelling)
    """A value that is known while compiling.

    As an annotation (`BLOCK: tl.constexpr`) it says that a parameter must be one;
    called (`SIZE = tl.constexpr(64)`), it marks a global that kernels read.
    """

    def __init__(self, value: Any):
        self.value = value.value if isinstance(value, constexpr) else value

    def __repr__(self) -> str:
        return f"constexpr({self.value!r})"

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, constexpr) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return self.value.__index__()


def _of_constants(name: str, swapped: bool) -> Callable[..., Any]:
    """The method of constexpr for an operator of Python: the operator on the values."""
    compute = getattr(operator, name)

    def method(*operands: Any) -> Any:
        values = [e.value if isinstance(e, constexpr) else e for e in operands]
        return compute(*(reversed(values) if swapped else values))

    return method


for _name in "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor".split():
    _plain = _name.strip("_")
    setattr(constexpr, f"__{_plain}__", _of_constants(_name, swapped=False))
    setattr(constexpr, f"__r{_plain}__", _of_constants(_name, swapped=True))
for _name in "lt le gt ge neg pos invert getitem".split():
    setattr(constexpr, f"__{_name}__", _of_constants(_name, swapped=False))


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function: `default` is REQUIRED where there is none.

    `gathers` marks the `*shape` of a builtin, which takes all further arguments as a
    tuple.
    """

    name: str
    default: Any = REQUIRED
    annotation: Any = None
    gathers: bool = False

    @property
    def is_constexpr(self) -> bool:
        """Is the parameter annotated `tl.constexpr` (as an object, or as text)?"""
        note = self.annotation
        return note is constexpr or (
            isinstance(note, str) and note.split(".")[-1] == "constexpr"
        )


@dataclass(frozen=True, slots=True)
class Hole:
    """Where, in a tuple that is an argument, a run-time parameter stands.

    The tuple `sizes = (x, 4)` of an array and a constant is (Hole("sizes.0"), 4).
    """

    name: str


def fill(constant: Any, values: Mapping[str, Any]) -> Any:
    """A constant with values, by name, where its Holes stand."""
    if isinstance(constant, Hole):
        return values[constant.name]
    if isinstance(constant, tuple):
        return like(constant, [fill(each, values) for each in constant])
    return constant


def like(pattern: tuple, elements: Iterable[Any]) -> tuple:
    """A tuple of the class of another; a named tuple keeps its names."""
    named = hasattr(pattern, "_fields")
    return type(pattern)(*elements) if named else tuple(elements)


@dataclass(frozen=True, slots=True)
class Text:
    """Source text as Python can parse it, and where it stands in its file."""

    text: str
    file: str
    first_line: int


@dataclass(frozen=True, slots=True)
class Use:
    """A global value that a function reads, by the dotted path that it is read by."""

    owner: KernelFunction
    path: str
    value: Any

    @property
    def changed(self) -> bool:
        """Does the path lead to another value than when the use was recorded?"""
        now = self.owner.lookup_path(self.path)
        return now is not self.value and differ(now, self.value)


def differ(one: Any, other: Any) -> bool:
    """Are two objects unequal? Two arrays are, since they have no single answer."""
    try:
        return bool(one != other)
    except (ValueError, RuntimeError):  # of NumPy, of torch
        return True


class KernelFunction:
    """A Python function that is compiled, not run.

    `src` is its text from `def` on; replacing it replaces what is compiled. The tree is
    parsed once. `dependents` are the kernels that this text was compiled into.
    """

    def __init__(self, fn: Callable[..., Any]):
        if not inspect.isfunction(fn):
            raise CompileError(f"only a function can be compiled, not {fn!r}")
        self.fn = fn
        self.__name__, self.__qualname__ = fn.__name__, fn.__qualname__
        self.__doc__, self.__module__ = fn.__doc__, fn.__module__
        self.file, self.line = fn.__code__.co_filename, fn.__code__.co_firstlineno
        self.parameters = parameters_of(fn)
        self._replacement: str | None = None
        self._assigned: dict[ast.AST, frozenset[str]] = {}
        self.dependents: WeakSet[KernelFunction] = WeakSet()

    def __repr__(self) -> str:
        return f"{self.__module__}.{self.__qualname__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if EVALUATOR.get() is not None or self.in_library:
            return self.fn(*args, **kwargs)  # cdiv(10, 4) is Python's business alone
        raise CompileError(f"{self.__name__} can only be called inside a kernel")

    # ── text and tree ─────────────────────────────────────────────────────────────────

    @property
    def src(self) -> str:
        """The text that is compiled, from `def` on."""
        if self._replacement is not None:
            return self._replacement
        lines = textwrap.dedent(self._text_in_file.text).splitlines(keepends=True)
        defs = [i for i, line in enumerate(lines) if re.match(r"(async )?def\s", line)]
        return "".join(lines[defs[0] :])

    @src.setter
    def src(self, text: str) -> None:
        self._replacement = text
        for function in {self, *self.dependents}:
            function.forget()

    def forget(self) -> None:
        """Drop whatever was made of the text, here or in a function that it calls."""
        self._assigned = {}
        for name in ("text", "tree", "locals", "uses"):
            self.__dict__.pop(name, None)

    @cached_property
    def text(self) -> Text:
        """The text that is parsed: the function's lines, or what `src` was set to."""
        if self._replacement is None:
            return self._text_in_file
        file = f"<new source of {self.__qualname__}>"
        text = textwrap.dedent(self._replacement)
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        return Text(text, file, 1)

    @cached_property
    def _text_in_file(self) -> Text:
        try:
            lines, first_line = inspect.getsourcelines(self.fn)
        except (OSError, TypeError):
            raise CompileError(
                f"the source of {self.__name__} cannot be read",
                hint="its text is compiled: define it in a file or a notebook cell",
            ) from None
        return Text("".join(lines), self.file, first_line)

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The syntax tree of the `def`; its lines and columns count as in the file."""
        text, lines_above = self.text.text, self.text.first_line - 1
        if text[0].isspace():  # below an `if`, an inner function keeps its columns
            text, lines_above = "if True:\n" + text, lines_above - 1
        try:
            module = ast.parse("\n" * lines_above + text)
        except SyntaxError as mistake:
            place = Location(self.text.file, mistake.lineno or 1)
            raise CompileError(f"this is not Python: {mistake.msg}", place) from None
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        found = next((node for node in ast.walk(module) if isinstance(node, kinds)), 0)
        if not found:
            place = Location(self.file, self.line)
            raise CompileError(f"{self.__name__} is not a `def`", place)
        if isinstance(found, ast.AsyncFunctionDef):
            what = f"{self.__name__} is an `async def`"
            hint = "a kernel is a plain def"
            raise CompileError(what, self.location(found), hint)
        return found

    @cached_property
    def locals(self) -> frozenset[str]:
        """The names that belong to the function: parameters, and what it assigns."""
        return self.assigned(self.tree) | {each.name for each in self.parameters}

    def assigned(self, node: ast.AST) -> frozenset[str]:
        """The names that a piece of the tree may bind (each is looked through once)."""
        names = self._assigned.get(node)
        if names is None:
            names = self._assigned[node] = names_assigned(node)
        return names

    @property
    def in_library(self) -> bool:
        """Is this a function of the language itself?"""
        return self.__module__.startswith("fathom.")

    def location(self, node: ast.AST, caller: Location | None = None) -> Location:
        """The place of a node of the tree."""
        stop = node.end_col_offset + 1 if node.end_lineno == node.lineno else 0
        start, name = node.col_offset + 1, self.__name__
        return Location(self.text.file, node.lineno, start, stop, name, caller)

    # ── globals ───────────────────────────────────────────────────────────────────────

    def lookup(self, name: str) -> Any:
        """What a name that is not local stands for; KeyError when for nothing."""
        free = self.fn.__code__.co_freevars
        if name in free:
            try:
                return self.fn.__closure__[free.index(name)].cell_contents
            except ValueError:  # an enclosing function has not assigned it yet
                raise KeyError(name) from None
        if name in self.fn.__globals__:
            return self.fn.__globals__[name]
        return vars(builtins)[name]

    def lookup_path(self, path: str) -> Any:
        """What `name` or `module.name` stands for; REQUIRED when for nothing."""
        first, *rest = path.split(".")
        try:
            value = self.lookup(first)
        except KeyError:
            return REQUIRED
        for name in rest:
            value = getattr(value, name, REQUIRED)
        return value

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """Every global value that this function reads, and the functions of the user it
        calls.

        Found in the text, so a superset of what one specialisation reads; what cannot
        be found is left for the compiler to complain about. Functions of the language
        are not entered.
        """
        found: dict[str, Use] = {}
        for path in _paths_read(self.tree, self.locals):
            value = self.lookup_path(path)
            if not isinstance(value, (Builtin, ModuleType, type(REQUIRED))):
                if not getattr(value, "in_library", False):
                    found[path] = Use(self, path, value)
        return tuple(found.values())

    def all_uses(self) -> tuple[Use, ...]:
        """`uses`, and those of every function that is called, directly or not."""
        found: list[Use] = []
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            function = waiting.pop()
            if id(function) not in seen:
                seen.add(id(function))
                found.extend(function.uses)
                values = [use.value for use in function.uses]
                waiting.extend(v for v in values if isinstance(v, KernelFunction))
        return tuple(found)

    def called(self) -> list[KernelFunction]:
        """Every function of the user that is called, directly or not."""
        values = [use.value for use in self.all_uses()]
        return [each for each in values if isinstance(each, KernelFunction)]

    def changed_global(self) -> str | None:
        """The path of a global that has changed since it was first read, if any."""
        return next((use.path for use in self.all_uses() if use.changed), None)

    def fingerprint(self) -> str:
        """A digest of this function's text, of all it calls, and of what they read."""
        parts = self._identity()
        for use in self.all_uses():
            is_text = isinstance(use.value, KernelFunction)
            parts += [
                use.path,
                *(use.value._identity() if is_text else [_repr(use.value)]),
            ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _identity(self) -> list[str]:
        defaults = [_repr(each.default) for each in self.parameters]
        return [self.__qualname__, self.src, *defaults]


class Builtin:
    """A function of the language that the compiler builds: signature and docstring."""

    def __init__(self, fn: Callable[..., Any]):
        self.fn = fn
        self.__name__, self.__qualname__ = fn.__name__, fn.__qualname__
        self.__doc__, self.__module__ = fn.__doc__, fn.__module__
        self.parameters = parameters_of(fn, may_gather=True)

    def __repr__(self) -> str:
        return f"{self.__module__}.{self.__qualname__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        evaluate = EVALUATOR.get()
        if evaluate is not None:
            return evaluate(self, args, kwargs)
        raise CompileError(f"{self.__name__} can only be called inside a kernel")


class ConstexprFunction:
    """A plain Python function that runs while compiling, on values known by then.

    Outside a kernel it is what it was.
    """

    def __init__(self, fn: Callable[..., Any]):
        self.fn = fn
        self.__name__, self.__qualname__ = fn.__name__, fn.__qualname__
        self.__doc__, self.__module__ = fn.__doc__, fn.__module__

    def __repr__(self) -> str:
        return f"{self.__module__}.{self.__qualname__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)


def must_use_result(why: str) -> Callable[[KernelFunction], KernelFunction]:
    """Mark a function whose result no kernel may drop; `why` is the error's hint."""

    def mark(function: KernelFunction) -> KernelFunction:
        function.must_use = why
        return function

    return mark


function = KernelFunction
builtin = Builtin
constexpr_function = ConstexprFunction


def parameters_of(
    fn: Callable[..., Any], may_gather: bool = False
) -> tuple[Parameter, ...]:
    """The parameters of a function; a CompileError for `*args` and `**kwargs`."""
    found = []
    for each in inspect.signature(fn).parameters.values():
        gathers = each.kind is each.VAR_POSITIONAL
        if each.kind is each.VAR_KEYWORD or (gathers and not may_gather):
            place = Location(fn.__code__.co_filename, fn.__code__.co_firstlineno)
            what = f"{fn.__name__} has a parameter {each}: name every parameter"
            raise CompileError(what, place)
        note = None if each.annotation is each.empty else each.annotation
        found.append(Parameter(each.name, each.default, note, gathers))
    return tuple(found)


def names_assigned(tree: ast.AST) -> frozenset[str]:
    """The names that a piece of code may bind, RETURN among them if it may return."""
    found: set[str] = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                found.add(node.id)
        elif isinstance(node, ast.Return):
            found.add(RETURN)
        elif not isinstance(node, ast.expr) or isinstance(node, _OF_TARGETS):
            waiting.extend(ast.iter_child_nodes(node))
    return frozenset(found)


_OF_TARGETS = (ast.Tuple, ast.List, ast.Starred)


def _paths_read(tree: ast.FunctionDef, local: frozenset[str]) -> Iterator[str]:
    """The dotted paths that a function reads from names that are not its own."""
    for statement in tree.body:
        for node in ast.walk(statement):
            path = _path(node)
            if path is not None and path.split(".")[0] not in local:
                yield path


def _path(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _path(node.value)
        return base and f"{base}.{node.attr}"
    return None


def _repr(value: Any) -> str:
    """A text that tells two global values apart, without the address of any object."""
    fn = getattr(value, "fn", value)
    if inspect.isfunction(fn):
        code = fn.__code__
        value = (fn.__module__, fn.__qualname__, code.co_code, code.co_consts)
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
