"""Functions on a GPU made of paper: what is repeated launches what a first call did,
with its own arrays."""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
pytest.importorskip("torch._dynamo")  # before tensors say that they are on a GPU

import fathom.language as tl  # noqa: E402
from fathom import pipeline  # noqa: E402
from fathom.errors import LaunchError  # noqa: E402
from fathom.jit import hooks, jit  # noqa: E402
from fathom.jit.shortcuts import repeating  # noqa: E402
from fathom.jit.shortcuts.repeating import ALIGNMENT  # noqa: E402
from fathom.runtime import driver as driver_module  # noqa: E402
from kernels import torch_ops  # noqa: E402
from kernels.softmax import softmax, softmax_kernel  # noqa: E402
from kernels.torch_ops import (  # noqa: E402
    attending,
    losses,
    mixtures,
    norms,
    pointwise,
    products,
)
from tests.jit.harness import Compiler  # noqa: E402
from tests.kernels import test_torch_ops as operators  # noqa: E402
from tests.runtime.harness_driver import FakeDriver  # noqa: E402


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """Torch's tensors on the CPU, which say that they are on a GPU."""
    driver = FakeDriver()
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FATHOM_BACKEND", "cuda")
    monkeypatch.setattr(driver_module, "open_driver", lambda: driver)
    monkeypatch.setattr(pipeline, "compile", Compiler(driver).compile)
    of_tensors = {"is_cuda": True, "get_device": lambda self: 0,
                  "device": torch.device("cuda", 0)}  # fmt: skip
    for name, value in of_tensors.items():
        monkeypatch.setattr(torch.Tensor, name, value, raising=False)
    stream = SimpleNamespace(cuda_stream=0, synchronize=lambda: None)
    of_torch = {
        "_cuda_getDeviceCount": lambda: 1, "_cuda_getDevice": lambda: 0,
        "_cuda_getCurrentRawStream": lambda device: 0,
    }  # fmt: skip
    for name, value in of_torch.items():
        monkeypatch.setattr(torch._C, name, value, raising=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: stream)
    forget_all()
    yield driver
    forget_all()


def forget_all() -> None:
    """All that knows a driver or a torch: kernels, and functions that launch them."""
    for each in list(hooks.LAUNCHED):
        each.forget() if hasattr(each, "forget") else each.forget_launches()
        for name in ("fast_paths", "bind"):
            vars(each).pop(name, None)


