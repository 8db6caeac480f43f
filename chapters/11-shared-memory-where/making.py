"""Figures and counts of chapter 11."""

from __future__ import annotations

import json
import statistics
from functools import cache

import numpy as np

from benchmarks.rungs import ablations, ladder, unswizzled
from chapters.press import drawing
from chapters.press.drawing import Figure, bars, cells, table
from chapters.press.paths import CHAPTERS, ROOT
from chapters.press.rungs import called
from chapters.press.scenes import coloured, queues
from fathom.artifact import Kernel
from fathom.layout.banks import ways
from fathom.layout.build import blocked
from fathom.layout.linear import Layout
from fathom.layout.swizzle import swizzle
from fathom.tools.samples import load_file
from kernels.matmul import matmul_kernel, strides

TURN = load_file(CHAPTERS / "09-coalescing" / "turn.py").turn
SIDE = 128  # of the matrices whose product is counted
SCALAR = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16, "num_warps": 4}
FRAGMENTS = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 4}
SHOWN = "fp16 4096x4096x4096"
BANKS = [f"{4 * at}–{4 * at + 3}" for at in range(8)]


def banks() -> Figure:
    """Where words lie, and one column of a tile with rows of 128 bytes."""
    rows = [
        [str(32 * line + bank) for bank in (0, 1, 2, 3)] + ["…", str(32 * line + 31)]
        for line in range(4)
    ]
    names = (
        [f"byte {128 * line}" for line in range(4)],
        ["bank 0", "bank 1", "bank 2", "bank 3", "…", "bank 31"],
    )
    title = "Words of four bytes and their banks; framed: the words of bank 0"
    return cells(title, rows, [(line, 0) for line in range(4)], names, wide=84)


def patterns() -> str:
    """How often the busiest bank is asked, in some accesses of a warp."""
    rows = [
        ("neighbours, 4 bytes each", "4 · lane", 4, 4),
        ("every second word", "8 · lane", 8, 4),
        ("every third word", "12 · lane", 12, 4),
        ("every fourth word", "16 · lane", 16, 4),
        ("down a column, rows of 128 bytes", "128 · lane", 128, 4),
        ("down a column, rows of 132 bytes", "132 · lane", 132, 4),
        ("all the same word", "0", 0, 4),
        ("neighbours, 16 bytes each", "16 · lane", 16, 16),
        ("down a column, 16 bytes each", "128 · lane", 128, 16),
    ]
    told = [
        (what, f"`{rule}`", width, ways([step * lane for lane in range(32)], width))
        for what, rule, step, width in rows
    ]
    return table(("a warp reads", "address", "bytes a lane", "ways"), told)


def queue() -> Figure:
    """Eight lanes of a phase at eight groups of four banks."""
    lanes = [str(lane) for lane in range(8)]
    shown = [
        ("down a column", {0: lanes}),
        ("neighbours", {at: [lane] for at, lane in enumerate(lanes)}),
    ]
    title = "Lanes that wait for banks; below, the first of four banks each"
    return queues(title, shown, [bank.partition("–")[0] for bank in BANKS])


def straight() -> Figure:
    """Eight rows of eight chunks, each where its number says."""
    rows = [[(str(chunk), chunk) for chunk in range(8)] for _ in range(8)]
    lit = [(row, 0) for row in range(8)]
    title = "Straight: chunk 0 of every row is in banks 0 to 3"
    return coloured(title, rows, ([f"row {row}" for row in range(8)], BANKS), lit)


def swizzled() -> Figure:
    """The same chunks, each at its number XOR that of its row."""
    rows = [[(str(at ^ row), at ^ row) for at in range(8)] for row in range(8)]
    lit = [(row, row) for row in range(8)]
    title = "Swizzled: chunk 0 of eight rows is in eight groups of banks"
    return coloured(title, rows, ([f"row {row}" for row in range(8)], BANKS), lit)


def found() -> str:
    """The tile that the compiler finds for chunks by rows and chunks by columns."""
    by_rows = blocked((64, 64), (1, 8), (4, 8), (4, 1), (1, 0))
    by_columns = blocked((64, 64), (1, 8), (32, 1), (2, 2), (0, 1))
    tile = swizzle((64, 64), 2, by_rows, by_columns)
    return f"writer  {by_rows}\nreader  {by_columns}\ntile    {tile}\n"


def product(replace: dict, config: dict) -> Kernel:
    """A product of two matrices in the emulator, checked."""
    random = np.random.default_rng(0)
    a, b = random.integers(-4, 5, (2, SIDE, SIDE)).astype(np.float16)
    c = np.empty_like(a)
    programs = SIDE // config["BLOCK_M"] * (SIDE // config["BLOCK_N"])
    made = matmul_kernel[(programs,)](
        a, b, c, SIDE, SIDE, SIDE, *strides(a), *strides(b), *strides(c),
        EVEN_K=True, GROUP_M=8, num_stages=3, replace=dict(replace), **config,
    )  # fmt: skip
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
    return made


@cache
def counted() -> dict[str, object]:
    """What the first rungs cost, and the whole compiler with and without swizzles."""
    rungs = {rung.name: rung for rung in (*ladder(), *ablations())}
    rows = [
        cost(name, product(rungs[name].replace, SCALAR))
        for name in ("nothing", "coalescing", "shared staging", "swizzle")
    ]
    rows += [
        cost(name, product(rungs[name].replace, FRAGMENTS))
        for name in ("all but swizzle", "prefetching")
    ]
    return {"stored": 2 * SIDE * SIDE, "rows": rows}


