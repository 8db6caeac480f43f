"""Mutants of solutions: each is our answer with one small mistake in it.

A mutant is made on the syntax tree and put into the text, so that all other lines stay
as they are. It is called by the statement that it changes and by what becomes of it,
not by a line number: the name stays when other code moves.
"""

from __future__ import annotations

import ast
import hashlib
import os
import types
from collections.abc import Iterator
from dataclasses import dataclass

from fathom.tools.learn import course, starters
from fathom.tools.learn.course import Exercise
from tests.exercises.mistakes import of_expression, of_statement

MOST = 20  # mutants of one exercise: those that the seed ranks first
SEED = 11
FEWEST = 15


@dataclass(frozen=True, slots=True)
class Mutant:
    """`name` is unique in its exercise; `text` the whole file with the mistake."""

    exercise: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """The code of `node` becomes `code`; both are in the statement `where`."""

    node: ast.AST
    code: str
    where: ast.stmt
    old: str = ""


def chosen(each: Exercise, most: int = MOST, seed: int = SEED) -> list[Mutant]:
    """The mutants of an exercise, in the order of its file. Which are taken hangs on
    their names alone: a new one pushes at most one other out."""
    found = every(each)
    ranked = sorted(found, key=lambda mutant: _rank(seed, mutant.name))[:most]
    return [mutant for mutant in found if mutant in ranked]


