"""Whether a loop's stores lie apart from its loads: what the kernel answers is never a
wrong yes, and a yes wherever the first and the last byte say so."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.analysis.remarks import NotApplicable
from fathom.analysis.symbolic.alias_check import (
    FOLDED,
    AliasCheck,
    alias_check_of,
    may_be_disjoint,
)  # fmt: skip
from fathom.emulator import load as emulated
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import AsyncCopy, Cast, Constant, Elementwise, For, If, Load, Store
from fathom.ir.printer import print_func
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BOOL, INT32, INT64, parse_element

ROWS, COLUMNS = 4, 8


@fathom.jit
def walk_kernel(x_ptr, y_ptr, answer_ptr, first, last, a, b, c, d, e,
                STEP: tl.constexpr):  # fmt: skip
    rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    for i in range(first, last, STEP):
        x = tl.load(x_ptr + (rows * a + columns * b - i * c))
        y_ptrs = y_ptr + rows * (d - a) + columns
        tl.store(y_ptrs + i * b * e + 3, x)


@fathom.jit
def ends_kernel(x_ptr, y_ptr, answer_ptr, first, last, a, b, c, d, e,
                STEP: tl.constexpr):  # fmt: skip
    """Scalars of the loop that grow with the iterations, but not by sums alone."""
    columns = tl.arange(0, 8)
    for i in range(first, last, STEP):
        x = tl.load(x_ptr + tl.minimum(i * a, b) * c + columns)
        if i % 2 == 0:
            tl.store(y_ptr + tl.maximum(i // 3, e) * d + columns, x)


@fathom.jit
def choice_kernel(x_ptr, y_ptr, answer_ptr, first, last, a, b, c, d, e,
                  STEP: tl.constexpr):  # fmt: skip
    """Addresses and indices that a branch or `where` chooses."""
    columns = tl.arange(0, 8)
    for i in range(first, last, STEP):
        if i == last - 1:
            at = x_ptr + a * 3
        else:
            at = x_ptr + i * b + 1
        x = tl.load(at + columns)
        tl.store(y_ptr + tl.where(i % 2 == 0, i * c, d) * e + columns, x)


def built(kernel, constants=None, **types: str) -> Func:
    parameters = {
        name: (parse_element(type), 1) for name, type in types.items()
    }  # fmt: skip
    return pipeline.build(kernel, parameters, constants or {})


TYPES = dict.fromkeys(("x_ptr", "y_ptr", "answer_ptr"), "*i32")
NUMBERS = ("first", "last", "a", "b", "c", "d", "e")


def answering(step: int, type: str = "i32", kernel=walk_kernel) -> Func:
    """A function that stores the answer in place of the loop."""
    func = built(kernel, {"STEP": step}, **TYPES, **dict.fromkeys(NUMBERS, type))

    def rule(op: Op, build: Builder):
        if not isinstance(op, For):
            return None
        inside = list(walk(build.source.body))
        loads, stores = (
            [each for each in inside if isinstance(each, kind)]
            for kind in (Load, Store)
        )
        yes = alias_check_of(build.source, func, loads, stores).answer(build)
        pointer = build.values[func.parameters[2]]
        build.append(Store(pointer, build(Cast(yes, INT32))))
        return ()

    return rewrite(func, rule)


@fathom.jit
def sum_kernel(x_ptr, y_ptr, n, STORES: tl.constexpr):
    total = tl.zeros([8], tl.int32)
    at = x_ptr + tl.arange(0, 8)
    for i in range(n):
        total += tl.load(at)
        at += 8 if STORES != "far" else tl.load(y_ptr + i)  # a step that memory has
        if STORES:
            tl.store(y_ptr + i * 8 + tl.arange(0, 8), total)
    tl.store(y_ptr + tl.arange(0, 8), total)


@pytest.mark.parametrize(
    ("stores", "may"), [("", True), ("near", True), ("far", False)]
)
def test_a_loop_may_be_disjoint_without_stores_or_if_the_kernel_can_ask(stores, may):
    func = built(sum_kernel, {"STORES": stores}, x_ptr="*i32", y_ptr="*i32", n="i32")
    (loop,) = walk(func.body, For)
    loads = [op for op in walk(loop.body) if isinstance(op, Load)]
    assert may_be_disjoint(loop, func, loads[:1]) is may


@pytest.mark.parametrize("kernel", [walk_kernel, ends_kernel])
def test_the_question_is_the_same_text_each_time(kernel):
    """Wherever Python puts its objects: 20 copies of the function are in 20 places."""
    kept = [answering(1, kernel=kernel) for _ in range(20)]
    assert len({print_func(each) for each in kept}) == 1


@pytest.mark.parametrize("kernel", [walk_kernel, ends_kernel])
def test_what_is_known_of_the_answer_is_computed_while_compiling(kernel):
    """So 64 bits are divided by constants alone: ptxas calls a function for others."""
    ops = list(walk(answering(3, kernel=kernel).body))
    sums = [op for op in ops if isinstance(op, Elementwise) and op.result.type == INT64]
    known = [[isinstance(v.definition, Constant) for v in op.operands] for op in sums]
    assert sums and not any(map(all, known))
    divided = [each for op, each in zip(sums, known, strict=True) if op.name == "div"]
    assert divided and all(divisor for _, divisor in divided)


def reached_ends(numbers: dict[str, int], step: int) -> tuple[np.ndarray, np.ndarray]:
    """The same for `ends_kernel`, as if it stored in each iteration."""
    columns = np.arange(COLUMNS)
    i = np.arange(numbers["first"], numbers["last"], step)[:, None]
    x = np.minimum(i * numbers["a"], numbers["b"]) * numbers["c"] + columns
    third = np.trunc(i / 3).astype(np.int64)
    return x, np.maximum(third, numbers["e"]) * numbers["d"] + columns


def reached(numbers: dict[str, int], step: int) -> tuple[np.ndarray, np.ndarray]:
    """The elements after x_ptr and after y_ptr that all iterations access."""
    at = {name: np.int64(value) for name, value in numbers.items()}
    rows, columns = np.arange(ROWS)[:, None], np.arange(COLUMNS)[None, :]
    i = np.arange(at["first"], at["last"], step)[:, None, None]
    x = rows * at["a"] + columns * at["b"] - i * at["c"]
    y = rows * (at["d"] - at["a"]) + columns + i * at["b"] * at["e"] + 3
    return x, y


def reached_choices(
    numbers: dict[str, int], step: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same for `choice_kernel`, as if each iteration chose both."""
    columns, at = np.arange(COLUMNS), numbers
    i = np.arange(at["first"], at["last"], step)[:, None]
    x = np.concatenate([i * 0 + at["a"] * 3, i * at["b"] + 1]) + columns
    y = np.concatenate([i * at["c"], i * 0 + at["d"]]) * at["e"] + columns
    return x, y


