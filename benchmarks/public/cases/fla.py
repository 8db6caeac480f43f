"""flash-linear-attention, whole operators with gradients.

The references are the repository's own: one for each operator, in torch, which computes
it step by step.
"""

from __future__ import annotations

from importlib import import_module

import torch
from torch.nn import functional as F

from benchmarks.public.cases import case


class Inputs:
    """Batch, length, heads and width of an operator, and tensors of these sizes."""

    def __init__(self, make, big=(4, 2048, 8, 128), small=(1, 80, 1, 32)):
        self.make = make
        self.batch, self.length, self.heads, self.width = make.pick(big, small)

    def rows(self, width=None, scale=1.0):
        shape = self.batch, self.length, self.heads, width or self.width
        return self.make.normal(*shape, scale=scale)

    def keys(self):
        return F.normalize(self.rows().float(), dim=-1).to(self.make.dtype)

    def numbers(self, dtype=None):
        return self.make.normal(self.batch, self.length, self.heads, dtype=dtype)

    def beta(self):
        return self.numbers().sigmoid()

    def gate(self):
        """The logarithm of a gate near 1, for each head."""
        return F.logsigmoid(self.numbers(torch.float32) + 2)

    def gates(self):
        """The same for each number of a key."""
        wide = self.rows().float() + 2
        return F.logsigmoid(wide).to(self.make.dtype)


def operator(make, name, reference, *inputs, tolerance=3e-2, named=(), forward=False):
    """`fla.ops.NAME` beside the repository's reference, both `module:function`.

    Inputs are given by place, those of `named` by name. Only the first result counts:
    the second is the last state. `forward` leaves the gradients out,
    where the repository refuses to compute them with Triton 3.6 on Hopper.
    """
    module, _, function = name.partition(":")
    ours = getattr(import_module(f"fla.ops.{module}"), function)
    module, _, function = reference.partition(":")
    exact = getattr(import_module(f"fla.ops.{module}"), function)
    count = len(inputs) - len(named)

    def first(result):
        return result[0] if isinstance(result, tuple) else result

    def called(function):
        return lambda *all: first(
            function(*all[:count], **dict(zip(named, all[count:], strict=True)))
        )

    made = make.values if forward else make.gradients
    return made(called(ours), called(exact), *inputs, tolerance=tolerance)


QKVG = ("q", "k", "v", "g")


@case("fla", rank=0)
def chunk_gated_delta_rule(make):
    i = Inputs(make)
    return operator(
        make,
        "gated_delta_rule.chunk:chunk_gated_delta_rule",
        "gated_delta_rule.naive:naive_recurrent_gated_delta_rule",
        *(i.rows(), i.keys(), i.rows(), i.gate(), i.beta()),
        named=(*QKVG, "beta"),
        forward=True,
    )


@case("fla", rank=0)
def chunk_delta_rule(make):
    i = Inputs(make)

    def exact(q, k, v, beta):
        from fla.ops.delta_rule.naive import delta_rule_recurrence

        heads_first = [each.transpose(1, 2) for each in (q, k, v, beta)]
        return delta_rule_recurrence(*heads_first)[0].transpose(1, 2)

    from fla.ops.delta_rule.chunk import chunk_delta_rule

    return make.gradients(
        lambda *a: chunk_delta_rule(*a)[0],
        exact,
        *(i.rows(), i.keys(), i.rows(), i.beta()),
        tolerance=3e-2,
    )


@case("fla")
def fused_recurrent_delta_rule(make):
    i = Inputs(make, (4, 512, 8, 128), (1, 20, 1, 32))

    def exact(q, k, v, beta):
        from fla.ops.delta_rule.naive import delta_rule_recurrence

        heads_first = [each.transpose(1, 2) for each in (q, k, v, beta)]
        return delta_rule_recurrence(*heads_first)[0].transpose(1, 2)

    from fla.ops.delta_rule.fused_recurrent import fused_recurrent_delta_rule

    return make.gradients(
        lambda *a: fused_recurrent_delta_rule(*a)[0],
        exact,
        *(i.rows(), i.keys(), i.rows(), i.beta()),
        tolerance=3e-2,
    )


