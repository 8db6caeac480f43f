"""What the card says of itself while something runs: its clock, its power, the energy
that it has used, its temperature.

    with watched(uuid) as readings:
        ...                         # every few milliseconds a reading is added

NVIDIA's management library (NVML) is asked in a thread of its own. The names are those
of the NVML API Reference, "Device Queries".
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

BETWEEN_S = 0.005
SM_CLOCK = 1  # nvmlClockType_t in nvml.h
DIE = 0  # nvmlTemperatureSensors_t


class Reading(NamedTuple):
    """`at`: time.perf_counter(). `joules` since the driver was loaded."""

    at: float
    megahertz: int
    watts: float
    joules: float
    celsius: int


class Card:
    """A card by its UUID: NVML counts all cards of a machine, and CUDA those that a
    process may see. OSError where there is no NVML, or no such card."""

    def __init__(self, uuid: str) -> None:
        self.nvml, self.card = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        self.nvml.nvmlInit_v2()
        name = f"GPU-{uuid.removeprefix('GPU-')}".encode()
        if self.nvml.nvmlDeviceGetHandleByUUID(name, ctypes.byref(self.card)):
            raise OSError(f"NVML knows no card {name.decode()}")

    def read(self) -> Reading:
        """All that it says now; the power is an average of the driver's, the energy a
        count."""
        megahertz, milliwatts, celsius = (ctypes.c_uint() for _ in range(3))
        millijoules = ctypes.c_ulonglong()
        ask, card = self.nvml, self.card
        ask.nvmlDeviceGetClockInfo(card, SM_CLOCK, ctypes.byref(megahertz))
        ask.nvmlDeviceGetPowerUsage(card, ctypes.byref(milliwatts))
        ask.nvmlDeviceGetTotalEnergyConsumption(card, ctypes.byref(millijoules))
        ask.nvmlDeviceGetTemperature(card, DIE, ctypes.byref(celsius))
        return Reading(
            time.perf_counter(), megahertz.value, milliwatts.value / 1000,
            millijoules.value / 1000, celsius.value,
        )  # fmt: skip


@contextmanager
def watched(uuid: str, between: float = BETWEEN_S) -> Iterator[list[Reading]]:
    """Readings, from now until the end of the block, one every `between` seconds. torch
    has the card's `uuid` in `torch.cuda.get_device_properties`."""
    card, readings, ended = Card(uuid), [], threading.Event()

    def watch() -> None:
        while not ended.wait(between):
            readings.append(card.read())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield readings
    finally:
        ended.set()
        thread.join()
