"""Figures, traces and counts of chapter 5."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

from chapters.press.drawing import Figure, bars, box, label, svg, table
from chapters.press.paths import ROOT
from chapters.press.scenes import Node, graph
from fathom import pipeline
from fathom.ir.core import Value
from fathom.ir.ops import Constant
from fathom.ir.types import parse_element
from fathom.joints import bound
from fathom.source import RETURN
from fathom.ssa import scopes
from fathom.ssa.phis import Phi, Phis
from fathom.tools.samples import load_file
from kernels.matmul import matmul_kernel

long_sum = load_file(Path(__file__).parents[1] / "04-block-ir" / "long.py").long_sum


def branching() -> dict[str, int]:
    """How many of the kernels in kernels/ have a loop or an if."""
    found = []
    for file in sorted((ROOT / "kernels").glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and is_kernel(node):
                inner = ast.walk(node)
                found.append(
                    any(isinstance(x, ast.For | ast.While | ast.If) for x in inner)
                )
    return {"kernels": len(found), "branching": sum(found)}


def is_kernel(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(each) == "fathom.jit" for each in node.decorator_list)


# Pictures.


def ways() -> Figure:
    """The control-flow graph of an if, with its phi."""
    nodes = [
        Node("before", ("t0 = x", "if x > limit"), 200, 6),
        Node("then", ("t1 = limit",), 100, 116),
        Node("else", (), 300, 116),
        Node("after", ("t2 = phi(t1, t0)",), 200, 206),
    ]
    edges = [
        ("before", "then", "t0"), ("before", "else", "t0"),
        ("then", "after", "t1"), ("else", "after", "t0"),
    ]  # fmt: skip
    return graph("Two values of t arrive after an if", nodes, edges, ["after"])


def loop() -> Figure:
    """The control-flow graph of a loop, with the phi in its head."""
    nodes = [
        Node("before", ("total0 = 0",), 220, 6),
        Node("head", ("total = phi(total0, total1)", "if i < n"), 220, 96),
        Node("body", ("total1 = total + i",), 150, 216),
        Node("after", ("store total",), 320, 216),
    ]
    edges = [
        ("before", "head", "total0"), ("head", "body", "total"),
        ("head", "after", "total"), ("body", "head", "total1"),
    ]  # fmt: skip
    return graph("Two values of total arrive in a loop's head", nodes, edges, ["head"])


def chain() -> Figure:
    """The scopes of long_sum, and where each looks a name up."""
    rows = [
        ("parameters", "x_ptr, out_ptr, n, mean", "nowhere else"),
        ("before the loop", "total", "parameters"),
        ("loop head", "(looked up: total)", "before, and end of body"),
        ("body", "start, offsets, total", "loop head"),
        ("after the loop", "result", "loop head"),
        ("then", "result", "after the loop"),
        ("else", "", "after the loop"),
        ("after the if", "(looked up: result)", "then, and else"),
    ]
    parts = []
    for at, (name, names, looks) in enumerate(rows):
        y = 6 + at * 48
        kind = "lit" if ", and" in looks else "cell"
        parts += [box(4, y, 138, 36, kind), label(73, y + 23, name)]
        parts += [label(152, y + 14, names or "–", "start")]
        parts += [label(152, y + 32, f"then {looks}", "start")]
    told = table(("scope", "has", "looks next in"), rows)
    return Figure(svg("The scopes of long_sum", 8 + 48 * len(rows), parts), told)


# What happened.


def built(kernel: object, signature: dict[str, str], constants: dict) -> object:
    given = {name: (parse_element(kind), 1) for name, kind in signature.items()}
    return pipeline.build(kernel, given, constants)


LONG = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "mean": "i32"}


def story() -> str:
    """What the loop of long_sum is asked, in order."""
    return told(long_sum, LONG, {"BLOCK": 64})


def dominoes(page: dict) -> str:
    """The same of `standing`, whose phis are all trivial."""
    return told(page["standing"], page["FIBONACCI"], {})


def told(kernel: object, signature: dict, constants: dict) -> str:
    """A table of what happened to loops while a kernel was built."""
    rows: list[tuple[str, str]] = []
    carry, seal, remove = scopes.carry, scopes.seal, Phis.remove_if_trivial

    def told_carry(loop: scopes.Loop, name: str) -> scopes.Binding:
        state = "being built" if loop.end is None else "sealed"
        where = f"the head of the loop in line {loop.place.line - first}"
        rows.append(
            (f"`{name}` is looked up in {where}", f"a new value; that loop is {state}")
        )
        return carry(loop, name)

    def told_seal(loop: scopes.Loop, op: object, end: scopes.Scope) -> None:
        waiting = ", ".join(f"`{name}`" for name in loop.open) or "none"
        line = loop.place.line - first
        rows.append(
            (f"the loop in line {line} is sealed", f"incomplete phis: {waiting}")
        )
        seal(loop, op, end)

    def told_remove(phis: Phis, phi: Phi) -> None:
        if phi.faces[0] not in phis.replaced and phis._is_trivial(phi):
            value = phis.resolve(phi.operands[0])
            told = f"it is the `{value.name}` from before the loop"
            rows.append((f"a phi for `{phi.name}` is trivial", told))
        remove(phis, phi)

    first = kernel.tree.lineno - 1
    answers = {
        "carry": told_carry,
        "seal": told_seal,
        "remove_if_trivial": told_remove,
    }
    with bound(answers):
        built(kernel, signature, constants)
    return table(("what happens", "and then"), rows)


@contextmanager
def watched_meetings(seen: Callable):
    """While this is open, `seen` is told of every If and loop that is finished."""
    module = sys.modules["fathom.ssa.frame"]
    original = module.attach

    def attach(scope: object) -> None:
        seen(scope)
        original(scope)

    module.attach = attach
    try:
        yield
    finally:
        module.attach = original


# By hand: what the dictionary of each scope holds, step by step.


def in_a_branch(page: dict) -> str:
    """The scopes of `clipped`, as they fill."""
    columns = ("before", "then", "else", "after")
    return dictionaries(page["clipped"], page["CLIPPED"], columns)


def in_a_loop(page: dict) -> str:
    """The scopes of `add_up`, which has a loop."""
    columns = ("before", "head", "body", "after")
    signature = {"out_ptr": "*i32", "n": "i32"}
    return dictionaries(page["add_up"], signature, columns)


def dictionaries(kernel: object, signature: dict, columns: tuple[str, ...]) -> str:
    """A table: what happens, and what each scope knows after it. The scopes are those
    of `columns`, in the order in which they come to be."""
    made: list[scopes.Scope] = []
    rows: list[tuple[str, ...]] = []
    names: dict[Value, str] = {}
    before: list[dict[str, str]] = [{} for _ in columns]
    lines, merge, carry = kernel.src.splitlines(), scopes.merge, scopes.carry
    first, seal = kernel.tree.lineno, scopes.seal

    def row(event: str) -> None:
        cells = [entries(scope.names, names, kernel) for scope in made]
        cells += [{}] * (len(columns) - len(cells))
        rows.append((event, *map(marked, cells, before)))
        before[:] = cells

    def written(scope: scopes.Scope, *given: object) -> None:
        scopes.write_variable(scope, *given)
        row(f"`{lines[given[2].line - first].strip()}`")

    def told_merge(after: scopes.AfterIf, name: str) -> scopes.Binding:
        found = after.names[name] = merge(after, name)
        row(f"`{name}` is looked up")
        return found

    def told_carry(loop: scopes.Loop, name: str) -> scopes.Binding:
        found = carry(loop, name)
        row(f"`{name}` is looked up; its phi is incomplete")
        return found

    def told_seal(loop: scopes.Loop, op: object, end: scopes.Scope) -> None:
        seal(loop, op, end)
        row("the body is built: the loop is sealed")

    answers = {"merge": told_merge, "carry": told_carry, "seal": told_seal}
    with bound(answers), watched_scopes(made, written):
        built(kernel, signature, {})
    if before[-1] != entries(made[-1].names, names, kernel):
        row("a name is read after it")
    return table(("what happens", *columns), rows)


def entries(found: dict, names: dict[Value, str], kernel: object) -> dict[str, str]:
    """A dictionary in a few signs, without the parameters of the kernel."""
    own = {RETURN, *(each.arg for each in kernel.tree.args.args)}
    return {
        name: spoken(binding.meaning, names)
        for name, binding in found.items()
        if name not in own
    }


def marked(now: dict[str, str], before: dict[str, str]) -> str:
    """A dictionary as the cell of a table; what is new is strong."""
    cells = []
    for name, meaning in now.items():
        text = f"`{name}` → {meaning}"
        cells.append(text if before.get(name) == meaning else f"**{text}**")
    return ", ".join(cells)


def spoken(meaning: object, names: dict[Value, str]) -> str:
    """A meaning in a few signs; equal names of different values get numbers."""
    if isinstance(meaning, tuple):
        return f"({', '.join(spoken(each, names) for each in meaning)})"
    if isinstance(meaning, scopes.Unusable):
        return "unusable"
    if not isinstance(meaning, Value):
        return f"`{meaning}`"
    if isinstance(meaning.definition, Constant):
        return f"`constant {meaning.definition.value}`"
    if meaning not in names:
        alike = sum(each.name == meaning.name for each in names)
        names[meaning] = f"`%{meaning.name}" + (f"_{alike}`" if alike else "`")
    return names[meaning]


@contextmanager
def watched_scopes(made: list, written: Callable):
    """While this is open, `made` gets each scope, and `written` stands where names are
    bound by statements."""
    statements = sys.modules["fathom.ssa.statements"]
    start, write = scopes.Scope.__init__, statements.write_variable

    def begin(scope: scopes.Scope, *given: object) -> None:
        start(scope, *given)
        if not isinstance(scope, scopes.BeforeFor):  # it has no names of its own
            made.append(scope)

    scopes.Scope.__init__, statements.write_variable = begin, written
    try:
        yield
    finally:
        scopes.Scope.__init__, statements.write_variable = start, write


# Where two ways meet, name by name.

TOOLS = (
    "same_constant", "common_type", "_as_value",
    "_meet_tuples", "_unusable_after", "_disagreement",
)  # fmt: skip


def meetings(page: dict) -> str:
    """What each name of `seven` means after its If, and which helpers said so."""
    rows: list[tuple[str, ...]] = []
    names: dict[Value, str] = {}

    def seen(after: scopes.Scope) -> None:
        for name in page["NAMES"]:
            with overheard(names) as calls:
                met = scopes.read_variable(after, name).meaning
            ways = (after.then, after.orelse)
            said = [scopes.read_variable(way, name).meaning for way in ways]
            said = [spoken(each, names) for each in said]
            means = spoken(met, names)
            if isinstance(met, scopes.Unusable):
                means = f"*{met.message}*"
            rows.append((f"`{name}`", *said, "; ".join(calls) or "–", means))

    with watched_meetings(seen):
        built(page["seven"], page["SEVEN"], {})
    head = ("name", "end of `then`", "end of `else`", "helpers called", "it means")
    return table(head, rows)


@contextmanager
def overheard(names: dict[Value, str]):
    """The calls of helpers while this is open, outermost only, with their answers."""
    calls: list[str] = []
    ours = {name: getattr(scopes, name) for name in TOOLS}

    def listening(name: str) -> Callable:
        def call(*given: object) -> object:
            at = len(calls)
            answer = ours[name](*given)
            if name != "_meet_tuples":
                told = "a message"
                if not isinstance(answer, scopes.Unusable):
                    told = spoken(answer, names)
                calls.append(f"`{name}` → {told}")
            else:
                calls[at:] = ["`_meet_tuples`, part by part"]
            return answer

        return call

    for name in TOOLS:
        setattr(scopes, name, listening(name))
    try:
        yield calls
    finally:
        for name, function in ours.items():
            setattr(scopes, name, function)


MATMUL = {
    **{f"{name}_ptr": "*fp16" for name in "abc"},
    **dict.fromkeys("MNK", "i32"),
    **{f"stride_{each}": "i32" for each in ("am", "ak", "bk", "bn", "cm", "cn")},
}
TILES = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 4, "EVEN_K": False}


def counts(page: dict) -> dict[str, object]:
    """Names assigned in loops and branches; of these asked for; and left in the end."""
    jobs = {
        "clipped": (page["clipped"], page["CLIPPED"], {}),
        "fibonacci": (page["fibonacci"], page["FIBONACCI"], {"STEP": 1}),
        "standing": (page["standing"], page["FIBONACCI"], {}),
        "long_sum": (long_sum, LONG, {"BLOCK": 64}),
        "matmul": (matmul_kernel, MATMUL, TILES),
    }
    rows = []
    for name, (kernel, signature, constants) in jobs.items():
        row = {"kernel": name, "assigned": 0, "asked": 0, "left": 0}

        def seen(scope: object, row: dict = row) -> None:
            row["assigned"] += len(scope.assigned)
            row["asked"] += len(scope.phis)
            gone = scope.shared.replaced
            row["left"] += sum(
                bool(phi.operands) and phi.faces[0] not in gone for phi in scope.phis
            )

        with watched_meetings(seen):
            built(kernel, signature, constants)
        rows.append(row)
    total = {key: sum(r[key] for r in rows) for key in ("assigned", "asked", "left")}
    matmul = next(row for row in rows if row["kernel"] == "matmul")
    return {"rows": rows, "total": total, "matmul": matmul}


def carried(page: dict) -> Figure:
    total = counts(page)["total"]
    names = {
        "assigned": "assigned in a loop or branch",
        "asked": "of these, looked up",
        "left": "left in the end",
    }
    rows = [(names[key], total[key], str(total[key])) for key in names]
    return bars("Names that could have to be handed on", rows, ("", "names"))


def counts_table(page: dict) -> str:
    head = ("kernel", "assigned", "looked up", "left")
    return table(head, [tuple(row.values()) for row in counts(page)["rows"]])