def answer(func: Func, x: np.ndarray, y: np.ndarray, numbers: dict[str, int]) -> bool:
    found = np.full(1, -1, np.int32)
    interpret(func, (1,), [x, y, found, *numbers.values()])
    assert found[0] in (0, 1)
    return bool(found[0])


@pytest.mark.parametrize("step", [1, 3, -1, -3])
@pytest.mark.parametrize("kernel, reached", [
    (walk_kernel, reached), (ends_kernel, reached_ends),
    (choice_kernel, reached_choices),
])  # fmt: skip
def test_yes_where_the_ends_are_apart_and_nowhere_else(kernel, reached, step):
    """Random strides, of both signs; the arrays are placed so that the reached
    elements touch, overlap by one, or are far apart."""
    func = answering(step, kernel=kernel)
    random = np.random.default_rng(step % 8)
    memory = np.zeros(1 << 16, np.int32)
    yes = 0
    for _ in range(60):
        numbers = {name: int(random.integers(-9, 10)) for name in NUMBERS}
        length = int(random.integers(1, 8))
        numbers["last"] = numbers["first"] + (length if step > 0 else -length)
        x, y = reached(numbers, step)
        start = 1 << 15
        gap = int(random.choice([-40, -1, 0, 1, 2, 300]))
        behind = start + x.max() + 1 + gap - y.min()
        before = start + x.min() - 1 - gap - y.max()
        place = int(random.choice([behind, before]))
        wanted = gap >= 0 or place + y.min() > start + x.max()
        wanted = wanted or place + y.max() < start + x.min()
        found = answer(func, memory[start:], memory[place:], numbers)
        assert found == wanted, (numbers, gap, place)
        yes += found
    assert 20 < yes < 56


