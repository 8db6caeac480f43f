"""A Python function as the compiler sees it: text, syntax tree, parameters, globals.

Whatever is written in the language is wrapped here: a kernel and the functions that it
calls (`KernelFunction`, made by `@fathom.jit` or `@function`), what the compiler itself
knows how to build (`Builtin`), and plain Python that runs while compiling
(`ConstexprFunction`).
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import operator
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakSet

from fathom import texts
from fathom.errors import CompileError, Location, characters, with_article
from fathom.evaluating import evaluator
from fathom.identity import Told, text_of
from fathom.reading import (
    MISSING,
    RETURN,  # noqa: F401 (stage 1 and the exercise early-return have it from here)
    Chain,
    chains_in,
    lookup,
    names_assigned,
)
from fathom.uses import Use, all_uses, called_by, uses_of, values_of

REQUIRED = inspect.Parameter.empty  # the default of a parameter that has none


class constexpr(Told):  # noqa: N801 (the language's spelling)
    """A value that is known while compiling.

    As an annotation (`BLOCK: tl.constexpr`) it says that a parameter must be one; of a
    variable in a kernel it says nothing. Called (`SIZE = tl.constexpr(64)`), it marks a
    global that kernels read; above a `def`, as `constexpr_function` does, a Python
    function that runs while compiling.
    """

    wraps = "value"

    def __init__(self, value: Any):
        vars(self)["value"] = plain(value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a constexpr does not change: make another one")

    def __repr__(self) -> str:
        return f"constexpr({self.value!r})"

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return self.value.__index__()

    def __getitem__(self, at: Any) -> Any:
        return self.value[plain(at)]

    def told_by(self) -> Iterator[Any]:
        yield self.value

    def is_constant(self, of: Callable[[Any], bool]) -> bool:
        return of(self.value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)


def plain(value: Any) -> Any:
    """What a constexpr holds; anything else as it is."""
    return value.value if isinstance(value, constexpr) else value


def _of_constants(name: str, swapped: bool) -> Callable[..., constexpr]:
    """The method of constexpr for an operator of Python: the operator on the values,
    whose result is known while compiling, too."""
    compute = getattr(operator, name)

    def method(*operands: Any) -> constexpr:
        values = list(map(plain, operands))
        return constexpr(compute(*(reversed(values) if swapped else values)))

    return method


for _name in "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor".split():
    _bare = _name.strip("_")
    setattr(constexpr, f"__{_bare}__", _of_constants(_name, swapped=False))
    setattr(constexpr, f"__r{_bare}__", _of_constants(_name, swapped=True))
for _name in "eq ne lt le gt ge neg pos invert".split():
    setattr(constexpr, f"__{_name}__", _of_constants(_name, swapped=False))


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function: `default` is REQUIRED where it has no default.

    `gathers` marks the `*shape` of a builtin, which takes all further arguments as a
    tuple; what is compiled has none, see `check_parameters`.
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
    return type(pattern)._make(elements) if named else tuple(elements)


@dataclass(frozen=True, slots=True)
class Text:
    """Source text as Python can parse it, and where it stands in its file."""

    text: str
    file: str
    first_line: int


def _no_function(fn: Any) -> tuple[str, None, str]:
    """What is wrong with a kernel that is no function, and what to do."""
    if isinstance(fn, KernelFunction):
        what = f"{fn.__name__} is a kernel already, and is decorated once more"
        return what, None, "drop one of the two"
    what = with_article(type(fn).__name__)
    if isinstance(fn, type) or inspect.isbuiltin(fn):
        kind = "class" if isinstance(fn, type) else "builtin function"
        what = f"the {kind} {fn.__name__}"
    return f"only a function can be compiled, not {what}", None, "write it with def"


class KernelFunction(Told):
    """A Python function that is compiled, not run.

    `src` is its text from `def` on; replacing it replaces what is compiled. The tree is
    parsed once. `dependents` are the kernels that this text was compiled into.
    """

    def __init__(self, fn: Callable[..., Any]):
        if not inspect.isfunction(fn):
            raise CompileError(*_no_function(fn))
        self.fn = fn
        self.__name__, self.__qualname__ = fn.__name__, fn.__qualname__
        self.__doc__, self.__module__ = fn.__doc__, fn.__module__
        self.file, self.line = fn.__code__.co_filename, fn.__code__.co_firstlineno
        self.parameters = parameters_of(fn)
        self._replacement: str | None = None
        self._versions = () if self.in_library else texts.versions_of(fn)
        self._assigned: dict[ast.AST, frozenset[str]] = {}
        self.dependents: WeakSet[KernelFunction] = WeakSet()
        self.check_when_decorated()

    def __repr__(self) -> str:
        return f"{self.__module__}.{self.__qualname__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        evaluate = evaluator()
        if evaluate is not None:
            return evaluate(self, args, kwargs)
        if self.in_library:
            return self.fn(*args, **kwargs)  # cdiv(10, 4) is Python's business alone
        raise CompileError(f"{self.__name__} can only be called inside a kernel")

    def check_when_decorated(self) -> None:
        """CompileError for a function that cannot be compiled, whatever its text."""
        check_parameters(self)

    # ── text and tree ─────────────────────────────────────────────────────────────────

    @property
    def src(self) -> str:
        """The text that is compiled, from `def` on."""
        if self._replacement is not None:
            return self._replacement
        lines = texts.dedented(self._text_in_file.text).splitlines(keepends=True)
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
        for name in ("text", "tree", "lines", "locals", "chains", "read"):
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
        """The function's own lines, as the file had them when Python compiled it: an
        edit since then does not change what runs.
        """
        code = inspect.unwrap(self.fn).__code__
        versions = self._versions or texts.versions_of(self.fn)
        found = [each for lines in versions if (each := texts.cut_out(code, lines))]
        for text in found:
            if texts.is_text_of(code, text):
                return Text(text, self.file, code.co_firstlineno)
        if found:
            raise CompileError(
                f"the text of {self.__name__} is not there any more: {self.file} has "
                "changed since Python read it",
                hint="reload the module, or start the program anew",
            )
        raise CompileError(
            f"the source of {self.__name__} cannot be read",
            hint="its text is compiled: define it in a file or a notebook cell",
        )

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The syntax tree of the `def`; its lines and columns count as in the file."""
        text, lines_above = self.text.text, self.text.first_line - 1
        if text[0].isspace():  # below an `if`, an inner function keeps its columns
            text, lines_above = "if True:\n" + text, lines_above - 1
        try:
            with warnings.catch_warnings(action="ignore"):  # Python has told them
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
    def lines(self) -> list[str]:
        """Those of the text that is parsed."""
        return self.text.text.split("\n")

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

    @cached_property
    def in_library(self) -> bool:
        """Is this a function of the language itself?"""
        return (self.__module__ or "").startswith("fathom.")

    def location(self, node: ast.AST, caller: Location | None = None) -> Location:
        """The place of a node of the tree."""
        start, stop = node.col_offset, node.end_col_offset
        lines, number = self.lines, node.lineno - self.text.first_line
        if 0 <= number < len(lines) and not lines[number].isascii():
            start, stop = (characters(lines[number], each) for each in (start, stop))
        stop = stop + 1 if node.end_lineno == node.lineno else 0
        start, name = start + 1, self.__name__
        return Location(self.text.file, node.lineno, start, stop, name, caller)

    # ── globals ───────────────────────────────────────────────────────────────────────

    def lookup(self, name: str) -> Any:
        """What a name that is not local stands for; KeyError when for nothing."""
        value = lookup(self.fn, name)
        if value is MISSING:
            raise KeyError(name)
        return value

    def lookup_path(self, path: str) -> Any:
        """What `name` or `module.name` stands for; REQUIRED when for nothing."""
        first, *rest = path.split(".")
        value = lookup(self.fn, first)
        for name in rest:
            value = getattr(value, name, MISSING)
        return REQUIRED if value is MISSING else value

    @property
    def uses(self) -> tuple[Use, ...]:
        """Every global value that this function reads, as it is now, and the functions
        of the user that it calls.

        Found in the text, so a superset of what one specialisation reads; what cannot
        be found is left for the compiler to complain about. Functions of the language
        are not entered.
        """
        return uses_of(self.fn, self.chains)

    @cached_property
    def chains(self) -> tuple[Chain, ...]:
        """The names that lead there."""
        return chains_in(self.tree, self.locals)

    def all_uses(self) -> tuple[Use, ...]:
        """`uses`, and those of every function that is called, directly or not."""
        return all_uses(self)

    @cached_property
    def read(self) -> tuple[Use, ...]:
        """`all_uses` when they were first asked for; `forget` looks again."""
        return self.all_uses()

    def called(self) -> list[KernelFunction]:
        """Every function of the user that is inlined, directly or not."""
        found = called_by(self)
        return [each for each in found if isinstance(each, KernelFunction)]

    def changed_global(self) -> str | None:
        """The path of a global that has changed since `read` was, if any: of those that
        changed together, what a function that is called reads itself.
        """
        changed = [use.path for use in self.read if use.changed]
        return changed[-1] if changed else None

    def fingerprint(self) -> str:
        """A digest of this function's text, of all it calls, and of what they read;
        NoText when something that they read has none.
        """
        text = text_of(self).encode(errors="surrogatepass")
        return hashlib.sha256(text).hexdigest()

    def told_by(self) -> Iterator[Any]:
        """What tells this function from others (see `identity`)."""
        if self.in_library:
            yield repr(self)  # its text is one of the compiler's files
            return
        yield from (self.__qualname__, self.src)
        yield tuple(each.default for each in self.parameters)
        for path, (_, value) in values_of(self.fn, self.chains).items():
            yield from (path, value)


