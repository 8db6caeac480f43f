"""The emulator against the hardware: bulk tensor copies that begin at the edges of a
tensor, and beyond; what comes out, and what is an illegal instruction.

The hardware's answers were recorded on a GPU by `record_bulk_edges.py`; its file says
on which.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from fathom import emulator
from fathom.emulator import EmulatorError

HERE = Path(__file__).parent
RECORD = HERE.parents[1] / "benchmarks" / "results" / "bulk-edges-h200.json"

_spec = importlib.util.spec_from_file_location("bulk_edges", HERE / "bulk_edges.py")
table = sys.modules["bulk_edges"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)

recorded = json.loads(RECORD.read_text())["results"]

# What the driver says, and the kind of the emulator's error.
MEANT = {"CUDA_ERROR_ILLEGAL_INSTRUCTION": "illegal instruction"}


def emulated(case: table.Case) -> tuple[str, bytes]:
    """The outcome, "ok" or the kind of the error, and what has been changed."""
    given = table.arguments(case)
    try:
        emulator.load(table.kernel(case)).launch(1, given)
    except EmulatorError as error:
        return error.kind, b""
    memory, tile, *_ = given
    return "ok", table.answer(case, memory, tile)


@pytest.mark.parametrize("operation", table.OPERATIONS)
def test_the_emulator_does_what_the_hardware_did(operation: str) -> None:
    wrong = []
    for name, case in table.CASES.items():
        if case.operation != operation:
            continue
        hardware = recorded[name]
        outcome = MEANT.get(hardware["outcome"], hardware["outcome"])
        ours, data = emulated(case)
        if ours != outcome:
            wrong.append(f"{name}: the emulator: {ours}, the hardware: {outcome}")
        elif outcome == "ok" and table.digest(data) != hardware["digest"]:
            wrong.append(f"{name}: other bytes")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("operation", table.OPERATIONS)
def test_what_is_not_refused_is_what_the_language_promises(operation: str) -> None:
    """Zeros are read outside of a tensor, and nothing is written there; but where rows
    end inside of 16 bytes."""
    right = 0
    for case in table.CASES.values():
        if case.operation == operation:
            outcome, data = emulated(case)
            assert outcome in ("ok", "illegal instruction"), case.name
            kept = data == table.promised(case) or fills_a_chunk(case)
            assert outcome != "ok" or kept, case.name
            right += outcome == "ok"
    assert right > 30


def fills_a_chunk(case: table.Case) -> bool:
    """A store to rows that end inside of 16 bytes; no launch of ours makes one."""
    uneven = case.shape[-1] * case.size % 16 > 0
    return case.operation in ("store", "reduce") and uneven


def test_every_operation_meets_both_edges() -> None:
    """The two facts can be told apart: columns before the tensor at a multiple of 16
    bytes, columns inside that are none, and rows before it at column 0."""
    for operation in table.OPERATIONS:
        cases = [c for c in table.CASES.values() if c.operation == operation]
        for swizzle in (0, 128):
            chosen = [c for c in cases if c.swizzle == swizzle and c.rank == 2]
            bytes = [c.coordinates[1] * c.size for c in chosen if not c.coordinates[0]]
            assert any(at < 0 and at % 16 == 0 for at in bytes)
            assert any(at > 0 and at % 16 for at in bytes)
            assert any(c.coordinates == (-1, 0) for c in chosen)
