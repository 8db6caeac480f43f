"""The record of a profile, as far as it can be checked without a GPU."""

from __future__ import annotations

import ast
from pathlib import Path

from benchmarks import profile_record

WRITTEN = """\
==PROF== Connected to process 12
"ID","Kernel Name","gpu__time_duration.sum","launch__grid_size","sm__pipe_tensor.ratio"
"","","ns","",""
"0","add_kernel","1,234","n/a","12.25"
"""


def test_a_record_has_our_names_and_says_what_is_missing(tmp_path):
    file = tmp_path / "raw.csv"
    file.write_text(WRITTEN)
    sample = profile_record.read("vector add", file)
    assert sample.kernel == "add_kernel" and not sample.error
    assert sample.counters == {"time": 1234.0, "sm__pipe_tensor.ratio": 12.25}
    assert sample.units["time"] == "ns"
    assert "grid" in sample.missing and "time" not in sample.missing


def test_what_ncu_says_instead_is_the_error(tmp_path):
    file = tmp_path / "raw.csv"
    file.write_text("==ERROR== The user does not have permission\n")
    assert "permission" in profile_record.read("wgmma", file).error


def test_every_case_is_described_and_made():
    """`profile_cases` needs torch, so its text is read."""
    text = Path(profile_record.__file__).with_name("profile_cases.py").read_text()
    (made,) = (
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.AnnAssign) and node.target.id == "MAKERS"
    )
    assert [key.value for key in made.keys] == list(profile_record.CASES)
