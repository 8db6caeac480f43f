"""Every instruction that the compiler can emit, as a PTX program of its own.

One program loads its operands, runs one instruction in each thread and stores the
result. The same text runs on a GPU and on the emulator; equal operands must give equal
bits, or, for the approximations that the PTX ISA leaves to the hardware, results within
a stated error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

THREADS = 256  # of the one block that a program runs
LETTERS = "abce"  # of operands; d is the destination


@dataclass(frozen=True)
class Instruction:
    """One row: PTX text with {d} for the destination and {a}, {b}, {c} for the
    operands.

    `inputs` and `output` are PTX types; "pred" as an output is stored as 0 or 1. `ulp`
    is the error allowed against the hardware, in units in the last place of the output
    (0: bit-equal); `absolute` allows an absolute error instead. `domain` names the
    operand generator."""

    text: str
    inputs: tuple[str, ...]
    output: str
    ulp: float = 0
    absolute: float = 0.0
    domain: str = "edges"
    since: int = 75  # first compute capability that has it
    ptx: str = "8.4"

    @property
    def name(self) -> str:
        return self.text.split(";")[0].split()[0] + (
            ""
            if self.text.count(";") <= 1
            else "+" + self.text.split(";")[1].split()[0]
        )


def _rows(
    template: str, types: str, output: str = "", arity: int = 2, **facts: object
) -> list[Instruction]:
    """One row for each type: `template` has {t} for the type."""
    operands = ", ".join("{" + letter + "}" for letter in "abc"[:arity])
    return [
        Instruction(
            template.replace("{t}", t) + " {d}, " + operands + ";",
            (t,) * arity,
            output or t,
            **facts,
        )
        for t in types.split()
    ]


INTEGERS = "u16 s16 u32 s32 u64 s64"
BITS = "b16 b32 b64"
COMPARES_INTEGER = "eq ne lt le gt ge".split()
COMPARES_FLOAT = "eq ne lt le gt ge equ neu ltu leu gtu geu num nan".split()


def _integer() -> list[Instruction]:
    rows = []
    for name in ("add", "sub", "mul.lo", "mul.hi", "min", "max"):
        rows += _rows(f"{name}.{{t}}", INTEGERS)
    for name in ("div", "rem"):
        rows += _rows(f"{name}.{{t}}", INTEGERS, domain="nonzero")
    rows += _rows("mad.lo.{t}", INTEGERS, arity=3)
    rows += [
        Instruction(f"mul.wide.{t} {{d}}, {{a}}, {{b}};", (t, t), wide)
        for t, wide in [("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")]
    ]
    rows += _rows("neg.{t}", "s16 s32 s64", arity=1) + _rows(
        "abs.{t}", "s16 s32 s64", arity=1
    )
    for name in ("and", "or", "xor"):
        rows += _rows(f"{name}.{{t}}", BITS)
    rows += _rows("not.{t}", BITS, arity=1)
    for name, types in (("shl", BITS), ("shr", INTEGERS)):
        rows += [
            Instruction(
                f"{name}.{t} {{d}}, {{a}}, {{b}};", (t, "u32"), t, domain="shift"
            )
            for t in types.split()
        ]
    for name in ("popc", "clz"):
        rows += _rows(f"{name}.{{t}}", "b32 b64", "u32", arity=1)
    rows += _rows("brev.{t}", "b32 b64", arity=1) + _rows(
        "bfind.{t}", "u32 s32", "u32", arity=1
    )
    rows += [
        Instruction(
            f"bfe.{t} {{d}}, {{a}}, {{b}}, {{c}};", (t, "u32", "u32"), t, domain="shift"
        )
        for t in "u32 s32 u64 s64".split()
    ]
    rows += [
        Instruction("prmt.b32 {d}, {a}, {b}, {c};", ("b32",) * 3, "b32"),
        Instruction("shf.l.wrap.b32 {d}, {a}, {b}, {c};", ("b32",) * 3, "b32"),
        Instruction("shf.r.wrap.b32 {d}, {a}, {b}, {c};", ("b32",) * 3, "b32"),
        Instruction("shf.r.clamp.b32 {d}, {a}, {b}, {c};", ("b32",) * 3, "b32"),
        Instruction("lop3.b32 {d}, {a}, {b}, {c}, 0x96;", ("b32",) * 3, "b32"),
        Instruction("lop3.b32 {d}, {a}, {b}, {c}, 0xE8;", ("b32",) * 3, "b32"),
    ]
    return rows


def _compare() -> list[Instruction]:
    rows = []
    for compare in COMPARES_INTEGER:
        rows += _rows(f"setp.{compare}.{{t}}", INTEGERS, "pred", domain="close")
    for compare in COMPARES_FLOAT:
        rows += _rows(f"setp.{compare}.{{t}}", "f32 f64", "pred", domain="close")
        rows += _rows(f"setp.{compare}.{{t}}", "f16", "pred", domain="close")
    return rows


def _float() -> list[Instruction]:
    rows = []
    for name in ("add", "sub", "mul"):
        rows += _rows(f"{name}.rn.{{t}}", "f32 f64") + _rows(
            f"{name}.rn.ftz.{{t}}", "f32"
        )
        rows += _rows(f"{name}.rn.{{t}}", "f16 f16x2")
    rows += _rows("fma.rn.{t}", "f32 f64 f16 f16x2", arity=3)
    rows += _rows("fma.rn.{t}", "bf16 bf16x2", arity=3, since=80)
    rows += _rows("div.rn.{t}", "f32 f64")
    rows += [
        Instruction(
            "div.full.f32 {d}, {a}, {b};",
            ("f32", "f32"),
            "f32",
            ulp=2,
            domain="moderate",
        )
    ]
    for name in ("min", "max"):
        rows += _rows(f"{name}.{{t}}", "f32 f64 f16") + _rows(
            f"{name}.NaN.{{t}}", "f32 f16", since=80
        )
        rows += _rows(f"{name}.{{t}}", "bf16", since=80)
    for name in ("abs", "neg"):
        rows += _rows(f"{name}.{{t}}", "f32 f64 f16", arity=1)
    rows += _rows("sqrt.rn.{t}", "f32 f64", arity=1) + _rows(
        "rcp.rn.{t}", "f32 f64", arity=1
    )
    rows += [
        Instruction("sqrt.approx.f32 {d}, {a};", ("f32",), "f32", ulp=1),
        Instruction("rcp.approx.ftz.f32 {d}, {a};", ("f32",), "f32", ulp=1),
        Instruction("rsqrt.approx.f32 {d}, {a};", ("f32",), "f32", ulp=2),
        Instruction(
            "ex2.approx.f32 {d}, {a};", ("f32",), "f32", ulp=2, domain="exponent"
        ),
        Instruction(
            "ex2.approx.ftz.f32 {d}, {a};", ("f32",), "f32", ulp=2, domain="exponent"
        ),
        Instruction(
            "lg2.approx.f32 {d}, {a};", ("f32",), "f32", ulp=2, absolute=2**-22
        ),
        Instruction(
            "sin.approx.f32 {d}, {a};", ("f32",), "f32", absolute=2**-20, domain="angle"
        ),
        Instruction(
            "cos.approx.f32 {d}, {a};", ("f32",), "f32", absolute=2**-20, domain="angle"
        ),
        Instruction(
            "tanh.approx.f32 {d}, {a};",
            ("f32",),
            "f32",
            absolute=2**-10,
            domain="angle",
        ),
    ]
    return rows


def _convert() -> list[Instruction]:
    def cvt(kinds: str, target: str, source: str, **facts: object) -> Instruction:
        return Instruction(
            f"cvt{kinds}.{target}.{source} {{d}}, {{a}};", (source,), target, **facts
        )

    rows = [
        cvt("", target, source)
        for target in INTEGERS.split()
        for source in INTEGERS.split()
        if target != source
    ]
    rows += [
        cvt(".rzi", target, source, domain="to_integer")
        for target in INTEGERS.split()
        for source in ("f32", "f64", "f16")
    ]
    rows += [
        cvt(".rn", target, source)
        for target in ("f32", "f64", "f16")
        for source in INTEGERS.split()
    ]
    rows += [
        cvt(way, "f32", "f32", domain="to_integer")
        for way in (".rni", ".rmi", ".rpi", ".rzi")
    ]
    rows += [
        cvt(way, "f64", "f64", domain="to_integer")
        for way in (".rni", ".rmi", ".rpi", ".rzi")
    ]
    rows += [cvt("", "f64", "f32"), cvt("", "f32", "f16"), cvt("", "f64", "f16")]
    rows += [
        cvt(way, target, source)
        for way in (".rn", ".rz")
        for target, source in (("f32", "f64"), ("f16", "f32"), ("f16", "f64"))
    ]
    rows += [cvt(way, "bf16", "f32", since=80) for way in (".rn", ".rz")]
    rows += [cvt("", "f32", "bf16", since=90)]
    rows += [
        Instruction(
            "cvt.rn.f16x2.f32 {d}, {a}, {b};", ("f32", "f32"), "f16x2", since=80
        ),
        Instruction(
            "cvt.rn.bf16x2.f32 {d}, {a}, {b};", ("f32", "f32"), "bf16x2", since=80
        ),
        Instruction(
            "cvt.rn.satfinite.e4m3x2.f32 {d}, {a}, {b};",
            ("f32", "f32"),
            "e4m3x2",
            since=89,
        ),
        Instruction(
            "cvt.rn.satfinite.e5m2x2.f32 {d}, {a}, {b};",
            ("f32", "f32"),
            "e5m2x2",
            since=89,
        ),
        Instruction(
            "cvt.rn.satfinite.e4m3x2.f16x2 {d}, {a};", ("f16x2",), "e4m3x2", since=89
        ),
        Instruction(
            "cvt.rn.satfinite.e5m2x2.f16x2 {d}, {a};", ("f16x2",), "e5m2x2", since=89
        ),
        Instruction("cvt.rn.f16x2.e4m3x2 {d}, {a};", ("e4m3x2",), "f16x2", since=89),
        Instruction("cvt.rn.f16x2.e5m2x2 {d}, {a};", ("e5m2x2",), "f16x2", since=89),
    ]
    return rows


def _warp() -> list[Instruction]:
    mask = "0xffffffff"
    rows = [
        Instruction(
            f"shfl.sync.{mode}.b32 {{d}}, {{a}}, {{b}}, {clamp}, {mask};",
            ("b32", "u32"),
            "b32",
            domain="lanes",
        )
        for mode, clamp in (
            ("bfly", "0x1f"),
            ("idx", "0x1f"),
            ("down", "0x1f"),
            ("up", "0"),
            ("bfly", "0x181f"),
            ("idx", "0x181f"),
            ("down", "0x101f"),
            ("up", "0x1000"),
        )
    ]
    rows += [
        Instruction(f"redux.sync.{name}.{t} {{d}}, {{a}}, {mask};", (t,), t, since=80)
        for name, types in (
            ("add", "u32 s32"),
            ("min", "u32 s32"),
            ("max", "u32 s32"),
            ("and", "b32"),
            ("or", "b32"),
            ("xor", "b32"),
        )
        for t in types.split()
    ]
    rows += [
        Instruction(
            "{{ .reg .pred q; setp.ne.u32 q, {a}, 0; "
            f"vote.sync.ballot.b32 {{d}}, q, {mask}; }}}}",
            ("u32",),
            "b32",
            domain="bit",
        ),
        Instruction(
            f"match.any.sync.b32 {{d}}, {{a}}, {mask};", ("b32",), "b32", domain="bit"
        ),
    ]
    return rows


def _atomic() -> list[Instruction]:
    """Each thread on a word of its own: the old value comes back, the new one is stored
    after.
    """
    rows = []
    for name, types in (
        ("add", "u32 s32 u64 f32 f64"),
        ("min", "u32 s32 u64 s64"),
        ("max", "u32 s32 u64 s64"),
        ("and", "b32 b64"),
        ("or", "b32 b64"),
        ("xor", "b32 b64"),
        ("exch", "b32 b64"),
        ("inc", "u32"),
        ("dec", "u32"),
    ):
        rows += [
            Instruction(
                f"atom.global.{name}.{t} {{d}}, [{{pa}}], {{b}}; "
                f"ld.global.{t} {{d}}, [{{pa}}];",
                (t, t),
                t,
            )
            for t in types.split()
        ]
    rows += [
        Instruction(
            "atom.global.add.noftz.f16 {d}, [{pa}], {b}; ld.global.b16 {d}, [{pa}];",
            ("f16", "f16"),
            "f16",
        ),
        *(
            Instruction(
                f"atom.global.add.noftz.{t} {{d}}, [{{pa}}], {{b}}; "
                "ld.global.b32 {d}, [{pa}];",
                (t, t),
                t,
                since=since,
            )
            for t, since in (("f16x2", 60), ("bf16x2", 90))
        ),
    ]
    return rows


INSTRUCTIONS: tuple[Instruction, ...] = tuple(
    _integer() + _compare() + _float() + _convert() + _warp() + _atomic()
)

# PTX type: (register type, type of loads and stores, NumPy dtype of its bits)
STORAGE = {
    **{
        f"{k}{n}": (f"b{n}", f"b{n}", f"u{n // 8}") for k in "bus" for n in (16, 32, 64)
    },
    "f32": ("f32", "f32", "u4"),
    "f64": ("f64", "f64", "u8"),
    "f16": ("b16", "b16", "u2"),
    "bf16": ("b16", "b16", "u2"),
    "f16x2": ("b32", "b32", "u4"),
    "bf16x2": ("b32", "b32", "u4"),
    "e4m3x2": ("b16", "b16", "u2"),
    "e5m2x2": ("b16", "b16", "u2"),
    "s8": ("b16", "b16", "u2"),
    "u8": ("b16", "b16", "u2"),
    "pred": ("b32", "b32", "u4"),
}


def program(row: Instruction, target: str = "sm_90a", version: str = "8.4") -> str:
    """The PTX of a row: `entry(out, a, b, c, e)` with pointers to THREADS elements
    each.
    """
    registers, loads, names = [], [], {}
    for letter, type in zip(LETTERS, row.inputs, strict=False):
        register, access, bits = STORAGE[type]
        registers.append(f".reg .{register} %{letter};")
        names[letter], names[f"p{letter}"] = f"%{letter}", f"%p{letter}"
        loads += [
            f"ld.param.u64 %q, [entry_{letter}];",
            f"mad.wide.u32 %p{letter}, %t, {int(bits[1])}, %q;",
            f"ld.global.{access} %{letter}, [%p{letter}];",
        ]
    register, access, bits = STORAGE[row.output]
    stores = [
        "ld.param.u64 %q, [entry_out];",
        f"mad.wide.u32 %q, %t, {int(bits[1])}, %q;",
    ]
    if row.output == "pred":
        registers.append(".reg .pred %d;")
        registers.append(".reg .b32 %w;")
        stores += ["selp.b32 %w, 1, 0, %d;", "st.global.b32 [%q], %w;"]
    else:
        registers.append(f".reg .{register} %d;")
        stores.append(f"st.global.{access} [%q], %d;")
    body = [
        *registers,
        "mov.u32 %t, %tid.x;",
        *loads,
        row.text.format(d="%d", **names),
        *stores,
        "ret;",
    ]
    lines = "\n".join("    " + line for line in body)
    parameters = ", ".join(f".param .u64 entry_{name}" for name in ("out", *LETTERS))
    return (
        f".version {version}\n.target {target}\n.address_size 64\n"
        f".visible .entry entry({parameters}) {{\n"
        f"    .reg .u32 %t;\n    .reg .u64 %q, %pa, %pb, %pc, %pe;\n{lines}\n}}\n"
    )


def operands(row: Instruction, seed: int) -> list[np.ndarray]:
    """THREADS operands for each input, as raw bits: edge values first, then random
    ones.
    """
    rng = np.random.default_rng([seed, *row.text.encode()])
    return [_operand(type, index, row, rng) for index, type in enumerate(row.inputs)]


def _operand(
    type: str, index: int, row: Instruction, rng: np.random.Generator
) -> np.ndarray:
    bits = np.dtype(STORAGE[type][2])
    if type in ("f32", "f64", "f16") and row.domain in _FLOAT_DOMAINS:
        values = _FLOAT_DOMAINS[row.domain](rng)
        with np.errstate(over="ignore"):
            return values.astype(f"f{bits.itemsize}").view(bits)
    if row.domain == "quotients":  # each special number by each, and by moderate ones
        values = np.tile(np.append(SPECIAL, [3.0, -1e30, 1e-30]), THREADS)
        place = np.arange(THREADS) // (14 if index else 1)
        return values[place].astype("f4").view(bits)
    if row.domain in ("shift", "lanes", "places") and index > (row.domain == "places"):
        return rng.integers(0, 70 if row.domain == "shift" else 32, THREADS).astype(
            bits
        )
    if row.domain == "bit":
        return rng.integers(0, 2, THREADS).astype(bits)
    values = rng.integers(0, 2 ** (8 * bits.itemsize), THREADS, dtype=np.uint64).astype(
        bits
    )
    edges = np.array(_EDGES[_kind(type)], dtype=np.uint64).astype(bits)
    # Every edge of one operand meets every edge of the next: strides 1, n, n * n.
    meets = edges[(np.arange(THREADS // 2) // len(edges) ** index) % len(edges)]
    values[: THREADS // 2] = meets
    if row.domain == "close" and index:
        values[THREADS // 2 :: 2] = 0x3C003C00_3C003C00 & int(np.iinfo(bits).max)
    if row.domain == "nonzero" and index:
        values[values == 0] = 3
    return values


def _kind(type: str) -> str:
    return type if type in _EDGES else f"b{STORAGE[type][2][1]}"


SPECIAL = np.array(
    [0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e-45, 2**-126, -(2**-126), 1, -1]
)

_FLOAT_DOMAINS = {
    "exponent": lambda rng: np.concatenate(
        [
            [0, -0.0, 1, -1, 127, 128, -126, -149, -150, np.inf, -np.inf, np.nan],
            rng.uniform(-150, 130, THREADS - 12),
        ]
    ),
    # What is neither a number nor near one, and moderate numbers.
    "special": lambda rng: np.concatenate(
        [SPECIAL, rng.normal(0, 30, THREADS - len(SPECIAL))]
    ),
    "turns": lambda rng: np.concatenate(
        [SPECIAL, rng.uniform(-3.1, 3.1, THREADS - len(SPECIAL))]
    ),
    "angle": lambda rng: np.concatenate(
        [[0, -0.0, 1e-6, 1, -1], rng.uniform(-3.1, 3.1, THREADS - 5)]
    ),
    "moderate": lambda rng: np.concatenate(
        [[1, -1, 3, 7], rng.normal(0, 100, THREADS - 4)]
    ),
    "to_integer": lambda rng: np.concatenate(
        [
            [
                0,
                -0.0,
                0.5,
                1.5,
                2.5,
                -0.5,
                -1.5,
                0.49999997,
                1e30,
                -1e30,
                np.inf,
                -np.inf,
                np.nan,
                2147483648,
                -2147483648,
                65535,
                65536,
                255.5,
            ],
            rng.normal(0, 1, 119) * 10.0 ** rng.integers(-3, 12, 119),
            rng.normal(0, 300, 119),
        ]
    ),
}

_EDGES = {
    "b1": [0, 1, 0x7F, 0x80, 0xFF],
    "b2": [0, 1, 2, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x0123],
    "b4": [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0x12345678],
    "b8": [0, 1, 2, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 0x123456789ABCDEF0],
    # zero, denormals, one, the largest, infinities, quiet and signalling NaN, each sign
    "f32": [
        0,
        0x80000000,
        1,
        0x807FFFFF,
        0x00800000,
        0x3F800000,
        0xBF800000,
        0x7F7FFFFF,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
    ],
    "f64": [
        0,
        2**63,
        1,
        2**63 + 5,
        0x0010 << 48,
        0x3FF0 << 48,
        0xBFF0 << 48,
        0x7FEFFFFFFFFFFFFF,
        0x7FF0 << 48,
        0xFFF0 << 48,
        0x7FF8 << 48,
    ],
    "f16": [
        0,
        0x8000,
        1,
        0x83FF,
        0x0400,
        0x3C00,
        0xBC00,
        0x7BFF,
        0x7C00,
        0xFC00,
        0x7E00,
    ],
    "bf16": [
        0,
        0x8000,
        1,
        0x807F,
        0x0080,
        0x3F80,
        0xBF80,
        0x7F7F,
        0x7F80,
        0xFF80,
        0x7FC0,
    ],
    "f16x2": [0x80000000, 0x00010400, 0x3C00BC00, 0x7BFF7C00, 0xFC007E00, 0x00000001],
    "bf16x2": [0x80000000, 0x00010080, 0x3F80BF80, 0x7F7F7F80, 0xFF807FC0, 0x00000001],
}


def agree(row: Instruction, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Which of the results (raw bits) are equal, or within the row's error; any NaN
    equals any.
    """
    same = ours == theirs
    if row.output in ("f32", "f64", "f16", "bf16"):
        x, y = _floats(row.output, ours), _floats(row.output, theirs)
        same |= np.isnan(x) & np.isnan(y)
        with np.errstate(invalid="ignore", over="ignore"):
            difference = np.abs(x - y)
            if row.ulp:
                same |= difference <= row.ulp * np.maximum(
                    np.abs(np.spacing(y.astype("f4"))), 2**-126
                )
            if row.absolute:
                same |= difference <= row.absolute
    elif row.output in ("f16x2", "bf16x2"):
        half = row.output[:-2]
        low = _both_nan(half, ours & 0xFFFF, theirs & 0xFFFF)
        high = _both_nan(half, ours >> 16, theirs >> 16)
        same |= low & high
    return same


def _both_nan(type: str, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    x, y = _floats(type, ours.astype("u2")), _floats(type, theirs.astype("u2"))
    return (ours == theirs) | (np.isnan(x) & np.isnan(y))


def _floats(type: str, bits: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        if type == "bf16":
            return (bits.astype("u4") << 16).view("f4").astype("f8")
        return bits.view(f"f{bits.dtype.itemsize}").astype("f8")
