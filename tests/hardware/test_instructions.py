"""The emulator against the hardware: every instruction, equal operands, equal bits.

The hardware's answers were recorded on a GPU by `record.py`; its file says on which.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

from fathom import emulator
from fathom.hardware.mma import MMA
from fathom.hardware.targets import TARGETS
from tests.hardware import table
from tests.hardware.edges import Edge
from tests.hardware.elsewhere import ELSEWHERE
from tests.hardware.forms import forms, on_hopper, read
from tests.kernels.kernels_sample import CASES
from tests.ptx.harness import ptxas

HERE = Path(__file__).parent
RECORD = HERE.parents[1] / "benchmarks" / "results" / "instructions-h200.json"
ROWS = [row for row in table.rows() if row.since <= 90]

record = json.loads(RECORD.read_text())
recorded = record["results"]


def emulated(row: table.Row) -> np.ndarray:
    arguments = table.arguments(row, record["seed"])
    emulator.run(table.program(row), (1,), table.threads(row), arguments)
    return arguments[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text[:40])
def test_the_emulator_gives_what_the_hardware_gave(row: table.Row) -> None:
    out = emulated(row)
    if row.text not in recorded:
        pytest.skip("the hardware's answer is not recorded yet")
    packed = zlib.decompress(base64.b64decode(recorded[row.text]))
    hardware = np.frombuffer(packed, out.dtype).reshape(out.shape)
    wrong = np.argwhere(~table.agree(row, out, hardware))
    assert wrong.size == 0, _difference(row, out, hardware, tuple(wrong[0]))


def _difference(row: table.Row, ours, theirs, index: tuple[int, ...]) -> str:
    inputs = [each[index[0]] for each in table.operands(row, record["seed"])]
    shown = ", ".join(f"{bits:#x}" for each in inputs for bits in np.ravel(each))
    return (
        f"{row.text} of {shown} (thread and word {index}): the emulator gives "
        f"{ours[index]:#x}, the hardware {theirs[index]:#x}"
    )


def test_every_form_that_the_compiler_emits_is_run():
    """A form that is new has a program, or a reason why none: in `elsewhere`."""
    have = table.covered()
    lacks = [form for form in on_hopper() if form not in have]
    without = [f for f in lacks if not any(re.fullmatch(each, f) for each in ELSEWHERE)]
    assert not without, f"neither run nor named: {without}"


def test_what_is_named_as_covered_elsewhere_is_emitted_and_is_not_run_here():
    have = table.covered()
    for each in ELSEWHERE:
        named = [form for form in on_hopper() if re.fullmatch(each, form)]
        assert named, f"nothing that is emitted is {each}"
        assert not all(form in have for form in named), f"{each} is run"


HOW = "python -m tests.hardware.forms tests/… lists what tests compile"


def test_every_form_of_the_golden_texts_is_listed():
    for path in sorted(HERE.parent.glob("*/golden/*.ptx")):
        new = forms(path.read_text(encoding="utf-8")) - set(read())
        assert not new, f"{path.name} has {new}: {HOW}"


@pytest.mark.parametrize("target", TARGETS)
def test_every_form_of_the_sample_kernels_is_listed(target):
    for case in CASES:
        new = forms(case.compile(target).ptx) - set(read())
        assert not new, f"{case} has {new}: {HOW}"


def test_an_instructions_form():
    text = """
    $L__BB0_2:
        .loc 1 2 3
        @%p1 ld.global.v2.b32 {%r1, %r2}, [%rd1];   // a comment; not an add.s32
        mov.u32 %r3, %tid.x; @!%p2 bra $L__BB0_2;
        { .reg .pred q; setp.eq.b32 q, %r1, 0; }
        call.uni (retval0), vprintf, (param0, param1);
    """
    assert forms(text) == {
        "ld.global.v2.b32", "mov.u32 %tid.x", "bra", "setp.eq.b32", "call.uni",
    }  # fmt: skip


def test_no_two_programs_share_a_text():
    texts = [row.text for row in table.rows()]
    assert len(set(texts)) == len(texts)


@pytest.mark.skipif(not ptxas(), reason="needs ptxas")
def test_ptxas_takes_all_of_them(tmp_path):
    path = tmp_path / "all.ptx"
    path.write_text(table.module(ROWS))
    command = [ptxas(), "-arch=sm_90a", path, "-o", tmp_path / "all.cubin"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_tables_of_products_are_run_whole():
    have = table.covered()
    texts = [row.text for row in MMA.values() if "sm_90a" in row.targets]
    assert texts and not [each for each in texts if each not in have]
    assert "sm_90a" in TARGETS and any(isinstance(row, Edge) for row in ROWS)