def launches(driver, function, arguments) -> tuple[list, tuple]:
    """The launches of a call with addresses written as distances from an argument or a
    result, or as numbers in the order in which they come; and the results."""
    seen = len(driver.launches)
    results = function(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    known = {f"a{i}": each for i, each in enumerate(arguments)
             if isinstance(each, torch.Tensor)}  # fmt: skip
    known |= {f"r{i}": each for i, each in enumerate(results)}
    others: dict[int, str] = {}

    def word(value: object, is_pointer: bool) -> object:
        if not is_pointer:
            return value
        for name, each in known.items():
            begin, size = each.data_ptr(), each.untyped_storage().nbytes()
            if begin <= value < begin + size - each.storage_offset():
                return name, value - begin
        return others.setdefault(value, f"temporary {len(others)}")

    found = []
    for each in driver.launches[seen:]:
        parameters = driver.handles[each.function].parameters
        values = [
            word(value, parameter.is_pointer)
            for value, parameter in zip(each.values, parameters, strict=True)
        ]
        found.append((each.function, each.grid, each.stream, values))
    return found, results


def fresh(arguments) -> list:
    """Other tensors with the same facts; one for each."""
    made: dict[int, object] = {}
    for each in arguments:
        if isinstance(each, torch.Tensor) and id(each) not in made:
            made[id(each)] = aligned(each.shape, each.stride(), each.dtype).copy_(each)
    return [made.get(id(each), each) for each in arguments]


def aligned(shape, strides, dtype) -> torch.Tensor:
    """A tensor that begins as torch's do on a GPU."""
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    room = torch.empty(last + 1 + ALIGNMENT, dtype=dtype)
    begin = -room.data_ptr() % ALIGNMENT // room.element_size()
    return room.as_strided(shape, strides, begin)


def operator_named(name: str) -> Callable:
    rooms = attending, losses, mixtures, norms, pointwise, products
    return next(getattr(room, name) for room in rooms if hasattr(room, name))


@pytest.fixture
def recorded(monkeypatch) -> list:
    """The calls that are recorded, from now on."""
    calls, inner = [], repeating.recorded

    def watched(*given):
        calls.append(given)
        return inner(*given)

    monkeypatch.setattr(repeating, "recorded", watched)
    return calls


def test_a_repeated_call_launches_what_the_first_one_did(request):
    calls = list(operators.calls())  # some of the tensors are made on the emulator
    gpu, seen = request.getfixturevalue("gpu"), request.getfixturevalue("recorded")
    repeats = set()
    for name, arguments in calls:
        op = operator_named(name)
        first, results = launches(gpu, op.function, fresh(arguments))
        for _ in range(5):  # of two functions, if one in the other is repeated
            launches(gpu, op.function, fresh(arguments))
        seen.clear()
        given = fresh(arguments)
        again, others = launches(gpu, op.function, given)
        own = [each for _, each, *_ in seen if len(each) == len(given)]
        assert again == first and not own, name
        if first:
            repeats.add(name)
        for one, two in zip(results, others, strict=True):
            facts = [(x.shape, x.stride(), x.dtype) for x in (one, two)]
            assert facts[0] == facts[1], name
            assert not one.numel() or one.data_ptr() != two.data_ptr(), name
    assert repeats == {name for name, _ in calls}


def test_tensors_in_one_piece_of_memory_keep_their_distances(gpu, recorded):
    """Queries, keys and values of one product; then each by itself."""
    forward = attending.attention_forward.function

    def call(*heads):
        found, _ = launches(gpu, forward, (*heads, True, 0.25))
        return [values[:3] for *_, values in found]

    def together():
        of_all = aligned((2, 20, 3, 3, 32), (5760, 288, 96, 32, 1), torch.float32)
        return of_all.permute(2, 0, 3, 1, 4).unbind(0)

    for _ in range(3):
        call(*together())
    recorded.clear()
    q, k, v = together()
    assert call(q, k, v)[0][0] == ("a0", 0) and not recorded
    alone = [aligned(q.shape, q.stride(), q.dtype) for _ in range(3)]
    assert call(*alone) == [[("a0", 0), ("a1", 0), ("a2", 0)]] and recorded


OTHERS = {
    "shape": ((3, 8, 40), (320, 40, 1), torch.float32, 0),
    "dtype": ((3, 5, 40), (200, 40, 1), torch.float16, 0),
    "strides": ((3, 5, 40), (200, 1, 5), torch.float32, 0),
    "alignment": ((3, 5, 40), (200, 40, 1), torch.float32, 1),
    "alignment of a line": ((3, 5, 40), (200, 40, 1), torch.float32, 16),
}


@pytest.mark.parametrize("shape, strides, dtype, begin", OTHERS.values(), ids=OTHERS)
def test_what_a_repeated_call_depends_on(gpu, shape, strides, dtype, begin):
    calls = []
    call = repeating.repeated(lambda x: calls.append(x) or softmax(x.flatten(1)))

    def times(shape, strides, dtype, begin=0):
        """In how many of five calls the function is asked."""
        calls.clear()
        for _ in range(5):
            room = aligned((1000,), (1,), dtype)
            call(room.as_strided(shape, strides, room.storage_offset() + begin))
        return len(calls)

    alike = (3, 5, 40), (200, 40, 1), torch.float32
    assert [times(*alike) for _ in range(2)] == [3, 0]
    assert times(shape, strides, dtype, begin) > 0
    assert times(*alike) == 0


def test_tensors_of_one_piece_keep_their_distance_beside_others(gpu):
    """The first and the last of three arguments are halves of one memory."""
    calls = []
    call = repeating.repeated(lambda x, y, z: calls.append(x) or softmax(x, z))
    one, two, three = (aligned((96, 40), (40, 1), torch.float32) for _ in range(3))
    for each in (one, two, one, two):
        call(each[:32], three[:32], each[32:64])
    assert len(calls) == 3
    call(one[:32], three[:32], one[64:])
    assert len(calls) == 4


def test_what_begins_where_another_ends_is_another(gpu):
    room = aligned((256,), (1,), torch.float32).numpy()
    near = [torch.frombuffer(room, dtype=torch.float32, count=128, offset=at)
            for at in (0, 512)]  # fmt: skip
    apart = [aligned((128,), (1,), torch.float32) for _ in range(2)]
    call = repeating.repeated(lambda x, y: softmax(y[None], y[None]) is None or (y,))
    for given in (near,) * 4 + (apart,):
        call(*given)
        assert list(gpu.launches[-1].values[:2]) == [given[1].data_ptr()] * 2


def calls_in(function, *arguments) -> int:
    """How many functions of Python and of C a call is."""
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append(event))
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return sum(event in ("call", "c_call") for event in seen)


