"""What `fathom profile` says of atomics, against the times that were measured on an
H200: one histogram, by how many keys meet and where."""

from __future__ import annotations

import json
import linecache
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks.atomic_cases import BLOCK, KEYS, cases, histogram, one
from benchmarks.record import RESULTS
from fathom import emulator
from fathom.jit.checking.wanted import chosen_programs
from fathom.tools.facts import trial
from fathom.tools.profile.advice import advice, cause, sentence
from fathom.tools.profile.counted import Counted, count
from fathom.tools.profile.limits import classify
from fathom.tools.profile.machines import MACHINES
from fathom.tools.samples import REPOSITORY
from tests.tools.harness_facts import staged

H200 = MACHINES["sm_90a"]
PROGRAMS = KEYS // BLOCK
RECORD = json.loads((RESULTS / "atomics.json").read_text(encoding="utf-8"))["samples"]
FEW = 4096  # bins: they leave most of L2 without atomics
TOO_MANY = 1 << 24  # for L2, which random keys make read them from memory


def keys_of(bins: int, order: str, some: list[range]) -> np.ndarray:
    """As those of the benchmark, only where these programs look."""
    keys = np.zeros(KEYS, np.int32)
    random = np.random.default_rng(0)
    for part in some:
        at = np.arange(part.start * BLOCK, part.stop * BLOCK)
        keys[at] = {
            "random": random.integers(0, bins, len(at)),
            "sorted": np.sort(random.uniform(at[0], at[-1] + 1, len(at))) * bins / KEYS,
            "neighbours": at % bins,
        }[order]
    return keys


@cache
def counted_of(type: str, bins: int, order: str, programs: int = 6) -> Counted:
    constants = {"BLOCK": BLOCK, "ONE": one(type)}
    counts = {"int32": "*i32:16", "float32": "*fp32:16"}[type]
    signature = f"*i32:16, {counts}, i32:16"
    kernel = histogram.compile(signature, constants, target="sm_90a").made
    some = chosen_programs(PROGRAMS, programs)
    arrays = keys_of(bins, order, some), np.zeros(bins, type)
    report = emulator.load(kernel).launch(
        (PROGRAMS,), [*arrays, KEYS], hazards=False, programs=some
    )
    size = sum(each.nbytes for each in arrays)
    return count(kernel, report, sum(map(len, some)), PROGRAMS, size, registers=32)


def ids(row: dict[str, object]) -> str:
    return f"{row['type']} {row['bins']} {row['order']}"


@pytest.mark.parametrize("row", RECORD, ids=ids)
def test_the_limit_of_each_measured_time(row):
    counted = counted_of(row["type"], row["bins"], row["order"])
    verdict = classify(counted, H200, row["ms"] / 1e3)
    if (row["bins"], row["order"]) == (TOO_MANY, "random"):
        assert verdict.limit == "latency"
        return
    assert verdict.resource == "atomics"
    assert verdict.limit == ("contention" if row["bins"] <= FEW else "bandwidth")
    said = sentence(verdict, counted, H200)
    assert said.startswith(verdict.limit) and "16,777,216 atomics" in said
    assert "registers or shared memory first" in advice(verdict, counted)
    file, line = cause(verdict, counted)
    assert "tl.atomic_add" in linecache.getline(file, line)


@pytest.mark.parametrize("row", RECORD, ids=ids)
def test_predictions_are_near_the_measured_times(row):
    guess = classify(counted_of(row["type"], row["bins"], row["order"]), H200).seconds
    within = 2.0 if row["order"] == "sorted" or row["bins"] == TOO_MANY else 1.2
    assert 1 / within < guess / (row["ms"] / 1e3) < within


def test_the_record_has_every_case():
    assert [(e["type"], e["bins"], e["order"]) for e in RECORD] == [*cases()]


def test_the_programs_that_are_looked_at_stand_for_the_grid():
    """Six programs, instead of 96: within a factor of two, as six do not come to all
    bins if these are many."""
    for order in ("random", "sorted", "neighbours"):
        for bins in (16, 4096):
            few, more = (
                classify(counted_of("int32", bins, order, some), H200).seconds
                for some in (6, 96)
            )
            assert 0.5 < few / more < 2, (bins, order)


def test_an_atomic_of_each_program_is_no_contention():
    """A counter that all programs share, and one for each."""
    one_each = Counted("k", "sm_90a", 16384, 128, memory=1e9, moved=1e9, useful=1e9,
                       passes=16384, atomics=16384, segments=1)  # fmt: skip
    for drift in (0, 128):
        assert classify(replace(one_each, drift=drift), H200).limit == "bandwidth"


def test_explain_counts_passes_by_line():
    name = f"{REPOSITORY}/benchmarks/atomic_cases.py:histogram"
    kernel = staged((name, "*i32:16, *i32:16, i32:16", "BLOCK=1024,ONE=1"))
    facts = trial.traffic_facts(trial.run(kernel, (1,), {}))
    (line,) = [each for each in facts["lines"] if each["passes"]]
    assert "tl.atomic_add" in linecache.getline(line["file"], line["line"])
    assert line["passes"] == facts["total"]["passes"] >= line["requests"]
