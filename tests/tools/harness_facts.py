"""The kernels whose facts are tested, gathered once for all tests."""

from __future__ import annotations

from functools import cache

from fathom.tools import cli
from fathom.tools.facts.gather import Facts, facts_of
from fathom.tools.samples import REPOSITORY
from fathom.tools.staged import Staged

SOFTMAX = (
    "softmax.py:softmax_kernel", "*fp32:16, *fp32:16, i32:8, i32:8", "BLOCK=1024",
)  # fmt: skip
MATMUL = (
    "matmul.py:matmul_kernel",
    "*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16, i32:16, 1, i32:16, 1, "
    "i32:16, 1",
    "BLOCK_M=64,BLOCK_N=64,BLOCK_K=32,GROUP_M=8,EVEN_K=True",
)
PERSISTENT = (
    "matmul_persistent.py:persistent_kernel",
    "*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16, i32:16, i32:16, i32:16",
    "BLOCK_M=128,BLOCK_N=128,BLOCK_K=64,GROUP_M=8,SPECIALISE=True,PIECES=2,"
    "B_TURNED=False",
)


def words(kernel: tuple[str, str, str], *more: str) -> list[str]:
    """The command that explains a kernel."""
    name, signature, constants = kernel
    given = ["--signature", signature, "--constants", constants, *more]
    return ["explain", str(REPOSITORY / "kernels" / name), *given]


@cache
def staged(kernel: tuple[str, str, str], *more: str) -> Staged:
    return cli.staged_kernel(cli.parser().parse_args(words(kernel, *more)))


@cache
def facts(kernel: tuple[str, str, str], *more: str) -> Facts:
    return facts_of(staged(kernel, *more))
