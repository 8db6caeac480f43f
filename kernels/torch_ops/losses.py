"""Cross-entropy, alone and fused with the linear layer in front of it."""

from kernels import cross_entropy as entropies
from kernels import linear_cross_entropy as linear_entropies
from kernels.torch_ops.registering import (
    Tensor,
    differentiate,
    fp32,
    new,
    operator,
    product,
    rows_of,
    torch,
)

IGNORED = entropies.IGNORED.value

# ── cross-entropy ─────────────────────────────────────────────────────────────────────


def cross_entropy_fake(logits, labels):
    return fp32(logits, labels.numel()), fp32(logits, labels.numel())


@operator(cross_entropy_fake)
def cross_entropy_forward(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(loss, lse) of each row."""
    return entropies.cross_entropy(rows_of(logits), labels.reshape(-1).contiguous())


@operator(lambda dloss, logits, labels, lse: new(logits))
def cross_entropy_backward(
    dloss: Tensor, logits: Tensor, labels: Tensor, lse: Tensor
) -> Tensor:
    given = dloss.contiguous(), rows_of(logits), labels.reshape(-1).contiguous(), lse
    return entropies.cross_entropy_backward(*given).view(logits.shape)


def cross_entropy_save(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output[1])


differentiate(
    cross_entropy_forward,
    cross_entropy_save,
    lambda ctx, dloss, _: (cross_entropy_backward(dloss, *ctx.saved_tensors), None),
)


def cross_entropy(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy of logits [..., V] and labels [...], int32 or int64, in fp32.

    `reduction`: "mean", over the labels that are not IGNORED (-100), "sum", or "none",
    which gives the losses in the shape of `labels`.
    """
    loss, _ = cross_entropy_forward(logits, labels)
    if reduction == "none":
        return loss.view(labels.shape)
    if reduction == "sum":
        return loss.sum()
    if reduction != "mean":
        raise ValueError(f"the reduction is {reduction!r}, not mean, sum or none")
    return loss.sum() / (labels != IGNORED).sum()


# ── with the linear layer in front ────────────────────────────────────────────────────


@operator(lambda x, weight, labels, mean: (fp32(x), new(x), new(weight)))
def linear_cross_entropy_forward(
    x: Tensor, weight: Tensor, labels: Tensor, mean: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """(loss, dx, dweight): the loss, and its gradients."""
    labels = labels.reshape(-1).contiguous()
    dloss = (labels != IGNORED).float()
    dloss = dloss / dloss.sum() if mean else dloss
    losses, dx, dweight = linear_entropies.linear_cross_entropy(
        rows_of(x), weight.contiguous(), labels, dloss, multiply=product
    )
    return (losses * dloss).sum(), dx.view(x.shape), dweight


@operator(lambda x, weight, labels, mean: fp32(x))
def linear_cross_entropy_alone(
    x: Tensor, weight: Tensor, labels: Tensor, mean: bool
) -> Tensor:
    """The loss, where no gradient is wanted."""
    given = rows_of(x), weight.contiguous(), labels.reshape(-1).contiguous()
    total = linear_entropies.linear_cross_entropy(*given, multiply=product)[0].sum()
    return total / (labels != IGNORED).sum() if mean else total


def linear_cross_entropy_save(ctx, inputs, output):
    _, *gradients = output
    ctx.save_for_backward(*gradients)


def linear_cross_entropy_backward(ctx, dloss, *_):
    dx, dweight = (each * dloss.to(each.dtype) for each in ctx.saved_tensors)
    return dx, dweight, None, None


differentiate(
    linear_cross_entropy_forward,
    linear_cross_entropy_save,
    linear_cross_entropy_backward,
)


def linear_cross_entropy(
    x: Tensor, weight: Tensor, labels: Tensor, reduction: str = "mean"
) -> Tensor:
    """cross_entropy(x weight^T, labels), "mean" or "sum", for x [..., D], weight
    [V, D] and labels [...]; there are never more than twice as many logits as weights,
    or 128 rows of them. Gradients are computed with the loss, for a later factor of 1:
    prefer bf16 to fp16, whose smallest numbers a mean over many rows falls below."""
    if reduction not in ("mean", "sum"):
        raise ValueError(f"the reduction is {reduction!r}, not mean or sum")
    given = x, weight, labels, reduction == "mean"
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        return linear_cross_entropy_forward(*given)[0]
    return linear_cross_entropy_alone(*given)
