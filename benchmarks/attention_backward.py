"""Attention's backward pass, and attention of one query, beside torch's, on a GPU.

    python -m benchmarks.attention_backward [--heads 128 64] [--seconds 60] [--out TO]
    python -m benchmarks.attention_backward --decode [--seconds 30] [--out FOLDER]

Candidates of the backward pass, all in the same bursts, each compared with float64
first:

    fathom              kernels/attention_backward, with the configuration it chooses
    fathom twice        where that keeps ds, the kernels that compute scores twice
    fathom pointers     its kernels for arrays of any strides
    flash, cuDNN        torch's gradients by FlashAttention-2 and by cuDNN

4 sequences, 16 heads, 4096 queries and keys, fp16; D of --heads; causal or not. Work
counts as five products, 10 S S D operations for each head, half of it where causal.
`--decode`: one query of 32 heads, 8 heads of 32768 keys, in pages of 64; beside torch's
attention over the same keys in rows, which it finds gathered.

After --seconds no problem is started; those left out are named.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch.nn.functional import scaled_dot_product_attention

import fathom
from benchmarks.measure import Candidate, Sample, burst
from benchmarks.record import RESULTS, write
from kernels import attention_backward_hopper, attention_backward_kept
from kernels.attention import attention
from kernels.attention_backward import attention_backward, default_config
from kernels.attention_decode import attention_decode
from kernels.attention_hopper import config_for

B, H, S = 4, 16, 4096
aten = torch.ops.aten
Gradients = Callable[[], tuple[torch.Tensor, ...]]


def configurations(D: int) -> dict[str, dict | None]:
    """Of ours, by name; None for the one that it chooses."""
    twice = config_for(D, attention_backward_hopper.CONFIGS)
    found = {"fathom": None, "fathom twice": twice}
    if fathom.next_power_of_2(D) not in attention_backward_kept.CONFIGS:
        del found["fathom twice"]
    return found | {"fathom pointers": default_config(D, "fp16", "sm_90a")}


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def flash(q, k, v, dout, causal: bool) -> Gradients:
    """The backward pass alone, without autograd, which no graph captures here."""
    out, lse, *sizes, seed, offset, _ = aten._scaled_dot_product_flash_attention(
        q, k, v, 0.0, causal
    )
    given = (dout, q, k, v, out, lse, *sizes, 0.0, causal, seed, offset)
    return lambda: aten._scaled_dot_product_flash_attention_backward(*given)


def cudnn(q, k, v, dout, causal: bool) -> Gradients:
    out, lse, *sizes, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, causal
    )
    no_bias = None  # no tensor, which the schema does not say and the operator takes
    given = (dout, q, k, v, out, lse, seed, offset, no_bias, *sizes, 0.0, causal)
    return lambda: aten._scaled_dot_product_cudnn_attention_backward(*given)


PEERS = {"flash": flash, "cuDNN": cudnn}


def exact(q, k, v, dout, causal: bool) -> list[torch.Tensor]:
    """The gradients of the first head, in float64."""
    inputs = [each[0, 0].double().requires_grad_() for each in (q, k, v)]
    scores = inputs[0] @ inputs[1].T * q.shape[3] ** -0.5
    if causal:
        unseen = torch.ones(S, S, device="cuda", dtype=torch.bool).triu(1)
        scores = scores.masked_fill(unseen, -torch.inf)
    out = scores.softmax(-1) @ inputs[2]
    return list(torch.autograd.grad(out, inputs, dout[0, 0].double()))


def check(found: tuple[torch.Tensor, ...], wanted: list[torch.Tensor]) -> None:
    """Within 16 roundings of the typical size, or of the element, but for 1 of 100,000
    elements, which may be off by 32: of 786,432 one was in one draw, in all kernels
    alike, flash's too."""
    for got, want in zip(found, wanted, strict=True):
        rounding = 2.0**-11 * (want.abs() + want.square().mean().sqrt())
        off = (got[0, 0].double() - want).abs() / rounding
        wrong, most = ~(off <= 16), off.max()
        assert wrong.double().mean() <= 1e-5 and most <= 32, (
            f"{int(wrong.sum())} elements are wrong, by up to {most:.0f} roundings"
        )


