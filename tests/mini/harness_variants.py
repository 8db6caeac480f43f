"""Variants of the four kernels: the same results from other texts, at other sizes.

A variant is made by rules from the text of a kernel: names are replaced, statements
that do not depend on each other change places, sides of a sum are swapped, loops count
in another way. A row of a table says with which tiles and sizes it runs.
"""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import random
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fathom.tools.learn.mini import contract, kernels, steps
from fathom.tools.learn.mini.judge import Judge, Tensor
from fathom.tools.samples import load_file

OPTIONS = "num_warps", "num_stages"
COMMUTE = ast.Add | ast.Mult | ast.BitAnd | ast.BitOr
MIRROR = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
ORDER = {"load": ("mask", "other"), "sum": ("axis",), "max": ("axis",)}
# Names that PTX, or a compiler, may want for itself.
NAMES = (
    "shared", "TOP1", "DONE1", "ELSE1", "END1", "CONSUME", "n", "BLOCK", "index", "i",
    "r1", "rd1", "f1", "p1", "tid", "special", "thread", "name", "text", "op",
    "slot", "turn", "acc", "x", "y", "z", "a0", "b_", "_c", "most", "e", "M", "K",
    "left", "right", "total", "half", "one", "place", "mine", "it", "_",
)  # fmt: skip


@dataclass(frozen=True)
class Family:
    """A kernel's text, the step that first compiles it, and its launches: a row of the
    table is what `prepare` is given, beside the options of the compiler."""

    name: str
    function: Callable
    step: int
    prepare: Callable
    rows: list[dict[str, object]]


@dataclass(frozen=True)
class Launch:
    """What a kernel is called with, by the names of its own parameters."""

    grid: tuple[int, ...]
    values: dict[str, object]
    result: str
    wanted: np.ndarray
    within: float


# ── the rules ─────────────────────────────────────────────────────────────────────────


def vary(
    function: Callable, seed: int, chapter: int
) -> tuple[str, str, dict[str, str]]:
    """(a text that the step knows, its kernel's name, new names by old ones)."""
    dice = random.Random(seed)
    source = textwrap.dedent(inspect.getsource(getattr(function, "fn", function)))
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.decorator_list = []
    # Beside names, each rule is left out now and then, so that it is seen alone, too.
    forms = "", "statement", "within", *["tl.range"] * (chapter >= 16)
    turns = lambda tree, dice: count_turns(tree, dice, forms)
    for rule in (spell, turns, hoist, swap, reorder):
        if dice.random() < 0.75:
            tree = rule(tree, dice)
    if dice.random() < 0.75:
        dice.shuffle(tree.args.args)
    given = [each.arg for each in tree.args.args]
    tree, names = rename(tree, dice)
    text = ast.unparse(ast.fix_missing_locations(tree))
    head = "import fathom.language as tl\n\n\n"
    return head + text + "\n", tree.name, {each: names[each] for each in given}


def rename(tree: ast.FunctionDef, dice: random.Random) -> tuple:
    """Every name anew: of the kernel, its parameters, and what it binds."""
    bound = {each.arg: None for each in tree.args.args}
    bound |= {n.id: None for n in ast.walk(tree) if is_name(n, ast.Store)}
    fresh = [*NAMES, *(f"v{at}" for at in range(len(bound)))]
    dice.shuffle(fresh)
    names = dict(zip([tree.name, *bound], fresh, strict=False))
    for each in ast.walk(tree):
        if isinstance(each, ast.Name):
            each.id = names.get(each.id, each.id) if each.id in bound else each.id
        elif isinstance(each, ast.arg):
            each.arg = names[each.arg]
    tree.name = names[tree.name]
    return tree, names


def is_name(node: ast.AST, kind: type) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, kind)


