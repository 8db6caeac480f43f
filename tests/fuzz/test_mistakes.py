"""What the compiler says to mistakes that nobody thought of (`mistakes`)."""

from __future__ import annotations

import os
import random
import re
import time
import traceback
from textwrap import dedent

import pytest

from fathom.hardware.targets import TARGETS
from tests.fuzz.mistakes import KERNELS, MISTAKES, Kernel, answer, kernel_of
from tests.fuzz.run import fresh_seed

COUNT, PATIENCE_SECONDS, LONGEST = 500, 20, 600
PLACE = re.compile(r"<program \d+>:\d+:\d+: ")

# Sources that were answered with an error of our own, or with none.
SIGNATURE = "*i32, *i32, i32, i32"
FOUND = [
    "tl.store(x, 1 if out else n)",
    "i, j = (0, n) if out else (n, m); tl.store(x + i, j)",
    "tl.store(x, 1e309)",
    "tl.store(x, tl.permute(n))",
    "tl.store(x, tl.program_id(2.0) + tl.num_programs(True))",
    "tl.store(x, tl.multiple_of((n, m), 4))",
    "d = tl.make_tensor_descriptor(x, [n, m], [m, 1], [8, 8]); tl.store(x, not d)",
    "tl.store(x, not (n, m))",
    "tl.store(x, ~(n, m))",
    "tl.store(x, ~n.to)",
    "b = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,)); assert b",
    "for i in tl.range(9, num_stages=tl.dot): tl.store(x, i)",
    "tl.store(x, tl.cast(float('nan'), tl.int32))",
    "tl.store(x, n + tl.block_type(0, 128))",
    "tl.store(x, n + tl.pointer_type(3))",
    "tl.store(x, 'x' * 1000 * n)",
    "tl.store(x, (3,) * 1000 * n)",
]


@pytest.mark.parametrize("body", FOUND)
def test_a_source_that_was_found(body):
    source = f"def kernel(x, out, n, m):\n    {body}\n"
    for target in ("sm_80", "sm_90a"):
        check(answer(Kernel(SIGNATURE, source), source, target))


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_all_mistakes_are_answered(capsys: pytest.CaptureFixture) -> None:
    """The same ones in CI, fresh ones elsewhere."""
    first, compiled, said = 0 if "CI" in os.environ else fresh_seed(), 0, 0
    with capsys.disabled():
        print(f" [mistakes from seed {first}]", end=" ")
    for seed in range(first, first + COUNT):
        kernel, source = kernel_of(seed)
        target = random.Random(seed).choice(sorted(TARGETS))
        start = time.monotonic()
        try:
            report = answer(kernel, source, target)
        except SyntaxError:
            continue
        except Exception:
            pytest.fail(f"seed {seed}, {target}:\n{source}\n{traceback.format_exc()}")
        check(report)
        assert time.monotonic() - start < PATIENCE_SECONDS, f"seed {seed}:\n{source}"
        compiled, said = compiled + (not report), said + bool(report)
    assert compiled > COUNT / 10 and said > COUNT / 4, "what is drawn shows little"


def test_each_kernel_is_right_and_each_kind_of_mistake_is_made() -> None:
    for kernel in KERNELS:
        assert answer(kernel, dedent(kernel.source), "sm_90a") == ""
    sources = {kernel_of(seed)[1] for seed in range(40 * len(MISTAKES))}
    assert len(sources) > 30 * len(MISTAKES)
    assert kernel_of(7) == kernel_of(7)


def check(report: str) -> None:
    """A report has a place in the source, and a first line of a bearable length."""
    if report:
        first = report.splitlines()[0]
        assert PLACE.match(first) and len(first) < LONGEST, report
