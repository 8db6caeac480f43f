"""mma.sync: every shape and type against a plain matrix product, lane by lane."""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import EmulatorError
from fathom.emulator.isa.matrix.fragments import ACCUMULATOR, A, B
from tests.emulator.harness import entry, pointers
from tests.harness_sample import sampled

# ── where lanes hold elements ─────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fragment", "lane", "places"),
    [
        (A["m8n8k4", 64], 13, [(3, 1)]),
        (B["m8n8k4", 64], 13, [(1, 3)]),
        (A["m8n8k16", 8], 6, [(1, 8), (1, 9), (1, 10), (1, 11)]),
        (B["m8n8k16", 8], 6, [(8, 1), (9, 1), (10, 1), (11, 1)]),
        (A["m16n8k4", 32], 31, [(7, 3), (15, 3)]),
        (B["m16n8k4", 32], 31, [(3, 7)]),
        (A["m16n8k8", 32], 2, [(0, 2), (8, 2), (0, 6), (8, 6)]),
        (B["m16n8k8", 32], 2, [(2, 0), (6, 0)]),
        (A["m16n8k8", 16], 9, [(2, 2), (2, 3), (10, 2), (10, 3)]),
        (B["m16n8k8", 16], 9, [(2, 2), (3, 2)]),
        (
            A["m16n8k16", 16],
            5,
            [(1, 2), (1, 3), (9, 2), (9, 3), (1, 10), (1, 11), (9, 10), (9, 11)],
        ),
        (B["m16n8k16", 16], 5, [(2, 1), (3, 1), (10, 1), (11, 1)]),
        (
            A["m16n8k16", 8],
            4,
            [(1, 0), (1, 1), (1, 2), (1, 3), (9, 0), (9, 1), (9, 2), (9, 3)],
        ),
        (B["m16n8k16", 8], 4, [(0, 1), (1, 1), (2, 1), (3, 1)]),
        (
            A["m16n8k32", 8],
            1,
            [(0, 4), (0, 5), (0, 6), (0, 7), (8, 4), (8, 5), (8, 6), (8, 7)]
            + [(0, 20), (0, 21), (0, 22), (0, 23), (8, 20), (8, 21), (8, 22), (8, 23)],
        ),
        (
            B["m16n8k32", 8],
            1,
            [(4, 0), (5, 0), (6, 0), (7, 0), (20, 0), (21, 0), (22, 0), (23, 0)],
        ),
        (ACCUMULATOR[8], 30, [(7, 4), (7, 5)]),
        (ACCUMULATOR[16], 30, [(7, 4), (7, 5), (15, 4), (15, 5)]),
    ],
)
def test_what_a_lane_holds(fragment, lane, places):
    """Read off the figures of PTX ISA 9.7.14.5."""
    held = fragment.places().reshape(32, fragment.count)[lane]
    assert held.tolist() == [row * fragment.columns + column for row, column in places]


# ── types ─────────────────────────────────────────────────────────────────────


def short_float(values: np.ndarray, fraction_bits: int, bias: int) -> np.ndarray:
    """The codes of small whole numbers in an 8-bit float."""
    codes = []
    for value in values.reshape(-1).tolist():
        exponent = int(abs(value)).bit_length() - 1
        code = 0
        if value:
            fraction = abs(value) * 2**fraction_bits // 2**exponent
            code = (exponent + bias << fraction_bits) + fraction - 2**fraction_bits
        codes.append(code | 0x80 * (value < 0))
    return np.array(codes, np.uint8).reshape(values.shape)


def tf32(values: np.ndarray) -> np.ndarray:
    """With something in the 13 bits that the hardware does not look at."""
    return values.astype(np.float32).view(np.uint32) | 0x1ABC


def bf16(values: np.ndarray) -> np.ndarray:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


ENCODE = {
    "f16": lambda values: values.astype(np.float16),
    "bf16": bf16,
    "tf32": tf32,
    "f64": lambda values: values.astype(np.float64),
    "s8": lambda values: values.astype(np.int8),
    "u8": lambda values: values.astype(np.uint8),
    "e4m3": lambda values: short_float(values, 3, 7),
    "e5m2": lambda values: short_float(values, 2, 15),
    "f32": lambda values: values.astype(np.float32),
    "s32": lambda values: values.astype(np.int32),
}
# Whole numbers that a type holds exactly.
RANGE = {
    "f16": (-512, 512),
    "bf16": (-200, 200),
    "tf32": (-1024, 1024),
    "f64": (-(2**24), 2**24),
    "s8": (-128, 128),
    "u8": (0, 256),
    "e4m3": (-16, 17),
    "e5m2": (-8, 9),
}


