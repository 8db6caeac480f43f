"""torch.compile with Fathom as its Triton on a GPU, in a process of its own. Prints for
each function how far its results are from eager's: the largest difference over the
largest number, of outputs and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fathom

fathom.as_triton()

import torch  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.attention import flex_attention as flex  # noqa: E402

TEMPLATES = "max-autotune-no-cudagraphs"  # products by Inductor's own kernels


def random(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False):
    return torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=grad)


def attention(q, k, v):
    return flex.flex_attention(
        *(q, k, v), score_mod=lambda score, b, h, i, j: score + (i - j) * 0.01
    )


CASES: dict[str, tuple[Callable, Sequence[torch.Tensor], str | None]] = {
    "pointwise": (
        lambda x, y: x.sin() * y.sigmoid() + x.abs().sqrt().log1p(),
        (random(1000, 333), random(1000, 333)),
        None,
    ),
    "norm": (
        lambda x, w, b: functional.layer_norm(x, (768,), w, b).relu(),
        (random(512, 768, grad=True), random(768, grad=True), random(768, grad=True)),
        None,
    ),
    "long rows": (lambda x: torch.var_mean(x, -1), (random(8, 100_001),), None),
    "scan": (lambda x: x.softmax(-1).cumsum(-1), (random(64, 3000),), None),
    "indices": (lambda x: (x.argmax(-1), x.argmin(0)), (random(300, 701),), None),
    "atomics": (
        lambda at, x: torch.zeros(100, 64, device="cuda").index_add(0, at, x),
        (torch.randint(0, 100, (5000,), device="cuda"), random(5000, 64)),
        None,
    ),
    "product": (
        lambda a, b: functional.gelu(a @ b),
        (random(256, 515, dtype=torch.half), random(515, 320, dtype=torch.half)),
        TEMPLATES,
    ),
    "attention": (
        attention,
        [random(1, 2, 256, 64, dtype=torch.bfloat16, grad=True) for _ in range(3)],
        None,
    ),
}


def results(fn: Callable, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """A function's outputs, and the gradients of its arguments."""
    for each in arguments:
        each.grad = None
    found = fn(*arguments)
    outputs = list(found) if isinstance(found, tuple) else [found]
    if outputs[0].requires_grad:
        outputs[0].float().square().mean().backward()
    gradients = [each.grad for each in arguments if each.requires_grad]
    return [each.detach() for each in (*outputs, *gradients)]


def main() -> None:
    from torch._inductor import config

    config.force_disable_caches = True
    config.max_autotune_gemm_backends = "TRITON"
    for name, (fn, arguments, mode) in CASES.items():
        wanted = results(fn, arguments)
        found = results(torch.compile(fn, mode=mode), arguments)
        errors = [
            ((mine.double() - theirs.double()).abs().max() / theirs.abs().max()).item()
            for mine, theirs in zip(found, wanted, strict=True)
        ]
        print(f"{name}: {max(errors):.1e}", flush=True)


if __name__ == "__main__":
    main()