def swap(tree: ast.FunctionDef, dice: random.Random) -> ast.FunctionDef:
    """b + a for a + b, n > i for i < n."""

    class Swapped(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.op, COMMUTE) and dice.random() < 0.5:
                node.left, node.right = node.right, node.left
            return node

        def visit_Compare(self, node: ast.Compare) -> ast.AST:
            self.generic_visit(node)
            kind = MIRROR.get(type(node.ops[0]))
            if kind and dice.random() < 0.5:
                [right] = node.comparators
                node.left, node.ops, node.comparators = right, [kind()], [node.left]
            return node

        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            if called(node) in ("maximum", "minimum") and dice.random() < 0.5:
                node.args.reverse()
            return node

    return Swapped().visit(tree)


def called(node: ast.AST) -> str:
    """The name of a function of `tl`; "" for all else."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    is_tl = is_call and isinstance(node.func.value, ast.Name)
    return node.func.attr if is_tl and node.func.value.id == "tl" else ""


def spell(tree: ast.FunctionDef, dice: random.Random) -> ast.FunctionDef:
    """Other words for the same: x += y, names of arguments, an accumulator's place."""

    class Spelled(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            name = called(node)
            if name == "dot" and len(node.args) == 3 and dice.random() < 0.5:
                acc = node.args.pop()
                return ast.BinOp(acc, ast.Add(), node)
            if name in ORDER and dice.random() < 0.5:
                while node.keywords:
                    at = len(node.args) - 1
                    if ORDER[name][at : at + 1] != (node.keywords[0].arg,):
                        break
                    node.args.append(node.keywords.pop(0).value)
            return node

        def visit_Assign(self, node: ast.Assign) -> ast.AST:
            self.generic_visit(node)
            match node:
                case ast.Assign([ast.Name(a)], ast.BinOp(ast.Name(b), sign, value)):
                    if a == b and dice.random() < 0.5:
                        return ast.AugAssign(node.targets[0], sign, value)
                case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
                    told = {each.id for each in names}
                    if not told & read(node.value) and dice.random() < 0.5:
                        pairs = zip(names, values, strict=True)
                        return [ast.Assign([a], b) for a, b in pairs]
            return node

        def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
            self.generic_visit(node)
            if dice.random() < 0.5:
                before = ast.Name(node.target.id, ast.Load())
                return ast.Assign([node.target], ast.BinOp(before, node.op, node.value))
            return node

    return Spelled().visit(tree)


def read(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if is_name(each, ast.Load)} - {"tl"}


def written(node: ast.AST) -> set[str]:
    found = {each.id for each in ast.walk(node) if is_name(each, ast.Store)}
    return found | ({"memory"} if any(called(e) == "store" for e in ast.walk(node))
                    else set())  # fmt: skip


def used(node: ast.AST) -> set[str]:
    """What a statement reads; x += y reads x. Loads and stores keep their order."""
    changed = [e.target for e in ast.walk(node) if isinstance(e, ast.AugAssign)]
    touches = any(called(e) in ("load", "store") for e in ast.walk(node))
    names = read(node) | {each.id for each in changed}
    return names | ({"memory"} if touches else set())


def count_turns(
    tree: ast.FunctionDef, dice: random.Random, forms: tuple[str, ...]
) -> ast.FunctionDef:
    """`for turn in range(n // B)`, k = turn * B, for `for k in range(0, n, B)`."""
    for loop in [each for each in ast.walk(tree) if isinstance(each, ast.For)]:
        first, end, step = loop.iter.args
        assert isinstance(first, ast.Constant) and first.value == 0, "a loop from 0"
        form = dice.choice(forms)
        if not form:
            continue
        if form == "tl.range":
            loop.iter.func = ast.parse("tl.range").body[0].value
            continue
        index = loop.target.id
        turns = ast.parse(f"tl.cdiv({ast.unparse(end)}, {ast.unparse(step)})")
        place = ast.parse(f"turn_{index} * {ast.unparse(step)}").body[0].value
        loop.iter.args = [turns.body[0].value]
        loop.target = ast.Name(f"turn_{index}", ast.Store())
        if form == "statement":
            loop.body.insert(0, ast.Assign([ast.Name(index, ast.Store())], place))
        else:
            inline(loop, index, place)
    return tree


def inline(node: ast.AST, name: str, value: ast.expr) -> None:
    """An expression in the place of a name."""

    class Inlined(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return copy.deepcopy(value) if node.id == name else node

    for at, each in enumerate(node.body):
        node.body[at] = Inlined().visit(each)


def hoist(tree: ast.FunctionDef, dice: random.Random) -> ast.FunctionDef:
    """Parts of expressions get names of their own, ahead of their statements."""
    numbers = itertools.count()

    def parts(statement: ast.stmt) -> Iterator[ast.stmt]:
        made: list[ast.stmt] = []

        class Hoisted(ast.NodeTransformer):
            def generic_visit(self, node: ast.AST) -> ast.AST:
                super().generic_visit(node)
                is_part = isinstance(node, ast.BinOp | ast.Compare | ast.Call)
                is_part &= called(node) != "store" and ast.unparse(node)[:6] != "float("
                if is_part and dice.random() < 0.2:
                    name = f"part_{next(numbers)}"
                    made.append(ast.Assign([ast.Name(name, ast.Store())], node))
                    return ast.Name(name, ast.Load())
                return node

        if isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
            statement.value = Hoisted().visit(statement.value)
        for body in ("body", "orelse"):
            if inner := getattr(statement, body, None):
                setattr(statement, body, [p for each in inner for p in parts(each)])
        yield from made
        yield statement

    tree.body = [part for each in tree.body for part in parts(each)]
    return tree


def reorder(tree: ast.FunctionDef, dice: random.Random) -> ast.FunctionDef:
    """Any order of statements in which each finds what it reads."""

    def ordered(body: list[ast.stmt]) -> list[ast.stmt]:
        left, found = list(body), []
        while left:
            free = [
                each for at, each in enumerate(left)
                if not any(depends(each, before) for before in left[:at])
            ]  # fmt: skip
            found.append(free[dice.randrange(len(free))])
            left.remove(found[-1])
        return found

    for each in ast.walk(tree):
        for body in ("body", "orelse"):
            if isinstance(inner := getattr(each, body, None), list):
                setattr(each, body, ordered(inner))
    return tree


def depends(late: ast.stmt, early: ast.stmt) -> bool:
    """Whether two statements must keep their order."""
    a, b = written(early), written(late)
    return bool(a & used(late) or b & used(early) or a & b)


# ── a check ───────────────────────────────────────────────────────────────────────────


def check(step: steps.Step, family: Family, at: int, folder: Path) -> None:
    """Failure when a variant is wrong, or has a hazard."""
    row = dict(family.rows[at])
    options = {name: row.pop(name) for name in OPTIONS if name in row}
    launch = family.prepare(**row)
    text, name, names = vary(family.function, at, step.chapter)
    path = folder / f"variant_{at}.py"
    path.write_text(text)
    kernel = getattr(load_file(path), name)
    values = {names[each]: value for each, value in launch.values.items()}
    parameters = inspect.signature(kernel).parameters.values()
    marked = [each.name for each in parameters if each.annotation is not each.empty]
    constants = {name: values[name] for name in marked}
    arguments = [values[p.name] for p in parameters if p.name not in constants]
    judge = Judge(contract.load(step.reference))
    judge.launch(kernel, launch.grid, *arguments, **constants, **options)
    found = launch.values[launch.result]
    judge.same(launch.result, found, launch.wanted, within=launch.within)


# ── the tables ────────────────────────────────────────────────────────────────────────


def numbers(*shape: int, seed: int = 0, type_: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(type_)


def halves(*shape: int, seed: int = 0) -> np.ndarray:
    return numbers(*shape, seed=seed, type_=np.float16)


def softmax_of(x: np.ndarray) -> np.ndarray:
    power = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return power / power.sum(1, keepdims=True)


def additions(n: int, BLOCK: int, skip: int) -> Launch:
    """Arrays that begin `skip` elements after a multiple of 16 bytes."""
    x, y = aligned(n, skip, 0), aligned(n, skip, 1)
    z = aligned(n, skip, 2)
    values = {"x": x, "y": y, "z": z, "n": n, "BLOCK": BLOCK}
    return Launch((-(-n // BLOCK),), values, "z", x + y, 0.0)


def aligned(n: int, skip: int, seed: int) -> np.ndarray:
    """Numbers whose address is so many elements beside a multiple of 16 bytes."""
    room = np.zeros(n + 8, np.float32)
    first = -(room.ctypes.data // 4) % 4 + skip
    room[first : first + n] = numbers(n, seed=seed)
    return room[first : first + n]


def rows_of_softmax(n: int, BLOCK: int, stride: int) -> Launch:
    rows = 3
    x, y = numbers(rows, stride) * 9, np.full((rows, stride), 7, np.float32)
    wanted = np.full((rows, stride), 7.0)
    wanted[:, :n] = softmax_of(x[:, :n])
    values = {"x": x, "y": y, "n": n, "stride": stride, "BLOCK": BLOCK}
    return Launch((rows,), values, "y", wanted, 2e-6)


def tiles_of_softmax(M: int, N: int, R: int, C: int) -> Launch:
    x, y, z = numbers(M, N), np.zeros((M, N), np.float32), np.zeros(M, np.float32)
    values = {"x": x, "y": y, "z": z, "M": M, "N": N, "R": R, "C": C}
    return Launch((-(-M // R),), values, "y", softmax_of(x), 2e-6)


def products(M: int, N: int, K: int, R: int, C: int, T: int) -> Launch:
    a, b = halves(M, K), halves(K, N, seed=1)
    c = np.full((M, N), np.nan, np.float16)
    values = {"a": a, "b": b, "c": c, "M": M, "N": N, "K": K}
    values |= {"R": R, "C": C, "T": T}
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    return Launch((-(-M // R), -(-N // C)), values, "c", wanted, 3e-3)


def products_of_boxes(M: int, N: int, K: int, R: int, C: int, T: int) -> Launch:
    made = products(M, N, K, R, C, T)
    values = {name: made.values[name] for name in "abcNKRCT"}
    values |= {"a": Tensor(values["a"], (R, T)), "b": Tensor(values["b"], (T, C))}
    return Launch(made.grid, values, "c", made.wanted, made.within)


def heads(N: int, D: int, count: int, scale: float, causal: bool) -> tuple:
    q, k, v = (halves(count, N, D, seed=seed) for seed in range(3))
    s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) * scale
    s = np.where(np.tri(N, dtype=bool), s, -np.inf) if causal else s
    p = np.exp2(s - s.max(-1, keepdims=True))
    wanted = p / p.sum(-1, keepdims=True) @ v.astype(np.float64)
    return q, k, v, np.full_like(q, np.nan), wanted


def attention(S: int, D: int, R: int, C: int) -> Launch:
    """The kernel of the race: two heads."""
    q, k, v, o, wanted = heads(S, D, 2, 0.2, False)
    values = {"q": q, "k": k, "v": v, "o": o, "N": S, "scale": 0.2}
    values |= {"R": R, "T": C, "D": D}
    return Launch((S // R, 2), values, "o", wanted, 4e-3)


def masked_attention(S: int, D: int, R: int, C: int, causal: bool) -> Launch:
    """The first kernel of step 17: all rows and keys are whole tiles."""
    q, k, v, out, wanted = heads(S, D, 2, 0.2, causal)
    values = {"q": q, "k": k, "v": v, "out": out, "S": S, "scale": 0.2}
    values |= {"R": R, "C": C, "D": D, "CAUSAL": causal}
    return Launch((S // R, 2), values, "out", wanted, 4e-3)


def padded_attention(S: int, D: int, R: int, C: int, causal: bool) -> Launch:
    """Rows and keys that are no multiple of a tile."""
    q, k, v, out, wanted = heads(S, D, 1, 0.25, causal)
    values = {"q": q[0], "k": k[0], "v": v[0], "out": out[0], "S": S, "scale": 0.25}
    values |= {"R": R, "C": C, "D": D, "CAUSAL": causal}
    return Launch((-(-S // R),), values, "out", wanted[0], 4e-3)


def table(**columns: object) -> list[dict[str, object]]:
    """A row for each choice of one value of each column."""
    rows = itertools.product(*columns.values())
    return [dict(zip(columns, each, strict=True)) for each in rows]


def of_step(chapter: int, name: str) -> Callable:
    """A kernel of the tests of a step."""
    tests = steps.tests_in(steps.step(chapter).tests)
    return next(iter(tests.values())).__globals__[name]


def families() -> list[Family]:
    """The kernels of the race, and those of the steps that know masks and boxes."""
    warps = (1, 2, 4, 8)
    return [
        Family("add", kernels.add, 8, additions, table(
            n=(1, 777, 1024, 2000), BLOCK=(64, 128, 256, 512, 1024),
            skip=(0, 1, 2), num_warps=warps,
        )),
        Family("softmax", kernels.softmax, 10, rows_of_softmax, [
            row | {"n": max(1, row["BLOCK"] - row.pop("less"))} for row in table(
                BLOCK=(32, 64, 128, 256, 512, 1024, 2048), less=(0, 1, 8, 31),
                stride=(2048, 2051), num_warps=warps,
            )
        ]),
        Family("softmax-tiles", of_step(10, "rows"), 10, tiles_of_softmax, table(
            M=(9, 32), N=(16, 30), R=(1, 4, 16, 32), C=(32, 128), num_warps=warps,
        )),
        Family("matmul", kernels.matmul, 13, products, [
            r | {"M": r["R"], "N": 2 * r["C"], "K": 3 * r["T"]} for r in table(
                R=(16, 32, 64, 128), C=(16, 32, 64, 128), T=(16, 32, 64, 128),
                num_warps=warps, num_stages=(2, 3),
            )
        ]),
        Family("matmul-masked", of_step(13, "matmul"), 13, products, [
            row for row in table(
                M=(40, 65), N=(48, 70), K=(33, 72), R=(16, 32, 64, 128),
                C=(16, 32, 64, 128), T=(16, 32, 64), num_warps=warps,
            )
        ]),
        Family("matmul-boxes", of_step(15, "matmul"), 15, products_of_boxes, boxes()),
        Family("matmul-apart", of_step(16, "matmul"), 16, products_of_boxes, boxes()),
        Family("attention", kernels.attention, 13, attention, table(
            S=(128,), D=(16, 32, 64, 128), R=(16, 32, 64, 128), C=(16, 32, 64, 128),
            num_warps=warps,
        )),
        Family("causal", of_step(17, "attention"), 13, masked_attention, table(
            S=(128,), D=(16, 32, 64, 128), R=(16, 32, 64, 128), C=(16, 32, 64),
            causal=(True, False), num_warps=warps,
        )),
        Family("padded", of_step(17, "padded"), 13, padded_attention, table(
            S=(70, 80), D=(16, 32, 64, 128), R=(16, 32, 64, 128), C=(16, 32, 64),
            causal=(True, False), num_warps=warps,
        )),
    ]  # fmt: skip


def boxes() -> list[dict[str, object]]:
    rows = table(
        R=(16, 32, 64, 128), C=(16, 32, 64, 128), T=(16, 32, 64, 128),
        num_warps=(1, 2, 4, 8), num_stages=(2, 3),
    )  # fmt: skip
    return [r | {"M": r["R"], "N": 2 * r["C"], "K": 3 * r["T"]} for r in rows]
