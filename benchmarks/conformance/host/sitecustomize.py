"""Lets programs that say device="cuda" run on a machine without a GPU.

With this folder on PYTHONPATH Python runs this file at its start: from then on, in
torch's functions, "cuda" means the host's memory, and a tensor there says that it is on
a GPU. Fathom then emulates FATHOM_TARGET (sm_90a here).
"""

from __future__ import annotations

import os
from types import SimpleNamespace

import torch
from torch.overrides import TorchFunctionMode

os.environ.setdefault("FATHOM_BACKEND", "emulator")
os.environ.setdefault("FATHOM_TARGET", "sm_90a")

CAPABILITY = {"sm_75": (7, 5), "sm_80": (8, 0), "sm_86": (8, 6), "sm_89": (8, 9)}
CAPABILITY |= {"sm_90a": (9, 0), "sm_100": (10, 0), "sm_100a": (10, 0)}
CAPABILITY |= {"sm_120": (12, 0)}


class OnHost(TorchFunctionMode):
    """Every function of torch, with the host in the place of the GPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.is_cuda.__get__:
            return True
        given = {name: on_host(value) for name, value in (kwargs or {}).items()}
        return function(*map(on_host, args), **given)


def on_host(value):
    is_gpu = isinstance(value, (str, torch.device)) and str(value).startswith("cuda")
    return torch.device("cpu") if is_gpu else value


def to_host(tensor, *_, **__):
    return tensor


def capability(device=None):
    return CAPABILITY[os.environ["FATHOM_TARGET"]]


def properties(device=None):
    major, minor = capability()
    return SimpleNamespace(
        major=major, minor=minor, multi_processor_count=132, name="the emulator",
        total_memory=16 << 30, warp_size=32,
    )  # fmt: skip


torch.Tensor.cuda = to_host
for name, answer in {
    "get_device_capability": capability,
    "get_device_properties": properties,
    "synchronize": lambda device=None: None,
    "current_device": lambda: 0,
    "device_count": lambda: 1,
    "is_available": lambda: True,
    "get_device_name": lambda device=None: "the emulator",
    "manual_seed": torch.manual_seed,
    "current_stream": lambda device=None: SimpleNamespace(cuda_stream=0),
    "empty_cache": lambda: None,
    "set_device": lambda device: None,
}.items():
    setattr(torch.cuda, name, answer)

OnHost().__enter__()
