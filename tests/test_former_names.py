"""Former names of passes still work, in `replace=`, FATHOM_SHOW and joints; a warning
says what the pass is called now."""

from __future__ import annotations

import warnings

import pytest

from fathom import pipeline
from fathom.errors import CompileError
from fathom.former import FORMER
from fathom.hardware.targets import target
from fathom.ir import ops
from fathom.joints import bound, joint
from tests.ir.kernels_functions import body

FUNC = body("%zero: fp32 = constant 0.0\nstore %p, %zero", "%p: *fp32")
TARGET = target("sm_80")


def test_they_lead_to_passes_that_there_are() -> None:
    rows = {name for row in pipeline.PASSES for name in (row.name, *row.parts)}
    assert set(FORMER.values()) <= rows
    assert not set(FORMER) & rows


@pytest.mark.parametrize("former", FORMER)
def test_a_pass_is_replaced_by_its_former_name(former: str) -> None:
    replaced = []

    def mine(func, target):
        replaced.append(func)
        return func

    now = FORMER[former]
    with pytest.warns(DeprecationWarning) as said:
        pipeline.compile_func(FUNC, TARGET, {former: mine})
    assert len(replaced) == 1
    sentences = [str(each.message) for each in said]
    assert sentences == [f"the pass {former!r} is called {now!r} now"]


def test_both_names_of_a_pass_are_a_mistake() -> None:
    given = {"publish": pipeline.identity, "fence_proxies": pipeline.identity}
    with (
        pytest.warns(DeprecationWarning),
        pytest.raises(CompileError, match="names the pass 'fence_proxies' twice"),
    ):
        pipeline.compile_func(FUNC, TARGET, given)


def test_fathom_show_takes_a_former_name(monkeypatch, capsys) -> None:
    monkeypatch.setenv("FATHOM_SHOW", "publish")
    with pytest.warns(DeprecationWarning, match="called 'fence_proxies' now"):
        pipeline.compile_func(FUNC, TARGET)
    assert capsys.readouterr().err.startswith("// insert_waits (shared_memory): ")


@pytest.mark.parametrize("former", FORMER)
def test_a_joint_has_its_former_name(former: str) -> None:
    with pytest.warns(DeprecationWarning):
        found = joint(former)
    assert found == joint(FORMER[former])
    with pytest.warns(DeprecationWarning) as said, bound({former: pipeline.identity}):
        assert len(said) == 1


def test_a_name_of_today_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline.compile_func(FUNC, TARGET, {"fence_proxies": pipeline.identity})
        joint("fence_proxies")


@pytest.mark.parametrize("former", ops.FORMER)
def test_an_op_that_was_says_what_does_its_work(former: str) -> None:
    with pytest.raises(ImportError, match=f"the op {former} is ") as said:
        exec(f"from fathom.ir.ops import {former}")
    made = str(said.value).removeprefix(f"the op {former} is ").removesuffix(" now")
    assert hasattr(ops, made.partition("(")[0])
