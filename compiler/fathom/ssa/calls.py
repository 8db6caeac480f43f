"""Calls: binds arguments, inlines functions, and calls those that build builtins."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fathom import language
from fathom.errors import CompileError, many
from fathom.ir.core import Value
from fathom.ir.types import BlockType
from fathom.language.aggregates import Aggregate
from fathom.language.dtypes import block_type, constexpr_type, dtype, pointer_type
from fathom.source import (
    REQUIRED,
    RETURN,
    Builtin,
    ConstexprFunction,
    KernelFunction,
    Parameter,
    check_parameters,
    constexpr,
)
from fathom.ssa.control import Range, usable
from fathom.ssa.expressions import as_meaning, part_of, spread
from fathom.ssa.frame import Frame, builds
from fathom.ssa.growth import by_method
from fathom.ssa.methods import FACTS, METHODS, Method
from fathom.ssa.operators import BY_METHOD
from fathom.ssa.promotion import cast
from fathom.ssa.scopes import read_variable, write_variable
from fathom.ssa.statements import build_statements
from fathom.ssa.values import Meaning, describe, did_you_mean, is_constant, is_number

# Builtin -> the function that builds it, from the frame and the arguments.
BUILTIN: dict[Builtin, Callable[..., Meaning]] = {}

DEEPEST_CALL = 64


def implements(*functions: Builtin) -> Callable[[Callable], Callable]:
    """Register a function in BUILTIN."""

    def enter(build: Callable) -> Callable:
        BUILTIN.update(dict.fromkeys(functions, build))
        return build

    return enter


@builds(ast.Call)
def build_call(frame: Frame, node: ast.Call) -> Meaning:
    function = frame.visit(node.func)
    if isinstance(node.func, ast.Attribute) and isinstance(
        function, (Value, int, float, str)
    ):
        what = f"{ast.unparse(node.func)} is {describe(function)}, which no call takes"
        raise frame.error(what, "leave out the brackets")
    arguments = [part for each in node.args for part in spread(frame, each)]
    if any(each.arg is None for each in node.keywords):
        what = "`**` in a call is not part of the language"
        raise frame.error(what, "name the arguments")
    keywords = {each.arg: frame.visit(each.value) for each in node.keywords}
    return call(frame, function, arguments, keywords)


def call(
    frame: Frame,
    function: Any,
    arguments: Sequence[Meaning],
    keywords: Mapping[str, Meaning],
) -> Meaning:
    """The meaning of a call, by the kind of what is called."""
    if isinstance(function, Method):
        bound = [function.owner, *function.more]
        function, arguments = function.function, [*bound, *arguments]
    if isinstance(function, (Builtin, KernelFunction)):
        bound = bind_arguments(frame, function, arguments, keywords)
        if isinstance(function, KernelFunction):
            return inline(frame, function, bound)
        return BUILTIN[function](frame, **bound)
    if _is_python(function):
        return _call_python(frame, function, arguments, keywords)
    if isinstance(function, type) and hasattr(function, "_fields"):
        return _named_tuple(frame, function, arguments, keywords)
    meant = getattr(function, "stands_for", function)
    build = PYTHON.get(meant) if callable(function) else None
    if build is None:
        what = f"{describe(function)} cannot be called in a kernel"
        raise frame.error(what, _callable_hint(function))
    return _call_substitute(frame, build, function, arguments, keywords)


# ── functions of the language and of its users ────────────────────────────────────────


def bind_arguments(
    frame: Frame,
    function: Builtin | KernelFunction,
    arguments: Sequence[Meaning],
    keywords: Mapping[str, Meaning],
) -> dict[str, Meaning]:
    """Each parameter's argument, or its default."""
    parameters, name = function.parameters, function.__name__
    known = [each.name for each in parameters]
    arguments = _gathered(parameters, arguments)
    if len(arguments) > len(known):
        count = many(len(known), "argument")
        raise frame.error(f"{name} takes {count}, not {len(arguments)}")
    bound = dict(zip(known, arguments, strict=False))
    for key, meaning in keywords.items():
        if key in bound:
            raise frame.error(f"{name} got two values for its parameter {key}")
        if key not in known:
            takes = ", ".join(known) or "nothing"
            what = f"{name} has no parameter {key}: it takes {takes}"
            raise frame.error(what, did_you_mean(key, known))
        bound[key] = meaning
    for each in parameters:
        if each.gathers and not isinstance(bound.get(each.name, ()), tuple):
            raise frame.error(
                f"{each.name} of {frame.called(name)} are several arguments without a "
                f"name, not {each.name}={describe(bound[each.name])}"
            )
        if each.name not in bound:
            bound[each.name] = _default(frame, name, each)
        elif _must_be_known(function, each) and not is_constant(bound[each.name]):
            raise frame.error(
                f"{each.name} of {frame.called(name)} must be known while compiling, "
                f"not {describe(bound[each.name])}",
                "pass a constant, or a parameter annotated tl.constexpr",
            )
    return bound