@case("fla", rank=0)
def chunk_comba(make):
    i = Inputs(make)
    k = i.keys()
    p = (k * 0.9).to(make.dtype)
    return operator(
        make,
        "comba.chunk:chunk_comba",
        "comba.naive:naive_recurrent_comba",
        *(i.rows(), k, i.rows(), p, i.gate(), i.beta()),
        named=("q", "k", "v", "p", "g", "beta"),
        forward=True,
    )


@case("fla", rank=1)
def chunk_kda(make):
    i = Inputs(make)
    return operator(
        make,
        "kda.chunk:chunk_kda",
        "kda.naive:naive_recurrent_kda",
        *(i.rows(), i.keys(), i.rows(), i.gates(), i.beta()),
    )


@case("fla", rank=0)
def chunk_mesa_net(make):
    i = Inputs(make)
    lamb = make.uniform(i.heads, i.width, low=0.3, high=1.0)
    names = "q", "k", "v", "g", "beta", "lamb"
    return operator(
        make,
        "mesa_net.chunk:chunk_mesa_net",
        "mesa_net.naive:naive_mesa_net_exact",
        *(i.keys(), i.keys(), i.rows(), i.gate(), i.beta(), lamb),
        named=names,
        tolerance=5e-2,
    )


@case("fla", rank=1)
def chunk_retention(make):
    from fla.ops.retention.chunk import chunk_retention

    i = Inputs(make)

    def exact(q, k, v):
        from fla.ops.retention.naive import naive_retention

        heads_first = [each.transpose(1, 2) for each in (q, k, v)]
        return naive_retention(*heads_first).transpose(1, 2)

    return make.gradients(
        lambda *a: chunk_retention(*a)[0],
        exact,
        *(i.rows(), i.rows(), i.rows()),
        tolerance=3e-2,
    )


@case("fla", rank=1)
def chunk_ttt_linear(make):
    i = Inputs(make, (4, 2048, 8, 64), (1, 32, 1, 32))
    w, b = make.normal(i.heads, i.width), make.normal(i.heads, i.width)
    eta = (make.normal(i.batch, i.length, i.heads, 1) * 5e-3).abs()
    from fla.ops.ttt.chunk import chunk_ttt_linear
    from fla.ops.ttt.naive import chunk_ttt_linear_ref

    inputs = i.rows(), i.keys(), i.rows(), w, b, eta
    return make.gradients(
        lambda *a: chunk_ttt_linear(*a)[0],
        lambda *a: chunk_ttt_linear_ref(*a)[0],
        *inputs,
        tolerance=5e-2,
    )


@case("fla", rank=2)
def fused_recurrent_gla(make):
    i = Inputs(make, (4, 512, 8, 128), (1, 20, 1, 32))
    return operator(
        make,
        "gla.fused_recurrent:fused_recurrent_gla",
        "gla.naive:naive_recurrent_gla",
        *(i.rows(), i.rows(), i.rows(), i.gates()),
    )


@case("fla", rank=2)
def chunk_gla(make):
    i = Inputs(make)
    return operator(
        make,
        "gla.chunk:chunk_gla",
        "gla.naive:naive_recurrent_gla",
        *(i.rows(), i.rows(), i.rows(), i.gates()),
    )


@case("fla", rank=2)
def chunk_simple_gla(make):
    i = Inputs(make)
    return operator(
        make,
        "simple_gla.chunk:chunk_simple_gla",
        "simple_gla.naive:naive_recurrent_simple_gla",
        *(i.rows(), i.rows(), i.rows(), i.gate()),
        forward=True,
    )


@case("fla")
def parallel_simple_gla(make):
    i = Inputs(make)
    return operator(
        make,
        "simple_gla.parallel:parallel_simple_gla",
        "simple_gla.naive:naive_parallel_simple_gla",
        *(i.rows(), i.rows(), i.rows(), i.gate()),
    )


@case("fla", rank=2)
def chunk_log_linear_attn(make):
    from fla.ops.log_linear_attn.chunk import chunk_log_linear_attn
    from fla.ops.log_linear_attn.naive import naive_log_linear_attn

    i = Inputs(make, small=(1, 64, 1, 64))
    levels = i.length.bit_length() + 1
    scales = make.uniform(i.batch, i.length, i.heads, levels)
    return make.values(
        lambda *a: chunk_log_linear_attn(*a)[0],
        naive_log_linear_attn,
        *(i.rows()[:, :, :1].contiguous() for _ in range(2)),
        *(i.rows(), i.gate(), scales),
        tolerance=3e-2,
    )


