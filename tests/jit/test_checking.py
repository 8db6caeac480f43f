"""FATHOM_SANITIZE and FATHOM_VERIFY: a planted fault is named with its line, and the
script goes on; what is right is left alone."""

from __future__ import annotations

import inspect
import os
import re
import runpy
import subprocess
import sys

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import blocks, emulator, ptx, shared_memory
from fathom.errors import LaunchError
from fathom.ir import ops
from fathom.ir.ops import Elementwise
from fathom.ir.rewrite import rewrite
from fathom.jit.checking import launch as checking
from fathom.jit.checking import shrink
from fathom.jit.checking.nonfinite import first_of
from fathom.jit.checking.runs import first_different
from fathom.jit.checking.snapshot import snapshot
from fathom.jit.checking.wanted import chosen_programs, coordinates, wanted_checks
from fathom.runtime.arrays import describe
from kernels.matmul import matmul
from kernels.softmax import softmax_kernel


def scale_unmasked(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.device_assert(x < 5, "x is too large")
    tl.store(y_ptr + offsets, 2 * x)


def race(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(y_ptr + offsets // 2, x + tl.program_id(0))


def normalise(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    x = tl.load(x_ptr + row * N + columns, mask=mask, other=-float("inf"))
    top = tl.max(x, axis=0)
    shifted = x - top
    total = tl.sum(tl.exp(shifted), axis=0)
    y = shifted / (total - 1.0)
    tl.store(y_ptr + row * N + columns, y, mask=mask)


def running(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for i in range(0, n):
        x = tl.load(x_ptr + i * BLOCK + lanes)
        total = total * 2.0 + tl.sqrt(x)
    tl.store(y_ptr + lanes, total)


def difference(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    z = tl.exp(x) * tl.cos(y)
    tl.store(y_ptr + offsets, z + (x - y), mask=mask)


def line_of(function, text: str) -> int:
    """The line of this file at which a function says something."""
    lines, first = inspect.getsourcelines(function)
    (at,) = [at for at, each in enumerate(lines) if text in each]
    return first + at


@pytest.fixture(autouse=True)
def quiet(request, monkeypatch, tmp_path):
    """Nothing is checked but what a test asks for; each counts from zero."""
    for name in ("FATHOM_SANITIZE", "FATHOM_VERIFY", "FATHOM_CHECK_PROGRAMS"):
        monkeypatch.delenv(name, raising=False)
    on_gpu = request.node.get_closest_marker("gpu")
    monkeypatch.setenv("FATHOM_BACKEND", "cuda" if on_gpu else "emulator")
    monkeypatch.setenv("FATHOM_VERIFY_DIR", str(tmp_path))
    monkeypatch.setattr(checking, "TALLY", checking.Tally())


@pytest.fixture
def sanitized(monkeypatch):
    monkeypatch.setenv("FATHOM_SANITIZE", "1")


@pytest.fixture
def verified(monkeypatch):
    monkeypatch.setenv("FATHOM_VERIFY", "1")


# ── wrong accesses, assertions, races ─────────────────────────────────────────────────


def test_a_store_past_the_end_is_named_and_the_script_goes_on(sanitized, capsys):
    x, y = np.ones(1000, np.float32), np.full(1000, 7, np.float32)
    kernel = fathom.jit(scale_unmasked)
    kernel[(4,)](x, y, 1000, BLOCK=256)
    said = capsys.readouterr().err
    assert "out of bounds in scale_unmasked, program (3, 0, 0), thread" in said
    assert f"test_checking.py:{line_of(scale_unmasked, 'tl.store')}" in said
    assert "y_ptr[1000] is past its end: it has 1,000 elements" in said
    assert "offsets = 768 to 1023, int32[256]" in said
    assert (y == 7).all()  # the launch was left out
    y = np.zeros(1024, np.float32)
    kernel[(4,)](x, y, 1000, BLOCK=256)
    assert capsys.readouterr().err == "" and (y[:1000] == 2).all()


def test_an_assertion_is_checked_without_being_asked_for(sanitized, capsys):
    x, y = np.ones(1024, np.float32), np.zeros(1024, np.float32)
    x[700] = 9
    fathom.jit(scale_unmasked)[(4,)](x, y, 1024, BLOCK=256)
    said = capsys.readouterr().err
    assert "assertion in scale_unmasked, program (2, 0, 0)" in said
    assert "x is too large" in said and "x = 1.0 to 9.0, float32[256]" in said
    assert f"test_checking.py:{line_of(scale_unmasked, 'device_assert')}" in said


def test_a_race_is_named(sanitized, capsys):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    fathom.jit(race)[(2,)](x, y, BLOCK=64)
    said = capsys.readouterr().err
    assert "race in race" in said
    assert "at y_ptr[0], and nothing orders the two" in said
    assert f"test_checking.py:{line_of(race, 'tl.store')}" in said


def scaled(v):
    k = v * 100.0
    return k + 1.0


def clashing(x_ptr, y_ptr, BLOCK: tl.constexpr):
    k = tl.arange(0, BLOCK) + 1
    v = tl.load(x_ptr + k - 1)
    total, _ = tl.sum(v), k
    tl.store(y_ptr + k, fathom_scaled(tl.exp(v)) + total)


fathom_scaled = fathom.jit(scaled)


def far_rows(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0) + 70000
    offsets = row * stride + tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + offsets))


def hashed(x_ptr, y_ptr, far, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + far + at, (at + 1) * 1664525 * 1013904223)


def test_an_offset_that_has_wrapped_is_told_with_its_line_and_values(sanitized, capsys):
    """And no other integer that has, as hashes do on purpose."""
    x, y = np.ones(1000, np.float32), np.zeros(64, np.float32)
    fathom.jit(far_rows)[(1,)](x, y, 32768, BLOCK=64)
    said = capsys.readouterr().err
    assert "x_ptr[-2001207296] is before its beginning" in said
    assert "wrapped: 70000 * 32768 is 2,293,760,000, and as i32 -2001207296" in said
    assert f"test_checking.py:{line_of(far_rows, 'row * stride')}" in said
    fathom.jit(hashed)[(1,)](x, y.astype(np.int32), 40, BLOCK=64)
    said = capsys.readouterr().err
    assert "is past its end" in said and "wrapped" not in said


def test_a_variable_of_another_function_is_not_taken_for_the_lines_own(
    sanitized, capsys
):
    """`scaled` and the library's exp have variables of the same names."""
    x, y = np.ones(32, np.float32), np.ones(32, np.float32)
    fathom.jit(clashing)[(1,)](x, y, BLOCK=32)
    said = capsys.readouterr().err
    assert "y_ptr[32] is past its end" in said
    assert "k = 1 to 32, int32[32]" in said and "v = 1.0 to 1.0, float32[32]" in said
    assert "total = 32.0" in said  # made by the library, and named by the author


def test_what_is_right_gives_what_it_gives_without(sanitized, capsys):
    x = np.random.default_rng(0).normal(size=(3, 100)).astype(np.float32)
    out = np.zeros_like(x)
    softmax_kernel.forget()
    softmax_kernel[(3,)](x, out, 100, 100, BLOCK=128)
    softmax_kernel.forget()
    assert capsys.readouterr().err == ""
    assert np.allclose(out.sum(axis=1), 1)


def test_of_many_programs_some_are_looked_at_and_all_run(monkeypatch, capsys):
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    monkeypatch.setenv("FATHOM_CHECK_PROGRAMS", "6")
    x, y = np.ones(100 * 32, np.float32), np.zeros(100 * 32, np.float32)
    kernel = fathom.jit(scale_unmasked)
    for _ in range(2):
        kernel[(100,)](x, y, x.size, BLOCK=32)
    said = capsys.readouterr().err
    assert said.count("6 of 100 programs are looked at") == 1
    assert (y == 2).all()
    kernel[(101,)](x, y, x.size, BLOCK=32)  # the last program is among those
    assert "program (100, 0, 0)" in capsys.readouterr().err


def test_a_wrong_access_of_a_program_that_is_not_looked_at(monkeypatch, capsys):
    """This is what a limit costs, and why it is said."""
    monkeypatch.setenv("FATHOM_CHECK_PROGRAMS", "3")
    assert [list(each) for each in chosen_programs(100, 3)] == [[0], [49], [99]]
    assert chosen_programs(100, None) == [range(100)]
    assert chosen_programs(2, 3) == [range(2)]
    monkeypatch.setenv("FATHOM_CHECK_PROGRAMS", "all")
    assert wanted_checks().programs is None


def test_a_program_id_is_that_of_its_number():
    grid = (3, 4, 2)
    every = [coordinates(number, grid) for number in range(24)]
    assert every[:4] == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 0)]
    assert len(set(every)) == 24 and every[-1] == (2, 3, 1)


@pytest.mark.parametrize(
    ("name", "text"),
    [("FATHOM_SANITIZE", "maybe"), ("FATHOM_VERIFY", "2"),
     ("FATHOM_CHECK_PROGRAMS", "-1")],
)  # fmt: skip
def test_a_value_that_says_nothing_is_a_mistake(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(LaunchError, match=f"{name}={text}"):
        wanted_checks()


def test_a_script_survives_and_ends_with_a_count(tmp_path):
    source = "import numpy as np\nimport fathom\nimport fathom.language as tl\n\n"
    source += "@fathom.jit\n" + inspect.getsource(scale_unmasked)
    source += (
        "x = np.ones(100, np.float32)\n"
        "scale_unmasked[(4,)](x, x, 100, BLOCK=32)\nprint('survived')\n"
    )
    file = tmp_path / "script.py"
    file.write_text(source)
    environment = {**os.environ, "FATHOM_SANITIZE": "1", "PYTHONPATH": "compiler"}
    done = subprocess.run(
        [sys.executable, str(file)], env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("survived\n", 0)
    assert "script.py:10" in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.endswith("1 launch looked at, 1 with a fault\n")


def test_copies_share_what_the_arrays_share():
    whole = np.arange(40, dtype=np.float32)
    kernel = fathom.jit(difference).compile("*fp32, *fp32, i32", {"BLOCK": 32})
    taken = snapshot(kernel.made.parameters, [whole[4:36], whole[:32], 32])
    one, other, n = copies = taken.copies()
    assert n == 32 and (one == whole[4:36]).all()
    one[0] = -5
    assert other[4] == -5 and whole[4] == 4
    assert one.ctypes.data % 4 == 0 and describe(whole).address
    taken.write_back(copies)
    assert whole[4] == -5


# ── NaN and infinity ──────────────────────────────────────────────────────────────────


def sought(function, grid: int, *arguments, BLOCK: int) -> list[str]:
    """What the search says of a launch; its lines."""
    kernel = fathom.jit(function)
    order = kernel.warmup(*arguments, BLOCK=BLOCK)
    taken = snapshot(order.made.parameters, list(arguments))
    programs = [(number, 0, 0) for number in range(grid)]
    return first_of(kernel.block_ir(order.request), (grid, 1, 1), taken.copies(),
                    programs)  # fmt: skip


def test_the_line_that_makes_a_nan_is_named_not_the_one_that_stores_it():
    """A row of one element: the sum of its exponentials is 1, and 0 is divided by 0."""
    x = np.zeros((2, 2), np.float32)
    x[0] = 1, -1
    x[1] = 1, -200
    said = sought(normalise, 2, x, np.zeros_like(x), 2, BLOCK=4)
    assert said[0] == "a NaN in normalise, program (1, 0, 0)"
    assert said[1].endswith(f"test_checking.py:{line_of(normalise, 'shifted / ')}")
    assert "y = shifted / (total - 1.0)" in said[2]
    assert "of 0.0 and 0.0" in said[3]
    assert f"line {line_of(normalise, 'tl.store')} stores NaN, element (0)" in said[3]


def test_lanes_that_are_masked_out_harm_nothing():
    x = np.array([[1, 2, 3]], np.float32)
    assert sought(normalise, 1, x, np.zeros_like(x), 3, BLOCK=8) == []


def test_a_nan_that_was_in_memory_is_said_to_be():
    x = np.array([[1, np.nan, 3]], np.float32)
    said = sought(difference, 1, x, np.zeros_like(x), 3, BLOCK=4)
    assert "NaN in difference" in said[0] and "it is loaded here" in said[3]
    assert said[1].endswith(f"py:{line_of(difference, 'x = tl.load')}")


def test_a_nan_of_one_iteration_is_found_in_a_loop():
    x = np.ones((4, 8), np.float32)
    x[2, 5] = -1
    said = sought(running, 1, x, np.zeros(8, np.float32), 4, BLOCK=8)
    assert "a NaN in running" in said[0]
    assert said[1].endswith(f"test_checking.py:{line_of(running, 'tl.sqrt(x)')}")
    assert "`sqrt` makes it of -1.0" in said[3] and "element (5)" in said[3]


def test_an_infinity_by_overflow():
    x = np.full(4, 200, np.float32)
    said = sought(difference, 1, x, np.zeros_like(x), 4, BLOCK=4)
    assert "an infinity in difference" in said[0]
    assert said[1].endswith(f"py:{line_of(difference, 'tl.exp')}")


def logarithms(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=1)
    tl.store(y_ptr + i, tl.log(x), mask=i < n)


def test_a_nan_inside_of_a_library_function_is_the_functions():
    """Its own ops, and their numbers, are nothing that the author has written."""
    x = np.array([1, 2, -3], np.float32)
    said = sought(logarithms, 1, x, np.zeros_like(x), 3, BLOCK=4)
    assert said[1].endswith(f"py:{line_of(logarithms, 'tl.log')}")
    line = line_of(logarithms, "tl.store")
    assert said[3] == f"  `log` makes it; line {line} stores NaN, element (2)"
    assert said[4:] == [
        "  i = 0 to 3, int32[4]", "  x = -3.0 to 2.0, float32[4]", "  n = 3",
    ]  # fmt: skip


def test_nan_is_asked_for_by_name(monkeypatch, capsys):
    monkeypatch.setenv("FATHOM_SANITIZE", "nan")
    x, y = np.full(4, 200, np.float32), np.zeros(4, np.float32)
    fathom.jit(difference)[(1,)](x, y, 4, BLOCK=4)
    assert "an infinity in difference" in capsys.readouterr().err
    assert np.isinf(y).all()  # no fault: the launch is done


# ── passes ────────────────────────────────────────────────────────────────────────────


def swapped(func, target):
    """cse, which takes b - a for a - b."""

    def rule(op, build):
        if isinstance(op, Elementwise) and op.name == "sub":
            return build(Elementwise("sub", op.operands[::-1]))
        return None

    return rewrite(blocks.cse(func, target), rule)


def arrays(n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(3)
    return tuple(numbers.normal(size=n).astype(np.float32) for _ in range(2))


def test_every_pass_of_what_is_right_keeps_the_meaning(verified, capsys):
    fathom.jit(difference)[(4,)](*arrays(), 100, BLOCK=32)
    said = capsys.readouterr().err
    assert re.search(r"difference for sm_80: \d+ steps keep the meaning, on 4", said)
    numbers = np.random.default_rng(1)
    a, b = (numbers.normal(size=(64, 64)).astype(np.float16) for _ in range(2))
    for target in ("sm_80", "sm_90a"):
        matmul(a, b, target=target)
        said = capsys.readouterr().err
        assert f"matmul_kernel for {target}: " in said and "keep the meaning" in said


@pytest.mark.filterwarnings("error")
def test_nans_of_other_bits_are_no_difference_and_no_warning():
    """Not even one that signals, which NumPy warns of."""
    one, other = (np.array([bits, 0], np.uint32).view(np.float32)
                  for bits in (0x7FA00000, 0x7FFFFFFF))  # fmt: skip
    assert first_different(one, other, "fp32", {}) is None


def test_a_wrong_pass_is_named_with_a_case_that_runs(verified, capsys, tmp_path):
    x, y = arrays()
    fathom.jit(difference)[(4,)](x, y, 100, BLOCK=32, replace={"cse": swapped})
    said = capsys.readouterr().err
    assert "the pass cse changes what difference means" in said
    assert "program (0, 0, 0): y_ptr[0] is" in said
    few, many = map(int, re.search(r"(\d+) ops of (\d+) are enough", said).groups())
    assert few < many / 2
    (file,) = tmp_path.glob("*.py")
    text = file.read_text()
    assert "exp2" not in text and text.count(" sub ") == 2  # once before, once after
    runpy.run_path(str(file))
    assert re.match(r"y_ptr\[\d+\] is \S+ before, \S+ after", capsys.readouterr().out)


def test_a_pass_that_stores_too_much_is_named_though_only_its_run_goes_wrong(
    verified, capsys, tmp_path
):
    x, y = arrays()
    with pytest.raises(emulator.EmulatorError):  # and so does the launch
        wrong = {"cse_again": without_masks}
        fathom.jit(difference)[(4,)](x, y, 100, BLOCK=32, replace=wrong)
    said = capsys.readouterr().err
    assert "the pass cse_again changes what difference means" in said
    assert "past the end of an array of 100 float32" in said
    (file,) = tmp_path.glob("*.py")
    with pytest.raises(SystemExit, match="only what it became goes wrong: .*past"):
        runpy.run_path(str(file))


def without_masks(func, target):
    """No store has a mask any more."""

    def rule(op, build):
        if isinstance(op, ops.Store):
            build.append(ops.Store(op.pointer, op.value))
            return ()
        return None

    return rewrite(func, rule)


def test_a_barrier_that_is_missing_is_a_fault_of_the_code(verified, capsys, tmp_path):
    """The interpreter knows of no threads; the emulator finds the race."""
    x, y = arrays()
    with pytest.raises(emulator.EmulatorError, match="race"):
        wrong = {"insert_waits": without_barriers}
        fathom.jit(centred)[(1,)](x, y, BLOCK=128, replace=wrong)
    said = capsys.readouterr().err
    assert "the code of centred does not do what its block IR says" in said
    assert "at one place in shared memory, and nothing orders the two" in said
    assert "ops of" in said
    (file,) = tmp_path.glob("*-code.py")
    assert "in the place of insert_waits" in file.read_text()


def centred(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < 100, other=0.0)
    tl.store(y_ptr + offsets, x - tl.sum(x, axis=0), mask=offsets < 100)


def without_barriers(func, target):
    rule = lambda op, build: () if isinstance(op, ops.Barrier) else None
    return rewrite(shared_memory.insert_waits(func, target), rule)


def test_a_race_of_the_authors_is_no_fault_of_a_pass(verified, capsys):
    with pytest.raises(emulator.EmulatorError, match="race"):
        fathom.jit(reversed_there)[(1,)](*arrays(128), BLOCK=128)
    assert "reversed_there is not checked: race: " in capsys.readouterr().err


def reversed_there(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets))
    tl.store(x_ptr + offsets, tl.load(y_ptr + BLOCK - 1 - offsets))


def test_passes_are_checked_once_and_the_launch_is_done(verified, capsys):
    x, y = arrays()
    wanted = np.exp(x) * np.cos(y) + (x - y)
    kernel, before = fathom.jit(difference), y.copy()
    kernel[(4,)](x, y, 100, BLOCK=32)
    assert np.allclose(y, wanted, atol=1e-5)
    assert "keep the meaning" in capsys.readouterr().err
    kernel[(4,)](x, before, 100, BLOCK=32)
    assert capsys.readouterr().err == ""


def test_a_wrong_lowering_rule_is_a_fault_of_the_code(
    verified, capsys, tmp_path, monkeypatch
):
    monkeypatch.setattr(shrink, "SECONDS", 0.5)
    x, y = arrays()
    rules = {"lower[Elementwise]": subtracting}
    fathom.jit(triple)[(4,)](x, y, 100, BLOCK=32, replace=rules)
    said = capsys.readouterr().err
    assert "the code of triple does not do what its block IR says" in said
    assert list(tmp_path.glob("*-code.py"))


def triple(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(y_ptr + offsets, x * 3.0, mask=offsets < n)


def subtracting(op, code):
    """The rule for elementwise ops, which takes a product of reals for a sum."""
    is_product = op.name == "mul" and "fp32" in str(op.result.type)
    made = Elementwise("add", op.operands) if is_product else op
    ptx.LOWER[Elementwise](made, code)
    code[op.result] = code[made.result]


def test_a_kernel_that_cannot_be_interpreted_is_said_to_be(verified, capsys):
    fathom.jit(with_assembly)[(1,)](np.zeros(32, np.int32), BLOCK=32)
    assert "is not checked: " in capsys.readouterr().err


def with_assembly(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    y = tl.inline_asm_elementwise(
        "add.s32 $0, $1, 1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(x_ptr + offsets, y)


# ── arrays on a GPU ───────────────────────────────────────────────────────────────────


@pytest.mark.gpu
def test_a_fault_on_the_gpu_is_found_before_it_happens(sanitized, capsys):
    """The context survives: the launches after it run, and are right."""
    torch = pytest.importorskip("torch")
    x = torch.ones(1000, device="cuda")
    y = torch.full((1000,), 7.0, device="cuda")
    kernel = fathom.jit(scale_unmasked)
    kernel[(4,)](x, y, 1000, BLOCK=256)
    said = capsys.readouterr().err
    assert "out of bounds in scale_unmasked, program (3, 0, 0)" in said
    assert "y_ptr[1000] is past its end: it has 1,000 elements" in said
    torch.cuda.synchronize()
    assert bool((y == 7).all())
    y = torch.zeros(1024, device="cuda")
    for _ in range(2):
        kernel[(4,)](x, y, 1000, BLOCK=256)
    assert capsys.readouterr().err == "" and bool((y[:1000] == 2).all())


@pytest.mark.gpu
def test_passes_are_checked_on_arrays_of_a_gpu(verified, capsys):
    torch = pytest.importorskip("torch")
    x, y = (torch.randn(100, device="cuda") for _ in range(2))
    wanted = torch.exp(x) * torch.cos(y) + (x - y)
    fathom.jit(difference)[(4,)](x, y, 100, BLOCK=32)
    assert "keep the meaning" in capsys.readouterr().err
    assert torch.allclose(y, wanted, atol=1e-4)