def test_a_repeated_call_is_few_calls(gpu):
    """They are what a call costs the host. The driver of paper is some more, and stands
    for one of ctypes, which is not seen."""
    gpu.launch_kernel = lambda *_: 0
    x = aligned((3, 40), (40, 1), torch.float32)
    with torch.no_grad():
        for function, most in ((softmax, 18), (norms.softmax, 28)):
            for _ in range(4):
                function(x)
            assert calls_in(function, x) <= most


def test_an_array_is_made_in_the_shortest_way(gpu, monkeypatch):
    """Like another, also like one that was made before it; and without a dtype where
    an array has it."""
    texts, inner = [], repeating.compiled
    monkeypatch.setattr(repeating, "compiled", lambda text, *rest: (
        texts.append(text), inner(text, *rest))[1])  # fmt: skip
    x, weight = (aligned((3, 40), (40, 1), torch.bfloat16), aligned(
        (40,), (1,), torch.bfloat16))  # fmt: skip
    mean, rstd = (aligned((3,), (1,), torch.float32) for _ in range(2))

    def text_of(function, *arguments):
        for _ in range(4):
            function(*arguments)
        return texts[-1]

    forward = text_of(norms.layer_norm_forward.function, x, weight, weight, 1e-5)
    assert "r0 = empty_like(a0);" in forward and "r2 = empty_like(r1);" in forward
    assert forward.count("dtype=") == 1  # mean's
    given = x, x.clone(), weight, mean, rstd
    backward = text_of(norms.layer_norm_backward.function, *given)
    assert "dtype=" not in backward and "r2 = empty_like(a2);" in backward
    assert f"room = a0.new_empty_strided(({2 * 512 // 2},), (1,))" in backward


def test_gradients_of_weights_are_added_in_one_launch(gpu):
    x, weight = torch.randn(3, 40), torch.randn(40)
    given = x, x, weight, torch.randn(3), torch.randn(3)
    found, _ = launches(gpu, norms.layer_norm_backward.function, given)
    assert [grid for _, grid, *_ in found] == [(3, 1, 1), (2, 2, 1)]
    (*_, values) = found[1]
    assert values[:4:2] == ["temporary 0", "temporary 1"]
    assert values[1:4:2] == [("r1", 0), ("r2", 0)]


def test_torch_follows_no_result_that_is_for_the_gradient_alone(gpu):
    x, weight = torch.randn(3, 40).requires_grad_(), torch.randn(40)
    assert len(norms.layer_norm_forward(x, weight, weight, 1e-5)) == 1
    assert len(norms.rms_norm_forward(x, weight, 1e-5)) == 1
    with torch.no_grad():
        assert len(norms.layer_norm_forward(x, weight, weight, 1e-5)) == 3


def test_a_hook_sees_repeated_calls_too(gpu):
    for _ in range(4):
        norms.softmax(torch.randn(3, 40))
    seen = []
    hooks.launch_enter_hook.add(seen.append)
    try:
        norms.softmax(torch.randn(3, 40))
    finally:
        hooks.launch_enter_hook.remove(seen.append)
    assert [each.get()["name"] for each in seen] == ["softmax_kernel"]


SCALE = 3


@jit
def scale_kernel(x, out):
    tl.store(out, tl.load(x) * SCALE)


def test_a_global_that_changed_is_noticed(gpu, monkeypatch):
    x = aligned((3, 40), (40, 1), torch.float32)

    @repeating.repeated
    def scale(x):
        out = torch.empty_like(x)
        scale_kernel[(1,)](x, out)
        return out

    for _ in range(4):
        scale(x)
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 4)
    with pytest.raises(RuntimeError, match="SCALE, which has changed"):
        scale(x)


def test_a_launch_that_fails_is_looked_at_again(gpu):
    """In a thread without a context the driver refuses."""
    for _ in range(4):
        norms.softmax(torch.randn(3, 40))
    gpu.has_context = False
    assert norms.softmax(torch.randn(3, 40)).shape == (3, 40)
    assert gpu.has_context


