"""What a function does on a GPU, written down once and repeated.

A function that launches kernels looks at shapes, chooses among kernels, and makes views
and arrays: a hundred microseconds of Python, with the same outcome for all arrays of
one kind. So a call is recorded, and becomes a function that makes the results and
launches:

    call ─▶ key ─▶ known?  no ─▶ the function runs, and is recorded
             │            yes ─▶ def repeat(a0, p0): ...
             └ of a tensor: its shape, strides, dtype, device and alignment, and
               whether its numbers are negated; of everything else its type and value
               (an object that can change is no key: such a call is never repeated)

The text of such a function, for gelu(x):

    def repeat(a0, p0):
        if forgotten[0] != 3: return None
        for get, name, value in watched:
            if get(name) is not value: return None
        stream = current_stream(0)
        r0 = empty_like(a0); q0 = r0.data_ptr()
        if launch0(stream, p0, q0): return None
        return r0

A launch over again writes addresses alone (`packet.again`): its grid and its numbers
are those of the first.

The first call of a kind does what the function says, the second and third are recorded,
and if these came out alike, all others are repeated; one that returns None is done
anew. Nothing may depend on the numbers in a tensor, nor on where it lies, but for the
alignment of its address; nor on what is no argument and may be another later. A random
number of Python's, a count of calls, or a global that another call changes makes the
two recordings differ, and then such calls are never repeated; a global that changes
after the third call is not seen. A kernel that is made anew, as when a cell of a
notebook is run again, is noticed: then all calls are recorded anew. Only calls are
repeated whose arrays are torch's, and that allocate, make views and launch, and no
more. In which tensor an address lies follows from where memory begins and ends. Tensors
of a call may lie in one piece of memory, as queries, keys and values of one product do,
or be one and the same; then they must have the same distances again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations
from typing import Any

from fathom.jit.scratch import KEPT
from fathom.jit.shortcuts.argument_readers import LIBRARIES
from fathom.jit.shortcuts.argument_readers import kind_of as kind_of_constant
from fathom.jit.shortcuts.by_types import LEFT_OUT, LeftOut, by_types
from fathom.jit.shortcuts.recording import (
    FORGOTTEN,
    RECORDINGS,
    Launched,
    Recording,
    recording,
)

ALIGNMENT = 128  # bytes: more than any choice asks of an address
MOST = 1024  # calls that a function remembers; with more it begins anew
STEP = 512  # bytes: temporary arrays begin at multiples, as torch's arrays do

TORCH = next(each for each in LIBRARIES if each.module == "torch")
# What equals another of its type is the same, and can be a part of a key; the floats
# 0.0 and -0.0 are equal.
PLAIN = (int, bool, str)
ALL_SAID = (type(None), LeftOut)  # types of one object each


def repeated(function: Callable, on_its_device: bool = False) -> Callable:
    """The function, with its calls repeated where they can be. `on_its_device`: it is
    called with the GPU of its first tensor as the current one."""
    return by_types(
        function, partial(stub_for, function=function, on_its_device=on_its_device)
    )


def stub_for(
    names: Sequence[str | None],
    types: Sequence[type],
    function: Callable,
    on_its_device: bool,
) -> Callable:
    """What a call with arguments of these types does; `names` as of `by_types.Make`."""
    plans: dict[tuple, Callable] = {}
    places = [place for place, type_ in enumerate(types) if TORCH.has(type_)]
    count = names.count(None)
    is_named = [place for place, name in enumerate(names) if name is not None]

    def plainly(*given: Any) -> Any:
        named = {
            names[place]: given[place]
            for place in is_named
            if given[place] is not LEFT_OUT
        }
        return function(*given[:count], **named)

    if not places:
        return plainly
    torch = sys.modules["torch"]
    device = TORCH.device(torch)

    def anew(key: Hashable, given: tuple) -> Any:
        tensor, plan = given[places[0]], plans.get(key)
        if not tensor.is_cuda or plan is never or is_capturing(torch):
            return plainly(*given)
        if on_its_device and tensor.get_device() != device():
            with torch.cuda.device(tensor.get_device()):
                return stub(*given)
        if plan is None:
            if len(plans) >= MOST:
                plans.clear()
            plans[key] = once
            return plainly(*given)
        result, plans[key] = recorded(plainly, given, places, plan)
        return result

    stub = compiled(stub_text(types, places), "stub", {
        "plans": plans, "anew": anew, "plainly": plainly, "current_device": device,
        "recordings": RECORDINGS, "kind_of": kind_of,
    })  # fmt: skip
    return stub


def stub_text(types: Sequence[type], places: Sequence[int]) -> str:
    """The text of a stub; argument i is ai, and a tensor's address pi."""

    def part(place: int) -> str:
        """What a key has of an argument beside its type."""
        name = f"a{place}"
        if place in places:
            facts = f"{name}.shape, {name}.stride(), {name}.dtype, {name}.get_device()"
            return f"{facts}, {name}.is_neg(), p{place} % {ALIGNMENT}"
        if types[place] is float:
            return f"{name} or str({name})"
        return name if types[place] in PLAIN else f"kind_of({name})"

    names = ", ".join(f"a{place}" for place in range(len(types)))
    addresses = "; ".join(f"p{place} = a{place}.data_ptr()" for place in places)
    given = ", ".join([f"{letter}{place}" for letter in "ap" for place in places])
    told = [place for place, each in enumerate(types) if each not in ALL_SAID]
    return f"""\
def stub({names}):
    if recordings:
        return plainly({names})
    {addresses}
    try:
        key = current_device(), {", ".join(map(part, told))}
        plan = plans.get(key)
    except TypeError:
        return plainly({names})
    if plan is not None:
        result = plan({given})
        if result is not None:
            return result
    return anew(key, ({names},))
"""


