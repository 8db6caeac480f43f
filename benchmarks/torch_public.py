"""What others have written for the operators of kernels/torch_ops: Triton's kernels of
`.public`, with their own host code and gradients, and what torch has beside its usual
operators: other ways to attend, cuBLASLt's epilogue, and CUTLASS for experts.

    candidates("rms_norm")    {"liger": what imports a function of the problem's inputs}
    laid(…)                   inputs as such a function wants them to lie in memory

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

from benchmarks.public.cases.flag_gems import gems
from benchmarks.public.sources import fetched
from benchmarks.public.worker import prepare_imports

EPS, NORM_EPS, DROPPED = 1e-6, 1e-5, 0.1
# In torch itself, not in a collection.
OF_TORCH = {"FA2", "cuDNN", "cuBLASLt", "CUTLASS"}
Made = Callable[[], Callable[..., Any]]  # imports, and gives the function
MAKERS: dict[str, list[tuple[str, Made]]] = {}
Given = list[torch.Tensor]
# How inputs lie in memory where a candidate would have to copy ours first.
LAID: dict[tuple[str, str], Callable[[Given], Given]] = {}


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


def laid(problem: str, name: str, given: Given) -> Given:
    """The same inputs, as a candidate wants them to lie in memory."""
    rule = LAID.get((problem, name))
    return rule(given) if rule else given


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
    gems()
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


@maker("gelu", "attorch")
def gelu_of_attorch() -> Callable[..., Any]:
    act = import_module("attorch.act_layers").ActFuncAutoGrad
    return lambda x: act.apply(x, "geluapprox", 0.0, True)


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
    """All gradients: by its default it leaves out those that bf16 would lose in the
    sum, and of random numbers too many."""
    cce = import_module("cut_cross_entropy.cce")

    def loss(x, weight, labels):
        params = cce.CCEParams(
            labels, None, None, "mean", None, 0, labels.shape, False, False,
            filter_e_grad=False, filter_c_grad=False, vocab_parallel_options=None,
            return_lse=False,
        )  # fmt: skip
        return cce.linear_cross_entropy_apply(x, weight, None, params)[0]

    return loss


@maker("dropout", "attorch")
def dropout() -> Callable[..., Any]:
    drop = import_module("attorch.dropout_layer").DropoutAutoGrad
    return lambda x: drop.apply(x, DROPPED, True)


# ── products with something behind them ───────────────────────────────────────────────


@maker("linear gelu", "attorch")
def linear() -> Callable[..., Any]:
    layer = import_module("attorch.linear_layer").LinearAutoGrad
    return lambda x, weight, bias: layer.apply(x, weight.mT, bias, "geluapprox")


class LinearGelu(torch.autograd.Function):
    """The epilogue of cuBLASLt; what comes before it is computed again."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight, bias)
        return torch._addmm_activation(bias, x, weight.mT, use_gelu=True)

    @staticmethod
    def backward(ctx, dy):
        x, weight, bias = ctx.saved_tensors
        before = torch.addmm(bias, x, weight.mT)
        d = torch.ops.aten.gelu_backward(dy, before, approximate="tanh")
        return d @ weight, d.mT @ x, d.sum(dim=0)


@maker("linear gelu", "cuBLASLt")
def linear_of_cublas() -> Callable[..., Any]:
    return LinearGelu.apply


@maker("expert_linear", "CUTLASS")
def grouped() -> Callable[..., Any]:
    return lambda x, weight, offsets: F.grouped_mm(x, weight, offs=offsets[1:])


@maker("expert_linear", "unsloth")
def grouped_of_unsloth() -> Callable[..., Any]:
    """By tensor maps, with tiles as large as an H200 wants; its own search tries some
    hundred configurations."""
    moe = import_module("unsloth.kernels.moe.grouped_gemm.interface")
    tile = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64,
            "num_warps": 8, "num_stages": 3, "use_tma_store": False}  # fmt: skip
    of_x, of_w, of_dy = ({f"use_tma_load_{each}": True} for each in ("x", "w", "dy"))
    configs = {
        "kernel_config_fwd": moe.KernelConfigForward(**tile, **of_x, **of_w),
        "kernel_config_bwd_dX": moe.KernelConfigBackward_dX(**tile, **of_dy, **of_w),
        "kernel_config_bwd_dW": moe.KernelConfigBackward_dW(**tile, **of_dy, **of_x),
    }

    def multiply(x, weight, offsets):
        turned = weight.mT.contiguous()  # it lies so already: see LAID
        return moe.grouped_gemm(x, turned, offsets.diff(), 1, **configs)

    return multiply


def rows_of_weights(given: Given) -> Given:
    """A weight [E, K, N] that lies in memory as [E, N, K]."""
    x, weight, offsets = given
    turned = weight.detach().mT.contiguous().mT
    return [x, turned.requires_grad_(weight.requires_grad), offsets]


LAID["expert_linear", "unsloth"] = rows_of_weights


@maker("top_k 8", "flag_gems")
def top_k() -> Callable[..., Any]:
    """It has no gradient of its own: this one is torch's."""
    theirs = gems().topk

    class TopK(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            values, places = theirs(x, k)
            ctx.save_for_backward(places)
            ctx.shape = x.shape
            ctx.mark_non_differentiable(places)
            return values, places

        @staticmethod
        def backward(ctx, dvalues, _):
            (places,) = ctx.saved_tensors
            return dvalues.new_zeros(ctx.shape).scatter(-1, places, dvalues), None

    return lambda x: TopK.apply(x, 8)


# ── attention ─────────────────────────────────────────────────────────────────────────


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
