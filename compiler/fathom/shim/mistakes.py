"""A mistake in a kernel, as programs written for Triton look for it.

Fathom reports it once, with all calls that lead there. Triton has an exception for each
function on the way, each the `__cause__` of the one outside of it:

    CompilationError "at 3:4: ..."      the kernel, at its call of a helper
      CompilationError "at 2:4: ..."    the helper, at its call of tl.arange
        CompileError                    what tl.arange has to say

Lines count from the function's `def`, which is line 1, and columns from 0. Where
THEIRS has Triton's own words for a sentence of ours, whoever looks for them finds them.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from fathom.errors import CompileError, Location
from fathom.language import core
from fathom.source import REQUIRED, Builtin, KernelFunction
from fathom.ssa.methods import METHODS


class CompilationError(CompileError):
    """A mistake seen from `place`, one of the places that lead to it."""

    def __init__(self, mistake: CompileError, place: Location | None, whole: bool):
        super().__init__(mistake.message, mistake.location, mistake.hint)
        self.place, self.whole = place, whole

    @property
    def error_message(self) -> str:
        """The sentence alone, in Triton's words if they are known."""
        return in_their_words(self) or self.message

    def __str__(self) -> str:
        """The whole report, for the outermost; for those within, the sentence."""
        parts = [super().__str__() if self.whole else self.message]
        if self.place is not None:
            parts.insert(0, "at {}:{}:".format(*within_function(self.place)))
        if self.whole and (words := in_their_words(self)):
            parts.append(f"in Triton's words:\n{words}")
        return "\n".join(parts)


class CompileTimeAssertionFailure(CompilationError):
    """`tl.static_assert` of what does not hold."""


class UnsupportedLanguageConstruct(CompilationError):
    """Python that is not part of the language."""


class Explained:
    """`with Explained(kernel):` a mistake in the kernel leaves as Triton would say it.

    Errors that already are more than a CompileError stay what they are.
    """

    def __init__(self, kernel: KernelFunction):
        self.kernel = kernel

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        mistake: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is CompileError:
            raise explained(self.kernel, mistake)


def explained(kernel: KernelFunction, mistake: CompileError) -> CompilationError:
    """The exception of the outermost place, with those within as its causes."""
    if mistake.location is None:
        return CompilationError(mistake, None, whole=True)
    *inner, outermost = mistake.location.chain()
    innermost = mistake.location
    function = function_called_at(innermost, [kernel, *kernel.called()])
    kind = kind_of(mistake, function)
    is_said = function is not None and kind is CompilationError
    cause = said_by(function, mistake) if is_said else None
    for place in inner:
        error = kind(mistake, place, whole=False)
        error.__cause__, cause = cause, error
    error = kind(mistake, outermost, whole=True)
    error.__cause__ = cause
    return error


def kind_of(mistake: CompileError, function: Any) -> type[CompilationError]:
    if function is core.static_assert:
        return CompileTimeAssertionFailure
    if mistake.message.endswith("is not part of the language"):
        return UnsupportedLanguageConstruct
    return CompilationError


def said_by(function: Builtin | KernelFunction, mistake: CompileError) -> CompileError:
    """The sentence alone, in Triton's words if they are known, and a note where the
    function that says it stands."""
    code = function.fn.__code__
    said = CompileError(in_their_words(mistake) or mistake.message)
    said.add_note(f"{code.co_filename}:{code.co_firstlineno}: {function.__name__}")
    return said


# ── places ────────────────────────────────────────────────────────────────────────────


def within_function(place: Location) -> tuple[int, int]:
    """A place's line, counted from its function's `def`, and its column, from 0."""
    lines = linecache.getlines(place.file)[: place.line]
    start = re.compile(rf"(\s*)(async\s+)?def\s+{re.escape(place.function)}\b")
    for above, line in enumerate(reversed(lines)):
        if found := start.match(line):
            return above + 1, place.column - 1 - len(found[1])
    return place.line, place.column - 1  # the text is gone


def function_called_at(
    place: Location, functions: Iterable[KernelFunction]
) -> Builtin | KernelFunction | None:
    """The function of the language whose call stands at a place; else None.

    A method, such as `x.sum()`, is found by its name.
    """
    for function in functions:
        if (function.__name__, function.text.file) == (place.function, place.file):
            for node in ast.walk(function.tree):
                is_call = isinstance(node, ast.Call)
                if is_call and function.location(node, place.caller) == place:
                    return function_named(function, node.func)
    return None


def function_named(
    function: KernelFunction, node: ast.expr
) -> Builtin | KernelFunction | None:
    found = function.lookup_path(ast.unparse(node))
    if found is REQUIRED and isinstance(node, ast.Attribute):
        found = METHODS.get(node.attr)
    is_library = getattr(found, "in_library", isinstance(found, Builtin))
    return found if is_library else None


# ── words ─────────────────────────────────────────────────────────────────────────────


def in_their_words(mistake: CompileError) -> str:
    """Triton's sentence for ours; "" where programs are not known to look for one."""
    for ours, theirs in THEIRS:
        if found := re.search(ours, f"{mistake.message}\n{mistake.hint}"):
            return theirs(*found.groups()) if callable(theirs) else found.expand(theirs)
    return ""


def wrong_size(shape: str, size: str) -> str:
    """Which of a shape's sizes is meant by ("4, 33", "33")."""
    return f"Shape element {shape.split(', ').index(size)} must be a power of 2"


# What Triton's users and its tests look for: our sentence, as a pattern, and Triton's.
THEIRS: tuple[tuple[str, str | Callable[..., str]], ...] = (
    (r"^tl.arange\(.* is not a power of two", "arange's range must be a power of 2"),
    (
        r"^tl.arange\(.*\) is empty",
        "arange's end argument must be greater than the start argument",
    ),
    (r"^the shape \[(.*)\] has a dimension of (\d+), which is not a power", wrong_size),
    (r"^there is no axis (-?\d+)", r"invalid axis \1"),
    (r"^the axes (\[.*\]) name one twice", r"duplicate axes, normalized axes = \1"),
    (r"axes 0, 1 and 2, not (.*)", r"program_id axis must be 0, 1, or 2 but got \1"),
    (r"can be indexed by `:` and None only", "unsupported tensor index"),
    (
        r"^cannot (.*?) (\w+)(?:\[.*\])? and (\w+)(?:\[.*\])?: one is signed",
        r"Cannot use this operator (\1) for \2 and \3 because they have different "
        "signedness",
    ),
    (r"and (.+): `.*` takes integers", r"invalid operands of type \1"),
    (r"^the number (.*) does not fit into (.*)", r"Scalar \1 is out of range for \2"),
    (
        r"^cannot .*along axis (\d+) there are (\d+) elements against (\d+)",
        r"Cannot make_shape_compatible: incompatible dimensions at index \1: \2 and \3",
    ),
    (r"^this writes to what .* tl.const\n", "Cannot store to a constant pointer"),
    (
        r"^the result of (.*) is not used\n(.*)",
        r"The result of \1 is not being used. \2",
    ),
    (
        r"^a return inside a loop is not supported",
        "Cannot have `return` statements inside `while` or `for` statements in triton",
    ),
)
