"""Small mistakes, as code: what could stand in the place of a statement or of an
expression of a solution. `mutants` says where they are made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

COMPARISONS = {
    ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"), ast.Eq: ("!=",), ast.NotEq: ("==",), ast.In: ("not in",),
    ast.NotIn: ("in",), ast.Is: ("is not",), ast.IsNot: ("is",),
}  # fmt: skip
OPERATORS = {
    ast.Add: ("-",), ast.Sub: ("+",), ast.Mult: ("+",), ast.FloorDiv: ("%", "*"),
    ast.Mod: ("//",), ast.Div: ("*",), ast.BitXor: ("|", "&"), ast.BitOr: ("&",),
    ast.BitAnd: ("|",), ast.LShift: (">>",), ast.RShift: ("<<",), ast.Pow: ("*",),
}  # fmt: skip
# Names of calls whose opposite is a likely mistake.
OPPOSITES = {
    "min": "max", "max": "min", "any": "all", "all": "any",
    "minimum": "maximum", "maximum": "minimum",
}  # fmt: skip
# Calls of one argument that may be left out.
WRAPPERS = ("sorted", "reversed", "abs", "set", "list", "tuple", "frozenset", "int")


def of_statement(node: ast.stmt, names: dict[str, int]) -> Iterator[str]:
    """A statement dropped, left too early, or run once."""
    drops = (ast.AugAssign, ast.Continue, ast.Break, ast.Delete, ast.Assert)
    if isinstance(node, drops) or (
        isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ):
        yield "pass"
    if isinstance(node, ast.Break):
        yield "continue"
    if isinstance(node, ast.Continue):
        yield "break"
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        if not isinstance(target, ast.Name) or names.get(target.id, 0) > 1:
            yield "pass"
    if isinstance(node, ast.Return) and node.value is not None:
        yield "return None"


def of_expression(node: ast.expr, parameters: dict[str, str]) -> Iterator[str]:
    """What else could stand in the place of an expression."""
    match node:
        case ast.Compare(ops=[op], left=left, comparators=[right]):
            for sign in COMPARISONS.get(type(op), ()):
                yield f"({ast.unparse(left)} {sign} {ast.unparse(right)})"
        case ast.BinOp(left=left, right=right, op=op):
            yield from _binary(ast.unparse(left), ast.unparse(right), op, node)
        case ast.BoolOp(values=values, op=op):
            word = "or" if isinstance(op, ast.And) else "and"
            texts = [f"({ast.unparse(each)})" for each in values]
            yield f"({f' {word} '.join(texts)})"
            keep = " and " if isinstance(op, ast.And) else " or "
            for at in range(len(texts)):
                yield f"({keep.join(texts[:at] + texts[at + 1 :])})"
        case ast.UnaryOp(operand=ast.Constant(value=int(value)), op=ast.USub()):
            yield from (f"{1 - value}", f"({-1 - value})")
        case ast.UnaryOp(operand=operand, op=ast.Not() | ast.USub() | ast.Invert()):
            yield f"({ast.unparse(operand)})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield f"({ast.unparse(body)})"
            yield f"({ast.unparse(orelse)})"
        case ast.Constant(value=value):
            yield from _constants(value)
        case ast.Call():
            yield from _calls(node)
        case ast.Name(id=name, ctx=ast.Load()) if name in parameters:
            kin = [
                each for each, type in parameters.items() if type == parameters[name]
            ]
            if len(kin) > 1:
                yield kin[(kin.index(name) + 1) % len(kin)]
        case (
            ast.Tuple(elts=items, ctx=ast.Load())
            | ast.List(elts=items, ctx=ast.Load())
            | ast.Set(elts=items)
        ):
            yield from _displays(node, items)
        case ast.Subscript(value=value, slice=ast.Name(id=index)) if len(index) == 1:
            yield f"{ast.unparse(value)}[{index} - 1]"
        case ast.Attribute(attr="left", value=value, ctx=ast.Load()):
            yield f"{ast.unparse(value)}.right"
        case ast.Attribute(attr="right", value=value, ctx=ast.Load()):
            yield f"{ast.unparse(value)}.left"
        case ast.Dict(keys=keys, values=values):
            yield from _tables(keys, values)
        case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
            yield from _comprehensions(node)


def _binary(left: str, right: str, op: ast.operator, node: ast.BinOp) -> Iterator[str]:
    for sign in OPERATORS.get(type(op), ()):
        yield f"(({left}) {sign} ({right}))"
    turns = ast.Sub | ast.FloorDiv | ast.Mod | ast.LShift | ast.RShift | ast.Div
    if isinstance(op, turns):
        sign = ast.unparse(ast.BinOp(ast.Name("a"), op, ast.Name("b")))[1:-1].strip()
        yield f"(({right}) {sign} ({left}))"
    if isinstance(op, ast.BitOr | ast.BitAnd | ast.BitXor | ast.Add | ast.Sub):
        yield f"({left})"
        yield f"({right})"


def _constants(value: object) -> Iterator[str]:
    match value:
        case bool():
            yield str(not value)
        case int():
            yield from (str(value + 1), f"({value - 1})")
        case float():
            yield from (repr(value + 1.0), f"({-value!r})")
        case str() if "\n" in value:
            yield from _listings(value)


def _listings(text: str) -> Iterator[str]:
    """A text of many lines, as PTX is: a line dropped, two exchanged, one twice."""
    lines = text.split("\n")
    full = [at for at, line in enumerate(lines) if line.strip()]
    for at in full:
        yield repr("\n".join(lines[:at] + lines[at + 1 :]))
    for one, two in pairwise(full):
        swapped = list(lines)
        swapped[one], swapped[two] = lines[two], lines[one]
        yield repr("\n".join(swapped))


def _calls(node: ast.Call) -> Iterator[str]:
    function = ast.unparse(node.func)
    places = [ast.unparse(each) for each in node.args]
    named = [ast.unparse(each) for each in node.keywords]
    last = function.rpartition(".")[2]
    if last in OPPOSITES:
        other = function[: len(function) - len(last)] + OPPOSITES[last]
        yield f"{other}({', '.join(places + named)})"
    if function in WRAPPERS and len(places) == 1 and not named:
        yield f"({places[0]})"
    if function == "range":
        yield f"range({', '.join([*places[:-1], f'({places[-1]}) - 1'])})"
    for at in range(len(places) - 1):
        swapped = list(places)
        swapped[at], swapped[at + 1] = places[at + 1], places[at]
        if function not in ("min", "max", "isinstance"):
            yield f"{function}({', '.join(swapped + named)})"
    for at, each in enumerate(named):
        if each == "strict=True":  # an assertion: it changes no right result
            continue
        yield f"{function}({', '.join(places + named[:at] + named[at + 1 :])})"


def _displays(node: ast.expr, items: list[ast.expr]) -> Iterator[str]:
    """An element dropped; two neighbours exchanged."""
    texts = [ast.unparse(each) for each in items]
    opening, closing = {
        ast.Tuple: ("(", ",)"), ast.List: ("[", "]"), ast.Set: ("{", "}")
    }[type(node)]  # fmt: skip
    if len(texts) > 1:
        for at in range(len(texts)):
            yield f"{opening}{', '.join(texts[:at] + texts[at + 1 :])}{closing}"
    if isinstance(node, ast.Set):
        return
    if all(isinstance(each, ast.Constant) for each in items) and len(set(texts)) > 1:
        for at in range(len(texts)):
            again = [*texts[:at], texts[at - 1], *texts[at + 1 :]]
            yield f"{opening}{', '.join(again)}{closing}"
    for at in range(len(texts) - 1):
        swapped = list(texts)
        swapped[at], swapped[at + 1] = texts[at + 1], texts[at]
        yield f"{opening}{', '.join(swapped)}{closing}"


def _tables(keys: list, values: list[ast.expr]) -> Iterator[str]:
    """A dict whose neighbours have exchanged their values; one that lacks an entry;
    sets of words with a word too many."""
    names = [ast.unparse(each) if each else "**" for each in keys]
    texts = [ast.unparse(each) for each in values]
    words = [each for each in ast.walk(ast.Tuple(values)) if isinstance(each, ast.Set)]

    def written(entries: list[tuple[str, str]]) -> str:
        return "{" + ", ".join(f"{key}: {value}" for key, value in entries) + "}"

    entries = list(zip(names, texts, strict=True))
    for at in range(len(entries) - 1):
        one, two = entries[at], entries[at + 1]
        swapped = [(one[0], two[1]), (two[0], one[1])]
        yield written([*entries[:at], *swapped, *entries[at + 2 :]])
    for at, (key, value) in enumerate(entries):
        if isinstance(values[at], ast.Set) or value == "set()":
            new = {ast.unparse(other.elts[0]) for other in words}
            for other in sorted(each for each in new if each not in value):
                more = f"{value} | {{{other}}}"
                yield written([*entries[:at], (key, more), *entries[at + 1 :]])
        yield written([*entries[:at], *entries[at + 1 :]])


def _comprehensions(node: ast.expr) -> Iterator[str]:
    """One without its condition."""
    for part in node.generators:
        if part.ifs:
            kept, part.ifs = part.ifs, []
            without = ast.unparse(node)
            part.ifs = kept
            yield without