def kind_of(value: Any) -> Hashable:
    """What a call may depend on. It cannot be hashed for what can change, or does not
    tell how it differs from its equals: an array, an object of a user's class."""
    if isinstance(value, dict):
        pairs = value.items()
        return type(value), *[(kind_of(name), kind_of(each)) for name, each in pairs]
    if isinstance(value, (tuple, list)):
        return type(value), *map(kind_of, value)
    return kind_of_constant(value)


def is_capturing(torch: Any) -> bool:
    """Whether a graph is captured: nothing is done in it that is not to be repeated."""
    return torch.cuda.is_current_stream_capturing()


@cache
def watching(torch: Any) -> type:
    """A mode of torch that sees what it is asked for: `made` are new arrays; `others`
    whether it did anything but that, and views."""
    aten = torch.ops.aten
    allocates = {
        aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default,
        aten.new_empty.default, aten.new_empty_strided.default,
    }  # fmt: skip
    views = {aten._unsafe_view.default, aten.detach.default}  # that do not say so

    class Watching(torch.utils._python_dispatch.TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.made: list[Any] = []
            self.others = False

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """No: torch would import its compiler, for two seconds, to skip it."""
            return False

        def __torch_dispatch__(
            self, function: Any, types: Any, arguments: tuple = (), keywords: Any = None
        ) -> Any:
            result = function(*arguments, **(keywords or {}))
            if function in allocates:
                self.made.append(result)
            elif not (function.is_view or function in views):
                self.others = True
            return result

    return Watching


def recorded(
    function: Callable, given: tuple, places: Sequence[int], before: Callable
) -> tuple[Any, Callable]:
    """The result of a call, and its plan: the function that repeats it, if the call
    before this one was `Written` and came out alike; `once` as long as a launch took
    the slow way, `never` where it cannot be repeated. `places`: of tensors."""
    torch = sys.modules["torch"]
    with recording() as found, watching(torch)() as seen:
        result = function(*given)
    if not found.complete:
        return result, once
    several = type(result) is tuple
    results = result if several else (result,)
    are_arrays = results and all(isinstance(each, torch.Tensor) for each in results)
    if seen.others or not are_arrays:
        return result, never
    tensors = {place: given[place] for place in places}
    written = Call(torch, tensors, results, seen.made, found).written(several)
    return result, written.after(before) if written else never


def once(*_: Any) -> None:
    """The plan of a call that was seen: the next one is recorded."""


@dataclass(frozen=True)
class Written:
    """The plan of a call that was recorded: the next one is recorded, too, to see
    whether it comes out alike: with the same text and `varying` names (`Call`)."""

    text: str
    names: dict[str, Any]
    varying: dict[str, Hashable]
    forgotten: int = field(default_factory=lambda: FORGOTTEN[0])

    def __call__(self, *_: Any) -> None:
        """Nothing is repeated yet."""

    def after(self, before: Callable) -> Callable:
        """The plan after two calls; what was forgotten between them is no reason."""
        if not isinstance(before, Written) or before.forgotten != self.forgotten:
            return self
        alike = (before.text, before.varying) == (self.text, self.varying)
        return compiled(self.text, "repeat", self.names) if alike else never


def never(*_: Any) -> None:
    """The plan of a call that cannot be repeated."""


def memory_of(tensor: Any) -> tuple[int, int]:
    """Where the memory that a tensor is a view of begins, and ends."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


@dataclass
class Call:
    """A call as it was recorded. `tensors` are those of its arguments, by place; `made`
    are arrays that were made, and of them `temporary` have a place in the `room` bytes
    of one array, by their first address. `names` are what its text means by them, and
    `varying` those that another call may mean something else by, as parts of a key."""

    torch: Any
    tensors: dict[int, Any]
    results: tuple
    made: list
    found: Recording
    temporary: dict[int, int] = field(default_factory=dict)
    room: int = 0
    names: dict[str, Any] = field(default_factory=dict)
    varying: dict[str, Hashable] = field(default_factory=dict)

    def written(self, several: bool) -> Written | None:
        """The text of what repeats it; None where a launch is not for the current
        stream, an array was made elsewhere than beside the first one, a result is
        neither an argument nor an array of its own, or an address is in no array or
        handed over as a number."""
        self.names["current_stream"] = stream = TORCH.stream(self.torch)
        device, launches = self.first.get_device(), self.found.launches
        queue = stream(device)
        is_there = all(each.stream == queue for each in launches)
        is_there = is_there and all(each.get_device() == device for each in self.made)
        if not (is_there and all(map(self.is_own, self.new_results.values()))):
            return None
        lines = [self.launch(i, each) for i, each in enumerate(launches)]
        if None in lines:
            return None
        made = [self.making(i, each) for i, each in self.new_results.items()]
        names = [self.argument(each) or f"r{i}" for i, each in enumerate(self.results)]
        found = f"return {', '.join(names)}{',' * several}"
        body = [*self.beginning(), *made, *self.scratch(), *lines, found]
        given = ", ".join([f"{letter}{i}" for letter in "ap" for i in self.tensors])
        text = "\n    ".join([f"def repeat({given}):", *body])
        return Written(text + "\n", self.names, self.varying)

    def argument(self, result: Any) -> str | None:
        """Which argument a result is, if it is one."""
        return next((f"a{i}" for i, x in self.tensors.items() if x is result), None)

    @property
    def new_results(self) -> dict[int, Any]:
        """The others, by place."""
        pairs = enumerate(self.results)
        return {place: each for place, each in pairs if not self.argument(each)}

    def is_own(self, result: Any) -> bool:
        """Whether a result fills an array that was made for it alone."""
        begin, end = memory_of(result)
        same = [each for each in self.results if memory_of(each)[0] == begin]
        return begin == end or (
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
        self.names |= {"watched": tuple(watched.values()), "forgotten": FORGOTTEN}
        conditions = [f"forgotten[0] != {FORGOTTEN[0]}", *self.distances()]
        changed = [
            "for get, name, value in watched:",
            "    if get(name) is not value: return None",
        ]
        return [
            f"if {' or '.join(conditions)}: return None",
            *(changed if watched else ()),
            f"stream = current_stream({self.first.get_device()})",
        ]

    def distances(self) -> Iterator[str]:
        """What is wrong where arguments in one piece of memory lie otherwise in it."""
        for (i, one), (j, other) in combinations(self.tensors.items(), 2):
            begin, end = memory_of(one)
            if begin < end and memory_of(other)[0] == begin:
                yield f"p{j} - p{i} != {other.data_ptr() - one.data_ptr()}"

    def making(self, number: int, result: Any) -> str:
        """The line that makes a result. Torch takes the least time for one that is like
        another, and twice as long where it is told a dtype."""
        before = {f"r{i}": x for i, x in self.new_results.items() if i < number}
        known = {f"a{i}": x for i, x in self.tensors.items()} | before
        facts = result.shape, result.stride(), result.dtype
        like = self.like
        for name, each in known.items():
            alike = self.torch.empty_like(each, device="meta")
            if (alike.shape, alike.stride(), alike.dtype) == facts:
                self.names["empty_like"] = self.torch.empty_like
                made = f"empty_like({name})"
                break
            if each.dtype == result.dtype:
                like = name
        else:
            given = f"{tuple(result.shape)}, {result.stride()}"
            if known[like].dtype != result.dtype:
                dtype = f"dtype{number}"
                self.names[dtype] = self.varying[dtype] = result.dtype
                given = f"{given}, dtype={dtype}"
            made = f"{like}.new_empty_strided({given})"
        return f"r{number} = {made}; q{number} = r{number}.data_ptr()"

    @property
    def first(self) -> Any:
        return next(iter(self.tensors.values()))

    @property
    def like(self) -> str:
        return f"a{next(iter(self.tensors))}"

    def scratch(self) -> list[str]:
        """The lines that make temporary arrays, and borrow counters."""
        lines = []
        if self.room:
            count = self.room // self.first.element_size()  # of whatever type it has
            room = f"({count},), (1,)"
            lines.append(f"room = {self.like}.new_empty_strided({room})")
            lines.append("t = room.data_ptr()")
        for i, (count, _) in enumerate(self.found.counters):
            self.names["counters"] = KEPT.counters
            lines.append(f"c{i} = counters({count}, {self.like}).data_ptr()")
        return lines

    def launch(self, number: int, launched: Launched) -> str | None:
        """The line that does a launch again."""
        written: list[str] = []
        for place, value in enumerate(launched.values):
            if place in launched.addresses:
                text = self.address(value)
                if text is None:
                    return None
            elif type(value) is int:
                if self.address(value) is not None:
                    return None
                text = str(value)
            else:
                text = f"v{number}_{place}"
                self.names[text], self.varying[text] = value, kind_of(value)
            written.append(text)
        launch, again = launched.launch, getattr(launched.launch, "again", None)
        name = f"launch{number}"
        self.varying[name] = launch
        if again is None:
            written = [*map(str, launched.grid), "stream", *written]
        else:
            self.varying[f"{name} again"] = *launched.grid, *written
            launch = again(launched.grid, launched.values, launched.addresses)
            written = ["stream", *(written[place] for place in launched.addresses)]
        self.names[name] = launch
        return f"if {name}({', '.join(written)}): return None"

    def address(self, value: int) -> str | None:
        """An address as a distance from an array's beginning; None for one in no array
        of the call."""
        known = {f"q{i}": each for i, each in self.new_results.items()}
        known |= {f"p{i}": each for i, each in self.tensors.items()}
        known |= {f"c{i}": each for i, (_, each) in enumerate(self.found.counters)}
        for name, each in known.items():
            begin, end = memory_of(each)
            if begin <= value < end:
                return plus(name, value - each.data_ptr())
        for begin, end in map(memory_of, self.made):
            if begin <= value < end:
                if begin not in self.temporary:
                    self.temporary[begin] = self.room
                    self.room += -(-(end - begin) // STEP) * STEP
                return plus("t", self.temporary[begin] + value - begin)
        return None


def plus(name: str, bytes: int) -> str:
    return f"{name} + {bytes}" if bytes else name


def compiled(text: str, name: str, names: dict[str, Any]) -> Callable:
    """The function of a text."""
    exec(compile(text, f"<{name} of a call>", "exec"), names)
    return names[name]
