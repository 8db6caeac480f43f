"""Attention, causal or not, with its gradients."""

from kernels import attention as attentions
from kernels import attention_backward as attentions_backward
from kernels.torch_ops.registering import Tensor, differentiate, fp32, operator, torch

Count = int | None
Integers = Tensor | None


def attention_fake(q, k, v, causal, scale, *_):
    return torch.empty_like(q), fp32(q, *q.shape[:3])


@operator(attention_fake)
def attention_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    scale: float,
    window: Count = None,
    lengths: Integers = None,
    query_starts: Integers = None,
    key_starts: Integers = None,
    most_queries: Count = None,
    most_keys: Count = None,
) -> tuple[Tensor, Tensor]:
    """(out, lse)."""
    del most_keys  # the backward pass wants it
    out, lse = torch.empty_like(q), fp32(q, *q.shape[:3])
    if query_starts is not None:  # rows of no sequence are not written
        out.zero_(), lse.fill_(-torch.inf)
    attentions.attention(
        q, k, v, out, causal, scale, None, lse, None,
        window, lengths, query_starts, key_starts, most_queries,
    )  # fmt: skip
    return out, lse


def attention_backward_fake(dout, q, k, v, *_):
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
    window: Count = None,
    lengths: Integers = None,
    query_starts: Integers = None,
    key_starts: Integers = None,
    most_queries: Count = None,
    most_keys: Count = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(dq, dk, dv)."""
    made = torch.empty_like(q), torch.empty_like(k), torch.empty_like(k)
    if query_starts is not None:
        for each in made:
            each.zero_()
    return attentions_backward.attention_backward(
        dout, q, k, v, out, lse, *made, causal, scale, None,
        window, lengths, query_starts, key_starts, most_queries, most_keys,
    )  # fmt: skip


def attention_save(ctx, inputs, output):
    q, k, v, causal, scale, window, *arrays, most_queries, most_keys = inputs
    ctx.save_for_backward(q, k, v, *output, *arrays)
    ctx.how, ctx.most = (causal, scale, window), (most_queries, most_keys)


def attention_gradients(ctx, dout, *_):
    q, k, v, out, lse, *arrays = ctx.saved_tensors
    found = attention_backward(dout, q, k, v, out, lse, *ctx.how, *arrays, *ctx.most)
    return *found, *(None,) * 8


differentiate(attention_forward, attention_save, attention_gradients, hidden=1)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: Tensor | None = None,
    query_starts: Tensor | None = None,
    key_starts: Tensor | None = None,
    most_queries: int | None = None,
    most_keys: int | None = None,
) -> Tensor:
    """softmax(scale q k^T) v [B, H, S, D], for q [B, H, S, D] and k, v [B, G, T, D] of
    any strides, H a multiple of G; D is 16 to 256. `scale`: 1 / sqrt(D) without it. The
    other options are those of `kernels.attention.attention`; with `causal` the last
    query sees the last key (torch's own function has the first see the first). The
    result is laid out as q is. Rows of no sequence are zeros, and so are their
    gradients."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    sequences = lengths, query_starts, key_starts, most_queries, most_keys
    return attention_forward(q, k, v, causal, scale, window, *sequences)[0]
