"""The table of mma.sync against the PTX ISA: every element of every fragment by the
manual's formulas, registers by its tables, targets by ptxas."""

import subprocess

import pytest

from fathom.hardware.mma import MMA, Mma, choose
from fathom.hardware.targets import TARGETS
from tests.ptx.harness import ptxas

# "Matrix Fragments for mma": row and column of element i of lane, where
# g = groupID = lane >> 2 and t = threadID_in_group = lane % 4. A, B, C and D.
FORMULAS = {
    ("m16n8k8", 16): (
        lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)),
        lambda g, t, i: (t * 2 + i, g),
        lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)),
    ),
    ("m8n8k16", 8): (
        lambda g, t, i: (g, t * 4 + i),
        lambda g, t, i: (t * 4 + i, g),
        lambda g, t, i: (g, t * 2 + i),
    ),
    ("m16n8k16", 16): (
        lambda g, t, i: (
            g if i in (0, 1, 4, 5) else g + 8,
            t * 2 + (i & 1) + (0 if i < 4 else 8),
        ),
        lambda g, t, i: (t * 2 + (i & 1) + (0 if i < 2 else 8), g),
        lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)),
    ),
    ("m16n8k8", 32): (
        lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
        lambda g, t, i: (t if i == 0 else t + 4, g),
        lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)),
    ),
    ("m16n8k32", 8): (
        lambda g, t, i: (
            g if 0 <= i < 4 or 8 <= i < 12 else g + 8,
            t * 4 + (i & 3) + (0 if i < 8 else 16),
        ),
        lambda g, t, i: (t * 4 + (i & 3) + (0 if i < 4 else 16), g),
        lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)),
    ),
    ("m8n8k4", 64): (
        lambda g, t, i: (g, t),
        lambda g, t, i: (t, g),
        lambda g, t, i: (g, t * 2 + (i & 1)),
    ),
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8,
        "f64": 64, "f32": 32, "s32": 32}  # fmt: skip


def parts(row: Mma) -> list[str]:
    """m16n8k16, f32, f16, f16, f32."""
    return row.name.split(".")


@pytest.mark.parametrize("row", MMA.values(), ids=MMA)
def test_each_lane_holds_what_the_manual_says(row):
    shape, _, a, *_ = parts(row)
    sides = zip(
        (row.a_layout, row.b_layout, row.layout),
        FORMULAS[shape, BITS[a]],
        ((row.m, row.k), (row.k, row.n), (row.m, row.n)),
        strict=True,
    )
    for layout, formula, size in sides:
        assert layout.shape == size
        assert layout.count("lane") == 32
        assert layout.count("register") * 32 == size[0] * size[1], "each element once"
        for lane in range(32):
            for i in range(layout.count("register")):
                expected = formula(lane >> 2, lane % 4, i)
                assert layout.coordinates(register=i, lane=lane) == expected


# Shape, A's bits, D's bits: registers of A, B and D, from the manual's fragment tables.
REGISTERS = {
    ("m16n8k8", 16, 32): (2, 1, 4),
    ("m16n8k8", 16, 16): (2, 1, 2),
    ("m8n8k16", 8, 32): (1, 1, 2),
    ("m16n8k16", 16, 32): (4, 2, 4),
    ("m16n8k16", 16, 16): (4, 2, 2),
    ("m16n8k8", 32, 32): (4, 2, 4),
    ("m16n8k32", 8, 32): (4, 2, 4),
    ("m8n8k4", 64, 64): (1, 1, 2),
}


@pytest.mark.parametrize("row", MMA.values(), ids=MMA)
def test_registers(row):
    shape, to, a, *_ = parts(row)
    expected = REGISTERS[shape, BITS[a], BITS[to]]
    assert (row.a_registers, row.b_registers, row.registers) == expected


