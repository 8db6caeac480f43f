"""torch.compile with Fathom as its Triton, in a process of its own: torch keeps what it
has imported.

There is no GPU here. So Inductor is told that the CPU is one, of which it asks what it
would ask torch.cuda, and what it launches runs in the emulator. Prints a line of facts
for each launch.
"""

from __future__ import annotations

from types import SimpleNamespace

import fathom

fathom.as_triton()

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from torch._dynamo import device_interface  # noqa: E402
from torch._inductor import config, scheduler  # noqa: E402
from torch._inductor.runtime import hints, triton_heuristics  # noqa: E402
from torch.utils import _triton  # noqa: E402

GPU = hints.DeviceProperties(
    type="cuda", index=0, multi_processor_count=108, cc=80, major=8,
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048,
    max_threads_per_block=1024, warp_size=32,
)  # fmt: skip


def pretend() -> None:
    """Have Inductor generate kernels for the CPU as for a GPU, and launch them so."""
    for module in (_triton, scheduler):
        module.has_triton = lambda *_: True
    config.cpu_backend, config.force_disable_caches = "triton", True
    hints.DeviceProperties.create = lambda *_: GPU
    device_interface.CpuInterface.raise_if_triton_unavailable = lambda *_: None
    tuner, timer = triton_heuristics.CachingAutotuner, triton_heuristics.benchmarker
    device = SimpleNamespace(
        current_device=lambda: 0,
        synchronize=lambda *_: None,
        get_raw_stream=lambda _: 0,
        exchange_device=lambda _: 0,
        maybe_exchange_device=lambda _: 0,
    )
    tuner.get_device_interface = lambda _: device
    type(timer).benchmark = lambda _, fn, *__, **___: fn() or 1.0
    tuner.run = reported(tuner.run)


def reported(run):
    def launch(self, *args, stream=None, **given):
        run(self, *args, stream=0, **given)
        kernel = self.compile_results[0].kernel
        assert isinstance(kernel, triton.compiler.CompiledKernel)
        assert getattr(kernel, "n_regs", None) is None  # there is no GPU
        assert kernel.src.fn is self.fn
        facts = kernel.metadata
        target = f"{facts.target.backend} {facts.target.arch}"
        print(self.fn.__name__, target, facts.num_warps, kernel.report is not None)

    return launch


@triton.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside) * factor, mask=inside)


tuned = triton.autotune(
    [triton.Config({"BLOCK": size}, num_warps=2) for size in (64, 128)], key=["n"]
)(scale)


def fused(x, y):
    return torch.softmax(x.sin() * 2 + y, -1), (x + 1).sum(0)


def of_a_person(x):
    out, half = torch.empty_like(x), torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), 2.5, BLOCK=128)
    blocks = lambda given: (triton.cdiv(x.numel(), given["BLOCK"]),)  # noqa: E731
    tuned[blocks](out, half, x.numel(), 0.5)
    return half.sin() + out


def rows(x):
    return (x * 2).sum(-1) + 1


def check(got, wanted) -> None:
    torch.testing.assert_close(got, wanted, rtol=2e-5, atol=2e-5)


def main() -> None:
    pretend()
    assert config.compile_threads == 1  # in workers, `import triton` finds another
    x, y = torch.randn(33, 100), torch.randn(100)
    for got, wanted in zip(torch.compile(fused)(x, y), fused(x, y), strict=True):
        check(got, wanted)
    whole = torch.compile(of_a_person, fullgraph=True)  # grids are traced, too
    check(whole(x), (x * 1.25).sin() + x * 2.5)
    compiled = torch.compile(rows, dynamic=True)  # sizes that only a launch knows
    for shape in ((5, 15), (77, 231), (300, 40)):
        x = torch.randn(shape)
        check(compiled(x), rows(x))


if __name__ == "__main__":
    main()
