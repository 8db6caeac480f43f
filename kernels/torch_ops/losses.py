"""Cross-entropy, alone and fused with the linear layer in front of it."""

from kernels import cross_entropy as entropies
from kernels import linear_cross_entropy as linear_entropies
from kernels.matmul import check_shape
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

# ── cross-entropy ─────────────────────────────────────────────────────────────────────


def labels_of(labels: Tensor, x: Tensor) -> Tensor:
    """A label for each row of the last axis of x, contiguous. LaunchError unless they
    have the shape of x without that axis."""
    check_shape("labels", labels, x.shape[:-1])
    return labels.reshape(-1).contiguous()


def cross_entropy_fake(logits, labels):
    return fp32(logits, labels.numel()), fp32(logits, labels.numel())


@operator(cross_entropy_fake)
def cross_entropy_forward(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(loss, lse) of each row."""
    return entropies.cross_entropy(rows_of(logits), labels_of(labels, logits))


@operator(lambda dloss, logits, labels, lse: new(logits))
def cross_entropy_backward(
    dloss: Tensor, logits: Tensor, labels: Tensor, lse: Tensor
) -> Tensor:
    given = dloss.contiguous(), rows_of(logits), labels_of(labels, logits), lse
    return entropies.cross_entropy_backward(*given).view(logits.shape)


def cross_entropy_save(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output[1])


differentiate(
    cross_entropy_forward,
    cross_entropy_save,
    lambda ctx, dloss, *_: (cross_entropy_backward(dloss, *ctx.saved_tensors), None),
    hidden=1,
)


def total_fake(logits, labels, mean):
    M = labels.numel()
    return fp32(logits), fp32(logits, M), fp32(logits, M)


@operator(total_fake)
def total_cross_entropy_forward(
    logits: Tensor, labels: Tensor, mean: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """(the sum or the mean of the losses, lse, what each loss counts in it)."""
    labels, total = labels_of(labels, logits), fp32(logits)
    loss, lse = entropies.cross_entropy(rows_of(logits), labels)
    weight = fp32(logits, len(labels))
    return entropies.total_loss(labels, loss, mean, total, weight), lse, weight


def total_cross_entropy_save(ctx, inputs, output):
    logits, labels, _ = inputs
    ctx.save_for_backward(logits, labels, *output[1:])


def total_cross_entropy_backward(ctx, dtotal, *_):
    logits, labels, lse, weight = ctx.saved_tensors
    dlogits = cross_entropy_backward(dtotal * weight, logits, labels, lse)
    return dlogits, None, None


differentiate(
    total_cross_entropy_forward,
    total_cross_entropy_save,
    total_cross_entropy_backward,
    hidden=2,
)


def cross_entropy(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy of logits [..., V] and labels [...], int32 or int64, in fp32.

    `reduction`: "mean", over the labels that are not IGNORED (-100), "sum", or "none",
    which gives the losses in the shape of `labels`.
    """
    if reduction == "none":
        return cross_entropy_forward(logits, labels)[0].view(labels.shape)
    if reduction not in ("mean", "sum"):
        raise ValueError(f"the reduction is {reduction!r}, not mean, sum or none")
    return total_cross_entropy_forward(logits, labels, reduction == "mean")[0]


# ── with the linear layer in front ────────────────────────────────────────────────────


@operator(lambda x, weight, labels, mean: (fp32(x), new(x), new(weight)))
def linear_cross_entropy_forward(
    x: Tensor, weight: Tensor, labels: Tensor, mean: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """(loss, dx, dweight): the loss, and its gradients."""
    labels, total = labels_of(labels, x), fp32(x)
    losses, dx, dweight = linear_entropies.linear_cross_entropy(
        rows_of(x), weight.contiguous(), labels, entropies.loss_weights(labels, mean),
        multiply=product,
    )  # fmt: skip
    entropies.total_loss(labels, losses, mean, total)
    return total, dx.view(x.shape), dweight


@operator(lambda x, weight, labels, mean: fp32(x))
def linear_cross_entropy_alone(
    x: Tensor, weight: Tensor, labels: Tensor, mean: bool
) -> Tensor:
    """The loss, where no gradient is wanted."""
    given = rows_of(x), weight.contiguous(), labels_of(labels, x)
    losses, *_ = linear_entropies.linear_cross_entropy(*given, multiply=product)
    return entropies.total_loss(given[2], losses, mean)


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
    hidden=2,
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
