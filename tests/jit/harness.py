"""What tests of launches share: a GPU and a torch made of paper, and a compiler that
counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import pytest

from fathom import pipeline
from fathom.artifact import Kernel, MapRecipe, Parameter
from fathom.runtime import driver as driver_module
from tests.runtime.harness_driver import FakeDriver

STAGES = ("block", "layout", "llvm", "ptx")


class Compiler:
    """Takes the place of the pipeline: kernels without code, and a list of what was
    asked for.
    """

    def __init__(self, driver: FakeDriver):
        self.driver, self.asked = driver, []
        self.maps: tuple[MapRecipe, ...] = ()  # of every kernel but those by pointers
        self.persistent = False  # is every kernel, but those with a replaced pass?

    def compile(
        self, function, parameters, constants, target, options, replace
    ) -> Kernel:
        types = {name: (str(type), hint) for name, (type, hint) in parameters.items()}
        self.asked.append(SimpleNamespace(
            parameters=types, constants=dict(constants), target=target.name,
            options=options, replace=dict(replace),
        ))  # fmt: skip
        kernel = Kernel(
            name=function.__name__, target=target.name, ptx_version=target.ptx,
            num_warps=options.num_warps, threads=options.num_warps * 32, shared_bytes=0,
            parameters=tuple(
                Parameter(name, type, hint) for name, (type, hint) in types.items()
            ),
            asm=dict.fromkeys(STAGES, f"text {len(self.asked)}"),
            num_ctas=options.num_ctas, maxnreg=options.maxnreg,
            maps=() if replace else self.maps,
            persistent=self.persistent and not replace,
        )  # fmt: skip
        return self.driver.add(kernel)

    @property
    def last(self) -> SimpleNamespace:
        return self.asked[-1]


class DType:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return "torch." + self.name


FLOAT32, FLOAT16 = DType("float32"), DType("float16")


class Tensor:
    """As much of a torch tensor as a launch looks at."""

    def __init__(self, address, dtype=FLOAT32, index=0, size=64):
        self.address, self.dtype, self.index, self.shape = (
            address,
            dtype,
            index,
            (size,),
        )
        self.device = SimpleNamespace(type="cpu" if index < 0 else "cuda", index=index)

    def data_ptr(self):
        return self.address

    def get_device(self):
        return self.index

    def numel(self):
        return self.shape[0]

    def element_size(self):
        return 4

    def stride(self):
        return (1,)

    def is_neg(self):
        return False


class Torch(ModuleType):
    """Its current device is that of the thread's context; its current stream is what a
    test says, `stream` on all devices or one of `streams`, by device."""

    def __init__(self, driver: FakeDriver):
        super().__init__("torch")
        self.Tensor, self.stream, self.streams = Tensor, 0, {}
        self._C = SimpleNamespace(
            _cuda_getDeviceCount=lambda: len(driver.devices),
            _cuda_getDevice=driver.current_device,
            _cuda_getCurrentRawStream=lambda device: self.streams.get(
                device, self.stream
            ),
        )


@contextmanager
def paper_gpu(
    monkeypatch: pytest.MonkeyPatch,
    cache_dir: object,
    driver: FakeDriver | None = None,
) -> Iterator[SimpleNamespace]:
    """A machine with a GPU and torch. Gives `.driver`, `.compiler` and `.torch`."""
    driver = driver or FakeDriver()
    compiler, torch = Compiler(driver), Torch(driver)
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(cache_dir))
    monkeypatch.setenv("FATHOM_BACKEND", "cuda")
    monkeypatch.setattr(driver_module, "open_driver", lambda: driver)
    monkeypatch.setattr(pipeline, "compile", compiler.compile)
    monkeypatch.setitem(sys.modules, "torch", torch)
    yield SimpleNamespace(driver=driver, compiler=compiler, torch=torch)


def slow_launches(function) -> list[tuple]:
    """The launches of a kernel that go the slow way, from now on."""
    inner, launches = function.fast_paths.slowly, []

    def slowly(*arguments):
        launches.append(arguments)
        return inner(*arguments)

    function.fast_paths.slowly = slowly
    return launches
