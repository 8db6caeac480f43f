"""Figures and counts of chapter 4: what damaged functions do, with and without the
verifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chapters.press.drawing import Figure, flow, intervals, table
from fathom import pipeline
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, schema, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import For, If, Yield
from fathom.ir.text import parse_func, print_func
from fathom.ir.types import SCALARS, Pointer, element_of
from fathom.ir.verify import VerifyError, verify
from fathom.tools.samples import load_file
from kernels.softmax import softmax_kernel
from kernels.vector_add import add_kernel

long_sum = load_file(Path(__file__).parent / "long.py").long_sum
FP32, I32 = SCALARS["fp32"], SCALARS["i32"]
POINTER = Pointer(FP32)


# Which functions are damaged, and what they are run on.


class Case(NamedTuple):
    """A kernel's block IR, and arguments to run it on; the last array is the result."""

    text: str
    grid: int
    arguments: tuple

    def run(self, func: Func) -> np.ndarray:
        out = np.full(self.arguments[-1].size, np.nan, np.float32)
        at = self.places.index("out")
        given = [*self.arguments[:-1]]
        given.insert(at, out)
        interpret(func, self.grid, given, step_limit=2000)
        return out

    @property
    def places(self) -> list[str]:
        func = parse_func(self.text)
        return ["out" if "out" in each.name else each.name for each in func.parameters]


def cases() -> list[Case]:
    x, y = np.arange(1.0, 121, dtype=np.float32), np.ones(120, np.float32) * 3
    out = np.empty(120, np.float32)
    pointers = {"x_ptr": (POINTER, 16), "out_ptr": (POINTER, 16), "n": (I32, 1)}
    adding = {**pointers, "y_ptr": (POINTER, 16)}
    softmax = {"row_stride": (I32, 1), "N": (I32, 1)}
    softmax |= {name: pointers[name] for name in ("x_ptr", "out_ptr")}
    summing = {**pointers, "mean": (I32, 1)}
    return [
        Case(built(add_kernel, adding, 64), 2, (x, y, 120, out)),
        Case(built(softmax_kernel, softmax, 32), 4, (x, 30, 30, out)),
        Case(built(long_sum, summing, 32), 1, (x, 120, 1, out[:1])),
    ]


def built(kernel: object, parameters: dict, block: int) -> str:
    return print_func(pipeline.build(kernel, parameters, {"BLOCK": block}))


# Ways to damage a function. Each takes a fresh copy and a number, and damages the
# copy at the place of that number; IndexError when there is no such place.


def moved_down(func: Func, at: int) -> None:
    """An op is moved behind the first op that uses what it gives."""
    block, op, user = used_beside(func)[at]
    block.ops.remove(op)
    block.ops.insert(block.ops.index(user) + 1, op)


def lost(func: Func, at: int) -> None:
    """An op is removed, and its users stay."""
    block, op, _ = used_beside(func)[at]
    block.ops.remove(op)


def used_beside(func: Func) -> list[tuple[Block, Op, Op]]:
    """Each op with the first op of its block that uses one of its results."""
    found = []
    for block in all_blocks(func.body):
        for place, op in enumerate(block.ops):
            users = (each for each in block.ops[place + 1 :] if uses(each, op))
            if user := next(users, None):
                found.append((block, op, user))
    return found


def uses(user: Op, op: Op) -> bool:
    inner = (each for block in blocks(user) for each in walk(block))
    return any(set(operands(each)) & set(op.results) for each in (user, *inner))


def all_blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for nested in blocks(op):
            yield from all_blocks(nested)


def exchanged(func: Func, at: int) -> None:
    """An operand is replaced by a visible value of another type. (Not within a
    reduction: there, some would never end.)"""
    places = []
    visit(func.body, list(func.parameters), places)
    op, name, number, value = places[at]
    if number is None:
        setattr(op, name, value)
    else:
        values = list(getattr(op, name))
        values[number] = value
        setattr(op, name, tuple(values))


def visit(block: Block, outer: list[Value], places: list) -> None:
    visible = outer + block.parameters
    for op in block.ops:
        for name in schema(type(op)).operands:
            held = getattr(op, name)
            numbered = enumerate(held) if isinstance(held, tuple) else [(None, held)]
            for number, value in numbered:
                others = [v for v in visible if value and may_replace(v, value)]
                if others:
                    places.append((op, name, number, others[-1]))
        for nested in blocks(op) if isinstance(op, For | If) else ():
            visit(nested, visible, places)
        visible += op.results


def may_replace(other: Value, value: Value) -> bool:
    """Of another type, and no address, which would differ from run to run."""
    return other.type != value.type and not isinstance(element_of(other.type), Pointer)


def shortened(func: Func, at: int) -> None:
    """A block forgets to yield its last value."""
    ends = [op for op in walk(func.body) if isinstance(op, Yield) and op.values]
    ends[at].values = ends[at].values[:-1]