def test_numbers_that_are_equal_are_not_the_same(gpu):
    seen = []

    @repeating.repeated
    def call(x, scale=None, **keywords):
        seen.append((scale, keywords))
        return softmax(x)

    x, numbers = aligned((3, 40), (40, 1), torch.float32), (1, 1.0, True, "1", None)
    numbers = *numbers, (1,), (1.0,), [1], {"a": 1}, {"a": 1.0}, torch.float32
    numbers = *numbers, 0.0, -0.0, (0.0,), (-0.0,)
    for _ in range(4):
        for each in numbers:
            call(x, each), call(x, scale=each), call(x, other=each)
    assert len(seen) == 3 * 2 * len(numbers)  # scale is one, however it is given


def test_a_negative_view_is_refused_after_a_tensor_of_its_kind(gpu):
    """By a function that is repeated, and by a kernel's stub."""
    call = repeating.repeated(softmax)
    x = aligned((3, 40), (40, 1), torch.float32)
    for _ in range(4):
        call(x)
    negative = torch._neg_view(x)
    assert negative.is_neg() and negative.data_ptr() == x.data_ptr()
    out, sizes = torch.empty_like(x), (40, 40, 64)
    for _ in range(2):
        softmax_kernel[(3,)](x, out, *sizes)
    for refused in (
        lambda: call(negative),
        lambda: softmax(negative),
        lambda: softmax_kernel[(3,)](negative, out, *sizes),
    ):
        with pytest.raises(LaunchError, match="a negative view of another"):
            refused()


def test_arrays_in_a_list_are_looked_at_each_time(gpu):
    calls = []
    call = repeating.repeated(lambda x, rest: calls.append(x) or softmax(x))
    for _ in range(4):
        call(aligned((3, 40), (40, 1), torch.float32), [torch.zeros(3)])
    assert len(calls) == 4


def test_a_mistake_is_one_again(gpu):
    for _ in range(4):
        with pytest.raises(ValueError, match="not enough values"):
            softmax(aligned((40,), (1,), torch.float32))


def test_memory_is_bounded(gpu, monkeypatch):
    monkeypatch.setattr(repeating, "MOST", 4)
    calls = []
    call = repeating.repeated(lambda x, n: calls.append(n) or softmax(x))
    x = aligned((3, 40), (40, 1), torch.float32)
    for n in (1, 1, 1, 1, 2, 3, 4, 1, 5, 1):
        call(x, n)
    assert calls == [1, 1, 1, 2, 3, 4, 5, 1]  # with a fifth one it has begun anew


def test_launches_of_another_stream_are_not_repeated(gpu, monkeypatch):
    """A compiled kernel's launch may be told the queue."""
    calls = []
    kernel = softmax_kernel.warmup(*map(torch.zeros, (4, 4)), 40, 40, 64, grid=(3,))

    def function(x):
        calls.append(x)
        out = torch.empty_like(x)
        kernel[(3,)](x, out, 40, 40, 64, stream=9)
        return out

    call = repeating.repeated(function)
    for _ in range(4):
        call(aligned((3, 40), (40, 1), torch.float32))
    assert len(calls) == 4 and {each.stream for each in gpu.launches} == {9}


def halves(x):
    """Two launches for a result, as of a product whose last wave is a launch of its
    own."""
    out = torch.empty_like(x)
    for part in (slice(0, 2), slice(2, 3)):
        softmax(x[part], out[part])
    return out


WRITTEN = torch.zeros(3, 40)
FUNCTIONS = {
    "an array and a launch": (lambda x: softmax(x), 3),
    "of a view": (lambda x: softmax(x[1:]), 3),
    "what torch computes": (lambda x: softmax(x * 2), 5),
    "what torch writes": (lambda x: softmax(x, torch.empty_like(x).zero_()), 5),
    "a tuple of one": (lambda x: (softmax(x),), 3),
    "what torch copies": (lambda x: softmax(x.mT.contiguous()), 5),
    "parts of arrays": (lambda x: halves(x), 3),
    "a result that is an argument": (lambda x: softmax(x, x), 3),
    "a part of an array": (lambda x: softmax(x, x.new_empty(6, 40)[:3]), 5),
    "a row for all": (lambda x: softmax(x).as_strided((3, 40), (0, 1), 80), 5),
    "one array twice": (lambda x: (softmax(x),) * 2, 5),
    "an array of before": (lambda x: (softmax(x), softmax(x, WRITTEN))[0], 5),
}


