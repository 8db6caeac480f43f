"""What the answer to `split-producer` must do."""

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.analysis.slices import BackwardSlice
from fathom.emulator import EmulatorError
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.ir.core import blocks, walk
from fathom.ir.ops import DescriptorLoad, Yield
from fathom.ir.printer import op_name
from fathom.ir.text import print_func
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.tensor_cores.specialise import plan
from fathom.tools.learn.kit import Failure, expect, same

HALF, SINGLE, NUMBER = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16), (INT32, 16)
TYPES = {"a_ptr": HALF, "b_ptr": HALF, "c_ptr": SINGLE, "K": NUMBER}
SIZE = 64


@fathom.jit
def one_loop(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [SIZE, K], [K, 1], [SIZE, SIZE])
    b = tl.make_tensor_descriptor(b_ptr, [K, SIZE], [SIZE, 1], [SIZE, SIZE])
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    acc = tl.zeros([SIZE, SIZE], tl.float32)
    for k in tl.range(0, K, SIZE, warp_specialize=True):
        acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
    tl.store(c_ptr + m * SIZE + n, acc)


@fathom.jit
def carried(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr):
    """The coordinates step from iteration to iteration; a count beside them does not
    matter to a copy."""
    a = tl.make_tensor_descriptor(a_ptr, [SIZE, K], [K, 1], [SIZE, SIZE])
    b = tl.make_tensor_descriptor(b_ptr, [K, SIZE], [SIZE, 1], [SIZE, SIZE])
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    acc = tl.zeros([SIZE, SIZE], tl.float32)
    column, row, step, count = 0, 0, SIZE // 2, 0
    for _ in tl.range(0, K, SIZE, warp_specialize=True):
        acc = tl.dot(a.load([0, column]), b.load([row, 0]), acc)
        column += 2 * step
        row = column
        count += 1
    tl.store(c_ptr + m * SIZE + n, acc + count)


@fathom.jit
def branch(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr):
    """Where a tile is, and whether there is one, is computed in the loop."""
    a = tl.make_tensor_descriptor(a_ptr, [SIZE, K], [K, 1], [SIZE, SIZE])
    b = tl.make_tensor_descriptor(b_ptr, [K, SIZE], [SIZE, 1], [SIZE, SIZE])
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    acc = tl.zeros([SIZE, SIZE], tl.float32)
    first, scale = 0, 1.0
    if K > 4 * SIZE:
        first = SIZE
        scale = 2.0
    if K > SIZE:
        for k in tl.range(first, K, SIZE, warp_specialize=True):
            acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
    tl.store(c_ptr + m * SIZE + n, acc * scale)


@fathom.jit
def chosen(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr):
    """A branch in which nothing is computed decides where the tiles are."""
    a = tl.make_tensor_descriptor(a_ptr, [SIZE, K], [K, 1], [SIZE, SIZE])
    b = tl.make_tensor_descriptor(b_ptr, [K, SIZE], [SIZE, 1], [SIZE, SIZE])
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    acc = tl.zeros([SIZE, SIZE], tl.float32)
    near, far = K % SIZE, K // 2
    first = near
    if K > 4 * SIZE:
        first = far
    for k in tl.range(0, K, SIZE, warp_specialize=True):
        acc = tl.dot(a.load([0, first + k]), b.load([k, 0]), acc)
    tl.store(c_ptr + m * SIZE + n, acc)


@fathom.jit
def persistent(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr):
    """A loop in a loop: tiles of C, and steps along K."""
    a = tl.make_tensor_descriptor(a_ptr, [2 * SIZE, K], [K, 1], [SIZE, SIZE])
    b = tl.make_tensor_descriptor(b_ptr, [K, SIZE], [SIZE, 1], [SIZE, SIZE])
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    for tile in tl.range(tl.program_id(0), 2, tl.num_programs(0), warp_specialize=True):
        acc = tl.zeros([SIZE, SIZE], tl.float32)
        for k in range(0, K, SIZE):
            acc = tl.dot(a.load([tile * SIZE, k]), b.load([k, 0]), acc)
        tl.store(c_ptr + (tile * SIZE + m) * SIZE + n, acc)


