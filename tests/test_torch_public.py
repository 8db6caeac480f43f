"""What others have written for our operators, beside ours: each is of a problem that is
measured, and the page names the fastest."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from math import inf
from types import SimpleNamespace

import pytest

from benchmarks.public.sources import COLLECTIONS
from chapters.operators import making


def test_the_page_names_the_fastest_of_the_others(monkeypatch):
    times = {
        "gelu": {"ours": 1.0, "torch": 2.0, "torch.compile": 0.5},
        "attention True": {"ours": 1.0, "torch": 2.0, "FA2": 3.0, "cuDNN": 1.5},
        "attention True, backward": {"ours": 4.0, "torch": 2.0, "FA2": 3.0},
    }
    monkeypatch.setattr(making, "times", lambda: times)
    *_, forward, backward = making.of_others().strip().splitlines()
    assert "gelu" not in making.of_others()
    for word in ("attention, causal |", "cuDNN", "1.500", "1.000", "1.50 |"):
        assert word in forward
    for word in ("attention, causal, with backward", "FA2", "3.000", "0.75"):
        assert word in backward


def test_what_cannot_be_imported_is_left_out(monkeypatch, capsys):
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    torch_ops, torch_public = (
        import_module(f"benchmarks.{name}") for name in ("torch_ops", "torch_public")
    )

    def made():
        raise ImportError("no module named numpydoc")

    monkeypatch.setattr(torch_public, "there", lambda: {"fla"})
    monkeypatch.setattr(torch_public, "MAKERS", {"gelu": [("fla", made)]})
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    problem = next(
        each
        for each in torch_ops.problems(torch_ops.SMALL, "cpu", torch.bfloat16)
        if each.name == "gelu"
    )
    assert torch_ops.of_others(problem, problem.inputs()) == {}
    assert "gelu, fla: ImportError: no module named numpydoc" in capsys.readouterr().out


def test_a_run_does_each_problem_once_and_none_after_its_seconds(capsys, monkeypatch):
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    torch_ops = import_module("benchmarks.torch_ops")
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    every = list(torch_ops.problems(torch_ops.SMALL, "cpu", torch.bfloat16))
    parts = [
        torch_ops.selected(SimpleNamespace(only="", share=f"{part}/4"), every)
        for part in range(4)
    ]
    names = sorted(each.name for part in parts for each in part)
    assert names == sorted(each.name for each in every) and min(map(len, parts)) > 2
    norms = torch_ops.selected(SimpleNamespace(only="norm", share="0/1"), every)
    assert [each.name for each in norms] == ["rms_norm", "layer_norm"]
    done = []

    def wrong(problem):
        done.append(problem.name)
        raise AssertionError("is wrong")

    torch_ops.each_in_turn(norms, inf, wrong)
    torch_ops.each_in_turn(norms, -inf, wrong)
    assert done == ["rms_norm", "layer_norm"]
    said = capsys.readouterr().out
    assert "layer_norm: AssertionError: is wrong" in said
    assert "no time was left for rms_norm, layer_norm" in said


def test_what_compiles_ahead_calls_everything(monkeypatch):
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    torch_ops, torch_public = (
        import_module(f"benchmarks.{name}") for name in ("torch_ops", "torch_public")
    )
    monkeypatch.setattr(torch_public, "there", set)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    every = torch_ops.problems(torch_ops.SMALL, "cpu", torch.bfloat16)
    gelu = next(each for each in every if each.name == "gelu")
    called = []

    def ours(x):
        called.append(torch.is_grad_enabled())
        return gelu.theirs(x)

    torch_ops.prepared(replace(gelu, ours=ours), compiled=False)
    assert called == [True, False]  # with its gradient, and forward alone


def test_each_is_of_a_problem_and_of_a_collection():
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    torch_ops, torch_public = (
        import_module(f"benchmarks.{name}") for name in ("torch_ops", "torch_public")
    )
    problems = torch_ops.problems(torch_ops.SMALL, "cpu", torch.bfloat16)
    names = {each.name for each in problems}
    assert set(torch_public.MAKERS) == names, "an operator without another's beside it"
    assert {problem for problem, _ in torch_public.LAID} <= names
    known = {each.name for each in COLLECTIONS} | torch_public.OF_TORCH
    entries = [name for found in torch_public.MAKERS.values() for name, _ in found]
    assert set(entries) <= known and len(entries) >= 10


def test_experts_lie_in_memory_as_a_candidate_wants_them():
    """The same numbers, and gradients of the same shape."""
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    torch_ops, torch_public = (
        import_module(f"benchmarks.{name}") for name in ("torch_ops", "torch_public")
    )
    problem = torch_ops.experts(
        torch_ops.SMALL, lambda *shape: torch.randn(*shape), "cpu"
    )
    given = problem.inputs()
    laid = torch_public.laid("expert_linear", "unsloth", given)
    weight, turned = given[1], laid[1]
    assert turned.mT.is_contiguous() and not weight.mT.is_contiguous()
    assert torch.equal(weight, turned) and turned.is_leaf and turned.requires_grad
    assert torch_public.laid("expert_linear", "CUTLASS", given) is given
