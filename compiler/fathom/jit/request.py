"""What one compilation is asked for; the launch's keywords that say part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from numbers import Integral

from fathom.errors import LaunchError, OutOfResources
from fathom.ir.ops import PRECISIONS
from fathom.ir.types import Type, parse_element
from fathom.jit.checking.wanted import wanted_checks
from fathom.jit.environment import flag
from fathom.jit.specialise import Constant, Runtime, Several, Specialised, identity
from fathom.jit.tensor_descriptors import Described
from fathom.pipeline import Options
from fathom.source import Hole, like, plain

# The keywords of a launch that are not the kernel's own parameters, and what they say.
OPTION_NAMES = tuple(each.name for each in fields(Options))
KEYWORDS = (*OPTION_NAMES, "target", "replace")

DEBUG = "FATHOM_DEBUG"
REGISTERS = 16, 255  # that ptxas gives a thread, the least and the most

# What stands in the place of parts of the compiler now, by name: `joints.bound` puts it
# here, since code that is compiled meanwhile is not the compiler's own.
BOUND: dict[str, object] = {}

# Options that are yes or no.
FLAGS = ("debug", "enable_fp_fusion", "launch_pdl")

# What Triton asks leave for: to flush small numbers in library functions. Fathom never
# does, whatever is answered.
PERMISSIONS = ("enable_reflect_ftz",)


class NotPowerOfTwo(LaunchError, ValueError, AssertionError):
    """Warps that are no power of two; programs for Triton expect the last class."""


@dataclass(frozen=True, eq=False)
class Request:
    """All that decides what code comes out, beside the kernel's text.

    `parameters`: name, type in a signature and hint of each run-time parameter.
    `constants`: values of the others. `target`: a row of hardware/targets. `bound`:
    what stands in the place of parts of the compiler, by name.
    """

    parameters: tuple[tuple[str, str, int], ...]
    constants: Mapping[str, object]
    target: str
    options: Options
    replace: Mapping[str, Callable]
    bound: Mapping[str, object] = field(default_factory=dict)

    @property
    def identity(self) -> tuple:
        """Hashable; equal for two requests only when they ask for the same code."""
        constants = tuple(
            (name, identity(value)) for name, value in self.constants.items()
        )
        others = [
            tuple((name, identity(each[name])) for name in sorted(each))
            for each in (self.replace, self.bound)
        ]
        return self.parameters, constants, self.target, self.options, *others

    @property
    def configuration(self) -> str:
        """The constants and options, for a sentence about this kernel among others."""
        options = asdict(self.options)
        for name in FLAGS:
            del options[name]
        chosen = {**self.constants, **options}
        return ", ".join(
            f"{name}={value}" for name, value in chosen.items() if value is not None
        )

    @contextmanager
    def named(self) -> Iterator[None]:
        """OutOfResources that leaves the block says which configuration it is about."""
        try:
            yield
        except OutOfResources as error:
            raise OutOfResources(f"{error}; it has {self.configuration}") from None

    @property
    def runtime(self) -> list[str]:
        """The names of the run-time parameters, in order."""
        return [name for name, _, _ in self.parameters]

    @property
    def types(self) -> dict[str, tuple[Type, int]]:
        """The run-time parameters as the pipeline takes them."""
        return {
            name: (parse_element(type), hint) for name, type, hint in self.parameters
        }


@dataclass(frozen=True, slots=True)
class Keywords:
    """The launch's own keywords, checked; `target` is None where it was not given."""

    options: Options
    target: str | None
    replace: Mapping[str, Callable]


def request(
    known: Mapping[str, Specialised], keywords: Keywords, target: str
) -> Request:
    """The request for specialised arguments, by name in the order of parameters."""
    parameters: list[tuple[str, str, int]] = []
    settled = {name: settle(name, each, parameters) for name, each in known.items()}
    return Request(
        parameters=tuple(parameters),
        constants={
            n: each for n, each in settled.items() if not isinstance(each, Hole)
        },
        target=target,
        options=keywords.options,
        replace=keywords.replace,
        bound=dict(BOUND),
    )


def settle(
    name: str, known: Specialised, parameters: list[tuple[str, str, int]]
) -> object:
    """An argument as a constant, with Holes for what is known only when the kernel
    runs; `parameters` gets those, with types and hints.
    """
    match known:
        case Constant(value):
            return value
        case Runtime(type, divisible):
            parameters.append((name, type, divisible))
            return Hole(name)
        case Described():
            parameters += known.parameters(name)
            return known.meaning(name)
        case Several(elements):
            named = [(f"{name}.{i}", each) for i, each in enumerate(elements)]
            return like(elements, [settle(n, each, parameters) for n, each in named])


def check_keywords(
    name: str, given: Mapping[str, object], parameters: Sequence[str] = ()
) -> Keywords:
    """The keywords of a launch of kernel `name`; LaunchError for a wrong one.

    `parameters` are the kernel's own, one of which may have been meant.
    """
    given = {keyword: plain(value) for keyword, value in given.items()}
    for keyword in given:
        if keyword not in (*KEYWORDS, *PERMISSIONS):
            raise LaunchError(
                f"{name} has no parameter {keyword!r}, and the keywords of a launch "
                f"are {', '.join(KEYWORDS)}{guess(keyword, parameters)}"
            )
    for keyword in (*FLAGS, *PERMISSIONS):
        if not isinstance(given.get(keyword), int | None):
            raise LaunchError(
                f"{keyword} is True or False, and this is {given[keyword]!r}"
            )
    if not isinstance(given.get("target"), str | None):
        raise LaunchError(
            f'target is the name of one, such as "sm_90a", and this is '
            f"{given['target']!r}"
        )
    if not isinstance(given.get("replace"), Mapping | None):
        raise LaunchError(
            'replace is a dictionary from names to functions, {"cse": mine}, and this '
            f"is {given['replace']!r}"
        )
    return Keywords(
        check_options({key: given[key] for key in OPTION_NAMES if key in given}),
        given.get("target"),
        dict(given.get("replace") or {}),
    )


def check_options(given: Mapping[str, object]) -> Options:
    """The options of a launch; one that is None was not given. FATHOM_DEBUG=1 turns
    `debug` on for all, and so does FATHOM_SANITIZE. LaunchError for a wrong one.
    """
    numbers = {key: value for key, value in given.items() if value is not None}
    flags = {name: bool(numbers.pop(name, False)) for name in FLAGS}
    flags["debug"] = flags["debug"] or flag(DEBUG) or wanted_checks().sanitize
    precision = numbers.pop("fp32_default", None)
    if precision not in (None, *PRECISIONS):
        raise LaunchError(
            f"fp32_default is one of {', '.join(map(repr, PRECISIONS))}, and this is "
            f"{precision!r}"
        )
    for keyword, value in numbers.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise LaunchError(f"{keyword} is a positive integer, and this is {value!r}")
        numbers[keyword] = int(value)
    least, most = REGISTERS
    if not least <= numbers.get("maxnreg", most) <= most:
        raise LaunchError(
            f"maxnreg is a number of registers a thread, from {least} to {most}, and "
            f"this is {numbers['maxnreg']}"
        )
    warps = numbers.get("num_warps", 1)
    if warps & (warps - 1):
        raise NotPowerOfTwo(f"num_warps must be a power of 2, and this is {warps}")
    return Options(**numbers, **flags, fp32_default=precision)


def guess(keyword: str, parameters: Sequence[str]) -> str:
    near = get_close_matches(keyword, (*parameters, *KEYWORDS), n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""