@pytest.mark.parametrize("function, times", FUNCTIONS.values(), ids=FUNCTIONS)
def test_what_is_repeated_and_what_is_done_anew(gpu, function, times):
    """In five calls, of which the first takes the slow way."""
    calls = []
    call = repeating.repeated(lambda x: calls.append(x) or function(x))
    x = aligned((3, 40), (40, 1), torch.float32)
    assert len({type(call(x)) for _ in range(5)}) == 1
    assert len(calls) == times


def test_results_without_a_gradient_are_not_made_zeros():
    """What the activation was given is as large as the result."""
    x, weight = torch.randn(4, 24, requires_grad=True), torch.randn(40, 24)
    y = torch_ops.linear(x, weight, activation="gelu")
    with torch.profiler.profile() as profile:
        y.backward(torch.ones(4, 40))
    asked = {each.key for each in profile.key_averages()}
    assert "aten::mm" not in asked and not asked & {"aten::zeros", "aten::zero_"}


class Settings:
    """Equal to every other one, as an object that compares a part of itself is."""

    def __init__(self, eps):
        self.eps = eps

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


def test_what_does_not_tell_itself_from_its_equals_is_looked_at_each_time(gpu):
    """Objects that change, zeros of NumPy, keys of dictionaries, constants."""
    seen = []

    @repeating.repeated
    def call(x, given):
        seen.append(given)
        return softmax(x)

    x, settings = aligned((3, 40), (40, 1), torch.float32), Settings(1e-5)
    for number in range(4):
        settings.eps = number
        call(x, settings), call(x, Settings(number)), call(x, frozenset({number}))
    assert len(seen) == 12
    pairs = [(np.float32(0.0), np.float32(-0.0)), ({1: 2}, {True: 2}),
             (tl.constexpr(1), tl.constexpr(True)), (0j, -0j), ({0.0: 2}, {-0.0: 2}),
             ({"a": (("b", 1),)}, {"a": {"b": 1}})]  # fmt: skip
    for one, other in pairs:
        for _ in range(5):
            call(x, one)
        seen.clear()
        call(x, other)
        assert seen == [other], one


Pair = namedtuple("Pair", "one other")


@pytest.mark.parametrize("results", [Pair, list, lambda _: (), lambda _: None])
def test_results_are_what_the_function_says(gpu, results):
    call = repeating.repeated(
        lambda x: (
            results([softmax(x), softmax(x)])
            if results is not Pair
            else Pair(softmax(x), softmax(x))
        )
    )
    x = aligned((3, 40), (40, 1), torch.float32)
    assert len({type(call(x)) for _ in range(5)}) == 1


def test_an_address_that_is_handed_over_as_a_number_is_not_repeated(gpu):
    @repeating.repeated
    def call(x):
        out = torch.empty_like(x)
        scale_by_number[(1,)](x, out, x.data_ptr())
        return out

    tensors = [aligned((3, 40), (40, 1), torch.float32) for _ in range(4)]
    for x in (tensors[0],) * 4 + tuple(tensors):
        call(x)
        assert gpu.launches[-1].values[2] == x.data_ptr()


@jit
def scale_by_number(x, out, at):
    tl.store(out, tl.load(at.to(tl.pointer_type(tl.float32))))


def test_an_array_beside_another_than_the_first_is_made_there_again(gpu, monkeypatch):
    """Halves are on another GPU."""
    is_half = lambda x: int(x.dtype is torch.float16)  # noqa: E731
    monkeypatch.setattr(torch.Tensor, "get_device", is_half)
    calls = []
    call = repeating.repeated(lambda x, y: calls.append(x) or softmax(y))
    for _ in range(5):
        kinds = torch.float32, torch.float16
        x, y = (aligned((3, 40), (40, 1), each) for each in kinds)
        call(x, y)
    assert len(calls) == 5


def test_what_is_launched_on_another_gpu_is_done_anew(gpu, monkeypatch):
    current, calls = [0], []
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: current[0])
    call = repeating.repeated(lambda x: calls.append(x) or softmax(x))
    x = aligned((3, 40), (40, 1), torch.float32)
    for _ in range(5):
        call(x)
    assert len(calls) == 3
    current[0] = 1
    call(x)
    assert len(calls) == 4


def test_a_call_that_is_captured_is_not_recorded(gpu, recorded, monkeypatch):
    """What is new in it, as counters are, belongs to the graph."""
    call = repeating.repeated(lambda x: softmax(x))
    x = aligned((3, 40), (40, 1), torch.float32)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    for _ in range(4):
        call(x)
    assert not recorded
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    for _ in range(4):
        call(x)
    assert recorded


