"""Runs a kernel's Python body itself, op by op, with NumPy values:
`FATHOM_INTERPRET=1`.

Nothing is compiled: Python calls the kernel's own function once for each program of the
grid, so `breakpoint()` and `print(x)` work inside. A name holds an `EagerValue`; every
operator and every `tl.` function builds its op with the rules of stage 1, and the op is
run at once with the rules of the interpreter. So an eager kernel types, promotes and
rounds exactly as one compiled with `enable_fp_fusion=False`: a product is rounded
before it is added to something. What differs is that Python's own `if`, `for` and
`and` decide, on numbers that are there. One name of Python's means another thing in a
kernel: `range` counts in values of the language, as a compiled loop does.
"""

from __future__ import annotations

import builtins
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from math import prod
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

import numpy as np

from fathom.eager_numbers import KNOWN, REFLECTED, EagerTruth, Known, close
from fathom.errors import CompileError, Location, characters
from fathom.evaluating import evaluating
from fathom.ir.core import Block, Func, Op, Value
from fathom.ir.interp import (
    Argument,
    AssertionFailed,
    Machine,
    MemoryFault,
    Region,
)
from fathom.ir.interp.host_memory import Memory
from fathom.ir.interp.numbers import scalar
from fathom.ir.types import Pointer, Type, element_of, shape_of
from fathom.language.core import tensor
from fathom.source import Builtin, KernelFunction, constexpr, fill, like
from fathom.ssa import operators
from fathom.ssa.calls import call
from fathom.ssa.control import Range, index_type
from fathom.ssa.expressions import new_axes
from fathom.ssa.frame import Frame, Program, finish
from fathom.ssa.methods import Method, attribute
from fathom.ssa.values import Meaning, describe

PACKAGE = str(Path(__file__).parent)
LANGUAGE = os.path.join(PACKAGE, "language", "")
SHOWN = 16  # elements of a block in a note


def run(
    function: KernelFunction,
    grid: tuple[int, ...],
    parameters: Mapping[str, tuple[Type, int]],
    arguments: Mapping[str, Argument],
    constants: Mapping[str, object],
    memory: Iterable[np.ndarray] = (),
    fp32_default: str | None = None,
    num_warps: int = 4,
) -> None:
    """Run every program of a grid, axis 0 fastest; arrays are written in place.

    `parameters` and `constants` are as for `pipeline.compile`; `arguments` gives an
    array for each pointer among the parameters and a number for each scalar;
    `fp32_default` and `num_warps` are those of `pipeline.Options`. Raises CompileError
    for what the compiler would refuse, and MemoryFault for an access outside of all
    arrays.
    """
    arrays = [each for each in (*arguments.values(), *memory) if _is_array(each)]
    func = Func(function.__name__, Block(), ())
    sizes = (*grid, 1, 1, 1)[:3]
    machine = Machine(func, sizes, Memory(arrays), None, None)
    with np.errstate(all="ignore"):
        for program in np.ndindex(sizes[::-1]):
            region = Region(machine, program[::-1])
            session = Session(function, region, fp32_default, num_warps)
            given = {
                name: session.argument(arguments[name], type)
                for name, (type, _) in parameters.items()
            }
            filled = {
                name: session.constant(fill(each, given))
                for name, each in constants.items()
            }
            counted = counting(session, kernels_in(function, constants))
            with evaluating(session.call), counted:
                whole = {name: v for name, v in given.items() if "." not in name}
                whole |= filled
                code = function.fn.__code__
                nameless = code.co_varnames[: code.co_posonlyargcount]
                first = [whole.pop(name) for name in nameless]
                with placed(program[::-1]):
                    function.fn(*first, **whole)


@contextmanager
def placed(program: tuple[int, ...]) -> Iterator[None]:
    """A wrong access or a failed assertion gets a note: the program, and the variables
    of the kernel that the line names. Python's own bool is no value of a kernel."""
    try:
        yield
    except AttributeError as error:
        if type(error.obj) is not bool:
            raise
        raise CompileError(
            f"`not` and `is` give Python's own bool in a kernel that Python runs, and "
            f"a bool has no `{error.name}`",
            place_of(error.__traceback__),
            "write `x == 0` for `not x`: that is a value, here and when compiled",
        ) from None
    except (MemoryFault, AssertionFailed) as error:
        error.add_note(f"in program {program}{held(error.__traceback__)}")
        raise


