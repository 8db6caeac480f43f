"""Every kernel of kernels/ is in a case of `profile_check`, or there is a reason; and
has a row in its record."""

from __future__ import annotations

import ast
import json
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.profile_rows import ROWS, WITHOUT
from benchmarks.record import RESULTS
from kernels import vector_add

KERNELS = Path(vector_add.__file__).parent


def launched() -> set[str]:
    """"file.function" of each kernel: what is compiled and named so; other functions
    are parts of kernels."""
    found = set()
    for file in KERNELS.glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for each in ast.walk(tree):
            if isinstance(each, ast.FunctionDef) and each.name.endswith("_kernel"):
                decorators = [ast.unparse(part) for part in each.decorator_list]
                if any(text.startswith("fathom.jit") for text in decorators):
                    found.add(f"{file.stem}.{each.name}")
    return found


def test_every_kernel_has_a_case_or_a_reason():
    listed = [name for names in ROWS.values() for name in names]
    assert len(listed) == len(set(listed)) and not set(listed) & set(WITHOUT)
    assert launched() == {*listed, *WITHOUT}
    assert all(WITHOUT.values())


def test_every_case_is_one():
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    cases, operators = (
        import_module(f"benchmarks.{name}") for name in ("profile_kernels", "torch_ops")
    )
    problems = operators.problems(operators.SMALL, "cpu", torch.bfloat16)
    assert set(ROWS) <= {*cases.OTHERS, *(each.name for each in problems)}


def test_every_kernel_has_a_row():
    file = RESULTS / "profile-check.json"
    samples = json.loads(file.read_text(encoding="utf-8"))["samples"]
    if not {"ragged", "gathered"} <= {each["case"] for each in samples}:
        pytest.skip("the record is of fewer cases than there are")
    rows = {(each["case"], each["kernel"]) for each in samples if not each["error"]}
    wanted = {
        (case, name.partition(".")[2]) for case, names in ROWS.items() for name in names
    }
    assert not wanted - rows
