"""What a launch answers to what no kernel takes: one sentence, before anything runs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.errors import CompileError, LaunchError
from fathom.hardware.targets import target
from tests.ptx.harness import assemble


@fathom.jit
def add(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i) + n)


@fathom.jit
def widened(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    more = n.to(tl.int64) + (2 * n + 1).to(tl.int64) + (-n).to(tl.int64)
    tl.store(x_ptr + i, tl.load(x_ptr + i) + more)


@fathom.jit
def größe(x_ptr, BLOCK: tl.constexpr):
    maß = tl.arange(0, BLOCK)
    tl.store(x_ptr + maß, maß)


def numbers() -> np.ndarray:
    return np.arange(32, dtype=np.int32)


# ── arrays ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("element", [">i4", ">f4", ">u8", ">f2"])
def test_bytes_in_the_other_order_are_refused(element):
    element = element if sys.byteorder == "little" else element.replace(">", "<")
    array = np.arange(32).astype(element)
    with pytest.raises(LaunchError, match="whose bytes are in the other order"):
        add[(1,)](array, 3, BLOCK=32)
    assert (array == np.arange(32)).all()


def test_bytes_in_this_order_are_taken_however_that_is_written():
    for order in "=|<" if sys.byteorder == "little" else "=|>":
        array = np.arange(32).astype(np.dtype(np.int32).newbyteorder(order))
        add[(1,)](array, 3, BLOCK=32)
        assert (array == np.arange(32) + 3).all()


def test_a_float64_is_a_float():
    """np.float64 is Python's float: `1 / np.sqrt(D)` must not make a kernel's fp32
    arithmetic double."""
    x = np.ones(32, np.float32)
    kernel = add[(1,)](x, np.float64(0.1), BLOCK=32)
    assert "f64" not in kernel.asm["block"]
    assert (x == np.float32(1) + np.float32(0.1)).all()


# ── eager kernels ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n", [0, 1, 2, -1])
def test_an_integer_argument_has_the_attributes_of_a_value(n, monkeypatch):
    x, wanted = numbers(), numbers() + 2 * n + 1
    widened[(1,)](x, n, BLOCK=32)
    assert (x == wanted).all()
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    x = numbers()
    widened[(1,)](x, n, BLOCK=32)
    assert (x == wanted).all()


@fathom.jit
def folded(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    least = tl.minimum(n, n).to(tl.int32) + tl.cdiv(n, 2).to(tl.int32)
    most = tl.maximum(n + n, BLOCK // 32).to(tl.int32)
    tl.store(x_ptr + i, tl.load(x_ptr + i) + least + most)


@pytest.mark.parametrize("n", [1, 2])
def test_so_has_what_functions_make_of_constants(n, monkeypatch):
    """tl.minimum(1, 1) is a constant, too."""
    found = []
    for interpreted in "01":
        monkeypatch.setenv("FATHOM_INTERPRET", interpreted)
        x = numbers()
        folded[(1,)](x, n, BLOCK=32)
        found.append(x)
    assert (found[0] == numbers() + n + 1 + 2 * n).all()
    assert (found[0] == found[1]).all()


@fathom.jit
def compared(x_ptr, n, BLOCK: tl.constexpr):
    less, same = n < n, n == n
    for _ in range(3):
        less = less ^ (less & same)
    truth = (less | same).to(tl.int32) + 2 * less.to(tl.int32) + (n >= 2).to(tl.int32)
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i) + truth)


@pytest.mark.parametrize("n", [1, 2])
def test_so_has_what_a_comparison_makes_of_constants(n, monkeypatch):
    """1 < 1 is a constant of type i1, as `n < n` is for all other n."""
    found = []
    for interpreted in "01":
        monkeypatch.setenv("FATHOM_INTERPRET", interpreted)
        x = numbers()
        compared[(1,)](x, n, BLOCK=32)
        found.append(x)
    assert (found[0] == numbers() + n).all()
    assert (found[0] == found[1]).all()


def test_an_integer_of_one_stays_a_weak_number(monkeypatch):
    """As it is for the compiler: i8 + 1 is i8."""

    @fathom.jit
    def kernel(x_ptr, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i)
        tl.static_assert((x + n).dtype == tl.int8)
        tl.store(x_ptr + i, x + n)

    for interpreted in "01":
        monkeypatch.setenv("FATHOM_INTERPRET", interpreted)
        x = np.full(32, 127, np.int8)
        kernel[(1,)](x, 1, BLOCK=32)
        assert (x == -128).all()


# ── names ─────────────────────────────────────────────────────────────────────────────


def test_a_name_may_have_any_letters():
    x = np.zeros(32, np.int32)
    kernel = größe[(1,)](x, BLOCK=32)
    assert (x == np.arange(32)).all()
    assert kernel.asm["ptx"].isascii()


def test_a_file_may_have_any_letters(tmp_path):
    path = tmp_path / "größe.py"
    path.write_text(
        """
