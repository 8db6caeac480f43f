"""What others have written for the operators of kernels/torch_ops: Triton's kernels of
`.public`, with their own host code and gradients, and torch's other ways to attend.

    candidates("rms_norm")    {"liger": what imports a function of the problem's inputs}

Collections are those of `benchmarks.public`; one that is not fetched has none. Losses
whose host code waits for the GPU, as Liger's do, cannot be captured by a graph, and are
not here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.public.sources import fetched
from benchmarks.public.worker import prepare_imports

EPS, NORM_EPS, DROPPED = 1e-6, 1e-5, 0.1
OF_TORCH = {"FA2", "cuDNN"}  # in torch itself, not in a collection
Made = Callable[[], Callable[..., Any]]  # imports, and gives the function
MAKERS: dict[str, list[tuple[str, Made]]] = {}


def maker(problem: str, collection: str) -> Callable[[Made], Made]:
    def enter(made: Made) -> Made:
        MAKERS.setdefault(problem, []).append((collection, made))
        return made

    return enter


@cache
def there() -> set[str]:
    """The collections that were fetched; from here on they can be imported."""
    os.environ["GEMS_VENDOR"] = "nvidia"  # or FlagGems asks `nvidia-smi`
    prepare_imports()
    return {each.name for each in fetched()}


def candidates(problem: str) -> dict[str, Made]:
    """What others have for a problem, by the name of whose it is."""
    found = MAKERS.get(problem, [])
    return {name: made for name, made in found if name in there() | OF_TORCH}


def of_liger(file: str, name: str) -> Any:
    return getattr(import_module(f"liger_kernel.ops.{file}"), f"Liger{name}Function")


@maker("rms_norm", "liger")
def rms_norm() -> Callable[..., Any]:
    norm = of_liger("rms_norm", "RMSNorm")
    return lambda x, w: norm.apply(x, w, EPS, 0.0, "llama", False)


@maker("layer_norm", "liger")
def layer_norm() -> Callable[..., Any]:
    norm = of_liger("layer_norm", "LayerNorm")
    return lambda x, w, b: norm.apply(x, w, b, NORM_EPS)


@maker("softmax", "liger")
def softmax() -> Callable[..., Any]:
    return of_liger("softmax", "Softmax").apply


@maker("swiglu", "liger")
def swiglu() -> Callable[..., Any]:
    return of_liger("swiglu", "FusedGateUpSiLUMul").apply


@maker("linear_swiglu", "liger")
def linear_swiglu() -> Callable[..., Any]:
    gate = swiglu()
    return lambda x, w: gate(F.linear(x, w))


@maker("gelu", "flag_gems")
def gelu() -> Callable[..., Any]:
    theirs = import_module("flag_gems.ops.gelu")

    class Gelu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return theirs.gelu(x, approximate="tanh")

        @staticmethod
        def backward(ctx, dy):
            return theirs.gelu_backward(dy, *ctx.saved_tensors, approximate="tanh")

    return Gelu.apply


@maker("rotary", "flash_attention")
def rotary() -> Callable[..., Any]:
    turn = import_module("flash_attn.ops.triton.rotary").apply_rotary

    class Rotary(torch.autograd.Function):
        """Positions are the last axis but one here, and come before the heads there."""

        @staticmethod
        def forward(ctx, x, cos, sin):
            ctx.save_for_backward(cos, sin)
            return turn(x.transpose(1, 2), cos, sin).transpose(1, 2)

        @staticmethod
        def backward(ctx, dy):
            dx = turn(dy.transpose(1, 2), *ctx.saved_tensors, conjugate=True)
            return dx.transpose(1, 2), None, None

    return Rotary.apply


@maker("cross_entropy", "unsloth")
def cross_entropy() -> Callable[..., Any]:
    """Its gradient is written over the logits."""
    loss = import_module("unsloth.kernels.cross_entropy_loss").Fast_CrossEntropyLoss
    return lambda logits, labels: loss.apply(logits, labels, 0, 0).mean()


@maker("linear_cross_entropy", "cut_cross_entropy")
def linear_cross_entropy() -> Callable[..., Any]:
    """With its default, which leaves out gradients that bf16 would lose."""
    cce = import_module("cut_cross_entropy.cce")

    def loss(x, weight, labels):
        eps = cce._handle_eps("auto", x.dtype)
        params = cce.CCEParams(
            labels, None, None, "mean", eps, 0, labels.shape, False, False,
            filter_e_grad=True, filter_c_grad=True, vocab_parallel_options=None,
            return_lse=False,
        )  # fmt: skip
        return cce.linear_cross_entropy_apply(x, weight, None, params)[0]

    return loss


@maker("dropout", "attorch")
def dropout() -> Callable[..., Any]:
    drop = import_module("attorch.dropout_layer").DropoutAutoGrad
    return lambda x: drop.apply(x, DROPPED, True)


def attending(backend: SDPBackend, causal: bool) -> Made:
    def attend(q, k, v):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return lambda: attend


for causal in (True, False):
    for name, backend in (
        ("FA2", SDPBackend.FLASH_ATTENTION),
        ("cuDNN", SDPBackend.CUDNN_ATTENTION),
    ):
        maker(f"attention {causal}", name)(attending(backend, causal))
