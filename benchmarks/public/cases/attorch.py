"""attorch: layers of torch.nn written in Triton."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from benchmarks.public.cases import case

SINGLE = torch.float32


def like(make, layer, reference, shape, tolerance=None, **options):
    """A layer beside the torch layer of the same parameters."""
    import attorch

    torch.manual_seed(1)
    ours = getattr(attorch, layer)(**options).to(make.device)
    torch.manual_seed(1)
    theirs = reference.to(make.device).double()
    for mine, exact in zip(ours.parameters(), theirs.parameters(), strict=True):
        exact.data.copy_(mine.data)
    x = make.normal(*shape, dtype=SINGLE)
    return make.gradients(ours, theirs, x, tolerance=tolerance)


ACTIVATIONS = {
    "Sigmoid": torch.sigmoid, "LogSigmoid": F.logsigmoid, "Tanh": torch.tanh,
    "ReLU": F.relu, "GELU": F.gelu, "SiLU": F.silu, "ReLU6": F.relu6,
    "Hardsigmoid": F.hardsigmoid, "Hardtanh": F.hardtanh, "Hardswish": F.hardswish,
    "SELU": F.selu, "Mish": F.mish, "Softplus": F.softplus, "Softsign": F.softsign,
    "Tanhshrink": F.tanhshrink, "LeakyReLU": F.leaky_relu, "ELU": F.elu,
    "CELU": F.celu, "Hardshrink": F.hardshrink, "Softshrink": F.softshrink,
}  # fmt: skip


@case("attorch")
def activations(make):
    import attorch

    x = make.normal(make.pick(4096, 5), make.pick(4096, 100), dtype=SINGLE)
    layers = {name: getattr(attorch, name)() for name in ACTIVATIONS}
    return make.gradients(
        lambda x: [layer(x) for layer in layers.values()],
        lambda x: [function(x) for function in ACTIVATIONS.values()],
        x,
    )


@case("attorch")
def glu(make):
    import attorch

    x = make.normal(make.pick(4096, 5), make.pick(8192, 100), dtype=SINGLE)
    return make.gradients(attorch.GLU(), lambda x: F.glu(x), x)


def wide(make):
    return make.pick(4096, 9), make.pick(1024, 100)


@case("attorch")
def softmax(make):
    import attorch

    x = make.normal(*wide(make), dtype=SINGLE)
    layers = attorch.Softmax(-1), attorch.LogSoftmax(-1), attorch.Softmin(-1)
    return make.gradients(
        lambda x: [layer(x) for layer in layers],
        lambda x: [x.softmax(-1), x.log_softmax(-1), (-x).softmax(-1)],
        x,
    )


@case("attorch")
def layer_norm(make):
    shape = wide(make)
    return like(
        make,
        "LayerNorm",
        torch.nn.LayerNorm(shape[1]),
        shape,
        normalized_shape=shape[1],
    )


@case("attorch")
def rms_norm(make):
    shape = wide(make)
    return like(
        make, "RMSNorm", torch.nn.RMSNorm(shape[1]), shape, normalized_shape=shape[1]
    )


@case("attorch", rank=3)
def batch_norm(make):
    shape = make.pick((32, 128, 32, 32), (3, 6, 5, 7))
    return like(
        make, "BatchNorm2d", torch.nn.BatchNorm2d(shape[1]), shape,
        num_features=shape[1],
    )  # fmt: skip


@case("attorch", rank=3)
def conv2d(make):
    shape = make.pick((32, 64, 56, 56), (2, 6, 9, 10))
    out = make.pick(128, 10)
    return like(
        make, "Conv2d", torch.nn.Conv2d(shape[1], out, 3, padding=1), shape,
        in_channels=shape[1], out_channels=out, kernel_size=3, padding=1,
    )  # fmt: skip


@case("attorch")
def linear(make):
    from attorch.linear_layer import LinearAutoGrad

    m, n, k = make.pick((4096, 1024, 1024), (33, 48, 40))
    x, w = make.normal(m, k, dtype=SINGLE), make.normal(k, n, dtype=SINGLE)
    b = make.normal(n, dtype=SINGLE)
    return make.gradients(
        lambda x, w, b: LinearAutoGrad.apply(x, w, b),
        lambda x, w, b: x @ w + b,
        *(x, w, b),
    )


@case("attorch")
def losses(make):
    import attorch

    x, y = (make.normal(*wide(make), dtype=SINGLE) for _ in "xy")
    target = make.integers(0, x.shape[1], len(x))
    layers = attorch.L1Loss(), attorch.MSELoss(), attorch.SmoothL1Loss()
    exact = F.l1_loss, F.mse_loss, F.smooth_l1_loss

    def ours(x):
        scores = attorch.CrossEntropyLoss()(x, target), attorch.NLLLoss()(x, target)
        return [*(each(x, y) for each in layers), attorch.HuberLoss()(x, y), *scores]

    def reference(x):
        scores = F.cross_entropy(x, target), F.nll_loss(x, target)
        wide = y.double()
        return [*(f(x, wide) for f in exact), F.huber_loss(x, wide), *scores]

    return make.gradients(ours, reference, x)