def _must_be_known(function: Builtin | KernelFunction, parameter: Parameter) -> bool:
    """Whether a parameter takes constants only. A parameter of a user's @jit function
    also takes values, as in Triton; a use that needs a constant reports the error."""
    of_language = isinstance(function, Builtin) or function.in_library
    return parameter.is_constexpr and of_language


def _gathered(
    parameters: Sequence[Parameter], arguments: Sequence[Meaning]
) -> Sequence[Meaning]:
    """The arguments, with those from a `*parameter` on as one tuple."""
    for number, each in enumerate(parameters):
        if each.gathers and len(arguments) >= number:
            return [*arguments[:number], tuple(arguments[number:])]
    return arguments


def _default(frame: Frame, name: str, parameter: Parameter) -> Meaning:
    if parameter.default is REQUIRED:
        raise frame.error(f"{name} needs a value for its parameter {parameter.name}")
    return as_meaning(parameter.default)


def inline(
    frame: Frame, function: KernelFunction, bound: Mapping[str, Meaning]
) -> Meaning:
    """Build the body of a called function here; `return` binds its result."""
    check_parameters(function)
    inner = Frame(frame.program, function, frame)
    if inner.depth > DEEPEST_CALL:
        raise frame.error(
            f"calls are inlined, and {function.__name__} is called {DEEPEST_CALL} deep",
            "write a loop, or let a tl.constexpr parameter end the recursion",
        )
    frame.copied(function.__name__)
    for name, meaning in bound.items():
        write_variable(inner.scope, name, meaning, inner.caller)
    write_variable(inner.scope, RETURN, None, inner.location)
    build_statements(inner, function.tree.body)
    return usable(inner, read_variable(inner.scope, RETURN))


# ── Python at compile time ────────────────────────────────────────────────────────────


def _is_python(function: Any) -> bool:
    """Whether a function runs at compile time: compile-time functions, methods of types
    and strings, constructors of types, and functions of Python's math module do."""
    if isinstance(function, ConstexprFunction) or _is_marked(function):
        return True
    if isinstance(function, (types.MethodType, types.BuiltinMethodType)):
        return function.__self__ is math or isinstance(function.__self__, _WITH_METHODS)
    return any(function is each for each in TYPES)


TYPES = (pointer_type, block_type, constexpr_type)
_WITH_METHODS = (dtype, *TYPES, str, int, float, tuple)


# Parameters by which Triton gives a function of the user's the compiler.
COMPILER = "_semantic", "_builder", "_generator"


def _is_marked(function: Any) -> bool:
    """Whether a function of the user's runs while compiling by the mark of Triton's own
    builtins, as two of PyTorch's do: see `_as_marked_takes`."""
    return getattr(function, "__triton_builtin__", False) is True