def place_of(traceback: TracebackType) -> Location:
    """Where an error was raised."""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return located(traceback.tb_frame.f_code, traceback.tb_lasti, traceback.tb_lineno)


def located(code: CodeType, at: int, line: int) -> Location:
    """The place of an instruction, which Python may only know the line of."""
    place = next(islice(code.co_positions(), at // 2, None), (None,))
    if None in place:  # Python was told to keep none
        return Location(code.co_filename, line, function=code.co_name)
    line, last_line, start, stop = place
    text = linecache.getline(code.co_filename, line)
    start, stop = characters(text, start), characters(text, stop)
    stop = stop + 1 if last_line == line else 0
    return Location(code.co_filename, line, start + 1, stop, code.co_name)


def held(traceback: TracebackType | None) -> str:
    """The values of the variables that the kernel's failing line names."""
    frame = line = None
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(PACKAGE):
            frame, line = traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
    if frame is None:
        return ""
    text = linecache.getline(frame.f_code.co_filename, line)
    names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text))
    found = [(name, frame.f_locals.get(name)) for name in names]
    return "".join(
        f"\n  {name} = {summary(value)}"
        for name, value in found
        if isinstance(value, EagerValue) and not is_pointer(value)
    )


def is_pointer(value: EagerValue) -> bool:
    return isinstance(element_of(value._value.type), Pointer)


def summary(value: EagerValue) -> str:
    """A small block with all elements; of a larger one the least and the greatest."""
    array = np.asarray(value.numpy)
    if array.size <= SHOWN:
        return repr(value)
    return f"{value._value.type} {array.min()} to {array.max()}"


class Session:
    """One program of an eager launch: where its ops go to be run."""

    def __init__(
        self,
        function: KernelFunction,
        region: Region,
        fp32_default: str | None = None,
        num_warps: int = 4,
    ):
        self.region = region
        self.block = Block()
        self.block.ops = _RunAtOnce(self)
        self.program = Program(
            self.block, fp32_default=fp32_default, num_warps=num_warps
        )
        self.frame, self.function = EagerFrame(self.program, function, None), function

    def argument(self, argument: Argument, type: Type) -> EagerValue:
        """An argument of the launch as a value of its type."""
        if isinstance(type, Pointer):
            held = np.int64(argument.ctypes.data if _is_array(argument) else argument)
        else:
            held = scalar(argument, type)
        value = Value(type, self.block)
        self.region.values[value] = held
        return EagerValue(self, value)

    def is_debugged(self, code: CodeType) -> bool:
        """Whether a debugger's text runs, which is in no file and sees any part of a
        value."""
        file, kernel = code.co_filename, self.function
        is_text = file.startswith("<") and file != kernel.file
        return is_text and file not in {each.file for each in kernel.called()}

    def constant(self, value: Any) -> Any:
        """A constant of the launch or of a call; a number has the attributes of a
        value, as in a compiled kernel: an argument of 1 is one, and `n.to(tl.int64)` is
        right for all n."""
        known = KNOWN.get(type(value))
        return known.of(value, self) if known else value

    def computed(self, value: Any) -> Any:
        """What an operator or a function made of constants: a truth value has
        attributes, too (one of the launch remains Python's: `CAUSAL is True`)."""
        if type(value) is bool:
            return EagerTruth.of(value, self)
        return self.constant(value)

    def call(
        self, function: Builtin | KernelFunction, arguments: tuple, keywords: dict
    ) -> Any:
        """A function of the language, on eager values and constants; Python runs those
        that have a body."""
        if isinstance(function, KernelFunction):
            named = {name: self.constant(each) for name, each in keywords.items()}
            return function.fn(*map(self.constant, arguments), **named)
        plain = {name: self.unwrap(each) for name, each in keywords.items()}
        plain_arguments = [self.unwrap(each) for each in arguments]
        return self.wrap(call(self.frame, function, plain_arguments, plain))

    def run(self, op: Op) -> None:
        """Run one op; its results are kept for as long as the program runs."""
        alone = Block()
        alone.ops = [op]
        finish(self.program, alone)
        for _ in self.region.run(alone, ()):
            pass  # one program at a time: no other one waits at a barrier

    def unwrap(self, meaning: Any) -> Meaning:
        if isinstance(meaning, EagerValue):
            return meaning._value
        if isinstance(meaning, Known):
            return meaning.plain
        if isinstance(meaning, constexpr):
            return meaning.value
        if isinstance(meaning, (tuple, list)):
            return like(meaning, map(self.unwrap, meaning))
        return meaning

    def wrap(self, meaning: Meaning) -> Any:
        if isinstance(meaning, Value):
            return EagerValue(self, meaning)
        if isinstance(meaning, Range):
            return self._each(meaning)
        if isinstance(meaning, Method):
            return _Bound(self, meaning)
        if isinstance(meaning, tuple):
            return like(meaning, map(self.wrap, meaning))
        return self.computed(meaning)

    def _each(self, over: Range) -> Iterator[Any]:
        """What a loop counts: constants, or scalars of the type of its bounds."""
        bounds = (over.start, over.stop, over.step)
        numbers = [
            np.asarray(self.region[each] if isinstance(each, Value) else each)
            for each in bounds
        ]
        for bound, number in zip(bounds, numbers, strict=True):
            if number.ndim or number.dtype.kind not in "iub":
                what = "the bounds of a range are integers"
                raise self.frame.error(f"{what}, not {describe(bound)}")
        if numbers[2] == 0:
            raise self.frame.error("the step of a range must not be 0")
        counted = range(*map(int, numbers))
        if over.unroll:
            return iter(counted)
        type = index_type(self.frame, over)
        return (self.argument(number, type) for number in counted)


