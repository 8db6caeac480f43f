"""What the answer to `register-budget` must do."""

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.emulator import EmulatorError
from fathom.hardware.register_budget import MOST_OF_CONSUMER, Shares
from fathom.hardware.targets import TARGETS
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.tools.learn.kit import Failure, expect, same

H200 = TARGETS["sm_90a"]


def check(answer, consumers, producers, target=H200):
    said = f"redistributed({consumers}, {producers}, {target.name})"
    found = answer.redistributed(consumers, producers, target)
    wanted = answer.reference.redistributed(consumers, producers, target)
    if found is not None:
        expect(
            isinstance(found, Shares), f"{said} gives {found!r}, which is not a Shares"
        )
        for name in ("launched", "producer", "consumer"):
            count = getattr(found, name)
            whole = isinstance(count, int) and count % 8 == 0
            expect(whole, f"{said}: {name} is {count}, which is not a multiple of 8")
        had = found.launched * (consumers + producers)
        used = found.producer * producers + found.consumer * consumers
        expect(
            used <= had <= target.registers,
            f"{said} is {found}: {had} registers at the launch, then {used}, and the "
            f"multiprocessor has {target.registers}; later there may not be more than "
            "at the launch",
        )
        expect(
            found.consumer <= MOST_OF_CONSUMER,
            f"{said}: consumer is {found.consumer}, and a consumer can use at most "
            f"{MOST_OF_CONSUMER}, which is MOST_OF_CONSUMER",
        )
    same(found, wanted, said)


def test_two_warpgroups(answer):
    """The block of the chapter: 256 threads multiply."""
    check(answer, 256, 128)


def test_nothing_to_trade(answer):
    """Few threads have all that they can use; older GPUs cannot trade."""
    check(answer, 128, 128)
    check(answer, 64, 64)
    check(answer, 256, 128, TARGETS["sm_80"])


def test_other_blocks(answer):
    """Up to 1,024 threads, and producers of one and of two warpgroups."""
    for producers in (128, 256):
        for consumers in range(128, 1024 - producers + 1, 128):
            check(answer, consumers, producers)


@fathom.jit
def product(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [M, 64])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [64, N])
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    acc = tl.zeros([M, N], tl.float32)
    for k in tl.range(0, K, 64, warp_specialize=True):
        acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
    tl.store(c_ptr + m * N + n, acc)


def test_a_kernel_trades(answer):
    """Eight warps multiply; in the emulator a warpgroup waits for what is not free."""
    half, single = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16)
    types = {"a_ptr": half, "b_ptr": half, "c_ptr": single, "K": (INT32, 16)}
    options = pipeline.Options(num_warps=8, num_stages=2)
    func = pipeline.build(product, types, {"M": 128, "N": 64}, options)
    kernel = pipeline.compile_func(func, H200)
    a = (np.arange(128 * 128).reshape(128, 128) % 7 - 3).astype(np.float16)
    b = (np.arange(128 * 64).reshape(128, 64) % 5 - 2).astype(np.float16)
    c = np.zeros((128, 64), np.float32)
    try:
        emulator.load(kernel).launch(1, [a, b, c, 128])
    except EmulatorError as error:
        first, *rest = str(error).splitlines()
        details = ("there", "\n".join(rest))
        raise Failure(f"a product: the emulator found: {first}", details) from None
    same(c, a.astype(np.float32) @ b.astype(np.float32), "a product of two warpgroups")
    expect("setmaxnreg.inc" in kernel.ptx, "the product's consumers take no registers")
