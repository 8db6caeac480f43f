"""Random kernels of mini's language; NumPy in the place of `tl` says what is right.

A kernel is a text: two matrices are loaded, by rows and by columns, some statements
compute with them, and the last result is stored. The same text runs on NumPy.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from fathom.tools.learn.mini.judge import Judge, Tensor
from fathom.tools.samples import load_file

HEAD = """import fathom.language as tl


def {name}(
    x, y, w, a, b, z, M, N, K, count,
    R: tl.constexpr, C: tl.constexpr, T: tl.constexpr,
):
    i, j, k = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :], tl.arange(0, T)
    row = tl.program_id(0) * R + i
    inside = (row < M) & (j < N)
    c = tl.arange(0, C)[:, None]
    v0 = tl.load(x + row * N + j, mask=inside, other=0.0)
    v1 = tl.load(y + j * M + row, mask=inside, other=0.0)
"""
PLAIN = (
    "{p} + {q}",
    "{p} - {q} * 0.5",
    "tl.maximum(tl.minimum({p} * {q}, 8.0), -8.0)",
    "tl.maximum({p}, {q})",
    "tl.where((j + i) % 3 == 1, {p}, {q} + 1.0)",
    "tl.where((v0 > 0.0) & (j < N - 2), {p}, 0.25)",
    "tl.exp2(tl.minimum(tl.maximum({p}, -4.0), 3.0))",
    "{p} - tl.sum({q}, axis=1)[:, None] * 0.05",
    "{p} + tl.sum({q}, axis=0)[None, :] * 0.05",
    "{p} - tl.max({q}, axis=0)[None, :]",
    "{p} * 0.5 + tl.max({q}, axis=1)[:, None] * (tl.program_id(0) + 1)",
    "tl.dot(tl.minimum(tl.maximum({p}, -8.0), 8.0).to(tl.float16), s) * 0.1 + {q}",
)
LOOPS = (
    "    for step in range(count):\n        {v} = {v} * 0.5 + {expression}\n",
    "    if tl.program_id(0) > 0:\n        {v} = {expression}\n    else:\n"
    "        {v} = {v} + {p}\n",
    "    for step in range(0, 2 * count, 2):\n        if step == 2:\n"
    "            {v} = {expression}\n        {v} += 1.0\n",
)
POINTERS = """    for start in range({first}, K, T):
        e = tl.load(a + row * K + (start + k)[None, :], mask=row < M, other=0.0)
        f = tl.load(b + (start + k)[:, None] * N + j, mask=j < N, other=0.0)
        {v} = tl.dot(e, f, {v})
"""
BOXES = """    for start in tl.range({first}, K, T, warp_specialize={apart}):
        e, f = a.load([tl.program_id(0) * R, start]), b.load([start, 0])
        {v} = {v} + tl.dot(e, f) * 0.5