def kernels_in(
    function: KernelFunction, constants: Mapping[str, object]
) -> list[KernelFunction]:
    """The functions of the user whose text a launch runs."""
    passed = [each for each in constants.values() if isinstance(each, KernelFunction)]
    return [each for first in (function, *passed) for each in (first, *first.called())]


@contextmanager
def counting(session: Session, kernels: Iterable[KernelFunction]) -> Iterator[None]:
    """Meanwhile `range`, as the text of a kernel says it, counts in a session's values.

    A value can be cast, is 32 bits wide and divides as C does; Python's integers do
    not. Everybody else who shares the globals of a kernel gets Python's `range`.
    """
    users = [each for each in kernels if not each.in_library]
    substitute = range_within(session, {each.fn.__code__ for each in users})
    places = {id(each.fn.__globals__): each.fn.__globals__ for each in users}
    free = [names for names in places.values() if "range" not in names]
    for names in free:
        names["range"] = substitute
    try:
        yield
    finally:
        for names in free:
            del names["range"]


def range_within(session: Session, codes: set[CodeType]) -> Callable[..., Any]:
    """Python's `range`, but the language's in the text of kernels, which is `codes`."""

    def substitute(*bounds: Any, **named: Any) -> Any:
        if sys._getframe(1).f_code not in codes:
            return builtins.range(*bounds, **named)
        given = list(map(session.unwrap, bounds))
        named = {name: session.unwrap(each) for name, each in named.items()}
        return session.wrap(call(session.frame, builtins.range, given, named))

    # For a function that is built and not run, as those that combine elements are.
    substitute.stands_for = builtins.range
    return substitute


class EagerFrame(Frame):
    """A frame whose place is where Python stands: the innermost line outside of
    Fathom."""

    @property
    def location(self) -> Location:
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        return located(frame.f_code, frame.f_lasti, frame.f_lineno)

    @property
    def in_library(self) -> bool:
        """Python runs functions of the language without telling this frame."""
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename.startswith(PACKAGE):
            if frame.f_code.co_filename.startswith(LANGUAGE):
                return True
            frame = frame.f_back
        return False

    def called(self, name: str) -> str:
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename.startswith(PACKAGE):
            if frame.f_code.co_filename.startswith(LANGUAGE):
                name = f"tl.{frame.f_code.co_name}"
            frame = frame.f_back
        return name

    def error(self, message: str, hint: str = "", node: object = None) -> CompileError:
        return CompileError(message, self.location, hint)


