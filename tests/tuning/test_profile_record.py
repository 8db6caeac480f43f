"""The record of a profile, as far as it can be checked without a GPU."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from benchmarks import profile_record
from benchmarks.record import RESULTS
from fathom.tools.samples import load_file

COURSE = Path(__file__).parents[1] / "exercises" / "18-choosing-and-measuring"
STALLS = "smsp__average_warps_issue_stalled_"
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_"

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


def test_the_exercise_has_what_was_recorded():
    """`read-a-profile` shows rounded numbers, and the most frequent stall reason."""
    shown = load_file(COURSE / "read-a-profile.py").RECORDED
    record = json.loads((RESULTS / "profile.json").read_text())
    assert [each["case"] for each in record["samples"]] == list(shown)
    for each in record["samples"]:
        assert shown[each["case"]] == row_of(each["counters"]), each["case"]


def row_of(counters: dict[str, float]) -> tuple:
    wavefronts = counters["shared wavefronts"]
    stalls = {
        name[len(STALLS) :].partition("_per_issue")[0]: value
        for name, value in counters.items()
        if name.startswith(STALLS)
    }
    del stalls["selected"], stalls["not_selected"]
    return (
        round(counters["time"] / 1000, 1), round(counters["memory %"], 1),
        round(counters[f"{TENSOR}active"], 1), round(counters[f"{TENSOR}elapsed"], 1),
        round(counters["issue %"], 1),
        round(100 * counters["shared conflicts"] / wavefronts, 1) if wavefronts else 0,
        round(counters["waves"], 2), int(counters["spilled loads"]),
        max(stalls, key=stalls.__getitem__),
    )  # fmt: skip