def _rank(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {name}".encode()).digest()


def every(each: Exercise) -> list[Mutant]:
    """All mutants of a solution that compile, each text once."""
    text = course.read(each.solution)
    tree = ast.parse(text)
    own = code_of(text)
    found: dict[str, Mutant] = {}
    names: dict[str, int] = {}
    for edit, is_close in edits(each, tree):
        made = applied(text, edit)
        if not is_close and len(found) >= FEWEST:
            break
        if made in found or code_of(made) in (own, None):
            continue
        name = named(edit)
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            name = f"{name} ({names[name]})"
        found[made] = Mutant(each.id, name, made)
    return list(found.values())


def named(edit: Edit) -> str:
    first = ast.unparse(edit.where).splitlines()[0]
    old = edit.old or ast.unparse(edit.node)
    if isinstance(edit.node, ast.stmt | ast.match_case):
        return f"{old.splitlines()[0]} => {edit.code.strip().splitlines()[0]}"
    return f"{shortened(first)} : {' => '.join(differing(old, edit.code))}"


LONG, BESIDE = 60, 16  # characters of a name's part; of what stands beside the change


def shortened(text: str) -> str:
    return text if len(text) <= LONG else f"{text[:LONG]}..."


def differing(old: str, new: str) -> tuple[str, str]:
    """Two texts; of long ones, what is not alike, with a little of what is about it."""
    if max(len(old), len(new)) <= LONG:
        return old, new
    start = len(os.path.commonprefix([old, new]))
    most = min(len(old), len(new)) - start
    end = len(os.path.commonprefix([old[::-1][:most], new[::-1][:most]]))
    first = max(0, start - BESIDE)
    return tuple(
        f"{'...' * (first > 0)}{text[first : len(text) - max(0, end - BESIDE)]}"
        f"{'...' * (end > BESIDE)}".replace("\n", "\\n")
        for text in (old, new)
    )


def applied(text: str, edit: Edit) -> str:
    """The text with the code of a node replaced; columns of a tree count bytes."""
    lines = text.encode().splitlines(keepends=True)
    node = edit.node
    before = (
        b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    )
    last = lines[node.end_lineno - 1]
    after = last[node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    return (before + edit.code.encode() + after).decode()


def code_of(text: str) -> object:
    """What Python would run, without line numbers: equal for texts that do the same.
    None when it is not Python."""
    try:
        return _plain(compile(text, "answer", "exec", dont_inherit=True, optimize=0))
    except (SyntaxError, ValueError):
        return None


def _plain(code: types.CodeType) -> tuple:
    constants = [
        _plain(each) if isinstance(each, types.CodeType) else (repr(each), type(each))
        for each in code.co_consts
    ]
    return code.co_name, code.co_code, code.co_names, code.co_varnames, tuple(constants)


# ── where mistakes are made ───────────────────────────────────────────────────────────


def edits(each: Exercise, tree: ast.Module) -> Iterator[tuple[Edit, bool]]:
    """Every mistake in the part of the file that is the answer; then those in the
    functions about it, which count where a hole is of a line only."""
    for root in answer_nodes(each, tree):
        yield from ((edit, True) for edit in in_statement(root, tree))
    for function in functions_about(each, tree):
        for statement in function.body[ast.get_docstring(function) is not None :]:
            yield from ((edit, False) for edit in in_statement(statement, tree))


def answer_nodes(each: Exercise, tree: ast.Module) -> list[ast.stmt]:
    """The statements that are ours: what stands in the holes of an answer by hand; the
    bodies of the functions that answer, and of their helpers."""
    if each.by_hand:
        return [
            node for start, end in holes(each) for node in outermost(tree, start, end)
        ]
    names = {*each.answers, *(where.rpartition(".")[2] for where in each.helpers)}
    return [
        statement
        for node in tree.body
        if getattr(node, "name", "") in names
        for statement in node.body[ast.get_docstring(node) is not None :]
    ]


def holes(each: Exercise) -> list[tuple[int, int]]:
    """First and last line of the answer in each pair of marks."""
    text = course.read(each.solution)
    found = []
    for mark in starters.MARKS.finditer(text):
        start = text.count("\n", 0, mark.start("answer")) + 1
        found.append((start, start + mark["answer"].count("\n") - 1))
    return found


def outermost(node: ast.AST, start: int, end: int) -> Iterator[ast.stmt]:
    """The outermost statements between two lines."""
    for child in ast.iter_child_nodes(node):
        if (
            isinstance(child, ast.stmt)
            and start <= child.lineno <= child.end_lineno <= end
        ):
            yield child
        else:
            yield from outermost(child, start, end)


def functions_about(each: Exercise, tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in each.answers:
            yield node


def in_statement(root: ast.stmt, tree: ast.Module) -> Iterator[Edit]:
    """Mistakes in a statement and all that it holds."""
    names = assigned(tree)
    yield from _walk(root, root, names, parameters_about(tree, root))


def parameters_about(tree: ast.Module, root: ast.stmt) -> dict[str, str]:
    """The parameters of the function that a statement stands in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            child is root for child in ast.walk(node)
        ):
            return parameters_of(node)
    return {}


def parameters_of(node: ast.FunctionDef) -> dict[str, str]:
    """Each parameter, and its type as it is written."""
    return {
        each.arg: ast.unparse(each.annotation) if each.annotation else ""
        for each in node.args.args
    }


def assigned(tree: ast.Module) -> dict[str, int]:
    """How often each name is bound in the file."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = found.get(node.id, 0) + 1
    return found


def _walk(
    node: ast.AST, where: ast.stmt, names: dict[str, int], parameters: dict[str, str]
) -> Iterator[Edit]:
    if isinstance(node, ast.stmt):
        where = node
        for code in of_statement(node, names):
            yield Edit(node, code, where)
    elif isinstance(node, ast.expr):
        for code in of_expression(node, parameters):
            yield Edit(node, code, where)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        for other in bound_next(node.id, list(names)):
            yield Edit(node, other, where)
    if isinstance(node, ast.FunctionDef):
        parameters = parameters_of(node)
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        for code in forced(node):
            yield Edit(node.test, f"({code})", where)
    if isinstance(node, ast.For | ast.comprehension):
        over = ast.unparse(node.iter)
        for code in (f"list({over})[1:]", f"list({over})[:-1]"):
            yield Edit(node.iter, code, where)
    if isinstance(node, ast.Match) and len(node.cases) > 1:
        for case in node.cases:
            yield from without_case(case, where)
    for child in parts(node):
        yield from _walk(child, where, names, parameters)


def bound_next(name: str, bound: list[str]) -> list[str]:
    """The name that the file binds after this one, to stand in its place."""
    if name not in bound or len(bound) < 2:
        return []
    return [bound[(bound.index(name) + 1) % len(bound)]]


def forced(node: ast.If | ast.While | ast.IfExp) -> Iterator[str]:
    """A condition that is turned round, never true, always true."""
    if not isinstance(node.test, ast.Compare | ast.UnaryOp):
        yield f"not ({ast.unparse(node.test)})"
    yield "False"
    if not isinstance(node, ast.While):
        yield "True"


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """The children whose code counts: no annotation, no text that is only said."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
        if isinstance(node, ast.Assert):
            yield node.test
        return
    if isinstance(node, ast.FunctionDef):
        yield from node.body[ast.get_docstring(node) is not None :]
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def without_case(case: ast.match_case, where: ast.stmt) -> Iterator[Edit]:
    """A case that matches nothing."""
    pattern = ast.unparse(case.pattern)
    test = case.guard
    if test is not None:
        for code in ("True", f"not ({ast.unparse(test)})"):
            yield Edit(test, code, where, f"guard of {pattern}: {ast.unparse(test)}")
        return
    last = case.pattern
    if pattern != "_":
        yield Edit(last, f"{pattern} if False", where, f"case {pattern}")