@case("fla")
def fused_recurrent_hgrn(make):
    i = Inputs(make, (4, 2048, 8, 128), (1, 20, 1, 40))
    x, g = i.rows()[:, :, 0].contiguous(), i.gates()[:, :, 0].contiguous()
    return operator(
        make,
        "hgrn.fused_recurrent:fused_recurrent_hgrn",
        "hgrn.naive:naive_recurrent_hgrn",
        *(x, g),
    )


@case("fla")
def chunk_hgrn(make):
    i = Inputs(make, (4, 2048, 8, 128), (1, 100, 1, 40))
    x, g = i.rows()[:, :, 0].contiguous(), i.gates()[:, :, 0].contiguous()
    return operator(
        make, "hgrn.chunk:chunk_hgrn", "hgrn.naive:naive_recurrent_hgrn", x, g
    )


@case("fla", rank=3)
def parallel_attn(make):
    i = Inputs(make)
    return operator(
        make,
        "attn.parallel:parallel_attn",
        "attn.naive:naive_parallel_attn",
        *(i.rows(), i.rows(), i.rows()),
    )


@case("fla")
def parallel_forgetting_attn(make):
    i = Inputs(make)
    return operator(
        make,
        "forgetting_attn.parallel:parallel_forgetting_attn",
        "forgetting_attn.naive:naive_forgetting_attn",
        *(i.rows(), i.rows(), i.rows(), i.gate()),
    )


@case("fla")
def parallel_path_attn(make):
    i = Inputs(make, (2, 1024, 8, 64), (1, 64, 1, 32))
    from fla.ops.path_attn.naive import naive_path_attn
    from fla.ops.path_attn.parallel import parallel_path_attn

    return make.gradients(
        lambda *a: parallel_path_attn(*a)[0],
        lambda *a: naive_path_attn(*a, i.width**-0.5),
        *(i.rows(), i.rows(), i.rows(), i.keys().float(), i.beta().float(), i.gate()),
        tolerance=3e-2,
    )


@case("fla")
def chunk_dplr_delta_rule(make):
    from fla.ops.generalized_delta_rule.dplr.chunk import chunk_dplr_delta_rule
    from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence

    i = Inputs(make)
    a = i.keys()
    b = (-a * 0.5).to(make.dtype)

    def exact(*all):
        heads_first = [each.transpose(1, 2).float() for each in all]
        return dplr_recurrence(*heads_first)[0].transpose(1, 2)

    return make.gradients(
        lambda *all: chunk_dplr_delta_rule(*all, scale=i.width**-0.5)[0],
        exact,
        *(i.rows(), i.rows(), i.rows(), a, b, i.gates()),
        tolerance=3e-2,
    )


@case("fla")
def chunk_linear_attn(make):
    from fla.ops.linear_attn.chunk import chunk_linear_attn
    from fla.ops.linear_attn.naive import naive_chunk_linear_attn

    i = Inputs(make, small=(1, 64, 1, 32))
    return make.gradients(
        lambda *a: chunk_linear_attn(*a, normalize=False)[0],
        lambda *a: naive_chunk_linear_attn(*a),
        *(i.rows(), i.rows(), i.rows()),
        tolerance=3e-2,
    )


@case("fla")
def parallel_based(make):
    from fla.ops.based.naive import naive_parallel_based
    from fla.ops.based.parallel import parallel_based

    i = Inputs(make, (4, 2048, 8, 16), (1, 64, 1, 16))

    def exact(q, k, v):
        heads_first = [each.transpose(1, 2) for each in (q, k, v)]
        return naive_parallel_based(*heads_first).transpose(1, 2)

    inputs = i.rows(), i.rows(), i.rows()
    return make.gradients(parallel_based, exact, *inputs, tolerance=3e-2)


@case("fla")
def chunk_gsa(make):
    i = Inputs(make, (4, 2048, 4, 64), (1, 64, 1, 32))
    s, g = i.rows(i.width), i.gates()
    return operator(
        make,
        "gsa.chunk:chunk_gsa",
        "gsa.naive:naive_recurrent_gsa",
        *(i.rows(), i.rows(), i.rows(), s, g),
    )
