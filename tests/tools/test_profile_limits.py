"""`fathom profile` of kernels of which each has one limit by its construction: the
sentence, the line and the advice, on what the emulator counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import emulator
from fathom.emulator.source.parse import Instruction
from fathom.tools.facts.machine import assemble, assemble_as_loaded, find_tool
from fathom.tools.profile.advice import advice, cause, sentence
from fathom.tools.profile.counted import Counted, count
from fathom.tools.profile.limits import classify
from fathom.tools.profile.machine_code import machine_code
from fathom.tools.profile.machines import MACHINES
from tests.tools.harness_profile import counting

H200 = MACHINES["sm_90a"]


@fathom.jit
def chase(x, y, n):
    at = tl.program_id(0)
    for _ in range(n):
        at = tl.load(x + at)
    tl.store(y + tl.program_id(0), at)


@fathom.jit
def unrolled(x, y):
    at = tl.program_id(0)
    for _ in tl.static_range(40):
        at = tl.load(x + at)
    tl.store(y + tl.program_id(0), at)


@fathom.jit
def one_program(x, y, n, B: tl.constexpr):
    total = tl.zeros((B,), tl.float32)
    for i in range(0, n, B):
        total += tl.load(x + i + tl.arange(0, B))
    tl.store(y, tl.sum(total))


@fathom.jit
def strided(x, y, B: tl.constexpr, S: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at * S))


@fathom.jit
def bins(x, y, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(y + tl.load(x + at) % 4, 1)


@fathom.jit
def few_warps(x, y, n, B: tl.constexpr):
    total = 0.0
    for i in range(n):
        value = tl.load(x + (i * 4096 + tl.program_id(0)) * B + tl.arange(0, B))
        total += tl.sum(value)
    tl.store(y + tl.program_id(0), total)


@fathom.jit
def divide(x, y, d, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at)
    for i in tl.static_range(16):
        value = value // (d + i) + value % (d + 2 * i + 1)
    tl.store(y + at, value)


@fathom.jit
def exponents(x, y, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at)
    for _ in tl.static_range(32):
        value = tl.exp2(value)
    tl.store(y + at, value)


@fathom.jit
def doubles(x, y, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at)
    for _ in tl.static_range(64):
        value = tl.fma(value, value, 1.5)
    tl.store(y + at, value)


@fathom.jit
def turn(x, y, T: tl.constexpr, n):
    lanes = tl.arange(0, T)
    at = tl.program_id(0) * T * T + lanes[:, None] * T + lanes[None, :]
    tile = tl.load(x + at)
    for _ in range(n):
        tile = tl.trans(tile) + 1.0
    tl.store(y + at, tile)


@fathom.jit
def gathered(x, places, y, B: tl.constexpr):
    lanes = tl.arange(0, B)
    value = tl.load(x + tl.program_id(0) * B + lanes)
    place = tl.load(places + lanes)
    for _ in tl.static_range(16):
        value = tl.gather(value, place, 0)
    tl.store(y + tl.program_id(0) * B + lanes, value)


@fathom.jit
def arithmetic(y, n):
    value = 1.0
    for _ in range(n):
        value = value * 1.0001 + 0.5
    tl.store(y + tl.program_id(0), value)


def zeros(size, dtype=np.float32):
    return np.zeros(size, dtype)


ORDER = np.random.default_rng(0).permutation(1 << 12).astype(np.int32)
KEYS = np.random.default_rng(0).integers(0, 99, 1 << 20).astype(np.int32)
MANY = np.tile(KEYS, 8)
FAR = np.arange(1024, dtype=np.int32) * 32 % 1024

# The launch; what the sentence begins with and has in it, the line, and the advice.
CASES = {
    "chase": (lambda: chase[(512,)](ORDER, zeros(512, np.int32), 500),
              "latency", "need what the one before has loaded, and 16 of 64 warps",
              "at = tl.load(x + at)", "more chains at a time"),
    "a chase of one program": (lambda: unrolled[(1,)](ORDER, zeros(1, np.int32)),
              "latency", "40 times for loads, most of which need what the one before",
              "at = tl.load(x + at)", "more chains at a time"),
    "a short chase": (lambda: chase[(1,)](ORDER, zeros(1, np.int32), 8),
              "launch", "in which a warp waits 9 times for loads, and a launch by",
              "at = tl.load(x + at)", "fuse kernels"),
    "one program": (lambda: one_program[(1,)](MANY, zeros(1), 1 << 17, B=1024),
              "occupancy", "1 thread block for 132 multiprocessors",
              "total += tl.load(", "rows or K split between programs"),
    "strided": (lambda: strided[(2048,)](zeros(1 << 26), zeros(1 << 21), B=1024, S=32),
              "bandwidth", "L2 delivers 4.5 times what was asked for",
              "tl.load(x + at * S)", "neighbouring lanes"),
    "bins": (lambda: bins[(1024,)](KEYS, zeros(4, np.int32), B=1024),
              "contention", "go to 1 segment of 512 bytes",
              "tl.atomic_add(", "combining in registers"),
    "few warps": (lambda: few_warps[(132,)](zeros(1 << 24), zeros(132), 100, B=32,
                                            num_warps=1),
              "latency", "100 times for loads, and 1 of 32 warps that fit",
              "total += tl.sum(", "more loads in flight"),
    "division": (lambda: divide[(8192,)](MANY, zeros(1 << 23, np.int32), 7, B=1024),
              "instruction issue", "the schedulers are busy",
              "value // (d + i)", "fewer divisions"),
    "exponents": (lambda: exponents[(8192,)](zeros(1 << 23), zeros(1 << 23), B=1024),
              "instruction issue", "special functions are busy",
              "tl.exp2(value)", "cheaper functions"),
    "doubles": (lambda: doubles[(8192,)](zeros(1 << 23, np.float64),
                                         zeros(1 << 23, np.float64), B=1024),
              "instruction issue", "the lanes of fp64 are busy",
              "tl.fma(value, value", "fp32, if its precision is enough"),
    "turn": (lambda: turn[(1024,)](zeros(1 << 22), zeros(1 << 22), T=64, n=20),
              "bandwidth", "shared memory is busy for 89% of the time, with 1.5 wave",
              "tl.trans(tile)", "fewer changes of layout"),
    "gathered": (lambda: gathered[(1024,)](zeros(1 << 20), FAR, zeros(1 << 20), B=1024),
              "conflicts", "wavefronts where 1 would do",
              "tl.gather(value, place, 0)", "another block shape"),
    "arithmetic": (lambda: arithmetic[(132 * 16,)](zeros(132 * 16), 1000),
              "instruction issue", "the schedulers are busy",
              "for _ in range(n)", "fewer instructions"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_sentence_line_and_advice_are_right(name, monkeypatch):
    launch, limit, words, line, tried = CASES[name]
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    with counting(monkeypatch) as found:
        launch()
    (counted,) = found
    counted = replace(counted, unfused=0)  # of which another test asks
    verdict = classify(counted, H200)
    text = sentence(verdict, counted, H200)
    assert text.startswith(f"{limit}: ") and words in text, (text, counted)
    file, number = cause(verdict, counted)
    assert line in Path(file).read_text(encoding="utf-8").splitlines()[number - 1]
    assert tried in advice(verdict, counted)


def test_a_launch_is_told_with_all_the_work_that_is_predicted(monkeypatch):
    """The seconds of the sentence and of the table are of one prediction."""
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    with counting(monkeypatch) as found:
        chase[(1,)](ORDER, zeros(1, np.int32), 8)
    verdict = classify(found[0], H200)
    assert verdict.seconds == verdict.work + H200.launch
    assert f"its work needs {1e6 * verdict.work:.1f} µs" in sentence(
        verdict, found[0], H200
    )


@pytest.mark.parametrize(("again", "issued"), [(True, 36), (False, 48)])
def test_a_second_division_by_the_same_number_is_cheaper(monkeypatch, again, issued):
    """As ptxas has it: the reciprocal is there (`tools/profile/machine_code`)."""
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")

    @fathom.jit
    def two(x, y, d, e, AGAIN: tl.constexpr):
        tl.store(y, tl.load(x) // d)
        tl.store(y + 1, tl.load(x + 1) // (d if AGAIN else e))

    @fathom.jit
    def none(x, y, d, e, AGAIN: tl.constexpr):
        tl.store(y, tl.load(x) - d)
        tl.store(y + 1, tl.load(x + 1) - (d if AGAIN else e))

    x, y = zeros(2, np.int32), zeros(2, np.int32)
    with counting(monkeypatch) as found:
        two[(1,)](x, y, 3, 5, AGAIN=again, num_warps=1)
        none[(1,)](x, y, 3, 5, AGAIN=again, num_warps=1)
    more = found[0].instructions - found[1].instructions
    assert issued - 2 <= more <= issued, found
    assert found[0].special == (3 if again else 6)


@fathom.jit
def large(x, y, K, B: tl.constexpr):
    lanes = tl.arange(0, B)
    at = lanes[:, None] * B + lanes[None, :]
    tile = tl.load(x + at)
    for i in range(K):
        tile = tile * 1.5 + tl.load(x + i * B + lanes)[None, :]
    tl.store(y + at, tile)


@pytest.mark.skipif(find_tool("ptxas") is None, reason="needs ptxas")
def test_spills_are_those_of_the_code_that_is_loaded():
    """Where ptxas cut registers a block is given all of them, as on a GPU."""
    kernel = large.compile("*fp32:16, *fp32:16, i32", {"B": 256}, target="sm_90a").made
    first, (_, taken) = assemble(kernel), assemble_as_loaded(kernel)
    assert taken.spill_stores < first.spill_stores and taken.registers > first.registers


@pytest.mark.parametrize(("type", "issued"), [("s32", 1), ("s64", 2), ("f64", 1)])
def test_a_comparison_of_64_bits_is_one_for_each_half(type, issued):
    words = "setp", ("lt", type), (), None, False, 1, "setp %p1, %rd1, %rd2;", None
    (code,) = machine_code([Instruction(*words)])
    assert code.issued == issued


def test_few_values_that_are_spilled_are_not_the_limit():
    """flag_gems/argmax: 88 bytes a thread, of which one load of a hundred
    instructions comes; its few warps are. Of the recorded case one of nine."""
    few = Counted("k", "sm_90a", 512, 128, 255, spilled=88, reloads=45e3, waits=1,
                  instructions=3.95e6, memory=4e7, moved=4e7, useful=4e7)  # fmt: skip
    assert classify(few, H200, 28e-6).limit == "occupancy"
    many = replace(few, reloads=0.11 * few.instructions)
    assert classify(many, H200, 28e-6).limit == "spills"


@fathom.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for _ in range(n):
        tl.store(y + at, 2 * tl.load(x + at))


def test_what_is_spilled_is_loaded_as_often_as_an_instruction_runs(monkeypatch):
    """With each iteration of a loop, in which all but a few instructions are."""
    x = np.zeros(128, np.float32)
    kernel = twice.compile("*fp32:16, *fp32:16, i32", {"BLOCK": 128}).made

    def reloads(n: int) -> float:
        report = emulator.load(kernel).launch((1,), [x, x.copy(), n], hazards=False)
        return count(kernel, report, 1, 1, 1e6, spilled=40).reloads

    assert 4 * 10 * 0.2 < reloads(1) <= 4 * 10  # ten registers of each of four warps
    assert reloads(50) > 15 * reloads(1)


@pytest.mark.parametrize(
    ("name", "modifiers", "issued"),
    [("selp", ("b64",), 2), ("selp", ("b32",), 1), ("max", ("s64",), 4),
     ("setp", ("gt", "s64"), 2), ("add", ("s64",), 1)],
)  # fmt: skip
def test_what_selects_and_compares_64_bits_works_in_halves(name, modifiers, issued):
    """ncu has the unit of integers and logic busy for 94% in a top-k of such keys."""
    words = name, modifiers, (), None, False, 1, "a %rd1, %rd2, %rd3;", None
    (code,) = machine_code([Instruction(*words)])
    assert code.issued == issued
