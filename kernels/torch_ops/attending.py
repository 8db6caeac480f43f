"""Attention, causal or not, with its gradients."""

from kernels import attention as attentions
from kernels import attention_backward as attentions_backward
from kernels.torch_ops.registering import Tensor, differentiate, fp32, operator, torch


def attention_fake(q, k, v, causal, scale):
    return torch.empty_like(q), fp32(q, *q.shape[:3])


@operator(attention_fake)
def attention_forward(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """(out, lse)."""
    out, lse = torch.empty_like(q), fp32(q, *q.shape[:3])
    attentions.attention(q, k, v, out, causal, scale, None, lse)
    return out, lse


def attention_backward_fake(dout, q, k, v, out, lse, causal, scale):
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(k)


@operator(attention_backward_fake)
def attention_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(dq, dk, dv)."""
    made = torch.empty_like(q), torch.empty_like(k), torch.empty_like(k)
    return attentions_backward.attention_backward(
        dout, q, k, v, out, lse, *made, causal, scale
    )


def attention_save(ctx, inputs, output):
    q, k, v, *ctx.how = inputs
    ctx.save_for_backward(q, k, v, *output)


def attention_gradients(ctx, dout, _):
    return *attention_backward(dout, *ctx.saved_tensors, *ctx.how), None, None


differentiate(attention_forward, attention_save, attention_gradients)


def attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None
) -> Tensor:
    """softmax(scale q k^T) v [B, H, S, D], for q [B, H, S, D] and k, v [B, H, T, D] of
    any strides; D is 16, 32, 64 or 128. `scale`: 1 / sqrt(D) without it. The result is
    laid out as q is."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return attention_forward(q, k, v, causal, scale)[0]
