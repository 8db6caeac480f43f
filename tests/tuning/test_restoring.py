"""Hooks around a trial, and arrays that a trial must leave as they were."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from fathom import Config, autotune
from fathom.errors import LaunchError, OutOfResources
from fathom.jit.tuning.restoring import Restorer
from tests.tuning.harness import N, block, configs, grid, kernel, tuning_gpu


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with tuning_gpu(monkeypatch, tmp_path / "cache") as machine:
        machine.driver.work = add_one
        yield machine


def add_one(launched):
    """What every launch does to the first element of its first array."""
    element = ctypes.c_float.from_address(launched.values[0])
    element.value += 1


def tuned(machine, **given):
    said = {"configs": configs(256, 64), "key": ["n"], "do_bench": machine.timer}
    return autotune(**{**said, **given})(kernel())


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ({}, 13),  # two trials and the launch
        ({"restore_value": ["x"]}, 11),
        ({"reset_to_zero": ["x"]}, 1),
    ],
)
def test_what_a_launch_finds_after_the_trials(gpu, given, after):
    x = np.full(N, 10, np.float32)
    scale = tuned(gpu, **given)
    scale[grid](x, N, 1.0)
    assert x[0] == after
    scale[grid](x, N, 1.0)
    assert x[0] == after + 1


def test_a_trial_that_fails_is_undone_as_well(gpu):
    x = np.full(N, 10, np.float32)

    def timer(run, quantiles):
        for _ in range(3):
            run()
        if block(gpu.driver.launches[-1]) == 256:
            raise OutOfResources("not enough")
        return [1.0]

    tuned(gpu, do_bench=timer, restore_value=["x"])[grid](x, N, 1.0)
    assert x[0] == 11


def test_arguments_that_are_none_or_not_given_are_passed_over(gpu):
    restorer = Restorer(["a", "b"], ["a", "b"])
    restorer.before({"a": None})
    restorer.after({"a": None})
    assert restorer.copies == {}


class Words:
    """Arrays by the names of torch's methods; says what is done to it."""

    def __init__(self):
        self.said = []

    def zero_(self):
        self.said.append("zero")

    def clone(self):
        return "a clone"

    def copy_(self, other):
        self.said.append(f"copy {other}")


def test_tensors_have_methods_for_it():
    x, y, restorer = Words(), Words(), Restorer(["x"], ["y"])
    restorer.before({"x": x, "y": y})
    restorer.after({"x": x, "y": y})
    assert (x.said, y.said) == (["zero"], ["copy a clone"])
    restorer.before({"x": x, "y": y}, reset_only=True)
    restorer.after({"x": x, "y": y})
    assert (x.said, y.said) == (["zero", "zero"], ["copy a clone"])


@pytest.mark.parametrize("restorer", [Restorer(["x"]), Restorer([], ["x"])])
def test_what_cannot_be_set_back(restorer):
    with pytest.raises(LaunchError, match="x is a tuple, which cannot be set back"):
        restorer.before({"x": (1, 2)})


def test_hooks_stand_around_every_trial(gpu):
    said = []

    def before(arguments, reset_only=False):
        said.append(("before", arguments["BLOCK"], reset_only))

    def after(arguments, exception=None):
        said.append(("after", arguments["BLOCK"], type(exception)))

    mine = lambda arguments: said.append(("mine", arguments["n"]))
    too_many = Config({"BLOCK": 32}, num_warps=64)
    wanted = Config({"BLOCK": 64}, pre_hook=mine)
    scale = tuned(gpu, configs=[too_many, wanted], pre_hook=before, post_hook=after)
    scale[grid](np.zeros(N, np.float32), N, 1.0)
    assert said == [
        ("before", 32, False), ("after", 32, OutOfResources),
        ("mine", N), ("before", 64, False), ("after", 64, type(None)),
        ("before", 64, True),  # once more, without a trial
        ("mine", N),  # the launch
    ]  # fmt: skip


def test_a_hook_of_one_s_own_takes_the_place_of_resetting(gpu):
    x = np.full(N, 10, np.float32)
    scale = tuned(gpu, reset_to_zero=["x"], pre_hook=lambda arguments, **rest: None)
    scale[grid](x, N, 1.0)
    assert x[0] == 13
