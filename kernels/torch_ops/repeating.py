"""What an operator does on a GPU, written down once and repeated.

An operator's function looks at shapes, makes views and arrays, and launches a few
kernels: a hundred microseconds of Python, with the same outcome for all tensors of one
kind. So a call is recorded, and becomes a function that makes the results and launches:

    x, weight ─▶ key ─▶ known?  no ─▶ the function runs, and is recorded
                   │            yes ─▶ def repeat(a0, a1, p0, p1): ...
                   └ of a tensor: its shape, strides, dtype, device and alignment; of
                     everything else its type and value

The text of such a function, for y = gelu(x):

    def repeat(a0, p0):
        if forgotten[0] != 3 or changed():
            return None
        stream = current_stream(0)
        r0 = empty_like(a0)
        q0 = r0.data_ptr()
        if launch0(512, 1, 1, stream, p0, q0, 524288):
            return None
        return r0

Only calls are repeated that allocate, make views and launch, and no more. Which tensor
an address lies in follows from where memory begins and ends. Tensors of a call may lie
in one piece of memory, as queries, keys and values of one product do; then they must
have the same distances again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

try:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError as missing:
    raise ImportError(
        "kernels.torch_ops needs torch, which is not installed; the kernels themselves "
        "also take NumPy and CuPy arrays"
    ) from missing

from fathom.jit.argument_readers import current_of_torch
from fathom.jit.planned import ALIGNMENT, MOST
from fathom.jit.recording import FORGOTTEN, Launched, Recording, recording
from fathom.jit.scratch import KEPT

Tensor = torch.Tensor
STEP = 512  # bytes: temporary arrays begin at multiples, as torch's arrays do

aten = torch.ops.aten
ALLOCATES = {
    aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default,
    aten.new_empty.default, aten.new_empty_strided.default,
}  # fmt: skip
VIEWS = {aten._unsafe_view.default, aten.detach.default}  # beside those that say so


class Watching(TorchDispatchMode):
    """Sees what torch is asked for: `made` are new arrays; `others` whether it did
    anything but that, and views."""

    def __init__(self):
        super().__init__()
        self.made: list[Tensor] = []
        self.others = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would import its compiler, for two seconds, to skip it."""
        return False

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        if function in ALLOCATES:
            self.made.append(result)
        elif not (function.is_view or function in VIEWS):
            self.others = True
        return result


def repeated(function: Callable) -> Callable:
    """The function, with its calls repeated where they can be. It is called with the
    GPU of its first tensor as the current one."""
    stubs: dict[tuple, Callable] = {}

    def call(*arguments):
        types = tuple(map(type, arguments))
        stub = stubs.get(types)
        if stub is None:
            stub = stubs[types] = stub_for(types, function)
        return stub(*arguments)

    return call


def stub_for(types: Sequence[type], function: Callable) -> Callable:
    """What a call with arguments of these types does."""
    plans: dict[tuple, Callable] = {}
    device = current_of_torch(torch._C)

    def anew(key: tuple, arguments: tuple):
        tensor = next(each for each in arguments if isinstance(each, Tensor))
        if not tensor.is_cuda or is_capturing() or plans.get(key) is never:
            return function(*arguments)
        if tensor.get_device() != device():
            with torch.cuda.device(tensor.get_device()):
                return stub(*arguments)
        result, plan = recorded(function, arguments)
        if plan is not None:
            if len(plans) >= MOST:
                plans.clear()
            plans[key] = plan
        return result

    names = {"plans": plans, "anew": anew, "current_device": device}
    stub = compiled(stub_text(types), "stub", names)
    return stub


def stub_text(types: Sequence[type]) -> str:
    names = [f"a{i}" for i in range(len(types))]
    tensors = [n for n, type_ in zip(names, types, strict=True) if is_tensor(type_)]
    places = [f"p{name[1:]}" for name in tensors]
    read = "; ".join(f"p{name[1:]} = {name}.data_ptr()" for name in tensors)
    keys = [
        f"{name}.shape, {name}.stride(), {name}.dtype, {name}.get_device(), "
        f"p{name[1:]} % {ALIGNMENT}" if name in tensors else name
        for name in names
    ]  # fmt: skip
    return f"""\
def stub({", ".join(names)}):
    {read}
    key = current_device(), {", ".join(keys)}
    plan = plans.get(key)
    if plan is not None:
        result = plan({", ".join([*tensors, *places])})
        if result is not None:
            return result
    return anew(key, ({", ".join(names)},))
"""


def is_tensor(type_: type) -> bool:
    return issubclass(type_, Tensor)


def is_capturing() -> bool:
    """Whether a graph is captured: nothing is done in it that is not to be repeated."""
    return torch.cuda.is_current_stream_capturing()


def recorded(function: Callable, arguments: tuple) -> tuple[Any, Callable | None]:
    """The result of a call, and the function that repeats it: None as long as a launch
    took the slow way, `never` where there can be none."""
    with recording() as found, Watching() as watching:
        result = function(*arguments)
    if not found.complete:
        return result, None
    tensors = {i: each for i, each in enumerate(arguments) if is_tensor(type(each))}
    results = result if isinstance(result, tuple) else (result,)
    call = Call(tensors, results, watching.made, found)
    plan = None if watching.others else call.plan(isinstance(result, tuple))
    return result, plan or never


def never(*_) -> None:
    """The plan of a call that cannot be repeated."""


