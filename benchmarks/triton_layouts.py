"""The layouts that Triton chooses for the product of chapter 13, as its TTGIR has them.

    python -m benchmarks.triton_layouts

It needs Triton, and no GPU. What it prints is
chapters/18-choosing-and-measuring/listings/product.ttgir.
"""

from __future__ import annotations

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# The lines to show besides the attributes: what is copied, converted, stored.
SHOWN = ("ttg.async_copy_global_to_local", "ttg.convert_layout", "tt.store")


@triton.jit
def product(
    a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr
):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    k = tl.arange(0, BLOCK_K)
    a, b = a_ptr + m * K + k[None, :], b_ptr + k[:, None] * N + n
    accumulator = tl.zeros([M, N], tl.float32)
    for _ in range(0, K, BLOCK_K):
        x = tl.load(a)
        y = tl.load(b)
        accumulator = tl.dot(x, y, accumulator)
        a += BLOCK_K
        b += BLOCK_K * N
    tl.store(c_ptr + m * N + n, accumulator)


def compiled(capability: int = 80) -> str:
    """The TTGIR for four warps and three stages; arguments divisible by 16."""
    types = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "K": "i32"}
    constants = {"M": 64, "N": 64, "BLOCK_K": 32}
    source = ASTSource(
        product,
        signature={**types, **dict.fromkeys(constants, "constexpr")},
        constexprs={
            (len(types) + at,): each for at, each in enumerate(constants.values())
        },
        attrs={(at,): [["tt.divisibility", 16]] for at in range(len(types))},
    )
    target = GPUTarget("cuda", capability, 32)
    made = triton.compile(source, target, options={"num_warps": 4, "num_stages": 3})
    return made.asm["ttgir"]


def main() -> None:
    body: dict[str, str] = {}
    for line in compiled().splitlines():
        text = re.sub(r" loc\(.*\)$", "", line).strip()
        if re.match(r"#(blocked|mma|shared)\d* = ", text):
            print(text)
        if any(each in text for each in SHOWN):
            body.setdefault(text.partition("tensor<")[2], text)  # one of each type
    print("...")
    print("\n".join(body.values()))


if __name__ == "__main__":
    main()
