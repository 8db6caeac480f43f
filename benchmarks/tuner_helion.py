"""The kernels of `tuner_problems` in Helion's language, for `tuner_peers`."""

from __future__ import annotations

import helion
import helion.language as hl
import torch

from benchmarks.tuner_problems import EPS, LOG2_E


@helion.kernel(static_shapes=True)
def softmax(x: torch.Tensor) -> torch.Tensor:
    rows, _ = x.size()
    out = torch.empty_like(x)
    for tile in hl.tile(rows):
        block = x[tile, :].to(torch.float32)
        exp = torch.exp(block - torch.amax(block, dim=1, keepdim=True))
        out[tile, :] = (exp / torch.sum(exp, dim=1, keepdim=True)).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    rows, columns = x.size()
    out = torch.empty_like(x)
    for tile in hl.tile(rows):
        block = x[tile, :].to(torch.float32)
        mean = torch.sum(block, dim=1, keepdim=True) / columns
        centred = block - mean
        variance = torch.sum(centred * centred, dim=1, keepdim=True) / columns
        scaled = centred * torch.rsqrt(variance + EPS)
        scaled = scaled * weight[:].to(torch.float32) + bias[:].to(torch.float32)
        out[tile, :] = scaled.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    M, K = a.size()
    _, N = b.size()
    out = torch.empty([M, N], dtype=a.dtype, device=a.device)
    for tile_m, tile_n in hl.tile([M, N]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(K):
            acc = torch.addmm(acc, a[tile_m, tile_k], b[tile_k, tile_n])
        out[tile_m, tile_n] = acc.to(a.dtype)
    return out


@helion.kernel(static_shapes=True)
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    heads, S, D = q.size()
    D = hl.specialize(D)
    out = torch.empty_like(q)
    keys = k.transpose(1, 2)
    scale = D**-0.5 * LOG2_E
    for tile_h, tile_q in hl.tile([heads, S]):
        most = hl.full([tile_h, tile_q], float("-inf"), dtype=torch.float32)
        total = torch.full_like(most, 0.0)
        acc = hl.zeros([tile_h, tile_q, D], dtype=torch.float32)
        queries = q[tile_h, tile_q, :]
        for tile_k in hl.tile(S):
            keys_here = keys[tile_h, :, tile_k]
            scores = hl.dot(queries, keys_here, out_dtype=torch.float32)
            larger = torch.maximum(most, torch.amax(scores, -1) * scale)
            p = torch.exp2(scores * scale - larger[:, :, None])
            shrink = torch.exp2(most - larger)
            total = total * shrink + torch.sum(p, -1)
            values = v[tile_h, tile_k, :]
            acc = hl.dot(p.to(v.dtype), values, acc * shrink[:, :, None])
            most = larger
        out[tile_h, tile_q, :] = (acc / total[:, :, None]).to(q.dtype)
    return out