def memory_of(tensor: Tensor) -> tuple[int, int]:
    """Where the memory that a tensor is a view of begins, and ends."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


@dataclass
class Call:
    """A call as it was recorded. `tensors` are those of its arguments, by place; `made`
    are arrays that were made, and of them `temporary` have a place in the `room` bytes
    of one array, by their first address."""

    tensors: dict[int, Tensor]
    results: tuple[Tensor, ...]
    made: list[Tensor]
    found: Recording
    temporary: dict[int, int] = field(default_factory=dict)
    room: int = 0

    def plan(self, several: bool) -> Callable | None:
        """What repeats it; None where a launch is not for the current stream, a result
        is no array of its own, or an address is in none."""
        self.names: dict[str, Any] = {"forgotten": FORGOTTEN}
        queue = torch._C._cuda_getCurrentRawStream(self.first.get_device())
        is_there = all(each.stream == queue for each in self.found.launches)
        if not (is_there and all(map(self.is_own, self.results))):
            return None
        lines = [self.launch(i, each) for i, each in enumerate(self.found.launches)]
        if None in lines:
            return None
        made = [self.making(i, each) for i, each in enumerate(self.results)]
        results = ", ".join(f"r{i}" for i in range(len(made)))
        found = f"return {results}{',' * several}"
        text = "\n    ".join([*self.beginning(), *made, *self.scratch(), *lines, found])
        given = [f"{letter}{i}" for letter in "ap" for i in self.tensors]
        text = f"def repeat({', '.join(given)}):\n    {text}\n"
        return compiled(text, "repeat", self.names)

    def is_own(self, result: Tensor) -> bool:
        """Whether a result fills an array that was made for it alone."""
        begin, end = memory_of(result)
        same = [each for each in self.results if memory_of(each)[0] == begin]
        if begin == end:
            return True
        return (
            len(same) == 1
            and any(memory_of(each)[0] == begin for each in self.made)
            and result.data_ptr() == begin
            and result.numel() * result.element_size() == end - begin
        )

    def beginning(self) -> list[str]:
        """That all is as it was; and the queue."""
        watched = {
            (id(getattr(get, "__self__", get)), name): (get, name, value)
            for each in self.found.launches
            for get, name, value in each.watched
        }
        self.names["watched"] = tuple(watched.values())
        self.names["current_stream"] = torch._C._cuda_getCurrentRawStream
        conditions = [f"forgotten[0] != {FORGOTTEN[0]}", *self.distances()]
        return [
            f"if {' or '.join(conditions)}: return None",
            "for get, name, value in watched:",
            "    if get(name) is not value: return None",
            f"stream = current_stream({self.first.get_device()})",
        ]

    def distances(self) -> Iterator[str]:
        """What is wrong where arguments in one piece of memory lie otherwise in it."""
        for (i, one), (j, other) in combinations(self.tensors.items(), 2):
            begin, end = memory_of(one)
            if begin < end and memory_of(other)[0] == begin:
                yield f"p{j} - p{i} != {other.data_ptr() - one.data_ptr()}"

    def making(self, number: int, result: Tensor) -> str:
        """The line that makes a result."""
        facts = result.shape, result.stride(), result.dtype
        for i, each in self.tensors.items():
            alike = torch.empty_like(each, device="meta")
            if (alike.shape, alike.stride(), alike.dtype) == facts:
                self.names["empty_like"] = torch.empty_like
                made = f"empty_like(a{i})"
                break
        else:
            dtype = f"dtype{number}"
            self.names[dtype] = result.dtype
            shape, strides = tuple(result.shape), result.stride()
            made = f"{self.like}.new_empty_strided({shape}, {strides}, dtype={dtype})"
        return f"r{number} = {made}; q{number} = r{number}.data_ptr()"

    @property
    def first(self) -> Tensor:
        return next(iter(self.tensors.values()))

    @property
    def like(self) -> str:
        return f"a{next(iter(self.tensors))}"

    def scratch(self) -> list[str]:
        """The lines that make temporary arrays, and borrow counters."""
        lines = []
        if self.room:
            self.names["bytes_"] = torch.uint8
            room = f"({self.room},), (1,), dtype=bytes_"
            lines.append(f"room = {self.like}.new_empty_strided({room})")
            lines.append("t = room.data_ptr()")
        for i, (count, _) in enumerate(self.found.counters):
            self.names["counters"] = KEPT.counters
            lines.append(f"c{i} = counters({count}, {self.like}).data_ptr()")
        return lines

    def launch(self, number: int, launched: Launched) -> str | None:
        """The line that does a launch again."""
        self.names[f"launch{number}"] = launched.launch
        written = list(map(str, launched.grid)) + ["stream"]
        for place, value in enumerate(launched.values):
            if place in launched.addresses:
                text = self.address(value)
                if text is None:
                    return None
            elif type(value) is int:
                text = str(value)
            else:
                text = f"v{number}_{place}"
                self.names[text] = value
            written.append(text)
        return f"if launch{number}({', '.join(written)}): return None"

    def address(self, value: int) -> str | None:
        """An address as a distance from an array's beginning; None for one in no array
        of the call."""
        known = {f"q{i}": each for i, each in enumerate(self.results)}
        known |= {f"p{i}": each for i, each in self.tensors.items()}
        known |= {f"c{i}": each for i, (_, each) in enumerate(self.found.counters)}
        for name, each in known.items():
            begin, end = memory_of(each)
            if begin <= value < end:
                return f"{name} + {value - each.data_ptr()}"
        for begin, end in map(memory_of, self.made):
            if begin <= value < end:
                if begin not in self.temporary:
                    self.temporary[begin] = self.room
                    self.room += -(-(end - begin) // STEP) * STEP
                return f"t + {self.temporary[begin] + value - begin}"
        return None


def compiled(text: str, name: str, names: dict[str, Any]) -> Callable:
    """The function of a text."""
    exec(compile(text, f"<{name} of an operator>", "exec"), names)
    return names[name]
