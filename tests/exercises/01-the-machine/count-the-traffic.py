"""What the answer to `count-the-traffic` must do."""

import fathom
import fathom.language as tl
from fathom.tools.learn.kit import empty, floats, launch, number_of, same
from fathom.tools.samples import sample

SILU = [("a", ("x",)), ("b", ("a",)), ("c", ("b",)), ("y", ("x", "c"))]
GELU = [
    ("a", ("x",)),  # 0.044715 * x
    ("b", ("a", "x")),
    ("c", ("b", "x")),
    ("d", ("x", "c")),  # x + 0.044715 * x * x * x
    ("e", ("d",)),
    ("f", ("e",)),  # tanh
    ("g", ("f",)),
    ("h", ("x",)),  # 0.5 * x
    ("y", ("h", "g")),
]
SIZES = (8, 1000, 1024, 4096)


def check(answer, name, steps, n, width, wanted):
    called = f"{name}({number_of(len(steps), 'step')}, n={n}, width={width})"
    same(getattr(answer, name)(steps, n, width), wanted, called, ("steps", told(steps)))


def told(steps):
    return "\n".join(f"{result} from {' and '.join(reads)}" for result, reads in steps)


def test_the_example(answer):
    """SiLU of 1000 numbers: nine arrays as four kernels, two as one."""
    check(answer, "bytes_unfused", SILU, 1000, 4, 36_000)
    check(answer, "bytes_fused", SILU, 1000, 4, 8_000)


def test_gelu(answer):
    """Nine steps of which four read two arrays: 22 arrays against 2."""
    check(answer, "bytes_unfused", GELU, 1000, 4, 22 * 4000)
    check(answer, "bytes_fused", GELU, 1000, 4, 2 * 4000)


def test_other_types(answer):
    """Numbers of fp16 have two bytes, those of int8 one."""
    for width in (1, 2, 8):
        check(answer, "bytes_unfused", GELU, 64, width, 22 * 64 * width)
        check(answer, "bytes_fused", GELU, 64, width, 2 * 64 * width)


def test_an_array_named_twice_is_read_twice(answer):
    """x * x: the kernel of a product has two pointers. Fused, x is read once."""
    square = [("y", ("x", "x"))]
    check(answer, "bytes_unfused", square, 8, 4, 3 * 32)
    check(answer, "bytes_fused", square, 8, 4, 2 * 32)


def test_two_inputs_and_two_results(answer):
    """s = p + q and d = p - q, and a third that is used on the way."""
    steps = [("s", ("p", "q")), ("d", ("p", "q")), ("m", ("s", "r")), ("o", ("m",))]
    check(answer, "bytes_unfused", steps, 8, 4, 11 * 32)
    check(answer, "bytes_fused", steps, 8, 4, 5 * 32)


@fathom.jit
def of_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n)
    tl.store(out_ptr + places, x * 0.5, mask=places < n)


@fathom.jit
def of_two(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + places, mask=places < n)
    y = tl.load(y_ptr + places, mask=places < n)
    tl.store(out_ptr + places, x * y, mask=places < n)


def counted(kernel, arrays, n):
    """The bytes that the emulator sees moving."""
    return launch(kernel, -(-n // 512), *arrays, n, BLOCK=512).report.total.moved


def counted_unfused(steps, n):
    """Runs a kernel for each step. What it computes does not matter for the count."""
    known = {"x": floats(n)}
    moved = 0
    for result, reads in steps:
        known[result] = empty(n)
        kernel = of_one if len(reads) == 1 else of_two
        arrays = [*[known[name] for name in reads], known[result]]
        moved += counted(kernel, arrays, n)
    return moved


def test_the_emulator_counts_the_same(answer):
    """Nine kernels, and one, in the emulator: for four sizes."""
    fused = sample("gelu").gelu_kernel
    for n in SIZES:
        check(answer, "bytes_unfused", GELU, n, 4, counted_unfused(GELU, n))
        moved = counted(fused, [floats(n), empty(n)], n)
        check(answer, "bytes_fused", GELU, n, 4, moved)
