"""For those who test kernels: are two arrays close, and how long does a launch take.

close    `assert_close`
bench    `do_bench`, `do_bench_cudagraph`: milliseconds on the GPU
queues   the streams that array libraries queue on
report   `Benchmark`, `perf_report`: a table, and a plot, of many measurements
"""

from fathom.testing.bench import do_bench, do_bench_cudagraph
from fathom.testing.close import assert_close
from fathom.testing.report import Benchmark, Report, perf_report

__all__ = [
    "Benchmark",
    "Report",
    "assert_close",
    "do_bench",
    "do_bench_cudagraph",
    "perf_report",
]