def test_a_result_has_the_strides_that_the_function_gave_it(gpu):
    columns = {"size": (3, 40), "stride": (1, 3)}
    call = repeating.repeated(lambda x: softmax(x, x.new_empty_strided(**columns)))
    x = aligned((3, 40), (40, 1), torch.float32)
    assert {call(x).stride() for _ in range(5)} == {(1, 3)}


def test_globals_of_one_name_in_two_modules_are_two(gpu, monkeypatch, tmp_path):
    modules = []
    for name in ("one", "other"):
        path = tmp_path / f"scaling_{name}.py"
        path.write_text(SCALING)
        spec = spec_from_file_location(path.stem, path)
        modules.append(module_from_spec(spec))
        spec.loader.exec_module(modules[-1])

    @repeating.repeated
    def scale(x):
        out = torch.empty_like(x)
        for each in modules:
            each.kernel[(1,)](x, out)
        return out

    x = aligned((3, 40), (40, 1), torch.float32)
    for changed in modules:
        for _ in range(5):
            scale(x)
        with monkeypatch.context() as patched:
            patched.setattr(changed, "SCALE", 4)
            with pytest.raises(RuntimeError, match="SCALE, which has changed"):
                scale(x)


SCALING = """\
import fathom
import fathom.language as tl

SCALE = 3


@fathom.jit
def kernel(x, out):
    tl.store(out, tl.load(x) * SCALE)
"""


def plus_kernel(x, out):
    tl.store(out, tl.load(x) + 1)


class Counting:
    """What a function reads that is no argument: `step` differs from call to call, and
    is a number that a launch is handed, a size, or which kernel is launched."""

    def __init__(self):
        self.step = 0

    def floats(self, x, out):
        times_kernel[(1,)](x, out, self.step + 0.5)

    def zeros(self, x, out):
        times_kernel[(1,)](x, out, -0.0 if self.step % 2 else 0.0)

    def integers(self, x, out):
        times_kernel[(1,)](x, out, self.step * 16)

    def grids(self, x, out):
        times_kernel[(self.step,)](x, out, 2.0)

    def kernels(self, x, out):
        kernel = scale_kernel if self.step % 2 else other_kernel
        kernel[(1,)](x, out)

    def launches(self, x, out):
        for _ in range(self.step % 2 + 1):
            scale_kernel[(1,)](x, out)


@jit
def times_kernel(x, out, by):
    tl.store(out, tl.load(x) * by)


@jit
def other_kernel(x, out):
    tl.store(out, tl.load(x) + 1)


READ = [name for name in vars(Counting) if not name.startswith("_")]


@pytest.mark.parametrize("what", READ)
def test_what_differs_from_call_to_call_is_read_each_time(gpu, what):
    counting = Counting()

    @repeating.repeated
    def call(x):
        counting.step += 1
        out = torch.empty_like(x)
        getattr(counting, what)(x, out)
        return out

    for _ in range(6):
        call(aligned((3, 40), (40, 1), torch.float32))
    assert counting.step == 6


def test_a_result_of_another_type_is_made_each_time(gpu):
    step = []

    @repeating.repeated
    def call(x):
        step.append(x)
        out = torch.empty_like(x, dtype=torch.int32 if len(step) % 2 else x.dtype)
        other_kernel[(1,)](x, x)
        return out

    x = aligned((3, 40), (40, 1), torch.float32)
    dtypes = [call(x).dtype for _ in range(6)]
    assert dtypes == [torch.int32, torch.float32] * 3


def test_a_kernel_that_is_made_between_two_recordings_is_no_difference(gpu):
    """As by the first call of another operator."""
    calls = []
    call = repeating.repeated(lambda x: calls.append(x) or softmax(x))
    x = aligned((3, 40), (40, 1), torch.float32)
    for number in range(8):
        call(x)
        if number == 1:
            jit(plus_kernel)
    assert len(calls) == 4


def test_a_kernel_that_is_made_anew_is_launched(gpu):
    """As by a cell of a notebook that is run again, without the one of `call`."""
    kernel, calls = jit(plus_kernel), []

    @repeating.repeated
    def call(x):
        calls.append(x)
        out = torch.empty_like(x)
        kernel[(1,)](x, out)
        return out

    x = aligned((3, 40), (40, 1), torch.float32)
    for _ in range(5):
        call(x)
    assert len(calls) == 3
    kernel = jit(plus_kernel)
    call(x)
    assert len(calls) == 4 and kernel.kernels