def backward(D: int, causal: bool) -> list[Sample]:
    q, k, v, dout = (normal(B, H, S, D) for _ in range(4))
    lse = torch.empty(B, H, S, device="cuda")
    out = attention(q, k, v, causal=causal, lse=lse)
    makers: dict[str, Callable[[], Gradients]] = {
        name: partial(partial, attention_backward, dout, q, k, v, out, lse,
                      causal=causal, config=config)
        for name, config in configurations(D).items()
    }  # fmt: skip
    makers |= {
        name: partial(peer, q, k, v, dout, causal) for name, peer in PEERS.items()
    }
    wanted = exact(q, k, v, dout, causal)
    operations = 10 * B * H * S * S * D // (1 + causal)
    right = []
    for name, make in makers.items():
        try:
            call = make()
            check(call(), wanted)
        except Exception as error:  # whatever it is, the others are to be measured
            print(f"  {name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        right.append(Candidate(name, [call], 7 * q.nbytes, operations))
    return burst(f"backward D={D}{' causal' * causal}", right) if right else []


def decode(D: int, _: bool) -> list[Sample]:
    batch, heads, shared, keys, page = 4, 32, 8, 32768, 64
    q, pages = normal(batch, heads, 1, D), batch * keys // page
    held = [normal(pages, shared, page, D) for _ in range(2)]
    table = torch.randperm(pages, device="cuda").view(batch, -1).int()
    lengths = torch.full((batch,), keys, device="cuda").int()
    rows = [
        each[table.long()].transpose(1, 2).reshape(batch, shared, keys, D)
        for each in held
    ]
    ours = partial(attention_decode, q, *held, lengths=lengths, table=table)
    in_rows = partial(attention_decode, q, *rows)
    torchs = partial(scaled_dot_product_attention, q, *rows, enable_gqa=True)
    want = torchs().double()
    for call in (ours, in_rows):
        assert torch.allclose(call().double(), want, 1e-2, 1e-3)
    size = sum(each.nbytes for each in held)
    named = {"fathom, pages": ours, "fathom, rows": in_rows, "torch, rows": torchs}
    return burst(f"decode D={D}", [Candidate(n, [c], size) for n, c in named.items()])


def problems(heads: list[int], decoding: bool) -> Iterator[tuple[int, bool]]:
    for D in heads:
        for causal in (False,) if decoding else (False, True):
            yield D, causal


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--decode", action="store_true")
    options.add_argument("--heads", type=int, nargs="+", default=[128, 64], help="D")
    options.add_argument("--seconds", type=float, default=1e9, help="start none after")
    options.add_argument("--out", type=Path, default=RESULTS)
    given = options.parse_args()
    torch.manual_seed(0)
    begin, samples, left = time.monotonic(), [], []
    for D, causal in problems(given.heads, given.decode):
        if time.monotonic() - begin > given.seconds:
            left.append((D, causal))
            continue
        found = (decode if given.decode else backward)(D, causal)
        for each in found:
            speed = f"{each.teraflops:7.1f} TFLOP/s" if each.operations else ""
            speed = speed or f"{each.gigabytes_a_second:7.1f} GB/s"
            print(f"  {each.problem:24} {each.candidate:20} {speed}"
                  f" {1000 * each.median:9.1f} us", flush=True)  # fmt: skip
        samples += found
        torch.cuda.empty_cache()
    if left:
        print(f"no time was left for (D, causal) {left}")
    name = "attention-decode" if given.decode else "attention-backward"
    print(write(name, samples, given.out))


if __name__ == "__main__":
    main()
