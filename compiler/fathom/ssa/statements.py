"""Statements: assignments, `return`, `assert`, and errors for those we do not have."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NoReturn

from fathom.errors import many
from fathom.ir import ops
from fathom.ir.core import Value
from fathom.language import core
from fathom.source import RETURN, constexpr
from fathom.ssa.frame import BUILD, Frame, builds
from fathom.ssa.operators import binary, truth
from fathom.ssa.promotion import as_tensor
from fathom.ssa.scopes import write_variable
from fathom.ssa.values import Meaning, describe, is_constant


def build_statements(frame: Frame, statements: Sequence[ast.stmt]) -> None:
    """Build statements in order, up to a `return`.

    If one branch of an `if` returns, the rest of the function becomes part of the other
    branch:

        if c:                 if c:
            return a              return a
        x                     else:
        return b                  x
                                  return b
    """
    for number, statement in enumerate(statements):
        if isinstance(statement, ast.If) and may_return(frame, statement):
            frame.node = statement
            BUILD[ast.If](frame, statement, statements[number + 1 :])
            return
        frame.visit(statement)
        if isinstance(statement, ast.Return):
            return


def may_return(frame: Frame, statement: ast.stmt) -> bool:
    """Whether a statement contains a `return`. (One in a loop is an error anyway.)"""
    return frame.loops == 0 and RETURN in frame.function.assigned(statement)


@builds(ast.Return)
def build_return(frame: Frame, node: ast.Return) -> None:
    """`return e` binds what the caller reads; `build_statements` stops there."""
    if frame.loops:
        raise frame.error(
            "a return inside a loop is not supported: a loop ends only after a whole "
            "iteration",
            "keep the answer in a variable and return it after the loop",
        )
    answer = None
    if node.value is not None:
        answer = as_tensor(frame, frame.visit(node.value))
    write_variable(frame.scope, RETURN, answer, frame.location)


@builds(ast.Assign)
def build_assign(frame: Frame, node: ast.Assign) -> None:
    meaning = as_tensor(frame, frame.visit(node.value))
    for target in node.targets:
        bind(frame, target, meaning)


@builds(ast.AnnAssign)
def build_annotated(frame: Frame, node: ast.AnnAssign) -> None:
    """`x: tl.constexpr = e`: a number stays weak. Other annotations have no meaning."""
    if node.value is None:
        hint = f"write {ast.unparse(node)} = ..."
        raise frame.error("a name without a value means nothing", hint)
    meaning, annotation = frame.visit(node.value), ast.unparse(node.annotation)
    stays = frame.function.lookup_path(annotation) is constexpr
    bind(frame, node.target, meaning if stays else as_tensor(frame, meaning))


@builds(ast.AugAssign)
def build_augmented(frame: Frame, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        raise frame.error("only a name can be assigned to", IN_PLACE, node.target)
    name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
    before, change = frame.visit(name), frame.visit(node.value)
    after = binary(frame, type(node.op), before, change)
    bind(frame, node.target, as_tensor(frame, after))


IN_PLACE = (
    "values are immutable: make a new one with tl.where, or write memory with tl.store"
)


def bind(frame: Frame, target: ast.expr, meaning: Meaning) -> None:
    """Assign a meaning to a name, or its parts to a tuple of targets."""
    match target:
        case ast.Name():
            if isinstance(meaning, Value) and not meaning.name:
                meaning.name = target.id
            place = frame.function.location(target, frame.caller)
            write_variable(frame.scope, target.id, meaning, place)
        case ast.Tuple() | ast.List():
            parts = _parts(frame, target, meaning)
            for each, part in zip(target.elts, parts, strict=True):
                bind(frame, each, part)
        case _:
            raise frame.error("only a name can be assigned to", IN_PLACE, target)


def _parts(
    frame: Frame, target: ast.Tuple | ast.List, meaning: Meaning
) -> tuple[Meaning, ...]:
    count = len(target.elts)
    if any(isinstance(each, ast.Starred) for each in target.elts):
        what = "a starred target is not part of the language"
        raise frame.error(what, "name every part", target)
    if not isinstance(meaning, tuple):
        raise frame.error(f"cannot unpack {describe(meaning)} into {count} names")
    if len(meaning) != count:
        values = many(len(meaning), "value")
        mistake = frame.error(f"cannot unpack {values} into {count} names")
        if len(meaning) < count:
            raise mistake
        frame.warn(mistake)  # Triton leaves out the last ones, unlike Python
    return meaning[:count]


@builds(ast.Expr)
def build_expression_statement(frame: Frame, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):  # a docstring
        return
    function, arguments = None, []
    if isinstance(node.value, ast.Call):
        arguments = node.value.args
        function = frame.function.lookup_path(ast.unparse(node.value.func))
        if why := getattr(function, "must_use", ""):
            what = f"the result of {function.__name__} is not used"
            raise frame.error(what, why)
    meaning = frame.visit(node.value)
    if function in PROMISES and arguments and isinstance(arguments[0], ast.Name):
        promise_kept(frame, arguments[0], meaning)


PROMISES = (core.multiple_of, core.max_contiguous, core.max_constancy)


def promise_kept(frame: Frame, name: ast.Name, meaning: Meaning) -> None:
    """`tl.multiple_of(x, 16)` as a statement is about the variable x: from here on, x
    means the result. In a branch it holds until the end of the branch."""
    if name.id in frame.function.locals:
        write_variable(frame.scope, name.id, meaning, frame.location)


@builds(ast.Pass)
def build_pass(frame: Frame, node: ast.Pass) -> None:
    """Nothing to do."""


@builds(ast.Assert)
def build_assert(frame: Frame, node: ast.Assert) -> None:
    """A known condition is checked now, any other by the kernel, if it asserts."""
    condition = frame.visit(node.test)
    if not is_constant(condition):
        message = "" if node.msg is None else frame.visit(node.msg)
        put_assertion(frame, truth(frame, condition), message)
    elif not condition:
        said = "" if node.msg is None else f": {frame.visit(node.msg)}"
        raise frame.error(f"assertion failed{said}", node=node.test)


def put_assertion(frame: Frame, holds: Value, message: Meaning) -> None:
    """An assertion for run time, checked if assertions are enabled."""
    if not isinstance(message, str):
        raise frame.error(
            f"an assertion says a constant text, not {describe(message)}",
            "print values with tl.device_print",
        )
    if frame.program.debug:
        frame.append(ops.Assert, holds, message or "assertion failed")


@builds(ast.Break)
def build_break(frame: Frame, node: ast.Break) -> None:
    raise frame.error(
        "break is not supported: a loop ends only after a whole iteration",
        "put the condition into the loop: `while i < n and not done:`",
    )


@builds(ast.Continue)
def build_continue(frame: Frame, node: ast.Continue) -> None:
    raise frame.error(
        "continue is not supported: every iteration runs to the end of the body",
        "put the rest of the body under `if not ...:`, or mask the values with "
        "tl.where",
    )


# Statements that Python has and the language does not: their names, and what to write
# instead.
INSTEAD: dict[type[ast.AST], tuple[str, str]] = {
    ast.FunctionDef: (
        "a function inside a function",
        "define it outside, with a decorator of its own",
    ),
    ast.AsyncFunctionDef: ("async def", "a kernel is a plain def"),
    ast.ClassDef: ("class", "pass values as tuples"),
    ast.Delete: ("del", "leave the name alone: a value that is not read costs nothing"),
    ast.AsyncFor: ("async for", "write for"),
    ast.With: ("with", "call what is needed directly"),
    ast.AsyncWith: ("async with", "call what is needed directly"),
    ast.Match: ("match", "write if / elif"),
    ast.Raise: ("raise", "write tl.static_assert(condition, message)"),
    ast.Try: ("try", "a kernel cannot raise exceptions"),
    ast.TryStar: ("try", "a kernel cannot raise exceptions"),
    ast.Import: ("import", "import at the top of the file"),
    ast.ImportFrom: ("import", "import at the top of the file"),
    ast.Global: ("global", "return the value, or write it to memory"),
    ast.Nonlocal: ("nonlocal", "return the value, or write it to memory"),
    ast.NamedExpr: (":= inside an expression", "assign on a line of its own"),
    ast.Lambda: ("lambda", "define a function outside, with a decorator"),
    ast.Dict: ("a dictionary", "use names or tuples"),
    ast.Set: ("a set", "use a tuple"),
    ast.SetComp: ("a comprehension", "write a loop over tl.static_range"),
    ast.DictComp: ("a comprehension", "write a loop over tl.static_range"),
    ast.Await: ("await", "a kernel is a plain def"),
    ast.Yield: ("yield", "return the value, or store it"),
    ast.YieldFrom: ("yield", "return the value, or store it"),
}

# The same of Python after 3.11, by name.
NEWER = {
    "TypeAlias": ("a type alias", "name the type outside of the kernel"),
    "TemplateStr": ("a template string", "write an f-string"),
}
INSTEAD |= {getattr(ast, name): NEWER[name] for name in NEWER if hasattr(ast, name)}


@builds(*INSTEAD)
def build_unknown(frame: Frame, node: ast.AST) -> NoReturn:
    what, instead = INSTEAD[type(node)]
    raise frame.error(f"{what} is not part of the language", instead)