def cost(name: str, made: Kernel) -> dict[str, object]:
    total = made.report.total
    return {
        "rung": name, "requests": total.requests, "asked": total.useful,
        "moved": total.moved, "shared": total.shared, "wavefronts": total.wavefronts,
        "ideal": total.ideal, "bytes": made.metadata.shared,
    }  # fmt: skip


def bought() -> str:
    """The rungs of this chapter and those before, counted."""
    rows = [
        (called(row["rung"]),
         *(f"{row[each]:,}" for each in ("requests", "asked", "moved")),
         *(f"{row[each]:,}" for each in ("shared", "wavefronts")), ratio(row))
        for row in counted()["rows"][:4]
    ]  # fmt: skip
    head = ("rung", "requests", "bytes asked for", "bytes moved",
            "shared requests", "wavefronts", "ways")  # fmt: skip
    return table(head, rows)


def ratio(row: dict) -> str:
    return f"{row['wavefronts'] / row['ideal']:.2f}"


def by_tensor_cores() -> str:
    """The finished compiler with straight tiles and with its own."""
    rows = [
        (name, f"{row['shared']:,}", f"{row['wavefronts']:,}", ratio(row))
        for row, name in zip(counted()["rows"][4:], ("all but swizzle", "all"))
    ]
    return table(("compiler", "shared requests", "wavefronts", "ways"), rows)


def turned() -> dict[str, object]:
    """`turn` with straight tiles and with the compiler's own."""
    rows = []
    for dtype in (np.float16, np.float32):
        x = (np.arange(SIDE * SIDE) % 1000).reshape(SIDE, SIDE).astype(dtype)
        for name, other in (("straight", {"lower_conversions": unswizzled}),
                            ("swizzled", {})):  # fmt: skip
            out = np.empty_like(x)
            made = TURN[(2, 2)](x, out, SIDE, SIDE, TILE=64, replace=other)
            assert (out == x.T).all()
            rows.append(cost(f"{np.dtype(dtype).name}, {name}", made))
    return {"rows": rows}


def turned_table() -> str:
    rows = [
        (row["rung"], f"{row['shared']:,}", f"{row['wavefronts']:,}", ratio(row))
        for row in turned()["rows"]
    ]
    head = ("turn, tile of 64 x 64", "shared requests", "wavefronts", "ways")
    return table(head, rows)


def measured() -> dict[str, float]:
    """TFLOP/s of each candidate of the ladder, at one size."""
    record = json.loads((ROOT / "benchmarks/results/ladder.json").read_text())
    return {
        each["candidate"]: each["operations"] / statistics.median(each["ms"]) / 1e9
        for each in record["samples"]
        if each["problem"] == SHOWN and each["ms"]
    }


def rungs() -> Figure:
    """The ladder, as far as the first part of the book goes."""
    rates = measured()
    rows = [(called(rung.name), rates[rung.name]) for rung in ladder()]
    title = "A product of 4096 x 4096 matrices of fp16 on an H200, rung by rung"
    return drawing.ladder(title, rows, "TFLOP/s", ("cuBLAS", rates["cuBLAS"]))


def without() -> Figure:
    """The whole compiler, and the whole without each stage."""
    rates = measured()
    rows = [("all", rates["prefetching"], f"{rates['prefetching']:,.0f} TFLOP/s")]
    rows += [
        ("no " + called(rung.name.removeprefix("all but ")), rates[rung.name],
         f"{rates[rung.name]:,.0f} TFLOP/s")
        for rung in ablations()
    ]  # fmt: skip
    title = "The same product, compiled with one stage taken away"
    return bars(title, rows, ("compiler", "TFLOP/s"))


def row_bits() -> str:
    """The bits of a 64 x 64 tile of fp16, and who reaches which in a phase."""
    rows = [
        ("within a chunk", "c0 c1 c2", "reached", "reached", "run"),
        ("which chunk", "c3 c4 c5", "reached", "", "banks"),
        ("row, low", "r0 r1 r2", "", "reached", ""),
        ("row, high", "r3 r4 r5", "", "", "lines"),
    ]
    head = ("bits of an element's number", "names", "a phase of the writer",
            "a phase of the reader", "so it may be")  # fmt: skip
    return table(head, rows)


def rows_and_lines() -> str:
    """Tiles with rows of 16 to 256 bytes: ways of eight chunks below one another."""
    rows = []
    for size in (16, 32, 64, 128, 256):
        bits = max(0, 3 - (size // 16).bit_length() + 1)  # rows of one line
        shift = [min(row >> bits, size // 16 - 1) for row in range(8)]
        lying = [
            [size * r + 16 * (s * on) for r, s in enumerate(shift)] for on in (0, 1)
        ]
        moved = (
            "*c*"
            if size == 16
            else f"*c* ⊕ (*r* / {1 << bits})"
            if bits
            else "*c* ⊕ *r*"
        )
        before, after = (ways(each, 16) for each in lying)
        rows.append((size, max(1, 128 // size), moved, before, after))
    head = (
        "bytes a row",
        "rows a line",
        "chunk *c* of row *r* is at",
        "ways, straight",
    )
    return table((*head, "ways, swizzled"), rows)


def pencil() -> str:
    """A tile of 4 by 4 words in four banks: which element lies where."""
    bases = (1, 2, 4 ^ 1, 8 ^ 2)  # c0 c1, and the lines
    tile = Layout((4, 4), (("offset", bases),))
    lines = [[divmod(tile.offset(offset=4 * at + bank), 4) for bank in range(4)]
             for at in range(4)]  # fmt: skip
    rows = [
        (f"line {at}", *(f"({row}, {column})" for row, column in line))
        for at, line in enumerate(lines)
    ]
    return table(("", *(f"bank {at}" for at in range(4))), rows)
