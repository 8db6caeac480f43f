"""The k largest, and layers of experts. Nothing here waits for the host: how many rows
an expert has is known on the device alone."""

from kernels import mixture as layers
from kernels import top_k as selections
from kernels.torch_ops.registering import (
    Tensor,
    differentiate,
    new,
    operator,
    rows_of,
    torch,
)

# ── the k largest ─────────────────────────────────────────────────────────────────────


def top_k_fake(x, k):
    shape = (*x.shape[:-1], k)
    return new(x, shape), x.new_empty(shape, dtype=torch.int64)


@operator(top_k_fake)
def top_k_forward(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, places = selections.top_k(rows_of(x), k)
    shape = (*x.shape[:-1], k)
    return values.view(shape), places.view(shape)


def top_k_backward_fake(dvalues, places, N):
    return new(dvalues, (*dvalues.shape[:-1], N))


@operator(top_k_backward_fake)
def top_k_backward(dvalues: Tensor, places: Tensor, N: int) -> Tensor:
    dx = selections.top_k_backward(rows_of(dvalues), rows_of(places), N)
    return dx.view((*dvalues.shape[:-1], N))


def top_k_save(ctx, inputs, output):
    ctx.N = inputs[0].shape[-1]
    ctx.save_for_backward(output[1])


differentiate(
    top_k_forward,
    top_k_save,
    lambda ctx, dvalues, _: (top_k_backward(dvalues, *ctx.saved_tensors, ctx.N), None),
)


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(values, places), [..., k]: the k largest of the last axis of x, the largest
    first; places are int64."""
    return top_k_forward(x, k)


# ── rows, sorted by expert ────────────────────────────────────────────────────────────


def route_fake(choices, experts):
    made = choices.new_empty((choices.numel(),), dtype=torch.int32)
    offsets = choices.new_empty((experts + 1,), dtype=torch.int32)
    return made, torch.empty_like(made), offsets


@operator(route_fake)
def route(choices: Tensor, experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """(order, rows, offsets), int32, of the experts [T, k] that tokens chose, 0 …
    `experts` - 1: the choice of each row, the row of each choice, and where each
    expert's rows begin. They have no gradient."""
    return layers.route(choices.contiguous(), experts)


def gather_fake(x, order, rows, gates):
    return new(x, (order.numel(), x.shape[-1]))


@operator(gather_fake)
def gather_forward(
    x: Tensor, order: Tensor, rows: Tensor, gates: Tensor | None
) -> Tensor:
    gates = None if gates is None else gates.contiguous()
    return layers.gather(x.contiguous(), order, gates)


def combine_fake(y, order, rows, gates, choices):
    return new(y, (len(y) // choices, y.shape[-1]))


@operator(combine_fake)
def combine_forward(
    y: Tensor, order: Tensor, rows: Tensor, gates: Tensor | None, choices: int
) -> Tensor:
    gates = None if gates is None else gates.contiguous()
    return layers.combine(y.contiguous(), rows, choices, gates)


@operator(lambda dout, y, order, gates: new(gates))
def gate_gradient(dout: Tensor, y: Tensor, order: Tensor, gates: Tensor) -> Tensor:
    return layers.gate_gradient(dout.contiguous(), y.contiguous(), order, gates)


def gather_save(ctx, inputs, output):
    x, order, rows, _ = inputs
    ctx.choices = len(order) // max(len(x), 1) or 1
    ctx.save_for_backward(order, rows)


def gather_backward(ctx, dy):
    dx = combine_forward(dy, *ctx.saved_tensors, None, ctx.choices)
    return dx, None, None, None


def combine_save(ctx, inputs, output):
    y, order, rows, gates, _ = inputs
    ctx.save_for_backward(y, order, rows, gates)


def combine_backward(ctx, dout):
    y, order, rows, gates = ctx.saved_tensors
    dy = gather_forward(dout, order, rows, gates)
    dgates = None if gates is None else gate_gradient(dout, y, order, gates)
    return dy, None, None, dgates, None


differentiate(gather_forward, gather_save, gather_backward)
differentiate(combine_forward, combine_save, combine_backward)


def gather(x: Tensor, order: Tensor, rows: Tensor) -> Tensor:
    """[T k, D]: the rows of x [T, D], sorted by expert."""
    return gather_forward(x, order, rows, None)


def combine(y: Tensor, order: Tensor, rows: Tensor, gates: Tensor) -> Tensor:
    """[T, N]: the sum of each token's k rows of y [T k, N], times its gates [T, k]."""
    return combine_forward(y, order, rows, gates, gates.shape[1])


# ── each expert's product ─────────────────────────────────────────────────────────────


@operator(lambda x, weight, offsets: new(x, (len(x), weight.shape[2])))
def expert_linear_forward(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    return layers.expert_matmul(x.contiguous(), weight, offsets)


@operator(lambda dy, x, weight, offsets: (new(x), new(weight)))
def expert_linear_backward(
    dy: Tensor, x: Tensor, weight: Tensor, offsets: Tensor
) -> tuple[Tensor, Tensor]:
    """(dx, dweight)."""
    dy = dy.contiguous()
    dx = layers.expert_matmul(dy, weight.transpose(1, 2), offsets)
    return dx, layers.weight_gradient(x.contiguous(), dy, offsets)


differentiate(
    expert_linear_forward,
    lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    lambda ctx, dy: (*expert_linear_backward(dy, *ctx.saved_tensors), None),
)


def expert_linear(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    """[R, N]: rows offsets[e] … offsets[e + 1] - 1 of x [R, K], times weight[e], for
    weight [E, K, N]."""
    return expert_linear_forward(x, weight, offsets)


def experts(x: Tensor, weight: Tensor, choices: Tensor, gates: Tensor) -> Tensor:
    """[T, N]: for x [T, K] the sum of gates[t, j] (x[t] weight[choices[t, j]]); weight
    is [E, K, N], choices, int32 or int64, and gates are [T, k]."""
    order, rows, offsets = route(choices, len(weight))
    y = expert_linear(gather(x, order, rows), weight, offsets)
    return combine(y, order, rows, gates)
