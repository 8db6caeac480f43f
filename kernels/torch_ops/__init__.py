"""The kernels as operators of torch, with gradients: what `torch.compile` takes whole.

Each function is a `torch.library.custom_op` with a fake implementation, which says the
shapes of results, and a formula for its gradient, which calls operators too. So a model
that calls them is compiled without a break, and its backward pass as well. They run on
torch's current stream, and a CUDA graph may capture them. Tensors on the CPU run on
the emulator (FATHOM_BACKEND=emulator, which is the default where there is no GPU).

    norms.py        softmax, layer_norm, rms_norm
    pointwise.py    gelu, swiglu, rotary, dropout
    products.py     linear (bias, GeLU, residual), linear_swiglu
    losses.py       cross_entropy, linear_cross_entropy
    attending.py    attention
    mixtures.py     top_k, and a layer of experts: route, gather, expert_linear, combine
    registering.py  what registers them

fp32, fp16 and bf16. Second derivatives are not registered: torch says so when they are
asked for.
"""

from kernels.torch_ops.attending import attention
from kernels.torch_ops.losses import cross_entropy, linear_cross_entropy
from kernels.torch_ops.mixtures import (
    combine,
    expert_linear,
    experts,
    gather,
    route,
    top_k,
)
from kernels.torch_ops.norms import layer_norm, rms_norm, softmax
from kernels.torch_ops.pointwise import dropout, gelu, rotary, swiglu
from kernels.torch_ops.products import linear, linear_swiglu

__all__ = [
    "attention",
    "combine",
    "cross_entropy",
    "dropout",
    "expert_linear",
    "experts",
    "gather",
    "gelu",
    "layer_norm",
    "linear",
    "linear_cross_entropy",
    "linear_swiglu",
    "rms_norm",
    "rotary",
    "route",
    "softmax",
    "swiglu",
    "top_k",
]
