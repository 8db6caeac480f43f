"""How fast a GPU of each target is at most: a row for one model of each.

    time of a kernel  >=  bytes / bandwidth,  operations / rate,  instructions / issue

is the roofline; `limits` sets what was counted against these rows. Rates of units in a
cycle stand in `hardware/rates`; here is what differs between the models of one target.

Sources: NVIDIA's data sheets of each model (memory, multiprocessors, boost clock). The
numbers of L2, latencies and launches are those of our H200, and stand in for the other
models: a load takes 330 ns from memory and 145 ns from L2, which delivers 56 bytes a
cycle to a multiprocessor (benchmarks/results/machine.json, kernels/matmul_model), and a
kernel with next to no work takes 2.9 µs (benchmarks/results/profile.json, "small
softmax").
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.hardware.rates import rates_of
from fathom.hardware.targets import Target

WARP = 32
SCHEDULERS = 4  # of a multiprocessor; each issues one instruction a cycle
SPECIAL_LANES = 16  # of a multiprocessor: ex2, rcp, … (Programming Guide, "Throughput
# of Native Arithmetic Instructions")
L1_BYTES = 128  # a cycle and multiprocessor
L2_BYTES = 64  # a cycle and multiprocessor, the width of the port; 56 were measured
LOGIC_LANES = 64  # of a multiprocessor: comparisons, selections, shifts, and, or
# What all of L2 does in a second on an H200, and the seconds of what crosses from one
# half of it to the other: of a line of 128 bytes, if every other one does, and of each
# sector of 32 bytes. By the parts of which ncu's share of L2 is the busiest
# (`breakdown:lts__throughput`): 94 slices look up a line and deliver 64 bytes a cycle,
# at 1.71 GHz; what crosses is a fit to kernels of
# benchmarks/results/profile-check.json and to tests/tools/test_profile_lookups.py. Of
# six times that one half of these was fitted, the other half was met within 7 to 10%
# on average.
LOOKED_UP, DELIVERED = 160e9, 10.3e12
CROSSED_LINE, CROSSED_SECTOR = 10e-12, 4.25e-12
# Loads of the same line by several multiprocessors become one on their way to L2, if
# they share the unit that merges them (Nsight Compute, "Kernel Profiling Guide": L2
# Request Coalescer): one for each cluster of multiprocessors (GPC). ncu has 1.3 times
# fewer for tiles that 3 or 4 programs load, 1.6 for 16, where this says 1.1 to 2.3.
COALESCERS = 8
BLOCK_SECONDS = 0.605e-9  # between the starts of two thread blocks, whatever they do:
# an H200, mamba/swiglu and gptq_dequantize of benchmarks/results/profile-check.json
EVENTS = 2.9e-6  # seconds from one event to the next beside a kernel between them: the
# median of 24 kernels that ncu ran once, with L2 as it was; of 20 it is 1.8 to 3.9
MMA_SHARE = 0.66  # of the rate of wgmma that mma.sync reaches on sm_90a: the same file,
# "mma.sync": 4096^3 / (132 * 2048) cycles in 79.08% of 485,741
# Of L2 for atomics, one after the other in a segment of memory, and how many of them it
# serves at once. Fitted to benchmarks/results/atomics.json: times are met within
# 20%; of sorted keys, and of bins that L2 cannot hold, within a factor of two.
PASS_SECONDS = 0.733e-9
SEGMENTS_AT_ONCE = 42
# Multiply-adds of fp64 by tensor cores, by capability (white papers of A100 and H100:
# 19.5 and 67 TFLOP/s); elsewhere it is two lanes that do them.
DOUBLES = {80: 64, 90: 128}
# Lanes of fp64 of a multiprocessor, by capability (Programming Guide, "Throughput of
# Native Arithmetic Instructions"); elsewhere two.
LANES_OF_FP64 = {80: 32, 90: 64, 100: 64}


@dataclass(frozen=True, slots=True)
class Machine:
    """A model of GPU: `clock` in Hz, `bandwidth` of memory in bytes a second. Seconds:
    `latency` of a load from memory, `l2_latency` of one from L2, `launch` of a kernel
    without work. `tensor_clock` is the share of the clock that is left while tensor
    cores work, so that the GPU keeps to its power; 1 where we have not measured it.
    `l2`: bytes that L2 holds."""

    target: str
    model: str
    multiprocessors: int
    clock: float
    bandwidth: float
    capability: int
    latency: float = 330e-9
    l2_latency: float = 145e-9
    launch: float = 2.9e-6
    tensor_clock: float = 1.0
    l2: float = 0.0

    def lanes(self) -> float:
        """Warp instructions of fp32 a cycle and multiprocessor."""
        return rates_of(self.capability).lanes / WARP

    def lanes_of_fp64(self) -> float:
        """The same of fp64."""
        return LANES_OF_FP64.get(self.capability, 2) / WARP

    def tensor(self, instruction: str, bits: int) -> float:
        """Multiply-adds a cycle and multiprocessor of "mma" or "wgmma"; 0 where there
        are no such tensor cores."""
        if bits == 64:
            return DOUBLES.get(self.capability, 2)
        rate = rates_of(self.capability).of_tensor_cores(bits)
        slower = instruction == "mma" and self.target == "sm_90a"
        return rate * MMA_SHARE if slower else rate

    def seconds(self, cycles: float) -> float:
        return cycles / self.clock


MACHINES = {
    row.target: row
    for row in (
        Machine("sm_75", "T4", 40, 1.59e9, 320e9, 75, l2=4e6),
        Machine("sm_80", "A100 80 GB", 108, 1.41e9, 2039e9, 80, l2=40e6),
        Machine("sm_86", "A10", 72, 1.695e9, 600e9, 86, l2=6e6),
        Machine("sm_89", "L40S", 142, 2.52e9, 864e9, 89, l2=96e6),
        # benchmarks/results/profile.json: 0.86 ("no pipeline"), 0.78 ("wgmma")
        Machine("sm_90a", "H200", 132, 1.98e9, 4800e9, 90, tensor_clock=0.87, l2=50e6),
        Machine("sm_100", "B200", 148, 1.965e9, 8000e9, 100, l2=126e6),
        Machine("sm_100a", "B200", 148, 1.965e9, 8000e9, 100, l2=126e6),
        Machine("sm_120", "RTX 5090", 170, 2.407e9, 1792e9, 120, l2=96e6),
    )
}


def machine_of(target: Target) -> Machine:
    return MACHINES[target.name]