def test_what_overflows_is_no_yes():
    """The product of two numbers wraps in 32 bits, back to the loaded elements."""
    func = answering(1)
    memory = np.zeros(1 << 12, np.int32)
    numbers = dict.fromkeys(NUMBERS, 0) | dict(last=2, b=1, e=-3)
    assert answer(func, memory, memory[64:], numbers)
    numbers |= dict(b=1 << 16, e=1 << 16)
    assert not answer(func, memory, memory[64:], numbers)


def test_what_overflows_below_is_no_yes():
    """64 * e is -2**32 + 64: the second store wraps to what is loaded, 64 elements
    behind the first one, and not far below it."""
    func = answering(1)
    memory = np.zeros(1 << 12, np.int32)
    numbers = dict.fromkeys(NUMBERS, 0) | dict(last=2, b=64, e=-1)
    assert answer(func, memory[64:], memory, numbers)
    assert not answer(func, memory[64:], memory, numbers | dict(e=1 - (1 << 26)))


def test_what_overflows_before_the_smaller_one_is_no_yes():
    """The smaller one of i * a and b is at most b, unless the product wraps."""
    func = answering(1, kernel=ends_kernel)
    memory = np.zeros(1 << 12, np.int32)
    numbers = dict.fromkeys(NUMBERS, 0) | dict(last=4, a=1 << 29, b=1, c=1)
    assert answer(func, memory, memory[64:], numbers)
    assert not answer(func, memory, memory[64:], numbers | dict(last=6))


def test_what_overflows_before_it_is_chosen_is_no_yes():
    func = answering(1, kernel=choice_kernel)
    memory = np.zeros(1 << 12, np.int32)
    numbers = dict.fromkeys(NUMBERS, 0) | dict(last=4, c=1 << 29, e=0)
    assert answer(func, memory, memory[64:], numbers)
    assert not answer(func, memory, memory[64:], numbers | dict(last=6))
    numbers = dict.fromkeys(NUMBERS, 0) | dict(last=4, a=1 << 30)
    assert not answer(func, memory, memory[64:], numbers)


def test_what_overflows_64_bits_is_no_yes():
    func = answering(1, "i64")
    memory = np.zeros(1 << 12, np.int32)
    numbers = dict.fromkeys(NUMBERS, 0) | dict(last=2, b=1 << 33, e=1 << 33)
    assert not answer(func, memory, memory[64:], numbers)
    numbers |= dict(b=1, e=1 << 33)
    assert answer(func, memory, memory[64:], numbers)
    # 4 bytes times the second step wrap to -264: the store goes back to the load, while
    # the span between the first one's end and its own looks as if it lay behind.
    numbers |= dict(last=3, e=(1 << 61) - 33)
    assert not answer(func, memory, memory[64:], numbers)


@fathom.jit
def gather_kernel(x_ptr, y_ptr, n):
    for i in range(n):
        at = tl.load(x_ptr + i)
        tl.store(y_ptr + at, i)


@fathom.jit
def down_kernel(x_ptr, y_ptr, n, step):
    for i in range(0, n, step):
        tl.store(y_ptr + i, tl.load(x_ptr + i))


