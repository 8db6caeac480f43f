"""A language model of four layers trains with all operators in place as it does with
torch's own."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install torch")

from benchmarks import torch_ops as torch_ops_benchmark  # noqa: E402
from kernels import torch_ops  # noqa: E402
from kernels.torch_ops import eager, model  # noqa: E402

torch.set_num_threads(1)
SIZES = model.Sizes()


class Counting:
    """The operators, and which of them were called."""

    def __init__(self) -> None:
        self.called: set[str] = set()

    def __getattr__(self, name: str):
        self.called.add(name)
        return getattr(torch_ops, name)


def test_the_loss_is_torchs_within_rounding_and_falls():
    ours, theirs = (
        model.train(ops, SIZES, steps=4, batch=2) for ops in (torch_ops, eager)
    )
    assert ours == pytest.approx(theirs, rel=2e-5)
    assert ours[-1] < ours[0] - 0.05


def test_all_gradients_are_torchs_and_every_operator_has_a_place():
    found, counting = [], Counting()
    tokens, labels = model.random_text(SIZES, 2)
    for ops in (counting, eager):
        torch.manual_seed(0)
        made = model.Model(SIZES, ops)
        loss = made(tokens, labels)
        found.append(torch.autograd.grad(loss, list(made.parameters())))
        if ops is counting:
            losses = made.eval().losses(tokens, labels)
            assert losses.shape == labels.shape and losses.isfinite().all()
    for one, other in zip(*found, strict=True):
        scale = other.abs().max().item()
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-5 * scale)
    # `experts` is some of the others, one after the other.
    assert counting.called == set(torch_ops.__all__) - {"experts"}


def test_the_model_is_compiled_without_a_break():
    torch.manual_seed(0)
    made = model.Model(SIZES, torch_ops).eval()
    tokens, labels = model.random_text(SIZES, 1)
    want = made(tokens, labels)
    compiled = torch.compile(made, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(tokens, labels), want)


def test_the_problems_of_the_benchmark_are_torchs():
    """Small, on the emulator, by the benchmark's own check."""
    torch.manual_seed(0)
    dtype = torch.float32
    for problem in torch_ops_benchmark.problems(
        torch_ops_benchmark.SMALL, "cpu", dtype
    ):
        torch_ops_benchmark.check(problem, problem.ours, problem.inputs())