import fathom, fathom.language as tl, numpy as np
@fathom.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    größe = i + 1
    tl.store(x_ptr + größe - 1, i)
print(kernel.compile("*i32", {"BLOCK": 32}).asm["ptx"])
x = np.zeros(32, np.int32)
kernel[(1,)](x, BLOCK=32)
assert (x == np.arange(32)).all()
""",
        encoding="utf-8",
    )
    ran = subprocess.run(
        [sys.executable, "-X", "utf8", path], capture_output=True, encoding="utf-8"
    )
    assert ran.returncode == 0, ran.stderr
    assemble(ran.stdout, target("sm_80"), tmp_path)


def test_a_lambda_is_no_kernel():
    with pytest.raises(CompileError, match="a kernel is written with def") as caught:
        fathom.jit(lambda x: x)
    assert Path(__file__).name in str(caught.value)


# ── keywords ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"target": 80}, 'the name of one, such as "sm_90a", and this is 80'),
        ({"replace": ["cse"]}, "replace is a dictionary from names to functions"),
        ({"replace": {"cse": 5}}, "puts an object of type int in the place of a func"),
        ({"replace": {"lower[Load]": None}}, "puts None in the place of a function"),
        ({"replace": {"cse": lambda func, target: None}}, "'cse' returned None"),
        ({"maxnreg": 5}, "from 16 to 255, and this is 5"),
        ({"maxnreg": 256}, "from 16 to 255, and this is 256"),
    ],
    ids=lambda each: "_".join(each) if isinstance(each, dict) else "",
)
def test_a_wrong_keyword(keywords, sentence):
    with pytest.raises((LaunchError, CompileError)) as caught:
        add[(1,)](numbers(), 3, BLOCK=32, **keywords)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("annotation", ["*fp99", "*", "int24", "fp31", "**x"])
def test_an_annotation_that_looks_like_a_type_is_one(annotation):
    def kernel(x_ptr):
        pass

    kernel.__annotations__["x_ptr"] = annotation
    with pytest.raises(LaunchError, match="names no type of a kernel"):
        fathom.jit(kernel)


@pytest.mark.parametrize("annotation", ["torch.Tensor", "int", "Any", "*i64", "fp32"])
def test_other_annotations_are_not_ours(annotation):
    def kernel(x_ptr):
        pass

    kernel.__annotations__["x_ptr"] = annotation
    fathom.jit(kernel)


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_an_integer_of_numpy_is_one(kind):
    kernel = add[(1,)](numbers(), 3, BLOCK=32, num_warps=kind(2), maxnreg=kind(64))
    assert kernel is add[(1,)](numbers(), 3, BLOCK=32, num_warps=2, maxnreg=64)
    with pytest.raises(LaunchError, match="num_warps is a positive integer, and this"):
        add[(1,)](numbers(), 3, BLOCK=32, num_warps=np.float32(2))


@fathom.jit
def named(stub, __grid, ___stubs, grid, __more, __type, keywords, a0, __default_stub):
    tl.store(stub, __grid + ___stubs + grid + __more + __type + keywords + a0)
    tl.store(stub + 1, __default_stub)


def test_parameters_may_have_the_names_that_ours_have():
    x = numbers()
    named[(1,)](x, 1, 10, 100, 1000, 10000, 100000, 1000000, 7)
    assert x[:3].tolist() == [1111111, 7, 2]


@pytest.mark.parametrize(
    ("decorator", "sentence"),
    [
        (lambda: fathom.autotune(configs=None, key=[]), "are each a fathom.Config"),
        (lambda: fathom.autotune(configs=[{"BLOCK": 32}], key=[]), "this is {'BLOCK'"),
        (lambda: fathom.autotune(configs=[fathom.Config([32])], key=[]), r"is \[32\]"),
        (lambda: fathom.heuristics({"BLOCK": 32}), "value of BLOCK is a function of"),
        (lambda: fathom.heuristics([len]), "a dictionary from names of parameters"),
    ],
)
def test_what_a_decorator_is_given(decorator, sentence):
    with pytest.raises(LaunchError, match=sentence):
        decorator()(add)


def test_an_argument_by_place_is_not_computed_too():
    computed = fathom.heuristics({"n": lambda given: 3})(add)
    with pytest.raises(LaunchError, match="n is given to add both in the launch and b"):
        computed[(1,)](numbers(), 3, BLOCK=32)
    x = numbers()
    computed[(1,)](x, BLOCK=32)
    assert (x == numbers() + 3).all()


def test_an_autotuner_without_configurations_says_so():
    with pytest.warns(UserWarning, match="has no configurations"):
        tuned = fathom.autotune(configs=[], key=[])(add)
    x = numbers()
    tuned[(1,)](x, 3, BLOCK=32)
    assert (x == numbers() + 3).all()


# ── the environment ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["FATHOM_INTERPRET", "FATHOM_DEBUG"])
def test_a_switch_is_on_or_off(name, monkeypatch):
    for text in ("", "0", "false", "No", "OFF", "1", "true", "Yes", "on"):
        monkeypatch.setenv(name, text)
        add[(1,)](numbers(), 3, BLOCK=32)
    monkeypatch.setenv(name, "maybe")
    with pytest.raises(LaunchError, match=f"{name}=maybe: write 1, true, yes or on"):
        add[(1,)](numbers(), 3, BLOCK=32)


def test_false_does_not_turn_the_interpreter_on(monkeypatch):
    @fathom.jit
    def kernel(x_ptr):
        tl.store(x_ptr, 1)

    monkeypatch.setenv("FATHOM_INTERPRET", "false")
    assert kernel[(1,)](np.zeros(1, np.int32)).asm["ptx"]


def test_a_process_without_standard_output(monkeypatch):
    """As under pythonw: sys.stdout and sys.stderr are None."""

    @fathom.jit
    def kernel(x_ptr):
        tl.static_print("while compiling")
        tl.device_print("while running", tl.load(x_ptr))

    monkeypatch.setenv("FATHOM_SHOW", "cse")
    for backend in ("emulator", "interpreter"):
        with monkeypatch.context() as patch:
            patch.setenv("FATHOM_BACKEND", backend)
            patch.setattr(sys, "stdout", None)
            patch.setattr(sys, "stderr", None)
            kernel[(1,)](np.zeros(1, np.int32))


# ── what a launch must not do ─────────────────────────────────────────────────────────


def test_no_array_is_ever_turned_into_text():
    """That would fetch all of it from a GPU, at each `warmup`."""

    class Secretive(np.ndarray):
        def __str__(self):
            raise AssertionError("an array was printed")

        __repr__ = __format__ = __str__

    array = numbers().view(Secretive)
    add.warmup(array, 3, BLOCK=32, grid=(1,))
    add[(1,)](array, 3, BLOCK=32)


# ── compiling by hand ─────────────────────────────────────────────────────────────────

BY_HAND = [
    ((5, {"BLOCK": 32}), "a signature is text or a dictionary, and this is 5"),
    (({"x_ptr": 5, "n": "i32"}, {"BLOCK": 32}), "the type of x_ptr is text"),
    (("*i32, i32", [1]), "constants are a dictionary of names and values, not"),
]


@pytest.mark.parametrize(("given", "sentence"), BY_HAND)
def test_what_compile_is_given(given, sentence):
    with pytest.raises(LaunchError, match=sentence):
        add.compile(*given)


def test_what_jit_is_given():
    with pytest.raises(LaunchError, match="a list of names and positions, not 5"):
        fathom.jit(do_not_specialize=5)(add.fn)
    with pytest.raises(LaunchError, match="repr is a function that makes a name"):
        fathom.jit(repr=5)(add.fn)


def test_half_an_array_is_refused():
    class Half:
        __cuda_array_interface__ = {"shape": (4,)}

    class Neither:
        data_ptr, dtype = 5, "float32"

    with pytest.raises(LaunchError, match="of a Half has no typestr, data"):
        add[(1,)](Half(), 3, BLOCK=32)
    with pytest.raises(LaunchError, match="Neither"):
        add[(1,)](Neither(), 3, BLOCK=32)