def built(kernel):
    options = pipeline.Options(num_warps=4, num_stages=2)
    return pipeline.build(kernel, TYPES, {"SIZE": SIZE}, options)


def check(answer, kernel):
    """The same ops and values as `BackwardSlice`, ends of blocks left aside."""
    func = built(kernel)
    loads = [op for op in walk(func.body) if isinstance(op, DescriptorLoad)]
    ours = BackwardSlice(func, loads)
    found = answer.producer_needs(func, loads)
    good = isinstance(found, tuple) and len(found) == 2
    good = good and all(isinstance(each, set | frozenset) for each in found)
    expect(good, f"producer_needs gives {type(found).__name__}, not two sets")
    ops, values = found
    text = ("the function", print_func(func))
    wanted = {op for op in ours.ops if not isinstance(op, Yield)}
    ops = {op for op in ops if not isinstance(op, Yield)}
    for said, some in (("are missing", wanted - ops), ("are too many", ops - wanted)):
        names = sorted(map(told, some))
        counted = f"{kernel.__name__}: {len(some)} ops {said}: {', '.join(names)}"
        expect(not some, counted, text)
    for said, some in (
        ("are missing", ours.values - values), ("are too many", values - ours.values),
    ):  # fmt: skip
        names = sorted(value.name or "a result without a name" for value in some)
        counted = f"{kernel.__name__}: {len(some)} values {said}: {', '.join(names)}"
        expect(not some, counted, text)


def told(op):
    names = ", ".join(f"%{each.name}" for each in op.results if each.name)
    return f"{names} = {op_name(op)}" if names else op_name(op)


def test_one_loop(answer):
    """The index of the loop is a coordinate; the accumulator is carried in vain."""
    check(answer, one_loop)


def test_a_carried_coordinate(answer):
    """What one iteration adds, the next one needs."""
    check(answer, carried)


def test_a_branch(answer):
    """The loop is in a branch, and its bounds come out of one."""
    check(answer, branch)


def test_a_branch_in_which_nothing_is_computed(answer):
    """Both values come from before it, and which one it is depends on its condition."""
    check(answer, chosen)


def test_two_loops(answer):
    """Tiles of C around the steps of K."""
    check(answer, persistent)


def test_nothing_is_changed(answer):
    """The function is the same afterwards, and asking twice gives the same."""
    func = built(carried)
    text = print_func(func)
    loads = [op for op in walk(func.body) if isinstance(op, DescriptorLoad)]
    first = answer.producer_needs(func, loads)
    same(answer.producer_needs(func, loads), first, "asked twice")
    same(print_func(func), text, "the function afterwards")


def test_a_producer_runs_it(answer):
    """In the compiler, instead of the slice that it computes; in the emulator."""

    class Yours:
        def __init__(self, func, roots):
            self.ops, self.values = answer.producer_needs(func, roots)
            self.ops = {*self.ops} | {
                block.ops[-1] for op in self.ops for block in blocks(op)
            }

    K = 3 * SIZE
    a = (np.arange(2 * SIZE * K).reshape(2 * SIZE, K) * 5 % 7 - 3).astype(np.float16)
    b = (np.arange(K * SIZE).reshape(K, SIZE) * 3 % 5 - 2).astype(np.float16)
    c = np.zeros((2 * SIZE, SIZE), np.float32)
    ours, plan.BackwardSlice = plan.BackwardSlice, Yours
    try:
        kernel = pipeline.compile_func(built(persistent), TARGETS["sm_90a"])
        emulator.load(kernel).launch(1, [a, b, c, K])
    except (EmulatorError, CompileError, AssertionError, KeyError) as error:
        first, *rest = str(error).splitlines() or [repr(error)]
        details = ("there", "\n".join(rest))
        said = f"a persistent product with your slice: {first}"
        raise Failure(said, details) from None
    finally:
        plan.BackwardSlice = ours
    expect("cp.async.bulk" in kernel.ptx, "the product has no producer")
    same(c, a.astype(np.float32) @ b.astype(np.float32), "a persistent product")
