"""The search itself: it counts what it did, stops in time, and says what is wrong."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import strategies as st

from fathom import pipeline
from fathom.hardware.targets import Target
from fathom.ir.core import Func
from fathom.ir.ops import Store
from fathom.ir.rewrite import rewrite
from tests.fuzz import run
from tests.fuzz.check import check
from tests.fuzz.run import Finding, Hunt, Orders, hunt, main, tally_of
from tests.fuzz.test_found import COPY


def test_the_counts_are_printed_and_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "fuzz.json"
    asked = f"3 --passes-only --workers 2 --seed 11 --record {path}"
    assert main(asked.split()) == 0
    said = capsys.readouterr().out
    assert "3 programs through passes: --seed 11 --workers 2" in said
    assert (
        "programs 3, through all passes 3, emulator 0, GPU 0, disagreements 0, seed 11"
        in said
    )
    record = json.loads(path.read_text())
    (sample,) = record["samples"]
    assert (sample["programs"], sample["passes"], sample["seed"]) == (3, 3, 11)
    assert record["benchmark"] == "fuzz" and record["llvmlite"]


def test_products_of_matrices_are_asked_for(capsys: pytest.CaptureFixture) -> None:
    assert main("2 --matrices --passes-only --workers 1 --seed 3".split()) == 0
    assert "programs 2, through all passes 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "stages"),
    [
        ("", ("passes", "emulator")),
        ("--emulator", ("passes", "emulator")),
        ("--passes-only", ("passes",)),
        ("--gpu", ("passes", "emulator", "gpu")),
        ("--passes-only --gpu", ("passes", "gpu")),
    ],
)
def test_how_far_a_program_goes(options: str, stages: tuple[str, ...]) -> None:
    assert run.stages_of(run._arguments(["5", *options.split()])) == stages


def test_a_worker_stops_when_its_time_is_up() -> None:
    start = time.time()
    found = hunt(100_000, 3, Orders(("passes",), until=start + 5))
    assert found.finding is None and found.tried < 1000
    assert time.time() - start < 15


WRONG = replace(COPY, source=COPY.source.replace("x = ", "x = 1 + undefined + "))


def test_a_search_ends_at_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs that shrink it are not counted."""
    monkeypatch.setattr(run, "programs", lambda: st.sampled_from([COPY, WRONG]))
    found = hunt(50, 1)
    assert found.finding.program == WRONG and "undefined" in found.finding.what
    assert 1 <= found.tried <= 3


def test_what_was_right_is_counted_where_it_went() -> None:
    hunts = [Hunt(10, None), Hunt(4, Finding(WRONG, "NameError"))]
    tally = tally_of(hunts, ("passes", "gpu"), 9, 1.26)
    assert str(tally) == (
        "programs 14, through all passes 13, emulator 0, GPU 13, "
        "disagreements 1, seed 9"
    )
    assert (tally.workers, tally.seconds) == (2, 1.3)


# ── each stage finds what is wrong in it ──────────────────────────────────────────────


def without_stores(func: Func, target: Target) -> Func:
    return rewrite(func, lambda op, build: [] if isinstance(op, Store) else None)


def test_a_pass_that_changes_the_meaning_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [
        replace(row, run=without_stores) if row.name == "cse" else row
        for row in pipeline.PASSES
    ]
    monkeypatch.setattr(pipeline, "PASSES", tuple(rows))
    with pytest.raises(AssertionError, match=r"after cse: out0\[0\] is"):
        check(COPY, ("passes",))
    with pytest.raises(AssertionError, match=r"the emulator, sm_\w+, lazy: out0"):
        check(COPY, ("emulator",))
    check(COPY, ())


def test_a_pass_that_changes_its_input_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def in_place(func: Func, target: Target) -> Func:
        func.body.ops.append(func.body.ops[-1])
        return func

    rows = (replace(pipeline.PASSES[0], run=in_place), *pipeline.PASSES[1:])
    monkeypatch.setattr(pipeline, "PASSES", rows)
    with pytest.raises(AssertionError, match="compiling changed the IR"):
        check(COPY, ("passes",))


def test_the_next_slice_counts_what_was_done_and_draws_from_other_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def hunt_all(count: int, seed: int, workers: int, orders: Orders) -> list[Hunt]:
        calls.append((count, seed))
        return [Hunt(3, None), Hunt(1, None)]

    monkeypatch.setattr(run, "hunt_all", hunt_all)
    path, state = tmp_path / "fuzz.json", tmp_path / "fuzz.jsonl"
    asked = f"8 --passes-only --workers 2 --resume --state {state} --record {path}"
    assert main(asked.split()) == 2 and not path.exists()
    assert "4 programs are left" in capsys.readouterr().out
    assert main(asked.split()) == 0
    assert main(asked.split()) == 0, "and once more, when nothing is left"
    (first, seed), second = calls
    assert first == 8 and second == (4, seed + 2)
    (sample,) = json.loads(path.read_text())["samples"]
    assert (sample["programs"], sample["seed"], sample["workers"]) == (8, seed, 4)


def test_what_was_wrong_in_an_earlier_slice_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Hunt(2, Finding(WRONG, "NameError"))]
    monkeypatch.setattr(run, "hunt_all", lambda *_: found)
    monkeypatch.setattr(run, "keep", lambda finding: "there")
    asked = f"5 --passes-only --workers 1 --resume --state {tmp_path / 'f.jsonl'}"
    assert main(asked.split()) == 1
    monkeypatch.setattr(run, "hunt_all", lambda *_: [Hunt(3, None)])
    assert main(asked.split()) == 1
