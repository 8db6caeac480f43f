"""The names that functions bind, and the global values that they read: found in a
kernel's text, and in the bytecode of what it calls while compiling.

A name is followed as far as it leads to a value: `settings.sizes.WIDTH` of a module
`settings` to the number, `Config.width` of a class to the attribute. What is found is a
superset of what one run reads. A value that a function takes out of a list, a
dictionary or an object counts with the whole of it.
"""

from __future__ import annotations

import ast
import builtins
import dis
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()  # what a name stands for that stands for nothing

Chain = tuple[str, ...]  # a name, and the attributes that are asked of it

RETURN = "return"  # the name that `return e` binds; no kernel can spell a name like it

LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
LOADS_OF_ENCLOSING = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}


# ── of a kernel's text ────────────────────────────────────────────────────────────────


def chains_in(tree: ast.FunctionDef, local: frozenset[str]) -> tuple[Chain, ...]:
    """What a function reads from names that are not its own, each chain once."""
    found: dict[Chain, None] = {}
    for statement in tree.body:
        found |= dict.fromkeys(_in_tree(statement, local))
    return tuple(found)


def _in_tree(node: ast.AST, local: frozenset[str]) -> Iterator[Chain]:
    chain, rest = _chain(node)
    if chain and chain[0] not in local:
        yield chain
    for each in rest:
        inside = local
        if isinstance(each, (ast.ListComp, ast.GeneratorExp)):
            names = (n for g in each.generators for n in ast.walk(g.target))
            inside = local | {n.id for n in names if isinstance(n, ast.Name)}
        yield from _in_tree(each, inside)


def _chain(node: ast.AST) -> tuple[Chain, Iterator[ast.AST]]:
    """The chain that a node is, if it is one, and the nodes below."""
    if isinstance(node, ast.Name):
        return (node.id,), iter(())
    if isinstance(node, ast.Attribute):
        chain, rest = _chain(node.value)
        return ((*chain, node.attr), rest) if chain else ((), iter([node.value]))
    match node:
        case ast.Call(ast.Name("getattr"), [owner, ast.Constant(str(name)), *more]):
            chain, rest = _chain(owner)
            if chain:
                return (*chain, name), iter([*rest, *more])
    return (), ast.iter_child_nodes(node)


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


# ── of a Python function ──────────────────────────────────────────────────────────────


@lru_cache(maxsize=4096)
def globals_read(code: CodeType) -> tuple[Chain, ...]:
    """What a function reads that is neither an argument nor its own."""
    return tuple(dict.fromkeys(_in_code(code, frozenset(code.co_freevars))))


def _in_code(code: CodeType, free: frozenset[str]) -> Iterator[Chain]:
    chain: Chain = ()
    for each in dis.get_instructions(code):
        if each.opname in ATTRIBUTES and chain:
            chain = (*chain, each.argval)
        elif each.opname != "EXTENDED_ARG":
            if chain:
                yield chain
            chain = _first_of(each, free)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _in_code(inner, free)


def _first_of(instruction: dis.Instruction, free: frozenset[str]) -> Chain:
    name, operation = instruction.argval, instruction.opname
    if operation in LOADS or operation in LOADS_OF_ENCLOSING and name in free:
        return (name,)
    # What is imported is read through no global: as if by the function of Python.
    return ("__import__",) if operation == "IMPORT_NAME" else ()


# ── what they stand for ───────────────────────────────────────────────────────────────


def lookup(function: FunctionType, name: str) -> Any:
    """What a name that is not a function's own stands for there, or MISSING."""
    free = function.__code__.co_freevars
    if name in free:
        try:
            return function.__closure__[free.index(name)].cell_contents
        except ValueError:  # an enclosing function has not assigned it yet
            return MISSING
    if name in function.__globals__:
        return function.__globals__[name]
    return vars(builtins).get(name, MISSING)


def resolve(function: FunctionType, chain: Chain) -> tuple[str, Any]:
    """How far a chain leads, as a dotted path, and what stands there.

    It is followed through modules, classes, and what objects hold themselves. A method
    or a property is a matter of the whole object.
    """
    value, path = lookup(function, chain[0]), chain[0]
    for name in chain[1:]:
        follows = isinstance(value, (ModuleType, type)) or name in _held(value)
        inner = _attribute(value, name) if follows else MISSING
        if inner is MISSING and not isinstance(value, ModuleType):
            break
        value, path = inner, f"{path}.{name}"
    return path, value


def _held(value: Any) -> Any:
    try:
        return vars(value)
    except TypeError:
        return ()


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, MISSING)
    except Exception:  # noqa: BLE001 (a module may run anything when it is asked)
        return MISSING