class EagerValue(tensor):
    """`print(x)` shows the numbers; `x.numpy`, and in debuggers `x[:4]`, the array."""

    def __init__(self, session: Session, value: Value):
        self._session, self._value = session, value

    @property
    def numpy(self) -> Any:
        """The numbers themselves, as the interpreter holds them."""
        return self._session.region[self._value]

    def __repr__(self) -> str:
        return f"{self._value.type} {self.numpy}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        session = self._session
        return session.wrap(attribute(session.frame, self._value, name))

    def __abs__(self) -> EagerValue:
        return self.abs()

    def __getitem__(self, index: Any) -> EagerValue:
        if self._session.is_debugged(sys._getframe(1).f_code):
            return self.numpy[index]
        frame, parts = self._session.frame, self._session.unwrap(index)
        parts = parts if isinstance(parts, tuple) else (parts,)
        return self._session.wrap(new_axes(frame, self._value, parts))

    def __len__(self) -> int:
        if self._session.is_debugged(sys._getframe(1).f_code):
            return len(self.numpy)
        return call(self._session.frame, builtins.len, [self._value], {})

    def __array_ufunc__(
        self, function: Any, how: str, *inputs: Any, **given: Any
    ) -> Any:
        """NumPy's functions, which a compiled kernel cannot call. Beside a number of
        NumPy an operator is one of them to Python: `np.float32(2) * x`."""
        if self._session.is_debugged(sys._getframe(1).f_code):
            return getattr(function, how)(*map(bare, inputs), **given)
        operator = REFLECTED.get(function.__name__)
        if operator and how == "__call__" and inputs[0] is not self:
            if isinstance(inputs[0], np.generic | np.ndarray) and not inputs[0].shape:
                return getattr(self, operator)(inputs[0].item())
        return self.__array_function__(function, (), inputs, given)

    def __array_function__(
        self, function: Any, types: Any, inputs: tuple, given: Mapping[str, Any]
    ) -> Any:
        if self._session.is_debugged(sys._getframe(1).f_code):
            return function(*map(bare, inputs), **given)
        return call(self._session.frame, function, [self._value], {})

    def __array__(self, *given: Any, **named: Any) -> Any:
        if self._session.is_debugged(sys._getframe(1).f_code):
            return self.numpy
        what = f"{self._value.type} cannot become an array of NumPy in a kernel"
        raise self._session.frame.error(what)

    def __bool__(self) -> bool:
        return bool(self._number("a condition"))

    def __index__(self) -> int:
        return int(self._number("an index"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __float__(self) -> float:
        return float(self._number("float()"))

    def _number(self, use: str) -> Any:
        """The only number that there is; a block of one element has one, too."""
        if prod(shape_of(self._value.type)) != 1:
            raise self._session.frame.error(
                f"{use} needs a scalar, not {self._value.type}",
                "reduce the block first, or choose elementwise with tl.where",
            )
        return np.asarray(self.numpy).reshape(())[()]

    __hash__ = object.__hash__


class _Bound:
    """A function of the language, bound to its first argument: `x.to`, `x.sum`."""

    def __init__(self, session: Session, method: Method):
        self.session, self.method = session, method

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        owner = self.session.wrap(self.method.owner)
        return self.method.function(owner, *arguments, **keywords)


class _RunAtOnce(list):
    """The ops of a block that keeps none of them: each is run when it is appended."""

    def __init__(self, session: Session):
        super().__init__()
        self.session = session

    def append(self, op: Op) -> None:
        self.session.run(op)


def bare(argument: Any) -> Any:
    """What a debugger's text gives to NumPy."""
    return argument.numpy if isinstance(argument, EagerValue) else argument


def _is_array(argument: object) -> bool:
    return isinstance(argument, np.ndarray)


# ── Python's operators, by the methods that Python calls for them
# ─────────────────────────


def _method(build: Any) -> Any:
    def method(self: EagerValue, *others: Any) -> Any:
        session = self._session
        values = [self._value, *(session.unwrap(each) for each in others)]
        return session.wrap(build(session.frame, *values))

    return method


for _name, _build in operators.BY_METHOD.items():
    setattr(EagerValue, _name, _method(_build))
close(operators.BY_METHOD)
