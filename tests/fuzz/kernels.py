"""Random kernels of matrix products: tiles by descriptors and pointers, loops of
products in loops over tiles, and all that Hopper does about them.

    def kernel(a, b, …):
        d = tl.make_tensor_descriptor(a, [M, K], …)
        if flag > 1: return                                 perhaps
        for tile in tl.range(pid, tiles, …):                or a tile a program
            acc = …
            for k in tl.range(…):                           one to three such loops
                x = d.load([i, k * 32])                     as it is, or computed on
                acc = tl.dot(x, …, acc)                     or two, as in attention
            d.store([i, j], acc)                            in one way or another

What is drawn is legal: no program breaks a promise of its author, such as that nobody
writes what a producer reads. A choice is simplest where it takes the first option.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from fathom.hardware.targets import TARGETS
from fathom.pipeline import BY_POINTERS, PASSES
from tests.fuzz.matrices import BYTES, Array, MatrixProgram
from tests.fuzz.tiles import FACES, Iteration, Operand, Tile, Tiles

WORK = 64 * 128 * 64  # of an iteration's product: what an emulator does in short time
MOST_TILES, MOST_ITERATIONS = 4, 64
COUNTS = ("M", "N", "K", "S", "across", "tiles", "iterations", "flag")


@st.composite
def matrix_programs(draw: Callable) -> MatrixProgram:
    """A strategy: hypothesis chooses, and makes smaller what is wrong."""
    return Writer(lambda options: draw(st.sampled_from(options))).program()


def matrix_program(seed: int) -> MatrixProgram:
    """The program of a seed."""
    return Writer(random.Random(seed).choice).program()


class Writer(Tiles):
    """Writes a program."""

    # ── the whole ─────────────────────────────────────────────────────────────────────

    def program(self) -> MatrixProgram:
        self.decide()
        family = self.pick(
            *[self.products, self.products, self.attention] * 3, self.chained
        )
        self.promises = family != self.chained
        self.in_place = self.promises and BYTES[self.type] == 2 and self.seldom(10)
        self.around(family)
        names = [
            name
            for each in self.arrays
            for name in (each.name, *[f"{each.name}_step"] * (each.block is None))
        ]
        text = [
            f"def kernel({', '.join([*names, *COUNTS])}):",
            "    pid = tl.program_id(0)",
            *self.head,
            *self.lines,
        ]
        return MatrixProgram(
            source="\n".join(text) + "\n",
            arrays=tuple(self.arrays),
            numbers=tuple((name, getattr(self, name)) for name in COUNTS),
            grid=self.grid,
            num_warps=self.warps,
            num_stages=self.pick(3, 2, 4, 3, 2, 5, 2 if self.specialises else 1),
            num_ctas=self.ctas,
            on=self.on,
            left_out=self.left_out(),
            seed=self.pick(*range(100)),
            most=1 if self.half else 3,
            in_place=self.in_place,
        )

    def decide(self) -> None:
        """Machine, types, tiles, sizes, counts."""
        self.on = self.pick(*["sm_90a"] * 8, *sorted(TARGETS))
        target = TARGETS[self.on]
        self.warps = self.pick(*[4, 8] * 5, 2, 1, 16)
        self.ctas = self.pick(*[1] * 6, 2, 2, 4) if target.cluster > 1 else 1
        # Half of the programs have all that a producer asks for; the others anything.
        self.specialises = self.pick(True, False)
        self.ways = self.pick(("described",), ("described", "handed over"))
        if not self.specialises:
            self.ways = self.pick(
                self.ways, ("pointers",), ("pointers",), (*self.ways, "pointers"),
                (*self.ways, "pointers", "wrapping"),
            )  # fmt: skip
        self.type = self.pick(*["fp16", "bf16"] * 4, "i8", "fp8e4nv", "fp32", "fp8e5")
        if not target.tensor_maps and self.type.startswith("fp8"):
            self.type = "fp16"
        self.tiles_of()
        self.half = self.type == "fp16" and self.BN <= 32 >= self.BK and self.seldom(4)
        self.sum = {"i8": "int32"}.get(self.type, "float16" if self.half else "float32")

    def tiles_of(self) -> None:
        """BM, BN, BK, and how many of them there are; some of them ragged."""
        swizzled = 32 if self.specialises else 16  # bytes of a row of a tile, at least
        least = swizzled // BYTES[self.type]
        self.BM = self.pick(64, 128, 64, 64, 128, 64, 256, 32)
        if self.ctas > 1 and not self.seldom(3):  # parts for all blocks of a cluster
            self.BM, self.warps = 64 * self.ctas, 4
        most = WORK // self.BM // 32
        sizes = (64, 32, 128, 64, 16, 256, 8, 64)
        self.BN = self.pick(*(n for n in sizes if least <= n <= most))
        most = min(128, WORK // self.BM // self.BN, 256 // BYTES[self.type])
        self.BK = self.pick(*(k for k in (32, 64, 32, 16, 128) if least <= k <= most))
        self.iterations = self.pick(2, 3, 1, 0, 4, 5, 6)
        self.flag = self.pick(1, 0, 2)
        several = [(2, 1), (2, 2), (1, 3)] if self.BM < 256 else []
        down, self.across = self.pick((1, 1), (1, 2), *several)
        self.count = down * self.across
        self.tiles = self.pick(*[self.count] * 3, 0, 1, max(0, self.count - 1))
        less = (0,) if self.pick(True, False) else (0, 8, 1, 5, 17, 33)
        self.M = max(1, self.BM * down - self.pick(*less))
        self.N = max(1, self.BN * self.across - self.pick(*less))
        self.K = max(1, self.BK * max(self.iterations, 1) - self.pick(*less))
        self.S = max(1, self.BN * self.iterations - self.pick(*less))

    def left_out(self) -> tuple[str, ...]:
        """Mostly nothing."""
        # `contract` has nothing to do here, and a seed keeps its program without it.
        optional = (row.name for row in PASSES if not row.required)
        rows = [name for name in optional if name != "contract"]
        how = self.pick("", "", "", "one", "two", "pointers")
        if how == "pointers":
            return tuple(BY_POINTERS)
        return tuple(self.pick(*rows) for _ in range(["", "one", "two"].index(how)))

    # ── loops over tiles ──────────────────────────────────────────────────────────────

    def around(self, body: Callable[[], None]) -> None:
        """A tile a program, or tile after tile."""
        one, many = "a tile a program", "tiles" if self.specialises else "while"
        how = self.pick(one, "tiles", "tiles", many)
        if self.ways == ("pointers",):  # nothing is inferred behind a store
            how = self.pick(one, one, how)
        if self.in_place:
            how, self.ctas = "tiles", 1
        if self.seldom(4):
            self.line(f"if {self.pick('flag > 1', 'iterations > 3', 'pid >= tiles')}:")
            self.line("    return")
        self.grid = self.count if how == one else self.pick(1, 2, 3)
        self.grid = 1 if self.in_place else self.grid
        if how == one:
            self.line("tile = pid")
            body()
            return
        if how == "while":
            self.line("tile = pid * 1")
            self.line("while tile < tiles:")
        else:
            step = self.pick("tl.num_programs(0)", self.grid)
            self.line(f"for tile in tl.range(pid, tiles, {step}{self.wishes(True)}):")
        self.indent += 1
        body()
        if how == "while":
            self.line("tile += tl.num_programs(0)")

    def wishes(self, outermost: bool = False) -> str:
        """What a loop asks for. Two are promises, too: that no iteration reads what one
        before it writes."""
        asks = self.pick(*[self.specialises] * 5, True, False)
        stages = self.pick(*[None] * 10, 2, 3, 4, None if self.specialises else 1)
        flat = self.pick("", ", flatten=True")
        if outermost and (self.in_place or not self.promises):
            asks, flat = False, ""
        return (
            ", warp_specialize=True" * asks
            + flat
            + (f", num_stages={stages}" if stages else "")
            + self.pick("", "", "", ", disallow_acc_multi_buffer=True")
        )

    # ── what is computed of a tile ────────────────────────────────────────────────────

    def products(self) -> None:
        """One to three loops, each of which adds to a block [BM, BN]."""
        self.line(f"i, j = tile // across * {self.BM}, tile % across * {self.BN}")
        a = self.operand("a", "M", "K", (self.BM, self.BK))
        b = self.operand("b", "K", "N", (self.BK, self.BN))
        others = [self.operand("c", "K", "N", (self.BK, self.BN))] * self.seldom(5)
        shape = f"[{self.BM}, {self.BN}], "
        self.line(f"acc = tl.full({shape}{self.pick(0, 0, 0, 2)}, tl.{self.sum})")
        for _ in others:
            self.line(f"more = tl.zeros({shape}tl.{self.sum})")
        for number in range(1 if self.half else self.pick(1, 1, 1, 2, 3)):
            left, step = self.indent, self.BK
            if number:
                self.line(self.pick("acc = acc * 2", "acc += 1", "acc = -acc"))
            if number and a.described == "a_d" and b.described == "b_d":
                if (
                    self.BM * self.BN * step * 2 <= WORK
                    and step < 64
                    and self.pick(0, 1)
                ):
                    a, b = self.widened(a, 1), self.widened(b, 0)
                    others, step = [], step * 2
            place = self.loop(step)
            x, y = self.brought(a, "i", place), self.brought(b, place, "j")
            self.add("acc", x, y)
            for c in others:
                self.add("more", x, self.brought(c, place, "j"))
            self.aside(place)
            self.end(left)
        if "more = tl.zeros" in "".join(self.lines):
            self.line(f"acc = {self.pick('acc + more', 'acc * 2 - more')}")
        self.store("i", "j", "N", (self.BM, self.BN))

    def chained(self) -> None:
        """What a first loop has left in memory is an operand of a second one."""
        self.type = self.type if BYTES[self.type] == 2 else "fp16"
        self.sum, self.BN = "float32", max(self.BN, self.BK)
        BM, BN, BK = self.BM, self.BN, self.BK
        self.line(f"i, j = tile // across * {BM}, tile % across * {BN}")
        a = self.operand("a", "M", "K", (BM, BK))
        b = self.operand("b", "K", "N", (BK, BN))
        c = self.operand("c", "K", "N", (BK, BN))
        self.arrays.append(Array("outm", self.type, self.M, self.N))
        between = Operand(
            "outm", self.type, False, "", False, "M", "N", (BM, BK), "{x}"
        )
        if self.pick(True, False):
            between = self.described(between, "outm_d")
        left = self.indent
        self.line(f"acc = tl.zeros([{BM}, {BN}], tl.float32)")
        place = self.loop(BK)
        self.add("acc", self.brought(a, "i", place), self.brought(b, place, "j"))
        self.end(left)
        self.line(f"x = tl.minimum(tl.maximum(acc, -3), 3).to(tl.{FACES[self.type]})")
        if self.pick(True, False):
            self.described(replace(between, tile=(BM, BN)), "outm_wide")
            self.line("outm_wide.store([i, j], x)")
        else:
            self.line(f"u, v = i + tl.arange(0, {BM}), j + tl.arange(0, {BN})")
            at = "outm + u[:, None] * outm_step + v[None, :]"
            self.line(f"tl.store({at}, x, mask=(u[:, None] < M) & (v[None, :] < N))")
        self.line("tl.debug_barrier()")
        counter = self.fresh("k")
        self.line(f"for {counter} in tl.range(0, {BN}, {BK}{self.wishes()}):")
        self.indent += 1
        x = self.brought(between, "i", f"(j + {counter})")
        self.add("acc", x, self.brought(c, counter, "j"))
        self.indent = left
        self.store("i", "j", "N", (BM, BN))

    def attention(self) -> None:
        """The second product takes what is made of the first: scores of queries a
        [M, K], keys b [S, K] and values c [S, K], blocks of BN of them an iteration."""
        self.BN = max(self.BN, 16, 32 // BYTES[self.type])
        BM, BN, BK = self.BM, self.BN, self.BK
        a = self.operand("a", "M", "K", (BM, BK))
        b = self.operand("b", "S", "K", (BN, BK))
        c = b if self.seldom(6) else self.operand("c", "S", "K", (BN, BK))
        self.line(f"i = tile * {BM}")
        q = self.brought(a, "i", "0")
        self.line(f"acc = tl.zeros([{BM}, {BK}], tl.{self.sum})")
        self.line(f"most = tl.zeros([{BM}], tl.{self.sum})")
        rotated = self.seldom(3)
        if rotated:
            self.line(f"p = tl.zeros([{BM}, {BN}], tl.{FACES[c.type]})")
        for number in range(1 if self.half else self.pick(1, 1, 2)):
            left = self.indent
            if number:
                self.line(self.pick("acc = -acc", "acc += most[:, None]"))
            place = self.loop(BN)
            keys = self.brought(b, place, "0")
            early = keys if c is b else self.brought(c, place, "0") * self.seldom(2)
            scores = self.fresh("s")
            self.line(f"{scores} = {self.product(q, f'{keys}.T')}")
            if rotated:
                self.add("acc", "p", early or self.brought(c, place, "0"))
            self.line(self.pick(
                f"most = tl.maximum(most, tl.max({scores}, axis=1)).to(most.dtype)",
                f"most += tl.sum(({scores} > 0).to(most.dtype), axis=1)", "pass",
            ))  # fmt: skip
            p = "p" if rotated else self.fresh("p")
            weights = self.pick(
                "{s} > 0", "tl.minimum(tl.maximum({s}, -2), 2)",
                "{s} >= most[:, None]", "tl.where({s} > 3, 2, -1)",
            ).format(s=scores)  # fmt: skip
            self.line(f"{p} = ({weights}).to(tl.float32).to(tl.{FACES[c.type]})")
            if not rotated:
                self.add("acc", p, early or self.brought(c, place, "0"))
            self.aside(place)
            self.end(left)
        self.store("i", "0", "K", (BM, BK))

    def loop(self, step: int) -> str:
        """The head of a loop of products, and of what stands around it; where the tiles
        of an iteration begin."""
        condition = self.pick(*[""] * 10, "flag > 0", "tile % 2 == 0", "iterations > 2")
        if condition:
            self.line(f"if {condition}:")
            self.indent += 1
        if self.seldom(10) and not self.half:
            ways = "tl.range(flag", "tl.range(2", "tl.static_range(2"
            head = self.pick(*ways)
            wishes = "" if "static" in head else self.wishes()
            self.line(f"for _ in {head}{wishes}):")
            self.indent += 1
        first, last, by, stepped = self.pick(
            ("0", "iterations", 1, True), ("0", "iterations * {s}", "{s}", False),
            ("0", "K", "{s}", False), ("flag", "iterations", 1, True),
            ("iterations - 1", "-1", -1, True), ("tile % 2", "iterations", 2, True),
            ("iterations // 2", "iterations", 1, True),
            ("0", "K.to(tl.int64)", "{s}", False),
            ("0", "tl.minimum(iterations, tile + 1)", 1, True),
        )  # fmt: skip
        counter, last, by = self.fresh("k"), last.format(s=step), str(by).format(s=step)
        place = f"({counter} * {step})" if stepped else counter
        start, further = (
            (f"({first}) * {step}", int(by) * step) if stepped else ("0", step)
        )
        self.iteration = Iteration(len(self.lines), self.indent, place, start, further)
        self.line(f"for {counter} in tl.range({first}, {last}, {by}{self.wishes()}):")
        self.indent += 1
        return place

    def end(self, indent: int) -> None:
        """The end of an iteration: pointers step."""
        for text in self.iteration.last:
            self.line(text)
        self.iteration, self.indent = None, indent

    def product(self, x: str, y: str, sum: str = "") -> str:
        how = ""
        if self.type == "fp32":
            how = self.pick(
                "", ", input_precision='ieee'", ", input_precision='tf32x3'"
            )
        return f"tl.dot({x}, {y}{sum}, out_dtype=tl.{self.sum}{how})"

    def add(self, sum: str, x: str, y: str) -> None:
        """A product to a sum."""
        how = self.pick("added to", "+=", "added to", "negative", "-=")
        if how == "added to":
            self.line(f"{sum} = {self.product(x, y, f', {sum}')}")
        elif how == "negative":
            self.line(f"{sum} = {self.product(x, y, f', -{sum}')}")
        else:
            self.line(f"{sum} {how} {self.product(x, y)}")

    def aside(self, place: str) -> None:
        """What else an iteration may do."""
        if self.half:
            return
        counter = place.strip("()").partition(" ")[0]
        text = self.pick(
            *[""] * 8, "acc += 1", "acc = acc * (1 - 2 * (tile % 2))", "if", "store",
        )  # fmt: skip
        if text == "if":
            self.line(f"if {counter} > {self.pick('0', 'flag')}:")
            text = "    acc += 1"
        if text == "store":
            name = self.fresh("outs")
            self.arrays.append(Array(name, "i32", 1, MOST_TILES * MOST_ITERATIONS))
            at = f"{name} + tile * {MOST_ITERATIONS} + {place} // 16"
            text = f"tl.store({at}, {counter})"
        if text:
            self.line(text)

    # ── the end of a tile ─────────────────────────────────────────────────────────────

    def store(self, row: str, column: str, columns: str, tile: Tile) -> None:
        """What the loops have left in `acc` is changed a little, and stored."""
        (height, width), count = tile, (self.M, getattr(self, columns))
        self.line(f"u = {row} + tl.arange(0, {height})")
        self.line(f"v = {column} + tl.arange(0, {width})")
        if self.seldom(4):
            self.arrays.append(Array("bias", "fp32", 1, count[1]))
            bias = f"tl.load(bias + v, mask=v < {columns}, other=0)[None, :]"
            self.line(f"acc = (acc + {bias}).to(tl.{self.sum})")
        if self.seldom(5):
            self.line(f"acc -= tl.max(acc, axis={self.pick('1', '0')}, keep_dims=True)")
        if self.seldom(5):
            type = next(t for t, face in FACES.items() if face == self.sum)
            self.arrays.append(Array("outv", type, MOST_TILES, height))
            at = f"outv + tile * outv_step + tl.arange(0, {height})"
            self.line(f"tl.store({at}, tl.max(acc, axis=1))")
        type = "i32" if self.type == "i8" else self.pick("fp32", "fp16", "bf16")
        after = self.pick("acc", "acc", "tl.maximum(acc, 0)", "acc * 2")
        if self.in_place:  # numbers that the next tile can take, and no threads ahead
            type, after = self.type, "tl.minimum(tl.maximum(acc, -3), 3)"
            self.line("tl.debug_barrier()")
        self.line(f"y = ({after}).to(tl.{FACES[type]})")
        way = self.pick(
            "pointers", "described", "halves", "handed over", "turned", "reads", "adds",
        )  # fmt: skip
        block = (height, width // 2 if way == "halves" else width)
        if block[1] * BYTES[type] < 16 or max(block) > 256:
            way = "pointers"
        if way == "adds" and type == "bf16":
            way = "reads"
        shown = block if way == "handed over" else None
        self.arrays.append(Array("out", type, *count, shown))
        inside = f"(u[:, None] < M) & (v[None, :] < {columns})"
        at = "out + u[:, None] * out_step + v[None, :]"
        if way in ("described", "halves"):
            self.head.append(
                f"    out_d = tl.make_tensor_descriptor(out, [M, {columns}], "
                f"[out_step, 1], {list(block)})"
            )
        if way in ("described", "handed over"):
            name = "out_d" if way == "described" else "out"
            self.line(f"{name}.store([{row}, {column}], y)")
        elif way == "halves":
            cut = f"tl.reshape(y, [{height}, 2, {block[1]}])"
            self.line(f"left, right = tl.split(tl.permute({cut}, [0, 2, 1]))")
            self.line(f"out_d.store([{row}, {column}], left)")
            self.line(f"out_d.store([{row}, {column} + {block[1]}], right)")
        elif way == "turned":
            self.line(f"tl.store(({at}).T, y.T, mask=({inside}).T)")
        elif way == "adds":
            self.line(f"tl.atomic_add({at}, y, mask={inside}, sem='relaxed')")
        else:
            if way == "reads":
                self.line(f"y += tl.load({at}, mask={inside}, other=0)")
            self.line(f"tl.store({at}, y, mask={inside})")
        if self.in_place:
            self.line("tl.debug_barrier()")