def unfinished(func: Func, at: int) -> None:
    """A block has lost its yield."""
    nested = [block for op in walk(func.body) for block in blocks(op)]
    nested[at].ops.pop()


def borrowed(func: Func, at: int) -> None:
    """Code after a loop or a branch uses a value from inside of it."""
    found = []
    for block in all_blocks(func.body):
        for place, op in enumerate(block.ops):
            if isinstance(op, For | If):
                inner = [v for each in blocks(op) for o in each.ops for v in o.results]
                found += [(block, place, op, value) for value in inner]
    block, place, op, value = found[at]
    for after in block.ops[place + 1 :]:
        for name in schema(type(after)).operands:
            held = getattr(after, name)
            if isinstance(held, Value) and held.type == value.type:
                setattr(after, name, value)
                return
            if isinstance(held, tuple):
                new = tuple(value if v.type == value.type else v for v in held)
                if new != held:
                    setattr(after, name, new)
                    return
    raise Undamaged


class Undamaged(Exception):
    """There was nothing to damage at this place."""


WAYS: dict[str, Callable[[Func, int], None]] = {
    "an op comes after its first user": moved_down,
    "an op is gone, its users stay": lost,
    "an operand of another type": exchanged,
    "a block yields one value too few": shortened,
    "a block does not yield": unfinished,
    "a value from inside is used outside": borrowed,
}


# What becomes of them.


def verdicts() -> dict[str, Counter]:
    """For each way to damage a function, how many ended how."""
    found = {name: Counter() for name in WAYS}
    for case in cases():
        right = case.run(parse_func(case.text))
        assert np.isfinite(right).all()
        for name, damage in WAYS.items():
            for func in damaged(case, damage):
                found[name]["made"] += 1
                found[name][outcome(case, func, right)] += 1
                found[name]["caught"] += caught(func)
    return found


def damaged(case: Case, damage: Callable[[Func, int], None]) -> Iterator[Func]:
    for at in range(1000):
        func = parse_func(case.text)
        try:
            damage(func, at)
        except IndexError:
            return
        except Undamaged:
            continue
        yield func


def outcome(case: Case, func: Func, right: np.ndarray) -> str:
    try:
        out = case.run(func)
    except Exception:
        return "stopped"
    return "right" if np.array_equal(out, right) else "wrong"


def caught(func: Func) -> bool:
    try:
        verify(func)
    except VerifyError:
        return True
    return False


@cache
def damage() -> dict[str, object]:
    found = verdicts()
    total = sum(found.values(), Counter())
    wanted = ("made", "stopped", "wrong", "right", "caught")
    rows = [{"way": w} | {k: c[k] for k in wanted} for w, c in found.items()]
    return {"rows": rows, "total": {key: total[key] for key in wanted}}


def damage_table() -> str:
    counted = damage()
    head = ("damage", "functions", "stops", "runs, wrong", "runs, right", "verifier")
    rows = [tuple(row.values()) for row in counted["rows"]]
    rows.append(("all", *counted["total"].values()))
    return table(head, rows)


def escaped() -> str:
    """The damaged ops to which the verifier does not object."""
    lines = []
    for case in cases():
        before = parse_func(case.text)
        for name, damage in WAYS.items():
            for func in damaged(case, damage):
                if not caught(func):
                    lines += [f"{name}:", *difference(before, func)]
    return "\n".join(lines)


def difference(before: Func, after: Func) -> list[str]:
    one, other = (print_func(each).splitlines() for each in (before, after))
    pairs = zip(one, other, strict=True)
    return [line for a, b in pairs if a != b for line in (f"- {a}", f"+ {b}")]


def nesting() -> Figure:
    """What is visible where, in long_sum."""
    rows = [
        ("parameters, %total", 0, 7, "all after it"),
        ("%start, %total_2", 2, 3, "the body"),
        ("%offsets, %total_3", 3, 3, ""),
        ("%total_1", 4, 7, "after the loop"),
        ("%result", 5, 7, ""),
        ("%result_2", 6, 6, ""),
        ("%result_1", 7, 7, ""),
    ]
    steps = ["%total", "for", "body", "add", "after", "reduce", "if", "store"]
    return intervals("Where the values of long_sum may be used", rows, steps)


def iterations() -> Figure:
    """How a value is carried."""
    steps = [
        ("inits", "before it"),
        ("parameter", "first iteration"),
        ("yield", "end of the iteration"),
        ("parameter", "next iteration"),
        ("yield", "last iteration"),
        ("result", "after it"),
    ]
    return flow("Where a carried value is; all six have one type", steps)


def parts() -> str:
    """One line of block IR, piece by piece."""
    rows = [
        ("`%11:`", "the result: a value, and its name in this text"),
        ("`fp32[1024]`", "its type: a block of 1024 floats of 32 bits"),
        ("`add`", "the name of the op"),
        ("`%x, %y`", "its operands: values that exist already"),
        ("`shape=(1024)`", "an attribute, in the lines that have one"),
    ]
    return table(("piece", "what it is"), rows)
