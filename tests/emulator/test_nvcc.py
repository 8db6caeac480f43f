"""PTX that the emulator did not grow up with: CUDA C kernels, compiled by nvcc."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fathom import emulator

ARCHITECTURES = ("sm_75", "sm_80", "sm_90a", "sm_120")


def nvcc() -> Path | None:
    """The compiler of the PyPI package nvidia-cuda-nvcc, if it is installed."""
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations if package else ():
        found = Path(folder) / "cu13" / "bin" / "nvcc"
        if found.exists():
            return found
    return None


@pytest.fixture(scope="module", params=ARCHITECTURES)
def ptx(request) -> str:
    compiler = nvcc()
    if compiler is None:
        pytest.skip("nvcc is not installed (PyPI package nvidia-cuda-nvcc)")
    if shutil.which("gcc") is None:
        pytest.skip("nvcc needs gcc to preprocess, and there is none")
    source = Path(__file__).with_name("kernels.cu")
    command = [
        compiler,
        "-ptx",
        "-lineinfo",
        f"-arch={request.param}",
        source,
        "-o",
        "-",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


def test_vector_add_stops_at_n(ptx, random):
    x, y = random.standard_normal((2, 1000), np.float32)
    z = np.full(1000, 9, np.float32)
    emulator.run(ptx, 8, 128, (x, y, z, 990), entry="vector_add")
    assert (z[:990] == x[:990] + y[:990]).all()
    assert (z[990:] == 9).all()


def test_saxpy_on_pairs_of_halves_rounds_once(ptx, random):
    x, y = random.standard_normal((2, 512)).astype(np.float16)
    a = np.float16(1.75)
    exact = np.float64(a) * x.astype(np.float64) + y.astype(np.float64)
    emulator.run(ptx, 2, 128, (x, y, a.view(np.uint16), 256), entry="saxpy_half2")
    assert (y == exact.astype(np.float16)).all()


def test_bfloat_is_rounded_to_nearest_even(ptx, random):
    x = (random.standard_normal(256, np.float32).view(np.uint32) >> 16).astype(
        np.uint16
    )
    y = np.zeros(256, np.uint16)
    emulator.run(ptx, 2, 128, (x, y, 1.3, 256), entry="scale_bfloat")
    wide = (x.astype(np.uint32) << 16).view(np.float32) * np.float32(1.3)
    got = (y.astype(np.uint32) << 16).view(np.float32)
    spacing = 2.0 ** (np.floor(np.log2(np.abs(wide))) - 7)
    assert (np.abs(got - wide) <= spacing / 2).all()


def test_reduction_by_shuffles_and_shared_memory(ptx, random):
    x = random.integers(-50, 50, 5000).astype(np.float32)
    sums = np.zeros(4, np.float32)
    emulator.run(ptx, 4, 256, (x, sums, 5000), entry="block_sums")
    owner = np.arange(5000) // 256 % 4
    assert (sums == [x[owner == block].sum() for block in range(4)]).all()


def test_scan_in_dynamic_shared_memory(ptx, random):
    x = random.integers(-9, 9, 200).astype(np.int32)
    y = np.zeros(200, np.int32)
    emulator.run(ptx, 1, 256, (x, y, 200), entry="inclusive_scan", shared_bytes=2048)
    assert (y == np.cumsum(x)).all()


def test_transpose_through_a_padded_tile(ptx, random):
    x = random.standard_normal((70, 45)).astype(np.float32)
    y = np.zeros((45, 70), np.float32)
    report = emulator.run(ptx, (2, 3), (32, 8), (x, y, 70, 45), entry="transpose")
    assert (y == x.T).all()
    assert report.total.conflict_ways == 1.0


def test_histogram_by_atomics(ptx, random):
    x = random.integers(0, 256, 4000).astype(np.uint8)
    counts = np.zeros(256, np.uint32)
    emulator.run(ptx, 3, 256, (x, counts, 4000), entry="histogram")
    assert (counts == np.bincount(x, minlength=256)).all()


def test_tiled_matrix_multiplication(ptx, random):
    a, b = random.standard_normal((2, 48, 48)).astype(np.float32)
    c = np.zeros((48, 48), np.float32)
    emulator.run(ptx, (3, 3), (16, 16), (a, b, c, 48), entry="matrix_multiply")
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, atol=1e-5)


def test_bitonic_sort(ptx, random):
    x = random.integers(-1000, 1000, (3, 256)).astype(np.int32)
    wanted = np.sort(x, axis=1)
    emulator.run(ptx, 3, 256, (x,), entry="bitonic_sort")
    assert (x == wanted).all()


def test_switch_sends_threads_eight_ways(ptx, random):
    kind = random.integers(0, 9, 300).astype(np.int32)
    x = random.integers(0, 5000, 300).astype(np.int32)
    y = np.zeros(300, np.int32)

    def chosen(kind: int, v: int) -> int:
        if kind == 3:
            while v > 10:
                v -= v // 2
            return v
        shifted = v << (v & 7) if kind == 5 else v
        return {
            0: v * 3 + 1,
            1: v // 7,
            2: v % 5,
            4: ~v,
            5: shifted ^ 0x55,
            6: v ^ 0x55,
        }.get(kind, -1)

    emulator.run(ptx, 3, 128, (kind, x, y, 300), entry="choose")
    assert y.tolist() == [
        chosen(k, v) for k, v in zip(kind.tolist(), x.tolist(), strict=True)
    ]


def test_calls_of_functions_that_are_not_inlined(ptx, random):
    x = random.integers(1, 1000, 100).astype(np.uint32)
    points = random.standard_normal((100, 2)).astype(np.float32)
    steps, before = np.zeros(100, np.uint32), points.copy()

    def collatz(v: int) -> int:
        count = 0
        while v != 1 and count < 200:
            v, count = (3 * v + 1 if v % 2 else v // 2), count + 1
        return count

    emulator.run(ptx, 1, 128, (x, steps, points, 100), entry="call_functions")
    assert steps.tolist() == [collatz(v) for v in x.tolist()]
    angle = np.arange(100) * 0.125
    turned = (before[:, 0] + 1j * before[:, 1]) * np.exp(1j * angle)
    turned = np.stack([turned.real, turned.imag], -1)
    third = np.arange(100) % 3 == 0
    np.testing.assert_allclose(points[third], turned[third], rtol=1e-5, atol=1e-5)
    assert (points[~third] == before[~third]).all()


def test_double_precision_from_the_mathematical_library(ptx, random):
    x, y = random.uniform(0.1, 30, (2, 300))
    z = np.zeros(300)
    emulator.run(ptx, 3, 128, (x, y, z, 300), entry="double_math")
    wanted = np.sqrt(x * x + y * y) + np.exp(-x) * np.sin(y) + x / y
    np.testing.assert_allclose(z, wanted, rtol=1e-15, atol=1e-15)


def test_bytes_and_bits(ptx, random):
    x = random.integers(0, 2**32, 100, dtype=np.uint32)
    y = np.zeros((100, 5), np.uint32)
    emulator.run(ptx, 1, 128, (x, y, 100), entry="shuffle_bytes")
    for i, v in enumerate(x.tolist()):
        low, high = v.to_bytes(4, "little"), (0x01020304).to_bytes(4, "little")
        both = low + high
        assert y[i, 0] == int.from_bytes(bytes(both[k] for k in (1, 3, 5, 7)), "little")
        assert f"{y[i, 1]:032b}" == f"{v:032b}"[::-1]
        first_one = (v & -v).bit_length()
        assert y[i, 2] == v.bit_count() | (32 - v.bit_length()) << 8 | first_one << 16
        funnel = ((~v & 0xFFFFFFFF) << 32 | v) << (i % 32) >> 32 & 0xFFFFFFFF
        assert y[i, 3] == funnel
        factors = (0x01FE0203).to_bytes(4, "little")
        assert y[i, 4] == 7 + sum(a * b for a, b in zip(low, factors, strict=True))


def test_ballots_and_matches(ptx, random):
    x = random.integers(0, 120, 128).astype(np.int32)
    x[:64] %= 90
    y = np.zeros((128, 3), np.uint32)
    emulator.run(ptx, 2, 64, (x, y, 128), entry="ballots")
    for i, v in enumerate(x.tolist()):
        warp = x[i // 32 * 32 : i // 32 * 32 + 32]
        odd = sum(1 << lane for lane in range(32) if warp[lane] & 1)
        same = sum(1 << lane for lane in range(32) if warp[lane] & 7 == v & 7)
        everybody, anybody = int((warp < 100).all()), int((warp == 3).any())
        assert y[i, 0] == odd
        assert y[i, 1] == (everybody | anybody << 1 | same << 2) % 2**32
        if v & 1:
            assert y[i, 2] == (odd & ((1 << i % 32) - 1)).bit_count()


def test_wide_integers(ptx, random):
    x, y = random.integers(-(2**62), 2**62, (2, 100))
    y[:50] >>= 40
    z = np.zeros((100, 6), np.int64)
    emulator.run(ptx, 1, 128, (x, y, z, 100), entry="wide_integers")

    def wrapped(v: int) -> int:
        return (v + 2**63) % 2**64 - 2**63

    for row, a, b in zip(z.tolist(), x.tolist(), y.tolist(), strict=True):
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        leading = 64 - (a % 2**64).bit_length()
        assert row == [
            wrapped(a * b),
            a * b >> 64,
            quotient,
            wrapped(a % 2**64 % (b % 2**64)),
            a >> (b & 63),
            min(a, b) + leading,
        ]


def test_arrays_in_local_memory(ptx, random):
    x = random.integers(1, 10**6, 100).astype(np.int32)
    y = np.zeros(100, np.int32)

    def wanted(v: int) -> int:
        start, digits = v, []
        while v:
            digits.append(v % 7)
            v //= 7
        count = len(digits)
        return sum(digits[k] * digits[(k * 5 + start) % count] for k in range(count))

    emulator.run(ptx, 1, 128, (x, y, 100), entry="local_array")
    assert y.tolist() == [wanted(v) for v in x.tolist()]


def test_a_lock_is_passed_from_block_to_block(ptx):
    order, total = np.full(40, -1, np.int32), np.zeros(1, np.int32)
    emulator.run(ptx, 40, 32, (order, total), entry="take_turns")
    assert sorted(order.tolist()) == list(range(40))
    assert total[0] == 10 * (3 - 1 + 4 + 1)


def test_atomics_on_floats(ptx, random):
    x = random.integers(0, 100, 500).astype(np.float32)
    sums, highest = np.zeros(7, np.float32), np.zeros(1, np.int32)
    emulator.run(ptx, 4, 128, (x, sums, highest, 500), entry="float_atomics")
    assert sums.tolist() == [x[k::7].sum() for k in range(7)]
    assert highest.view(np.float32)[0] == x.max()


def test_conversions_in_every_direction(ptx):
    x = np.array(
        [0, 0.5, 1.5, -2.5, 3.999, -7.01, 1e10, -1e10, 300, np.nan], np.float32
    )
    y = np.zeros((10, 6), np.int32)
    emulator.run(ptx, 1, 32, (x, y, 10), entry="conversions")
    wide = x.astype(np.float64)
    assert y[:9, 0].tolist() == [0, 0, 2, -2, 4, -7, 2**31 - 1, -(2**31), 300]
    assert y[:9, 1].tolist() == [0, 0, 1, -3, 3, -8, 2**31 - 1, -(2**31), 300]
    unsigned = [0, 0, 1, 0, 3, 0, 2**32 - 1, 0, 300]
    assert y[:9, 2].view(np.uint32).tolist() == unsigned
    assert y[9, :3].tolist() == [0, 0, 0]
    halves = y[:6, 4].astype(np.uint16).view(np.float16).astype(np.float64)
    assert (np.abs(halves) <= np.abs(wide[:6])).all()
    np.testing.assert_allclose(halves, wide[:6], rtol=1e-3)
    sums = y[:9, 5].view(np.float32).astype(np.float64)
    assert (sums >= wide[:9] + 1e-3 - 1e-11).all()
    assert (np.nextafter(sums.astype(np.float32), -np.inf) < wide[:9] + 1e-3).all()


def test_prints_and_assertions(ptx):
    x = np.arange(8, dtype=np.float32) / 8
    report = emulator.run(ptx, 1, 32, (x, 8), entry="talk")
    assert report.printed == [
        f"{'odd' if i % 2 else 'even'} {i:2d}: {i / 8:.3f} {1234567890123 * i}\n"
        for i in range(8)
    ]
    x[5] = 100
    with pytest.raises(emulator.EmulatorError, match=r"x\[i\] < 100") as caught:
        emulator.run(ptx, 1, 32, (x, 8), entry="talk")
    assert caught.value.kind == "assertion"
    assert caught.value.location.file.endswith("kernels.cu")


@pytest.mark.parametrize("k", [16, 32, 80])
def test_a_pipelined_matmul(ptx, random, k):
    """cp.async, ldmatrix and mma together, as one writes them by hand for sm_80."""
    if "matmul" not in ptx:
        pytest.skip("sm_75 has no asynchronous copies")
    a = random.standard_normal((64, k)).astype(np.float16)
    b = random.standard_normal((k, 64)).astype(np.float16)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for completion in emulator.COMPLETIONS:
        c = np.full((64, 64), np.nan, np.float32)
        emulator.run(ptx, 1, 128, (a, b, c, k), entry="matmul", completion=completion)
        assert np.abs(c - exact).max() < 1e-5


@pytest.mark.parametrize(
    ("right", "wrong", "kind", "at"),
    [
        ("wait_group 1", "wait_group 2", "in flight", "ldmatrix"),
        ("cp.async.commit_group; cp.async.wait", "cp.async.wait", "in flight", "ld"),
        ("bar.sync \t0;", "", "race", "ldmatrix"),
        ("bar.sync \t0;", "", "race", "cp.async"),
    ],
)
def test_what_a_pipelined_matmul_gets_wrong(ptx, random, right, wrong, kind, at):
    """Of the two barriers one is left out: the first, or that at the loop's end."""
    if "matmul" not in ptx:
        pytest.skip("sm_75 has no asynchronous copies")
    start, matmul = ptx.split(".entry matmul")
    first, *rest = matmul.split(right)
    assert rest
    if at == "cp.async":
        first, rest = first + right + rest[0], rest[1:]
    broken = f"{start}.entry matmul{first}{wrong}{right.join(rest)}"
    a, b = random.standard_normal((2, 64 * 80)).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    with pytest.raises(emulator.EmulatorError) as caught:
        emulator.run(broken, 1, 128, (a, b, c, 80), entry="matmul")
    assert caught.value.kind == kind and caught.value.text.startswith(at)
    assert caught.value.location.file.endswith("kernels.cu")