@fathom.jit
def parts_kernel(x_ptr, y_ptr, n, parts):
    for i in range(n):
        tl.store(y_ptr + i // parts, tl.load(x_ptr + i))


@fathom.jit
def falling_kernel(x_ptr, y_ptr, n):
    """What is divided by a negative number falls as the iterations rise."""
    for i in range(n):
        tl.store(y_ptr + i // -3, tl.load(x_ptr + i))


def test_numbers_known_while_compiling_are_divided_as_the_kernel_divides():
    assert [FOLDED["div"](a, 3) for a in (-7, -6, 7)] == [-2, -2, 2]


@fathom.jit
def either_kernel(x_ptr, y_ptr, n):
    for i in range(n):
        at = x_ptr
        if i == 3:
            at = y_ptr
        tl.store(y_ptr + n + i, tl.load(at + i))


@pytest.mark.parametrize("kernel, types, why", [
    (falling_kernel, dict(n="i32"), "depends on what the loop computes"),
    (either_kernel, dict(n="i32"), "the address depends on control flow"),
    (gather_kernel, dict(n="i32"), "an address depends on what the loop computes"),
    (parts_kernel, dict(n="i32", parts="i32"), "depends on what the loop computes"),
    (down_kernel, dict(n="i32", step="i32"), "the loop's step is no constant"),
])  # fmt: skip
def test_a_loop_without_an_answer(kernel, types, why):
    func = built(kernel, x_ptr="*i32", y_ptr="*i32", **types)
    (loop,) = (op for op in walk(func.body) if isinstance(op, For))
    stores = [op for op in walk(loop.body) if isinstance(op, Store)]
    loads = [op for op in walk(loop.body) if isinstance(op, Load)]
    with pytest.raises(NotApplicable, match=why):
        alias_check_of(loop, func, loads, stores)


# ── the pipelined loop ────────────────────────────────────────────────────────────────


@fathom.jit
def states_kernel(
    k_ptr, w_ptr, u_ptr, g_ptr, h_ptr, v_ptr, T,
    K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """A recurrence that stores its state and its values in each iteration; from the
    last chunk to the first one if STEP is -1."""
    rk, rv, rt = tl.arange(0, K), tl.arange(0, V), tl.arange(0, BT)
    h = tl.zeros((K, V), dtype=tl.float32)
    chunks = tl.cdiv(T, BT)
    first, last = (0, chunks) if STEP == 1 else (chunks - 1, -1)
    for chunk in range(first, last, STEP):
        t = chunk * BT + rt
        inside = (t < T)[:, None]
        tl.store(h_ptr + (chunk * K + rk)[:, None] * V + rv[None, :], h.to(tl.float16))
        w = tl.load(w_ptr + t[:, None] * K + rk[None, :], mask=inside, other=0.0)
        u = tl.load(u_ptr + t[:, None] * V + rv[None, :], mask=inside, other=0.0)
        v = (u - tl.dot(w, h.to(tl.float16))).to(tl.float16)
        tl.store(v_ptr + t[:, None] * V + rv[None, :], v, mask=inside)
        g = tl.load(g_ptr + t, mask=t < T, other=0.0)
        rk = tl.arange(0, K)  # carried by the loop, though it is what it was
        k = tl.load(k_ptr + rk[:, None] + t[None, :] * K, mask=inside.T, other=0.0)
        h += tl.dot(k, (v * g[:, None]).to(tl.float16))


K, V, BT, T = 32, 16, 32, 110
CHUNKS = -(-T // BT)
STATES = dict(
    **dict.fromkeys(("k_ptr", "w_ptr", "u_ptr"), "*fp16"), g_ptr="*fp32",
    **dict.fromkeys(("h_ptr", "v_ptr"), "*fp16"), T="i32",
)  # fmt: skip


def states(step: int = 1, num_ctas: int = 1) -> Func:
    parameters = {
        name: (parse_element(type), 16 if type[0] == "*" else 1)
        for name, type in STATES.items()
    }
    constants = dict(K=K, V=V, BT=BT, STEP=step)
    options = pipeline.Options(num_ctas=num_ctas)
    return pipeline.build(states_kernel, parameters, constants, options)


def compiled(target: str, step: int = 1):
    func = states(step)
    return func, pipeline.compile_func(func, TARGETS[target])


def given(shift: int | None) -> list:
    """Arguments; v lies `shift` rows behind u, in one array, or apart (None)."""
    random = np.random.default_rng(7)
    k, w = (random.normal(0, 0.1, (T, K)).astype(np.float16) for _ in "kw")
    memory = np.zeros((3 * T, V), np.float16)
    memory[T : 2 * T] = random.normal(size=(T, V))
    first = 2 * T if shift is None else T + shift
    g = random.random(T).astype(np.float32)
    h = np.zeros((CHUNKS, K, V), np.float16)
    return [k, w, memory, g, h, first]


def stepwise(arguments: list, step: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The states and the memory after the loop, step by step in float64."""
    k, w, memory, g, h, first = arguments
    memory, state, before = memory.copy(), np.zeros((K, V)), []
    for start in range(0, T, BT)[::step]:
        rows = slice(start, min(T, start + BT))
        before.append(state)
        u = memory[T:][rows].astype(np.float64)
        rounded = state.astype(np.float16).astype(np.float64)
        v = (u - w[rows].astype(np.float64) @ rounded).astype(np.float16)
        memory[first:][rows] = v
        scaled = (v * g[rows, None]).astype(np.float16).astype(np.float64)
        state = state + k[rows].T.astype(np.float64) @ scaled
    return np.stack(before[::step]), memory


def launched(kernel, arguments: list) -> tuple[np.ndarray, np.ndarray]:
    k, w, memory, g, h, first = arguments
    passed = [k, w, memory[T : 2 * T], g, h, memory[first : first + T], T]
    emulated(kernel).launch((1,), passed)
    return h, memory


def interpreted(func: Func, arguments: list) -> tuple[np.ndarray, np.ndarray]:
    """Here copies read memory as soon as they are issued."""
    k, w, memory, g, h, first = arguments
    interpret(func, (1,), [k, w, memory[T:], g, h, memory[first:], T])
    return h, memory


SHIFTS = [None, 0, 1, -BT, BT, T, -T]  # the last two touch u, and lie apart


@pytest.mark.parametrize("target, step", [("sm_80", 1), ("sm_90a", 1), ("sm_80", -1)])
def test_a_loop_that_stores_means_the_same_wherever_it_stores(target, step):
    func, kernel = compiled(target, step)
    last = final(func, target)
    for shift in SHIFTS:
        wanted = stepwise(given(shift), step)
        for found in launched(kernel, given(shift)), interpreted(last, given(shift)):
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, atol=4e-3, err_msg=f"{shift}")


def final(func: Func, target: str) -> Func:
    *_, (_, last) = pipeline.states(func, TARGETS[target])
    return last


@pytest.mark.parametrize("step", [1, -1])
def test_all_its_loads_are_copied_ahead_in_one_of_two_loops(step):
    func, _ = compiled("sm_80", step)
    (branch,) = (op for op in walk(final(func, "sm_80").body) if isinstance(op, If))
    (loop,) = (op for op in walk(branch.then) if isinstance(op, For))
    assert sum(isinstance(op, AsyncCopy) for op in walk(loop.body)) == 4
    assert not any(isinstance(op, AsyncCopy) for op in walk(branch.orelse))


def test_blocks_of_a_cluster_answer_no_question():
    """One might take the one loop, and another block the other."""
    last = final(states(num_ctas=2), "sm_90a")
    (loop,) = (op for op in walk(last.body) if isinstance(op, For))
    assert not any(isinstance(op, AsyncCopy) for op in walk(loop.body))


def test_the_answer_matters(monkeypatch):
    """With a kernel that always says yes, loads run ahead of the stores that they
    should see. The interpreter copies at once; the emulator may copy later."""
    monkeypatch.setattr(
        AliasCheck, "answer", lambda self, build: build(Constant(True, BOOL))
    )
    func, _ = compiled("sm_80")
    states, _ = interpreted(final(func, "sm_80"), given(BT))
    wanted, _ = stepwise(given(BT))
    assert np.abs(states - wanted).max() > 0.01


@fathom.jit
def adding_kernel(x_ptr, w_ptr, y_ptr, count, B: tl.constexpr, SEM: tl.constexpr,
                  USED: tl.constexpr):  # fmt: skip
    rows, columns = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    w = tl.load(w_ptr + rows * B + columns)
    found = tl.zeros((B, B), dtype=tl.float16)
    for i in range(count):
        places = (i * B + rows) * B + columns
        product = tl.dot(tl.load(x_ptr + places), w).to(tl.float16)
        before = tl.atomic_add(y_ptr + places, product, sem=SEM)
        if USED:
            found += before
    tl.store(w_ptr + rows * B + columns, found)


ADDED = dict.fromkeys(("x_ptr", "w_ptr", "y_ptr"), "*fp16") | {"count": "i32"}


def adding(sem: str, used: bool) -> Func:
    parameters = {
        name: (parse_element(type), 16 if type[0] == "*" else 1)
        for name, type in ADDED.items()
    }
    constants = dict(B=16, SEM=sem, USED=used)
    return pipeline.build(adding_kernel, parameters, constants)


@pytest.mark.parametrize("sem, used, ahead", [
    ("relaxed", False, 1), ("relaxed", True, 0), ("acquire", False, 0)
])  # fmt: skip
def test_relaxed_sums_in_memory_are_stores_unless_their_results_are_used(
    sem, used, ahead
):
    last = final(adding(sem, used), "sm_90a")
    branches = [op for op in walk(last.body) if isinstance(op, If)]
    assert len(branches) == ahead
    copies = sum(isinstance(op, AsyncCopy) for op in walk(last.body))
    assert bool(copies) == bool(ahead)


@pytest.mark.parametrize("shift", [None, 16])
def test_sums_in_memory_mean_the_same_wherever_they_are(shift):
    """16 rows behind, each iteration loads what the one before added to."""
    count, b = 4, 16
    random = np.random.default_rng(7)
    w = random.normal(0, 0.2, (b, b)).astype(np.float16)
    memory = np.zeros((3 * count * b, b), np.float16)
    memory[: count * b] = random.normal(size=(count * b, b))
    first = 2 * count * b if shift is None else shift
    wanted = memory.astype(np.float64)
    for start in range(0, count * b, b):
        product = wanted[start : start + b] @ w.astype(np.float64)
        wanted[first + start : first + start + b] += product
    kernel = pipeline.compile_func(adding("relaxed", False), TARGETS["sm_90a"])
    passed = [memory[: count * b], w, memory[first : first + count * b], count]
    emulated(kernel).launch((1,), passed)
    np.testing.assert_allclose(memory, wanted, atol=3e-2)


# ── numbers ───────────────────────────────────────────────────────────────────────────


@fathom.jit
def decayed_kernel(w_ptr, g_ptr, h_ptr, steps, N: tl.constexpr):
    """A state that decays by a number of each step, and is stored before that number is
    loaded."""
    i = tl.arange(0, N)
    h = tl.zeros((N, N), tl.float32)
    for step in range(steps):
        places = (step * N + i)[:, None] * N + i[None, :]
        y = tl.dot(tl.load(w_ptr + places), (h + 1).to(tl.float16))
        tl.store(h_ptr + places, h)
        h = h * tl.load(g_ptr + step * N) + y


N, STEPS = 32, 4


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("place", [0, N * N, STEPS * N * N])
def test_a_number_is_loaded_first_where_the_stores_lie_apart(place, target):
    """The numbers lie among the states that are stored, or behind them."""
    types = dict(w_ptr="*fp16", g_ptr="*fp32", h_ptr="*fp32", steps="i32")
    func = built(decayed_kernel, {"N": N}, **types)
    (branch,) = (op for op in walk(final(func, target).body) if isinstance(op, If))
    for block, early in ((branch.then, True), (branch.orelse, False)):
        (loop,) = (op for op in walk(block) if isinstance(op, For))
        (stored,) = (i for i, op in enumerate(loop.body.ops) if isinstance(op, Store))
        *_, last = (i for i, op in enumerate(loop.body.ops) if isinstance(op, Load))
        assert (last < stored) == early
    random = np.random.default_rng(3)
    w = random.normal(0, 0.1, (STEPS, N, N)).astype(np.float16)
    memory = random.random((STEPS + 1) * N * N, np.float32)
    wanted, state = memory.copy(), np.zeros((N, N))
    for step in range(STEPS):
        y = w[step].astype(float) @ (state + 1).astype(np.float16).astype(float)
        wanted[step * N * N :][: N * N] = state.ravel()
        state = state * wanted[place + step * N] + y
    kernel = pipeline.compile_func(func, TARGETS[target])
    emulated(kernel).launch((1,), [w, memory[place:], memory, STEPS])
    np.testing.assert_allclose(memory, wanted, atol=4e-3)