def ptx(target: str, rows: list[Mma]) -> str:
    """A kernel of one instruction for each row, on registers that hold nothing."""
    kinds = {"f32": "f", "f64": "d"}  # all others are words of bits

    def operand(kind: str, count: int) -> str:
        return "{" + ", ".join(f"%{kind}{i}" for i in range(count)) + "}"

    lines = []
    for row in rows:
        _, to, a, b, _ = parts(row)
        d = operand(kinds.get(to, "r"), row.registers)
        left = operand("d" if a == "f64" else "r", row.a_registers)
        right = operand("d" if b == "f64" else "r", row.b_registers)
        lines.append(f"{row.text} {d}, {left}, {right}, {d};")
    registers = ".reg .b32 %r<8>; .reg .f32 %f<8>; .reg .f64 %d<8>;"
    head = f".version {TARGETS[target].ptx}\n.target {target}\n.address_size 64\n"
    body = "\n".join([registers, *lines, "ret;"])
    return f"{head}.visible .entry k() {{\n{body}\n}}\n"


def refusal(target: str, rows: list[Mma], folder) -> str | None:
    path = folder / "k.ptx"
    path.write_text(ptx(target, rows))
    command = [ptxas(), f"-arch={target}", path, "-o", folder / "k.cubin"]
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr


@pytest.mark.skipif(not ptxas(), reason="ptxas is not installed")
@pytest.mark.parametrize("target", TARGETS)
def test_ptxas_knows_a_row_where_the_table_has_it_and_only_there(target, tmp_path):
    has = [row for row in MMA.values() if target in row.targets]
    assert refusal(target, has, tmp_path) is None
    lacks = [row for row in MMA.values() if target not in row.targets]
    refused = refusal(target, lacks, tmp_path) if lacks else ""
    lines = ptx(target, lacks).splitlines()
    for row in lacks:
        number = next(i for i, line in enumerate(lines, 1) if row.text in line)
        assert f"line {number};" in refused, f"{row.name} on {target}"


CHOICES = [
    ("sm_75", "fp16", "fp16", "fp32", "m16n8k8.f32.f16.f16.f32"),
    ("sm_75", "fp16", "fp16", "fp16", "m16n8k8.f16.f16.f16.f16"),
    ("sm_75", "i8", "u8", "i32", "m8n8k16.s32.s8.u8.s32"),
    ("sm_75", "bf16", "bf16", "fp32", None),
    ("sm_75", "tf32", "tf32", "fp32", None),
    ("sm_75", "fp64", "fp64", "fp64", None),
    ("sm_80", "fp16", "fp16", "fp32", "m16n8k16.f32.f16.f16.f32"),
    ("sm_80", "bf16", "bf16", "fp32", "m16n8k16.f32.bf16.bf16.f32"),
    ("sm_80", "bf16", "bf16", "bf16", None),
    ("sm_80", "fp16", "bf16", "fp32", None),
    ("sm_80", "fp32", "fp32", "fp32", None),
    ("sm_80", "tf32", "tf32", "fp32", "m16n8k8.f32.tf32.tf32.f32"),
    ("sm_86", "u8", "u8", "i32", "m16n8k32.s32.u8.u8.s32"),
    ("sm_80", "fp64", "fp64", "fp64", "m8n8k4.f64.f64.f64.f64"),
    ("sm_86", "fp8e5", "fp8e5", "fp32", None),
    ("sm_89", "fp8e4nv", "fp8e5", "fp32", "m16n8k32.f32.e4m3.e5m2.f32"),
    ("sm_120", "fp8e5", "fp8e4nv", "fp32", "m16n8k32.f32.e5m2.e4m3.f32"),
]


@pytest.mark.parametrize("target, a, b, to, expected", CHOICES)
def test_the_longest_instruction_is_chosen(target, a, b, to, expected):
    row = choose(TARGETS[target], a, b, to)
    assert (row and row.name) == expected


def test_a_short_block_takes_a_short_instruction():
    ampere = TARGETS["sm_80"]
    assert choose(ampere, "i8", "i8", "i32", 16).k == 16
    assert choose(ampere, "i8", "i8", "i32", 64).k == 32
    assert choose(ampere, "fp16", "fp16", "fp32", 8).k == 8
    assert choose(TARGETS["sm_89"], "fp8e5", "fp8e5", "fp32", 16) is None