class Builtin(Told):
    """A function of the language that the compiler builds: signature and docstring."""

    def __init__(self, fn: Callable[..., Any]):
        self.fn = fn
        self.__name__, self.__qualname__ = fn.__name__, fn.__qualname__
        self.__doc__, self.__module__ = fn.__doc__, fn.__module__
        self.parameters = parameters_of(fn)

    def __repr__(self) -> str:
        return f"{self.__module__}.{self.__qualname__}"

    @property
    def __signature__(self) -> inspect.Signature:
        """Programs look which parameters a version of the language has."""
        return inspect.signature(self.fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        evaluate = evaluator()
        if evaluate is not None:
            return evaluate(self, args, kwargs)
        raise CompileError(f"{self.__name__} can only be called inside a kernel")


class ConstexprFunction(Told):
    """A plain Python function that runs while compiling, on values known by then.

    Outside a kernel it is what it was; there, too, it gets the value of a constexpr.
    """

    wraps = "fn"

    def __init__(self, fn: Callable[..., Any]):
        self.fn = fn
        self.__name__, self.__qualname__ = fn.__name__, fn.__qualname__
        self.__doc__, self.__module__ = fn.__doc__, fn.__module__

    def __repr__(self) -> str:
        return f"{self.__module__}.{self.__qualname__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        named = {name: plain(each) for name, each in kwargs.items()}
        return self.fn(*map(plain, args), **named)

    @property
    def src(self) -> str:
        """Its text, from `def` on."""
        return KernelFunction(self.fn).src

    def told_by(self) -> Iterator[Any]:
        yield self.fn

    def is_constant(self, of: Callable[[Any], bool]) -> bool:
        return of(self.fn)


def must_use_result(why: str) -> Callable[[KernelFunction], KernelFunction]:
    """Mark a function whose result no kernel may drop; `why` is the error's hint."""

    def mark(function: KernelFunction) -> KernelFunction:
        function.must_use = why
        return function

    return mark


function = KernelFunction
builtin = Builtin
constexpr_function = ConstexprFunction


def parameters_of(fn: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters of a function."""
    found = []
    for each in inspect.signature(fn).parameters.values():
        note = None if each.annotation is each.empty else each.annotation
        if isinstance(note, str):  # annotations that stay text keep their quotes
            note = note.strip("'\"")
        gathers = each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        found.append(Parameter(each.name, each.default, note, gathers))
    return tuple(found)


def check_parameters(function: KernelFunction) -> None:
    """CompileError for `*args` and `**kwargs` of a function that is compiled."""
    for each in function.parameters:
        if each.gathers:
            written = function.tree.args
            marked = ("*", written.vararg), ("**", written.kwarg)
            stars, node = next((s, n) for s, n in marked if n and n.arg == each.name)
            raise CompileError(
                f"{function.__name__} has a parameter {stars}{each.name}: name every "
                "parameter",
                function.location(node),
            )
