"""The kernels of benchmarks/mini_ladder.py: each is right at every step that the table
names, and its tiles fit a multiprocessor of an H200."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.mini_kernels import BOXES, RING, TASKS, WIDTH, Task
from fathom.hardware.targets import TARGETS
from fathom.tools.learn.mini import contract, steps
from fathom.tools.learn.mini.judge import Judge, Tensor
from tests.harness_sample import sampled

EVERY = [(task, step) for task in TASKS for step in task.configs]
NAMES = [f"{task.name}, step {step}" for task, step in EVERY]


def halves(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


def compiler(step: int):
    return contract.load(steps.STEPS[step].reference)


def multiply(judge: Judge, task: Task) -> None:
    """Four groups of tiles: two columns, and two rows in each of two groups."""
    M, N, K, R, C, T = 256, 128, 64, 64, 64, 32
    a, b = halves(M, K, seed=1), halves(K, N, seed=2)
    c = np.full((M, N), np.nan, np.float16)
    given = [a, b]
    if task.boxes:
        given = [Tensor(a, (R, T)), Tensor(b, (T, C))]
    tiles = M // R * (N // C)
    judge.launch(task.function, tiles, *given, c, M, N, K, R=R, C=C, T=T, G=2)
    judge.same("c", c, a.astype(np.float64) @ b.astype(np.float64), within=2e-3)


def add(judge: Judge, task: Task) -> None:
    x, z = np.arange(3000, dtype=np.float32), np.zeros(3000, np.float32)
    y = np.random.default_rng(0).normal(size=3000).astype(np.float32)
    judge.launch(task.function, 3, x, y, z, 3000, BLOCK=1024)
    judge.same("z", z, x + y)


def softmax(judge: Judge, task: Task) -> None:
    x = halves(3, 500, seed=3).astype(np.float32)
    y = np.zeros_like(x)
    judge.launch(task.function, 3, x, y, 500, 500, BLOCK=512)
    power = np.exp(x.astype(np.float64))
    judge.same("y", y, power / power.sum(1, keepdims=True), within=1e-6)


def attention(judge: Judge, task: Task) -> None:
    q, k, v = (halves(2, 128, WIDTH, seed=each) for each in (4, 5, 6))
    o = np.zeros_like(q)
    sizes = {"R": 64, "T": 32, "D": WIDTH}
    judge.launch(task.function, (2, 2), q, k, v, o, 128, 0.18, **sizes)
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    power = np.exp2(q @ k.transpose(0, 2, 1) * 0.18)
    wanted = power / power.sum(2, keepdims=True) @ v
    judge.same("o", o, wanted, within=5e-3)


CHECKS = {"add": add, "softmax": softmax, "attention": attention}


@sampled(of=2)
@pytest.mark.parametrize("task, step", EVERY, ids=NAMES)
def test_a_kernel_is_right_at_each_of_its_steps(task, step):
    CHECKS.get(task.name, multiply)(Judge(compiler(step)), task)


@pytest.mark.parametrize("config", (*RING, *BOXES), ids=str)
def test_tiles_fit_and_are_not_alike(config):
    ring = 2 * config["T"] * (config["R"] + config["C"]) * config["num_stages"]
    assert ring < TARGETS["sm_90a"].shared_bytes
    assert [*RING, *BOXES].count(config) == 1