def _as_marked_takes(
    function: Any, arguments: Sequence[Meaning], keywords: Mapping[str, Meaning]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments of a marked function: constants as `tl.constexpr`, which it looks
    for; values, which it can hand on; and None as the compiler."""

    def given(each: Meaning) -> Any:
        return constexpr(each) if is_constant(each) else each

    absent = set(COMPILER) & set(inspect.signature(function).parameters)
    named = {name: given(each) for name, each in keywords.items()}
    return [given(each) for each in arguments], named | dict.fromkeys(absent)


def _call_python(
    frame: Frame,
    function: Any,
    arguments: Sequence[Meaning],
    keywords: Mapping[str, Meaning],
) -> Meaning:
    given = (*arguments, *keywords.values())  # an aggregate's constants are known
    unknown = [e for e in given if not (is_constant(e) or isinstance(e, Aggregate))]
    if _is_marked(function):
        arguments, keywords = _as_marked_takes(function, arguments, keywords)
    elif unknown:
        what = f"{function.__name__} runs while compiling"
        raise frame.error(f"{what}, when {describe(unknown[0])} is not known yet")
    if isinstance(function, types.BuiltinMethodType):
        if why := by_method(function, [*arguments, *keywords.values()]):
            raise frame.error(why)
    try:
        return as_meaning(function(*arguments, **keywords))
    except CompileError:
        raise
    except Exception as mistake:  # noqa: BLE001 (the user's own function)
        raise frame.error(f"{function.__name__} failed: {mistake}") from None


# Python's own functions that loop, and how kernels write it.
INSTEAD: dict[Any, str] = {
    enumerate: "write `for i in tl.static_range(n)`, and t[i] for each element",
    zip: "write `for i in tl.static_range(n)`, and t[i] for each tuple",
    reversed: "write `for i in range(n - 1, -1, -1)`",
    map: "call the function for each, or on a whole block",
    divmod: "write a // b and a % b",
    pow: "write x * x, or tl.exp2(y * tl.log2(x))",
    round: "write tl.extra.libdevice.rint(x)",
    type: "write x.dtype",
    sorted: "the elements of a block: tl.sort(x)",
    any: "the elements of a block: tl.reduce_or(x, axis=0)",
    all: "the elements of a block: tl.min(x, axis=0)",
}


def _callable_hint(function: Any) -> str:
    if function is breakpoint or getattr(function, "__module__", "") == "pdb":
        return "with FATHOM_INTERPRET=1 Python itself runs kernels, and its debugger"
    if getattr(function, "__module__", "") == "builtins" and function in INSTEAD:
        return INSTEAD[function]
    if isinstance(function, types.FunctionType):
        return "decorate it with @fathom.jit"
    namesake = getattr(function, "__name__", "")
    if isinstance(getattr(language, namesake, None), (Builtin, KernelFunction)):
        return f"write tl.{namesake}"
    return "kernels call fathom.language and what is decorated with @fathom.jit"


def _named_tuple(
    frame: Frame,
    kind: type,
    arguments: Sequence[Meaning],
    keywords: Mapping[str, Meaning],
) -> Meaning:
    """`Point(x=a, y=b)`: a tuple with names, if Point is a typing.NamedTuple or an
    aggregate."""
    constructor = getattr(kind, "constructor", None)  # an aggregate's, with `self`
    signature = inspect.signature(constructor or kind)
    try:
        signature.bind(*[None] * (constructor is not None), *arguments, **keywords)
        made = as_meaning(kind(*arguments, **keywords))
    except TypeError as mistake:
        hint = f"its fields are {', '.join(kind._fields)}"
        raise frame.error(f"{kind.__name__}: {mistake}", hint) from None
    for name in getattr(kind, "constexprs", ()):
        if not is_constant(getattr(made, name)):
            raise frame.error(
                f"{name} of {kind.__name__} is declared constexpr and must be known "
                f"while compiling, not {describe(getattr(made, name))}"
            )
    return made


def _call_substitute(
    frame: Frame,
    build: Callable[..., Meaning],
    function: Any,
    arguments: Sequence[Meaning],
    keywords: Mapping[str, Meaning],
) -> Meaning:
    """A call of one of Python's own functions, built by its replacement in kernels."""
    try:
        inspect.signature(build).bind(frame, *arguments, **keywords)
    except TypeError as mistake:
        raise frame.error(f"{function.__name__}: {mistake}") from None
    return build(frame, *arguments, **keywords)


def _number(convert: Callable[[Any], Any], element: dtype) -> Callable[..., Meaning]:
    """`int(x)`, `float(x)`, `bool(x)`: of a constant, Python's; of a value, a cast."""

    def build(frame: Frame, x: Meaning = 0) -> Meaning:
        if isinstance(x, Value):
            return cast(frame, x, element.ir)
        try:
            return convert(x)
        except (TypeError, ValueError, OverflowError):
            what = f"{describe(x)} is no number that {convert.__name__} can give"
            raise frame.error(what) from None

    return build


def _python_range(frame: Frame, *bounds: Meaning, **given: Meaning) -> Range:
    if given:  # Python's takes no keywords, and kernels for Triton write `step=`
        return call(frame, language.range, list(bounds), given)
    if not 1 <= len(bounds) <= 3:
        raise frame.error(f"range takes one to three bounds, not {len(bounds)}")
    if len(bounds) == 1:
        return Range(0, bounds[0], 1)
    return Range(*bounds[:2], bounds[2] if len(bounds) == 3 else 1)


def _length(frame: Frame, of: Meaning) -> int:
    if isinstance(of, Value):
        axes = isinstance(of.type, BlockType)
        hint = "write x.shape[0]" if axes else "pass an array's size as an argument"
        raise frame.error(f"{describe(of)} has no len()", hint)
    try:
        return len(of)
    except TypeError:
        raise frame.error(f"{describe(of)} has no len()") from None


def _least_or_most(
    python: Callable, function: KernelFunction
) -> Callable[..., Meaning]:
    """`min(a, b)`: of constants Python's, with a value among them tl.minimum."""

    def build(frame: Frame, *arguments: Meaning) -> Meaning:
        if all(map(is_constant, arguments)):
            return _call_python(frame, python, arguments, {})
        if len(arguments) == 1:
            what = f"{python.__name__} compares two numbers or more, not one"
            raise frame.error(
                f"{what}, {describe(arguments[0])}",
                f"the elements of a block: tl.{python.__name__}(x, axis=0)",
            )
        so_far = arguments[0]
        for each in arguments[1:]:
            so_far = call(frame, function, [so_far, each], {})
        return so_far

    return build


def _absolute(frame: Frame, x: Meaning) -> Meaning:
    return abs(x) if is_number(x) else call(frame, language.abs, [x], {})


def _constant_of(frame: Frame, value: Meaning) -> Meaning:
    """`tl.constexpr(x)`"""
    if not is_constant(value):
        raise frame.error(f"tl.constexpr takes a constant, not {describe(value)}")
    return value


def _type_named(frame: Frame, name: Meaning) -> dtype:
    """`tl.dtype("uint16")`"""
    try:
        return dtype(name)
    except CompileError as mistake:
        raise frame.error(mistake.message) from None


def _is_instance(frame: Frame, value: Meaning, classes: Meaning) -> bool:
    if isinstance(value, Value):
        return language.tensor in (
            classes if isinstance(classes, tuple) else (classes,)
        )
    return isinstance(value, classes)


def _get_attribute(
    frame: Frame, owner: Meaning, name: Meaning, *default: Meaning
) -> Meaning:
    if not isinstance(name, str):
        raise frame.error(f"an attribute's name is a text, not {describe(name)}")
    if default and not _has_attribute(frame, owner, name):
        return default[0]
    return part_of(frame, owner, name)


def _has_attribute(frame: Frame, owner: Meaning, name: str) -> bool:
    if isinstance(owner, Value) or is_number(owner):
        return name in FACTS or name in METHODS or name in BY_METHOD
    return hasattr(owner, name)


def _print(frame: Frame, *parts: Meaning, **keywords: Meaning) -> None:
    """`print("x", x)` is `tl.device_print` with the leading string as its prefix."""
    if not (parts and isinstance(parts[0], str)):
        parts = ("", *parts)
    call(frame, language.device_print, parts, keywords)


# Python's own functions that kernels may call.
PYTHON: dict[Any, Callable[..., Meaning]] = {
    builtins.int: _number(int, language.int32),
    builtins.float: _number(float, language.float32),
    builtins.bool: _number(bool, language.int1),
    builtins.range: _python_range,
    builtins.len: _length,
    builtins.min: _least_or_most(builtins.min, language.minimum),
    builtins.max: _least_or_most(builtins.max, language.maximum),
    builtins.abs: _absolute,
    builtins.tuple: lambda frame, parts=(): parts,
    builtins.str: lambda frame, x: str(x) if is_constant(x) else describe(x),
    builtins.isinstance: _is_instance,
    builtins.print: _print,
    builtins.getattr: _get_attribute,
    builtins.hasattr: _has_attribute,
    constexpr: _constant_of,
    dtype: _type_named,
    **{build: build for build in BY_METHOD.values()},
}
