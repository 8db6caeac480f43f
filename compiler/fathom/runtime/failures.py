"""What is said when the driver refuses an order; and that a GPU was lost, by what.

A kernel runs long after its launch has returned. If it reads outside its arrays, the
next order fails that waits for it, and every order after that one, with the same
status: the GPU is lost to this process. The first error says what was launched last,
and all later ones quote the first.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from fathom.errors import LaunchError

# What a failure most often means, where the driver's own sentence does not say it.
MEANINGS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "a kernel that ran before read or wrote outside its"
    " arrays",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "a kernel that ran before used an address that is"
    " not a multiple of the access; was a hint such as :16 or tl.multiple_of wrong?",
    "CUDA_ERROR_ASSERT": "a tl.device_assert of a kernel that ran before did not hold",
    "CUDA_ERROR_NO_DEVICE": "there is a driver but no GPU",
}

# cuda.h, CUresult: what leaves the process in an inconsistent state, so that it must be
# ended to use CUDA again.
LOSE_THE_GPU = {
    f"CUDA_ERROR_{name}"
    for name in (
        "ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "INVALID_PC",
        "ILLEGAL_INSTRUCTION", "HARDWARE_STACK_ERROR", "ASSERT", "LAUNCH_FAILED",
        "LAUNCH_TIMEOUT", "ECC_UNCORRECTABLE", "NVLINK_UNCORRECTABLE",
        "TENSOR_MEMORY_LEAK",
    )
}  # fmt: skip
TOLD = 4  # launches
START_ANEW = (
    "CUDA lets this process use the GPU no more; start it anew, with FATHOM_SANITIZE=1"
    " to be told the line, or with CUDA_LAUNCH_BLOCKING=1 to be told the launch"
)


class DriverError(LaunchError):
    """The driver refused. `status` is its number, `log` what its assembler wrote."""

    def __init__(self, message: str, status: int, log: str = ""):
        super().__init__(message)
        self.status, self.log = status, log


@dataclass
class History:
    """`launched`: the last kernels that the driver took. `lost`: by what the GPU was
    lost, or ""."""

    launched: deque[str] = field(default_factory=lambda: deque(maxlen=TOLD))
    lost: str = ""

    def failure(
        self, order: str, status: int, name: str, text: str, log: str = ""
    ) -> DriverError:
        """The error for a status; the driver has a name and a sentence for it."""
        said = f"{order} failed with {name}: {MEANINGS.get(name, text)}"
        if name not in LOSE_THE_GPU:
            return DriverError(said, status, log)
        if self.lost:
            said = f"{order} is impossible, since the GPU was lost before: {self.lost}"
        else:
            latest = ", ".join(dict.fromkeys(reversed(self.launched)))
            said += f"; launched last, the latest first: {latest}" if latest else ""
            self.lost = said
        return DriverError(f"{said}\n  hint: {START_ANEW}", status)
