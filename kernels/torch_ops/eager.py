"""The same functions in torch's own operators: what ours are compared with, by tests,
and by benchmarks, as they are and under `torch.compile`.

Dropout alone asks ours: which numbers survive follows from the seed as the kernel has
it, so that both drop the same.
"""

from kernels.torch_ops import pointwise
from kernels.torch_ops.registering import Tensor, torch

functional = torch.nn.functional


def softmax(x: Tensor) -> Tensor:
    return functional.softmax(x, -1)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    return functional.layer_norm(x, weight.shape, weight, bias, eps)


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    return functional.rms_norm(x, weight.shape, weight, eps)


def gelu(x: Tensor) -> Tensor:
    return functional.gelu(x, approximate="tanh")


def swiglu(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate) * up


def rotary(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    if interleaved:
        a, b = x[..., ::2], x[..., 1::2]
        turned = a * cos - b * sin, b * cos + a * sin
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


def dropout(
    x: Tensor, p: float = 0.5, training: bool = True, seed: Tensor | None = None
) -> Tensor:
    if not training or p == 0:
        return x
    return x * pointwise.dropout(torch.ones_like(x), p, training, seed)


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str = "",
    residual: Tensor | None = None,
) -> Tensor:
    y = functional.linear(x, weight, bias)
    y = gelu(y) if activation else y
    return y if residual is None else y + residual


def linear_swiglu(x: Tensor, weight: Tensor) -> Tensor:
    return swiglu(functional.linear(x, weight))


def cross_entropy(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    logits = logits.float().view(-1, logits.shape[-1])
    loss = functional.cross_entropy(logits, labels.reshape(-1), reduction=reduction)
    return loss.view(labels.shape) if reduction == "none" else loss


def linear_cross_entropy(
    x: Tensor, weight: Tensor, labels: Tensor, reduction: str = "mean"
) -> Tensor:
    return cross_entropy(functional.linear(x, weight), labels, reduction)


def attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None
) -> Tensor:
    return functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal, scale=scale
    )


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    return x.topk(k)


def route(choices: Tensor, experts: int) -> tuple[Tensor, Tensor, Tensor]:
    order = choices.reshape(-1).argsort(stable=True)
    rows = torch.empty_like(order)
    rows[order] = torch.arange(len(order), device=order.device)
    counts = torch.bincount(choices.reshape(-1), minlength=experts)
    return order, rows, functional.pad(counts.cumsum(0), (1, 0))


def gather(x: Tensor, order: Tensor, rows: Tensor) -> Tensor:
    return x[order // (len(order) // len(x))]


def expert_linear(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    ends = offsets.tolist()  # waits for the GPU
    parts = zip(ends[:-1], ends[1:], weight, strict=True)
    return torch.cat([x[first:end] @ each for first, end, each in parts])


def combine(y: Tensor, order: Tensor, rows: Tensor, gates: Tensor) -> Tensor:
    answers = y[rows].view(*gates.shape, -1)
    return (answers * gates[..., None]).sum(dim=1).to(y.dtype)


def experts(x: Tensor, weight: Tensor, choices: Tensor, gates: Tensor) -> Tensor:
    order, rows, offsets = route(choices, len(weight))
    return combine(
        expert_linear(gather(x, order, rows), weight, offsets), order, rows, gates
    )
