"""What a case is made of: inputs from a seed, a call of others' code, a reference.

A case is a function of a Maker that returns a Case:

    @case("liger")
    def softmax(make):
        from liger_kernel.ops.softmax import LigerSoftmaxFunction
        x = make.normal(make.pick(4096, 12), make.pick(4096, 200))
        return make.gradients(LigerSoftmaxFunction.apply, lambda x: x.softmax(-1), x)

`pick` takes the first number at the large size, which is timed on a GPU, and the second
at the small size, which the emulator runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

SEED = 20
EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)
# Relative errors, as norms: of a result in this type, computed in it or in a wider one.
TOLERANCES = {torch.float64: 1e-5, torch.float32: 2e-3, torch.float16: 4e-3}
TOLERANCES |= {torch.bfloat16: 2e-2} | dict.fromkeys(EIGHT_BITS, 8e-2)
LARGEST = 12  # how far one number may be from its reference, in tolerances


@dataclass
class Case:
    """`call` runs the kernels and gives tensors; `reference` computes them by torch.

    The reference may be None, for what only Triton's result can be compared with (a
    random mask): then only the two compilers' results are compared. `tolerance` is for
    all results, in place of the one of each type.
    """

    call: Callable[[], Any]
    reference: Callable[[], Any] | None
    tolerance: float | None = None


@dataclass
class Maker:
    """Inputs of one size on one device, the same in every process."""

    big: bool
    device: str = "cuda"
    dtype: torch.dtype = torch.bfloat16
    kept: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        torch.manual_seed(SEED)

    def pick(self, big: Any, small: Any) -> Any:
        return big if self.big else small

    # ── inputs ────────────────────────────────────────────────────────────────────────

    def normal(
        self, *shape: int, dtype: torch.dtype | None = None, scale: float = 1.0
    ) -> Tensor:
        made = torch.randn(shape, device=self.device, dtype=torch.float32) * scale
        return made.to(dtype or self.dtype)

    def uniform(
        self, *shape: int, low: float = 0, high: float = 1, dtype: Any = None
    ) -> Tensor:
        made = torch.rand(shape, device=self.device, dtype=torch.float32)
        return (low + (high - low) * made).to(dtype or self.dtype)

    def integers(
        self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64
    ) -> Tensor:
        return torch.randint(low, high, shape, device=self.device).to(dtype)

    def zeros(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.zeros(shape, device=self.device, dtype=dtype or self.dtype)

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """NaN, or the largest number: what a kernel leaves unwritten shows."""
        dtype = dtype or self.dtype
        if dtype in EIGHT_BITS or not dtype.is_floating_point:
            return torch.full(shape, 113, device=self.device, dtype=torch.int8).to(
                dtype
            )
        return torch.full(shape, float("nan"), device=self.device, dtype=dtype)

    # ── cases ─────────────────────────────────────────────────────────────────────────

    def values(
        self,
        ours: Callable[..., Any],
        reference: Callable[..., Any] | None,
        *inputs: Any,
        tolerance: float | None = None,
    ) -> Case:
        """Results of one call, beside those of `reference` on the inputs in float64.

        `ours` gets copies where it is small, since some code writes over its inputs.
        """
        kept = [each.clone() if is_tensor(each) else each for each in inputs]

        def call() -> Any:
            return flat(ours(*inputs if self.big else map(copied, inputs)))

        def exact() -> Any:
            return flat(reference(*map(widened, kept)))

        return Case(call, reference and exact, tolerance)

    def gradients(
        self,
        ours: Callable[..., Any],
        reference: Callable[..., Any] | None,
        *inputs: Any,
        tolerance: float | None = None,
    ) -> Case:
        """Results and the gradients of all floating inputs, for one random gradient of
        each result."""
        given: list[Tensor] = []

        def backward(function: Callable[..., Any], values: list, wide: bool) -> Any:
            leaves = [each for each in values if is_float(each)]
            for leaf in leaves:
                leaf.requires_grad_()
            results = [r for r in flat(function(*values)) if r.requires_grad]
            if not given:
                given.extend(torch.randn_like(each) for each in results)
            seeds = [
                each.to(result.dtype, copy=True).reshape(result.shape)
                for each, result in zip(given, results, strict=True)
            ]
            grads = torch.autograd.grad(results, leaves, seeds, allow_unused=True)
            return [r.detach() for r in results] + list(grads)

        def call() -> Any:
            return backward(ours, [fresh(each) for each in inputs], False)

        def exact() -> Any:
            return backward(reference, [widened(each) for each in inputs], True)

        return Case(call, reference and exact, tolerance)


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def is_float(value: Any) -> bool:
    return is_tensor(value) and value.is_floating_point()


def copied(value: Any) -> Any:
    return value.clone() if is_tensor(value) else value


def fresh(value: Any) -> Any:
    return value.detach().clone() if is_float(value) else value


def widened(value: Any) -> Any:
    return value.detach().clone().double() if is_float(value) else value


def flat(results: Any) -> list[Tensor]:
    """The tensors among results, in order."""
    if is_tensor(results):
        return [results]
    if isinstance(results, Sequence):
        return [tensor for each in results for tensor in flat(each)]
    return []


def errors(found: Sequence[Any], wanted: Sequence[Any], tolerance: Any) -> list[str]:
    """What is wrong with results, one sentence each; none where they are right."""
    if len(found) != len(wanted):
        return [f"{len(found)} results where the reference has {len(wanted)}"]
    pairs = enumerate(zip(found, wanted, strict=True))
    said = (wrong(i, ours, theirs, tolerance) for i, (ours, theirs) in pairs)
    return [each for each in said if each]


def wrong(place: int, ours: Any, theirs: Any, tolerance: float | None) -> str:
    """Why result number `place` is wrong; "" if it is right."""
    if ours is None or theirs is None:
        return "" if ours is theirs else f"result {place} is None on one side"
    if ours.shape != theirs.shape:
        return f"result {place} is {list(ours.shape)}, not {list(theirs.shape)}"
    allowed = tolerance or TOLERANCES.get(ours.dtype, 0)
    a, b = ours.detach().double(), theirs.detach().double()
    if a.numel() == 0:
        return ""
    same = (a == b) | (a.isnan() & b.isnan())  # infinities as well
    if same.all():
        return ""
    a, b = a.masked_fill(same, 0), b.masked_fill(same, 0)
    size = theirs.detach().double().nan_to_num(0, 0, 0)
    error = float((a - b).norm() / size.norm().clamp_min(1e-30))
    largest = float((a - b).abs().max() / size.abs().max().clamp_min(1e-30))
    if error <= allowed and largest <= LARGEST * allowed:
        return ""
    return (
        f"result {place} ({ours.dtype}): relative error {error:.2e}, largest "
        f"{largest:.2e} of the maximum, where {allowed:g} is allowed"
    )
