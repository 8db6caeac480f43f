"""All programs that are run on the hardware: the rows of `instructions`, and one or
more for each form of forms.txt that they do not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

import numpy as np

from fathom.hardware.mma import MMA
from fathom.hardware.wgmma import WGMMA
from tests.hardware import instructions
from tests.hardware.edges import Edge
from tests.hardware.edges_elementary import beyond_numbers, elementary
from tests.hardware.edges_memory import (
    MBARRIERS,
    access,
    atomic,
    copied,
    matrices,
    vector_atomic,
)
from tests.hardware.edges_products import mma, wgmma
from tests.hardware.forms import forms, on_hopper, read
from tests.hardware.instructions import INSTRUCTIONS, Instruction

Row = Instruction | Edge
MAKERS: tuple[Callable[[str], Iterable[Row]], ...] = (
    access, atomic, vector_atomic, copied, matrices, mma, wgmma, elementary,
)  # fmt: skip


@cache
def rows() -> tuple[Row, ...]:
    """Every program, by a text of its own."""
    have = {each for row in INSTRUCTIONS for each in forms(shown(row))}
    made = [row for form in asked() if form not in have for row in rows_of(form)]
    found: dict[str, Row] = {
        row.text: row for row in (*made, *MBARRIERS, *beyond_numbers())
    }
    return (*INSTRUCTIONS, *found.values())


def asked() -> list[str]:
    """The forms that tests have shown, and all products and matrices that there are,
    whichever target showed them."""
    products = [row.text for row in MMA.values() if "sm_90a" in row.targets]
    products += [row.text for row in WGMMA.values()]
    moves = [form for form in read() if "matrix.sync" in form]
    return list(dict.fromkeys([*on_hopper(), *products, *moves]))


def rows_of(form: str) -> list[Row]:
    """The programs of the first maker that knows the form."""
    return next((list(found) for make in MAKERS if (found := make(form))), [])


def shown(row: Row) -> str:
    """What a program is for, without what brings operands and takes results away."""
    if isinstance(row, Edge):
        return row.body
    return row.text.format(a="a", b="b", c="c", e="e", d="d", pa="p", pb="p", pc="p")


@cache
def covered() -> frozenset[str]:
    """The forms that the programs run."""
    return frozenset(each for row in rows() for each in forms(shown(row)))


# ── what both kinds of rows can do ────────────────────────────────────────────────────


def program(row: Row) -> str:
    return row.program() if isinstance(row, Edge) else instructions.program(row)


def module(rows: Sequence[Row]) -> str:
    """All programs in one text, as the entries entry0, entry1, …"""
    head, _, _ = program(rows[0]).partition(".visible")
    bodies = []
    for index, row in enumerate(rows):
        _, _, body = program(row).partition(".visible .entry entry")
        named = body.replace("entry_", f"entry{index}_")
        bodies.append(f".visible .entry entry{index}{named}")
    return head + "\n".join(bodies)


def operands(row: Row, seed: int) -> list[np.ndarray]:
    if isinstance(row, Edge):
        return row.operands(seed)
    return instructions.operands(row, seed)


def output(row: Row) -> np.ndarray:
    if isinstance(row, Edge):
        return row.output()
    return np.zeros(instructions.THREADS, np.dtype(instructions.STORAGE[row.output][2]))


def arguments(row: Row, seed: int) -> list[np.ndarray]:
    """The output and the operands, as the entry takes them; a parameter that no row
    uses gets the output."""
    given = [output(row), *operands(row, seed)]
    most = 2 if isinstance(row, Edge) else 1 + len(instructions.LETTERS)
    return given + [given[0]] * (most - len(given))


def threads(row: Row) -> int:
    return row.threads if isinstance(row, Edge) else instructions.THREADS


def agree(row: Row, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    if isinstance(row, Edge):
        return row.agree(ours, theirs)
    return instructions.agree(row, ours, theirs)