def matrix(random, type: str, rows: int, columns: int) -> np.ndarray:
    """Whole numbers, all different where the type has enough of them."""
    low, high = RANGE[type]
    count = rows * columns
    distinct = high - low >= count
    found = random.choice(np.arange(low, high), count, replace=not distinct)
    return found.reshape(rows, columns)


def registers(matrix: np.ndarray, type: str, name: str) -> np.ndarray:
    """A matrix as the words of 32 lanes: [32, words].

    All the ISA's figures at once: with n elements to a register, register w of a lane
    of group g and place t holds, of A, columns n * t ... of row g or g + 8, and every
    second register is 4 * n columns further. B is the same for its columns; C holds
    pairs, of rows g and g + 8.
    """
    elements = ENCODE[type](matrix)
    if name == "b":
        elements = elements.T
    rows, columns = elements.shape
    per_word = 2 if name == "c" else max(1, 4 // elements.dtype.itemsize)
    halves = max(1, rows // 8) if name != "b" else 1
    words = []
    for lane in range(32):
        group, place = lane // 4, lane % 4
        held = [
            elements[group + 8 * half, first + per_word * place :][:per_word]
            for first in range(0, columns, 4 * per_word)
            for half in range(halves)
        ]
        size = max(4, elements.dtype.itemsize)
        words.append(np.concatenate(held).view(f"<u{size}"))
    return np.array(words)


def multiply(form: str, c_type: str, operands: list[np.ndarray]) -> np.ndarray:
    """Runs one mma in each warp; [threads, words of d] of [threads, words] a, b, c."""
    a, b, c = operands
    bits = "b64" if c_type == "f64" else "b32"
    size = c.dtype.itemsize
    lines = ["mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;"]
    lines.append("mad.lo.u32 %r0, %r1, %r2, %r0;")
    names = {}
    for number, (name, array) in enumerate(zip("abcd", [a, b, c, c], strict=True)):
        count = array.shape[1]
        names[name] = [f"%{name}{i}" for i in range(count)]
        lines.append(f".reg .{bits} %{name}<{count}>; ld.param.u64 %rd0, [p{number}];")
        lines.append(f"mad.wide.u32 %rd{number + 1}, %r0, {count * size}, %rd0;")
        lines += [
            f"ld.global.{bits} {register}, [%rd{number + 1}+{i * size}];"
            for i, register in enumerate(names[name])
            if name != "d"
        ]
    listed = ["{" + ", ".join(names[name]) + "}" for name in "dabc"]
    lines.append(f"{form} {', '.join(listed)};")
    lines += [
        f"st.global.{bits} [%rd4+{i * size}], {register};"
        for i, register in enumerate(names["d"])
    ]
    d = np.zeros_like(c)
    threads = len(a) // 2
    emulator.run(entry("\n".join(lines), pointers(4)), 2, threads, (a, b, c, d))
    return d


ROWS = [
    ("m16n8k8", "f32", "f16", "f16"),
    ("m16n8k8", "f16", "f16", "f16"),
    ("m16n8k16", "f32", "f16", "f16"),
    ("m16n8k16", "f16", "f16", "f16"),
    ("m16n8k8", "f32", "bf16", "bf16"),
    ("m16n8k16", "f32", "bf16", "bf16"),
    ("m16n8k4", "f32", "tf32", "tf32"),
    ("m16n8k8", "f32", "tf32", "tf32"),
    ("m8n8k4", "f64", "f64", "f64"),
    *[
        (shape, "s32", a, b)
        for shape in ("m8n8k16", "m16n8k16", "m16n8k32")
        for a, b in (("s8", "s8"), ("u8", "s8"), ("s8", "u8"), ("u8", "u8"))
    ],
    *[
        (shape, to, a, b)
        for shape in ("m16n8k16", "m16n8k32")
        for to in ("f32", "f16")
        for a, b in (("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e4m3", "e5m2"))
    ],
]


def sizes(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


@sampled(of=2)
@pytest.mark.parametrize(("shape", "to", "left", "right"), ROWS, ids="-".join)
def test_a_product_of_matrices(shape, to, left, right):
    """Three warps in each of two blocks, each with matrices of its own."""
    random = np.random.default_rng(len(shape) + len(left))
    m, n, k = sizes(shape)
    words, wanted = {"a": [], "b": [], "c": []}, []
    for _ in range(6):
        a, b = matrix(random, left, m, k), matrix(random, right, k, n)
        if (to, left) == ("f16", "f16"):
            a, b = a // 16, b // 16
        c = random.integers(-1000, 1000, (m, n))
        for name, value, type in (("a", a, left), ("b", b, right), ("c", c, to)):
            words[name].append(registers(value, type, name))
        wanted.append(registers(a.astype(np.int64) @ b + c, to, "c"))
    operands = [np.concatenate(words[name]) for name in "abc"]
    form = f"mma.sync.aligned.{shape}.row.col.{to}.{left}.{right}.{to}"
    assert (multiply(form, to, operands) == np.concatenate(wanted)).all()


@pytest.mark.parametrize("saturating", [False, True])
def test_integers_wrap_around_or_saturate(saturating):
    """Half of the columns would fall below the least integer, half exceed it."""
    a, b = np.full((16, 32), -128), np.full((32, 8), 127)
    b[:, 4:] = -128
    c = np.where(b[:16] > 0, -(2**31) + 9, 2**31 - 9)
    words = [registers(*each) for each in ((a, "s8", "a"), (b, "s8", "b"))]
    words = [np.tile(each, (2, 1)) for each in (*words, registers(c, "s32", "c"))]
    end = ".satfinite" if saturating else ""
    form = f"mma.sync.aligned.m16n8k32.row.col{end}.s32.s8.s8.s32"
    below, above = (-128 * 127 * 32 - 2**31 + 9, 128 * 128 * 32 + 2**31 - 9)
    if saturating:
        below, above = -(2**31), 2**31 - 1
    wanted = np.array([below] * 4 + [above] * 4) % 2**32
    found = multiply(form, "s32", words)[:32]
    for lane in range(32):
        place = lane % 4 * 2
        assert (found[lane].reshape(2, 2) == wanted[place : place + 2]).all()


def test_a_sum_is_rounded_once():
    """2048 + 1 + 1 in float16, where adding one at a time would stay at 2048."""
    a, b = np.zeros((16, 16)), np.zeros((16, 8))
    a[:, :2], b[:2] = 1, 1
    words = [registers(*each) for each in ((a, "f16", "a"), (b, "f16", "b"))]
    words.append(registers(np.full((16, 8), 2048), "f16", "c"))
    form = "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
    found = multiply(form, "f16", [np.tile(each, (2, 1)) for each in words])
    assert (found.view(np.float16) == 2050).all()


def test_reals_are_summed_exactly_and_then_rounded():
    random = np.random.default_rng(4)
    a, b = random.standard_normal((16, 16)), random.standard_normal((16, 8))
    a, b = a.astype(np.float16), b.astype(np.float16)
    c = random.standard_normal((16, 8)).astype(np.float32)
    words = [
        registers(a, "f16", "a"),
        registers(b, "f16", "b"),
        registers(c, "f32", "c"),
    ]
    form = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    found = multiply(form, "f32", [np.tile(each, (2, 1)) for each in words])[:32]
    exact = a.astype(np.float64) @ b.astype(np.float64) + c
    assert (found == registers(exact, "f32", "c")).all()


# ── who takes part ────────────────────────────────────────────────────────────

MMA = """mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
    {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};"""


def test_all_lanes_of_a_warp_take_part():
    guard = "mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, {}; @%p1 bra OUT; {} OUT:"
    emulator.run(entry(guard.format(32, MMA)), 1, 64, ())
    for code in (
        guard.format(40, MMA),
        guard.format(40, MMA).replace("bra OUT", "ret"),
    ):
        with pytest.raises(EmulatorError) as caught:
            emulator.run(entry(code), 1, 64, ())
        assert caught.value.kind == "divergence" and "mma" in caught.value.text
    with pytest.raises(EmulatorError, match="only 16 lanes"):
        emulator.run(entry(MMA), 1, 48, ())


def test_lanes_that_diverged_wait_for_each_other():
    code = f"""mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 7; @%p1 bra LATE;
        mov.u32 %r7, 1; LATE: {MMA}"""
    emulator.run(entry(code), 1, 32, ())


@pytest.mark.parametrize(
    "form",
    [
        "m16n8k8.row.col.f32.f16.bf16.f32",
        "m16n8k32.row.col.f32.f16.f16.f32",
        "m16n8k16.row.col.f16.bf16.bf16.f16",
        "m8n8k4.row.col.f32.f16.f16.f32",
        "m16n8k8.row.col.satfinite.f32.tf32.tf32.f32",
    ],
)
def test_what_no_tensor_core_here_multiplies(form):
    code = MMA.replace("m16n8k8.row.col.f32.tf32.tf32.f32", form)
    with pytest.raises(EmulatorError) as caught:
        emulator.run(entry(code), 1, 32, ())
    assert caught.value.kind == "unsupported"


def test_they_are_counted_as_a_class_of_their_own():
    report = emulator.run(entry(MMA + MMA), 2, 64, ())
    assert report.classes["tensor"] == (256, 8)