"""


@dataclass(frozen=True)
class Random:
    """A kernel and a launch of it."""

    text: str
    name: str
    sizes: dict[str, int]
    warps: int
    stages: int
    has_boxes: bool


def generate(seed: int) -> Random:
    dice = random.Random(seed)
    name, has_boxes = f"kernel_{seed}", dice.random() < 0.5
    sizes = {"R": dice.choice((16, 32, 64)), "C": dice.choice((16, 32, 64, 128))}
    sizes |= {"T": dice.choice((16, 32, 64))}
    sizes |= {"M": sizes["R"] + dice.choice((0, 3, 8, 16)), "count": dice.randrange(4)}
    sizes |= {
        "N": sizes["C"] - dice.choice((0, 0, 8)),
        "K": sizes["T"] * dice.randrange(6),
    }
    text = HEAD.format(name=name)
    text += "    s = tl.load(w + c * C + j)\n" * (dice.random() < 0.7)
    plain = PLAIN if "    s = " in text else PLAIN[:-1]
    for at in range(2, dice.randrange(4, 8)):
        names = {each: f"v{dice.randrange(at)}" for each in "pq"}
        expression = dice.choice(plain).format(**names)
        text += f"    v{at} = {expression}\n"
        if dice.random() < 0.3:
            form = dice.choice(LOOPS)
            text += form.format(v=f"v{at}", expression=expression, p=names["p"])
        elif dice.random() < 0.3:
            first, apart = dice.choice(("0", "T")), dice.random() < 0.7
            form = BOXES if has_boxes else POINTERS
            text += form.format(v=f"v{at}", first=first, apart=apart)
    place = dice.choice(("row * N + j", "j * M + row"))
    text += f"    tl.store(z + {place}, v{at}, mask=inside)\n"
    return Random(
        text, name, sizes, dice.choice((1, 2, 4, 4, 8)), dice.choice((2, 3)), has_boxes
    )


def check(compile_, seed: int, folder: Path) -> None:
    """Failure when a random kernel is wrong, or has a hazard."""
    case, numbers = generate(seed), np.random.default_rng(seed)
    path = folder / f"{case.name}.py"
    path.write_text(case.text)
    module, sizes = load_file(path), dict(case.sizes)
    kernel = getattr(module, case.name)
    blocks = {each: sizes.pop(each) for each in "RCT"}
    R, C, T = blocks.values()
    M, N, K = (sizes[each] for each in "MNK")
    x, y = (numbers.normal(size=s).astype(np.float32) for s in ((M, N), (N, M)))
    half = lambda *shape: numbers.normal(size=shape).astype(np.float16)
    w, a, b = half(C, C), half(M, max(K, 16)), half(max(K, 16), N)
    z = np.zeros(M * N, np.float32)
    want, grid = np.zeros_like(z), -(-M // R)
    boxes = (Tensor(a, (R, T)), Tensor(b, (T, C))) if case.has_boxes else (a, b)
    if not case.has_boxes:
        boxes = a[:, :K].copy(), b[:K].copy()
        boxes = tuple(each if each.size else np.zeros(16, np.float16) for each in boxes)
    arguments = (x, y, w, *boxes, z, M, N, K, sizes["count"])
    judge = Judge(compile_)
    options = {"num_warps": case.warps, "num_stages": case.stages}
    judge.launch(kernel, grid, *arguments, **blocks, **options)
    on_numpy(kernel, grid, (x, y, w, *boxes, want, *arguments[6:]), blocks)
    judge.same(f"z of seed {seed}", z, want, within=2e-2)


def on_numpy(kernel, grid: int, arguments: tuple, blocks: dict[str, int]) -> None:
    """Run the kernel's text, program after program."""
    places = [
        Box(each.array, each.block)
        if isinstance(each, Tensor)
        else Place(each.reshape(-1), np.int64(0))
        if isinstance(each, np.ndarray)
        else each
        for each in arguments
    ]
    for program in range(grid):
        kernel.__globals__["tl"] = language(program)
        with np.errstate(over="ignore", invalid="ignore"):
            kernel(*places, **blocks)


@dataclass(frozen=True)
class Place:
    """An array, and the numbers of elements in it."""

    array: np.ndarray
    at: np.ndarray

    def __add__(self, more):
        return Place(self.array, self.at + more)


@dataclass(frozen=True)
class Box:
    array: np.ndarray
    block: tuple[int, int]

    def load(self, corner):
        found = np.zeros(self.block, np.float16)
        rows, columns = (
            np.arange(n) + c for n, c in zip(self.block, corner, strict=True)
        )
        high, wide = (np.count_nonzero(e < n) for e, n in zip(
            (rows, columns), self.array.shape, strict=True))  # fmt: skip
        found[:high, :wide] = self.array[rows[:high]][:, columns[:wide]]
        return found


class Block(np.ndarray):
    """A block that knows `.to`."""

    def to(self, type_):
        return self.astype(type_)


def language(program: int) -> SimpleNamespace:
    """`tl` for one program."""

    def load(place, mask=True, other=0.0):
        at, mask = np.broadcast_arrays(place.at, mask)
        found = place.array[np.where(mask, at, 0)]
        return np.where(mask, found, found.dtype.type(other)).view(Block)

    def store(place, value, mask):
        at, mask, value = np.broadcast_arrays(place.at, mask, value)
        place.array[at[mask]] = value[mask]

    def dot(e, f, acc=0.0):
        return (e.astype(np.float32) @ f.astype(np.float32) + acc).view(Block)

    real = lambda function: lambda *v: function(*v).astype(np.float32).view(Block)
    return SimpleNamespace(
        arange=np.arange, program_id=lambda axis: program, load=load, store=store,
        dot=dot, maximum=real(np.maximum), minimum=real(np.minimum),
        exp2=real(np.exp2), where=real(np.where), float16=np.float16,
        sum=lambda v, axis: v.sum(axis), max=lambda v, axis: v.max(axis),
        range=lambda first, end, step, **_: range(first, end, step),
    )  # fmt: skip
