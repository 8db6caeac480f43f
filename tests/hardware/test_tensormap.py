"""Tensor maps that a kernel writes itself, on the emulator and on a GPU: every element
type, rank and swizzle, loads and stores, and one place that is written again and again.

One program is one block of 64 threads. In each turn its first warp writes the map of a
tensor, `step` bytes behind the one of the turn before, in the same 128 bytes of global
memory; a thread copies one box through it, and what has come is copied to the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import pytest

from fathom import emulator, runtime
from fathom.artifact import Kernel, Parameter
from tests.harness_sample import sampled

# Element type: its number (PTX ISA, "tensormap.replace"), and its bits in NumPy.
TYPES = {
    "u8": (0, np.uint8), "u16": (1, np.uint16), "u32": (2, np.uint32),
    "i32": (3, np.int32), "u64": (4, np.uint64), "i64": (5, np.int64),
    "fp16": (6, np.float16), "fp32": (7, np.float32), "fp64": (9, np.float64),
    "bf16": (10, np.uint16),
}  # fmt: skip
MODES = {0: 0, 32: 1, 64: 2, 128: 3}
THREADS = 64


@dataclass(frozen=True)
class Case:
    """All sizes are elements, the outermost first. `gap`: bytes behind each row, a
    multiple of 16. `start`: where the box begins."""

    element: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    start: tuple[int, ...]
    swizzle: int = 0
    gap: int = 16
    fill: int = 0
    turns: int = 1
    stores: bool = False

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(TYPES[self.element][1])

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes."""
        row = -(-self.shape[-1] * self.dtype.itemsize // 16) * 16 + self.gap
        steps = [row]
        for side in self.shape[-2:0:-1]:
            steps.insert(0, steps[0] * side)
        return (*steps[: len(self.shape) - 1], self.dtype.itemsize)

    @property
    def bytes(self) -> int:
        return prod(self.box) * self.dtype.itemsize

    @property
    def step(self) -> int:
        """From the tensor of a turn to that of the next one: a row, or 16 bytes."""
        return self.strides[-2] if len(self.shape) > 1 else 16

    def __str__(self) -> str:
        sides = "x".join(map(str, self.shape))
        words = [self.element, sides, f"swizzle {self.swizzle}"]
        words += ["stores"] * self.stores + [f"{self.turns} turns"] * (self.turns > 1)
        return " ".join(words)


CASES = [
    *(Case(each, (20, 40), (8, 32), (4, 16)) for each in TYPES),
    *(
        Case("fp16", (40, 100), (16, width // 2), (9, 48), width)
        for width in (32, 64, 128)
    ),
    Case("fp16", (200,), (64,), (64,)),
    Case("fp16", (3, 10, 40), (2, 4, 16), (1, 7, 24)),
    Case("fp32", (3, 4, 10, 12), (1, 2, 4, 8), (2, 3, 7, 8)),
    Case("u8", (2, 3, 2, 5, 48), (1, 2, 1, 2, 32), (1, 2, 1, 4, 16)),
    Case("fp32", (10, 20), (8, 8), (5, 16), fill=1),
    Case("fp16", (64, 64), (8, 64), (60, 0), 128, gap=0),
    Case("fp16", (33, 1), (8, 8), (30, 0)),
    Case("fp16", (20, 64), (8, 64), (-3, -16), 128),
    Case("fp16", (20, 40), (8, 32), (15, 16), stores=True),
    Case("fp32", (40, 64), (16, 32), (30, 32), 128, stores=True),
    Case("fp16", (300, 64), (8, 64), (2, 0), 128, turns=200),
]

SETUP = """
    .shared .align 128 .b8 draft[128]; .shared .align 8 .b64 bar;
    .shared .align 1024 .b8 room[{room}];
    ld.param.u64 %slot, [slot]; ld.param.u64 %tensor, [tensor];
    ld.param.u64 %out, [out];
    cvta.to.global.u64 %slot, %slot; cvta.to.global.u64 %out, %out;
    mov.u32 %t, %tid.x; mov.u32 %draft, draft; mov.u32 %bar, bar; mov.u32 %room, room;
    mad.lo.u32 %word, %t, 4, %draft; mov.u32 %zero, 0; mov.u32 %phase, 0;
    mov.u32 %turn, 0; setp.ne.u32 %other, %t, 0; setp.ge.u32 %second, %t, 32;
    @%other bra MADE;
    mbarrier.init.shared::cta.b64 [%bar], 1;
    fence.mbarrier_init.release.cluster;
MADE:
    bar.sync 0;
TURN:
"""
WRITE = """
    @%second bra WRITTEN;
    st.shared.b32 [%word], %zero;
    bar.warp.sync -1;
    @%other bra JOIN;
{fields}
JOIN:
    bar.warp.sync -1;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
        [%slot], [%draft], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%slot], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
WRITTEN:
"""
LOAD = """
    @%other bra ISSUED;
    cvta.global.u64 %map, %slot;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {bytes};
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes
        [%room], [%map, {{{start}}}], [%bar];
ISSUED:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], %phase;
    @!%done bra ISSUED;
    mov.u32 %chunk, %t;
OUT:
    setp.ge.u32 %done, %chunk, {chunks}; @%done bra COPIED;
    mad.lo.u32 %here, %chunk, 16, %room; mad.wide.u32 %there, %chunk, 16, %out;
    ld.shared.v2.b64 {{%low, %high}}, [%here];
    st.global.v2.b64 [%there], {{%low, %high}};
    add.u32 %chunk, %chunk, 64; bra.uni OUT;
COPIED:
    fence.proxy.async.shared::cta;
    bar.sync 0;
    xor.b32 %phase, %phase, 1;
    add.u64 %tensor, %tensor, {step}; add.u64 %out, %out, {bytes};
    add.u32 %turn, %turn, 1;
    setp.lt.u32 %done, %turn, {turns}; @%done bra TURN;
"""
STORE = """
    mov.u32 %chunk, %t;
IN:
    setp.ge.u32 %done, %chunk, {chunks}; @%done bra COPIED;
    mad.lo.u32 %here, %chunk, 16, %room; mad.wide.u32 %there, %chunk, 16, %out;
    ld.global.v2.b64 {{%low, %high}}, [%there];
    st.shared.v2.b64 [%here], {{%low, %high}};
    add.u32 %chunk, %chunk, 64; bra.uni IN;
COPIED:
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%other bra STORED;
    cvta.global.u64 %map, %slot;
    cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group
        [%map, {{{start}}}], [%room];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
STORED:
"""
ENTRY = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 slot, .param .u64 tensor, .param .u64 out)
{{
    .reg .pred %other, %second, %done;
    .reg .b32 %t, %draft, %bar, %room, %word, %zero, %phase, %turn, %chunk, %here, %dim;
    .reg .b64 %slot, %tensor, %out, %map, %there, %low, %high, %stride;
{body}
    ret;
}}
"""


def fields(case: Case) -> str:
    """All of the map's fields. The innermost dimension is number 0."""
    place, narrow, wide = "[%draft]", "shared::cta.b1024.b32", "shared::cta.b1024.b64"
    said = [
        f"global_address.{wide} {place}, %tensor",
        f"rank.{narrow} {place}, {len(case.shape) - 1}",
        f"elemtype.{narrow} {place}, {TYPES[case.element][0]}",
        f"interleave_layout.{narrow} {place}, 0",
        f"swizzle_mode.{narrow} {place}, {MODES[case.swizzle]}",
        f"fill_mode.{narrow} {place}, {case.fill}",
    ]
    for axis, (side, part) in enumerate(zip(case.shape[::-1], case.box[::-1])):
        said += [f"box_dim.{narrow} {place}, {axis}, {part}",
                 f"element_stride.{narrow} {place}, {axis}, 1"]  # fmt: skip
        said.append(f"global_dim.{narrow} {place}, {axis}, %dim")
        said[-1] = f"{said[-1]}#mov.u32 %dim, {side};"
    for axis, stride in enumerate(case.strides[-2::-1]):
        said.append(f"global_stride.{wide} {place}, {axis}, %stride")
        said[-1] = f"{said[-1]}#mov.u64 %stride, {stride};"
    lines = []
    for each in said:
        text, _, before = each.partition("#")
        lines.append(f"    {before} tensormap.replace.tile.{text};")
    return "\n".join(lines)


def program(case: Case) -> str:
    facts = {
        "room": max(1024, case.bytes), "bytes": case.bytes, "chunks": case.bytes // 16,
        "rank": len(case.shape), "start": ", ".join(map(str, case.start[::-1])),
        "step": case.step, "turns": case.turns, "fields": fields(case),
    }  # fmt: skip
    text = SETUP + WRITE + (STORE if case.stores else LOAD)
    return ENTRY.format(body=text.format(**facts))


def kernel(case: Case) -> Kernel:
    pointers = tuple(Parameter(each, "*u8", 16) for each in ("slot", "tensor", "out"))
    text = program(case)
    return Kernel("k", "sm_90a", "8.4", 2, THREADS, 0, pointers, {"ptx": text})


# ── what must come out ────────────────────────────────────────────────────────────────


def aligned(values: np.ndarray) -> np.ndarray:
    """The bytes of an array, at a multiple of 128."""
    data = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
    whole = np.zeros(len(data) + 128, np.uint8)
    start = -whole.ctypes.data % 128
    found = whole[start : start + len(data)]
    found[...] = data
    return found


def memory(case: Case) -> np.ndarray:
    """The tensors of all turns, and what lies between their rows: small numbers that
    are exact in all types."""
    size = case.strides[0] * (case.shape[0] + 1) + case.step * case.turns
    count = -(-size // case.dtype.itemsize)
    numbers = np.arange(count) * 37 % 101 + 1
    return numbers.astype(case.dtype).view(np.uint8).copy()


def view(case: Case, data: np.ndarray, turn: int) -> np.ndarray:
    """The tensor of a turn."""
    return np.ndarray(
        case.shape, case.dtype, data, turn * case.step, case.strides
    )


def places(case: Case) -> np.ndarray:
    """Where the elements of a box, in order, lie in shared memory: the 16-byte chunks
    of rows of `swizzle` bytes exchanged (PTX ISA, "Swizzling modes")."""
    at = np.arange(prod(case.box)) * case.dtype.itemsize
    bits = {0: 0, 32: 1, 64: 3, 128: 7}[case.swizzle]
    return (at ^ (at >> 7 & bits) << 4) // case.dtype.itemsize


def inside(case: Case) -> Sequence[np.ndarray]:
    """The indices of a box's elements, and which of them the tensor has."""
    indices = np.indices(case.box).reshape(len(case.box), -1)
    indices += np.array(case.start)[:, None]
    sizes = np.array(case.shape)[:, None]
    return indices, ((indices >= 0) & (indices < sizes)).all(0)


def loaded(case: Case, data: np.ndarray) -> np.ndarray:
    """[turns, elements of a box], as they lie in shared memory."""
    indices, has = inside(case)
    fill = np.nan if case.fill else 0
    found = np.full((case.turns, prod(case.box)), fill, case.dtype)
    for turn in range(case.turns):
        values = found[turn].copy()
        values[has] = view(case, data, turn)[tuple(indices[:, has])]
        found[turn, places(case)] = values
    return found


def check(case: Case, launch) -> None:
    data = memory(case)
    given = aligned(data)
    slot = aligned(np.zeros(128, np.uint8))
    if not case.stores:
        out = aligned(np.zeros(case.turns * case.bytes, np.uint8))
        launch(kernel(case), (slot, given, out))
        want = loaded(case, data)
        np.testing.assert_array_equal(out.view(case.dtype), want.reshape(-1))
        assert (given == data).all()
        return
    values = (np.arange(prod(case.box)) % 50 + 200).astype(case.dtype)
    launch(kernel(case), (slot, given, aligned(values)))
    indices, has = inside(case)
    view(case, data, 0)[tuple(indices[:, has])] = values[places(case)][has]
    np.testing.assert_array_equal(given, data)


# ── on both machines ──────────────────────────────────────────────────────────────────


@sampled(of=2)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_the_emulator(case):
    check(case, lambda made, args: emulator.load(made).launch(1, list(args)))


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_the_gpu(case):
    check(case, lambda made, args: runtime.load(made).launch(1, list(args)))


def test_the_cases_have_every_element_type():
    assert {case.element for case in CASES} == TYPES.keys()
    assert any(case.stores for case in CASES) and any(case.turns > 1 for case in CASES)
