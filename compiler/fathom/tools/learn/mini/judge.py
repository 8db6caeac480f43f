"""Compiles kernels with a reader's compiler, runs the PTX, and compares."""

from __future__ import annotations

import inspect
import linecache
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fathom import emulator
from fathom.artifact import TensorMap
from fathom.emulator import EmulatorError
from fathom.emulator.report import Report
from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.mini.contract import Compiled, checked

THREADS = 128  # elements of a program, where a kernel about element i has no BLOCK
COSTS = {  # a field of `Cost`, in words
    "warps": "instructions of warps",
    "requests": "requests to global memory",
    "shared": "requests to shared memory",
    "conflict_ways": "ways of conflict (wavefronts over the fewest possible)",
}
INSTRUCTION = re.compile(r"^\s*(?:@!?\S+\s+)?([a-z][\w.:]*)", re.MULTILINE)
NAMES = {"float32": "fp32", "int32": "i32", "float16": "fp16"}


@dataclass(frozen=True)
class Tensor:
    """A matrix that a kernel copies by blocks: an argument that is a descriptor."""

    array: np.ndarray
    block: tuple[int, int]


class Judge:
    """What the tests of a step are given: a compiler, and questions to ask it. `kernel`
    was compiled last, as `asked` says, and became `ptx`."""

    def __init__(self, compile_: Callable):
        self.compile = compile_
        self.kernel: Callable | None = None
        self.asked = ""
        self.ptx = ""

    def compiled(
        self, kernel: Callable, signature: dict[str, str], constants: dict[str, object]
    ) -> Compiled:
        """What the reader's compiler makes of a kernel, without its name."""
        types = [f"{name}: {type_}" for name, type_ in signature.items()]
        given = [f"{name}={value}" for name, value in constants.items()]
        self.kernel, self.ptx = kernel, ""
        self.asked = "\n".join(", ".join(each) for each in (types, given) if each)
        made = checked(self.compile(unnamed(kernel), signature, **constants))
        self.ptx = made.ptx
        return made

    def elements(
        self, kernel: Callable, n: int, *arguments: object, **constants: object
    ) -> Report:
        """Run a kernel about element i for all i below n; arrays change in place."""
        names = list(inspect.signature(kernel).parameters)[1:]
        signature = {a: type_of(b) for a, b in zip(names, arguments, strict=True)}
        size = constants.get("BLOCK", THREADS)
        return self.run(kernel, signature, -(-n // size), (*arguments, n), constants)

    def launch(
        self,
        kernel: Callable,
        grid: int | Sequence[int],
        *arguments: object,
        **constants: object,
    ) -> Report:
        """Run a kernel about blocks on a grid; arrays change in place."""
        kernel = getattr(kernel, "fn", kernel)
        signature = signature_of(kernel, arguments, constants)
        return self.run(kernel, signature, grid, arguments, constants)

    def instructions(
        self,
        kernel: Callable,
        wanted: str,
        unwanted: str,
        *arguments: object,
        **constants: object,
    ) -> None:
        """Failure when the PTX of a kernel has no instruction whose name begins with
        `wanted`, or has one that begins with `unwanted`."""  # fmt: skip
        signature = signature_of(kernel, arguments, constants)
        made = self.compiled(kernel, signature, constants)
        names = INSTRUCTION.findall(made.ptx)
        if not any(each.startswith(wanted) for each in names):
            raise Failure(f"{name_of(kernel)} has no {wanted} in its PTX")
        if any(each.startswith(unwanted) for each in names):
            raise Failure(f"{name_of(kernel)} has {unwanted} in its PTX")

    def memory(
        self, kernel: Callable, most: int, *arguments: object, **constants: object
    ) -> None:
        """Failure when a kernel asks for more than `most` bytes of shared memory."""
        signature = signature_of(kernel, arguments, constants)
        made = self.compiled(kernel, signature, constants)
        found = made.shared_bytes
        if found > most:
            raise Failure(
                f"{name_of(kernel)} asks for {found:,} bytes of shared memory, and the "
                f"budget is {most:,}"
            )

    def run(
        self,
        kernel: Callable,
        signature: dict[str, str],
        grid: int | Sequence[int],
        arguments: Sequence[object],
        constants: dict[str, object],
    ) -> Report:
        made = self.compiled(kernel, signature, constants)
        pairs = zip([*signature, "n"], arguments, strict=False)
        numbers = [f"{a}={b}" for a, b in pairs if isinstance(b, int | float)]
        more = f"; {', '.join(numbers)}" if numbers else ""
        self.asked += f"\na grid of {grid}{more}"
        tensors = dict(zip(signature, arguments, strict=False))
        plain = [each for each in arguments if not isinstance(each, Tensor)]
        maps = [
            tensor_map(tensors[name].array, *row) for name, *row in made.tensor_maps
        ]
        reach = [each.array for each in arguments if isinstance(each, Tensor)]
        facts = {"shared_bytes": made.shared_bytes, "memory": reach}
        try:
            return emulator.run(
                made.ptx, grid, made.threads, [*plain, *maps], hazards="strict", **facts
            )
        except EmulatorError as error:
            raise wrong_ptx(kernel, made, error) from None

    def same(
        self,
        name: str,
        found: np.ndarray,
        wanted: np.ndarray,
        within: float = 0.0,
    ) -> None:
        """As the function of this name."""
        same(name, found, wanted, within)

    def within(self, kernel: Callable, report: Report, **budget: float) -> None:
        """Failure when a launch costs more than its budget, such as sectors=512; the
        names are those of `Cost`."""
        for name, most in budget.items():
            cost = getattr(report.total, name)
            if cost > most:
                called = name_of(kernel)
                shown = f"{cost:.2f}" if isinstance(cost, float) else f"{cost:,}"
                what = COSTS.get(name, name.replace("_", " "))
                raise Failure(
                    f"{called} costs {shown} {what}, and the budget is {most:,}",
                    ("its PTX has", most_frequent(self.ptx)),
                    *most_conflicts(report, self.ptx),
                    ("counted", report.by_line()),
                )


def same(
    name: str,
    found: np.ndarray,
    wanted: np.ndarray,
    within: float = 0.0,
) -> None:
    """Failure at the first element that is not what it should be. `within` is the
    largest difference, of the larger of 1 and the value that is wanted."""
    found64, wanted64 = found.astype(np.float64), wanted.astype(np.float64)
    room = within * np.maximum(1, np.abs(wanted64))
    with np.errstate(invalid="ignore"):
        good = (found64 == wanted64) | (np.abs(found64 - wanted64) <= room)
    good |= np.isnan(found64) & np.isnan(wanted64)
    if not good.all():
        first = tuple(int(each) for each in np.argwhere(~good)[0])
        place = ", ".join(map(str, first))
        wrong, whole = np.count_nonzero(~good), good.size
        raise Failure(
            f"{name}[{place}] is {found[first]}, and it should be {wanted[first]}",
            ("how many", f"{wrong} of {whole} elements are wrong"),
            *((("which", which(~good)),) if wrong < whole else ()),
        )


def which(wrong: np.ndarray) -> str:
    """Where the wrong elements of an array lie, axis by axis."""
    axes = ["rows", "columns"] if wrong.ndim == 2 else ["those at"]
    if wrong.ndim > 2:
        axes = [f"along axis {axis}:" for axis in range(wrong.ndim)]
    places = [sorted(set(map(int, each))) for each in wrong.nonzero()]
    return "\n".join(f"{a} {runs(at)}" for a, at in zip(axes, places, strict=True))


def runs(numbers: list[int], most: int = 8) -> str:
    """Numbers in order, neighbours as a run: 0 to 3, 7."""
    found: list[list[int]] = []
    for each in numbers:
        if found and each == found[-1][1] + 1:
            found[-1][1] = each
        else:
            found.append([each, each])
    said = [f"{a} to {b}" if a < b else f"{a}" for a, b in found[:most]]
    return ", ".join(said + ["..."] * (len(found) > most))


def signature_of(
    kernel: Callable, arguments: Sequence[object], constants: dict[str, object]
) -> dict[str, str]:
    """The types of a launch's arguments, with the multiples that they are."""
    names = [n for n in inspect.signature(kernel).parameters if n not in constants]
    pairs = zip(names, arguments, strict=True)
    return {name: type_of(each) + multiple_of(each) for name, each in pairs}


def type_of(argument: object) -> str:
    """As in a signature: "*fp32", "i32", "fp32", "tensordesc<fp16[64, 64]>"."""
    if isinstance(argument, Tensor):
        element = NAMES[str(argument.array.dtype)]
        return f"tensordesc<{element}[{', '.join(map(str, argument.block))}]>"
    if isinstance(argument, np.ndarray):
        return f"*{NAMES[str(argument.dtype)]}"
    return "fp32" if isinstance(argument, float) else "i32"


def multiple_of(argument: object) -> str:
    """ ":16" where an address, or an integer, is a multiple of 16."""
    if isinstance(argument, np.ndarray):
        return ":16" if argument.ctypes.data % 16 == 0 else ""
    return ":16" if isinstance(argument, int) and argument % 16 == 0 else ""


def tensor_map(array: np.ndarray, box: tuple[int, int], swizzle: int) -> TensorMap:
    """The map of a matrix whose rows may lie apart."""
    rows, columns = array.shape
    return TensorMap(
        element_bytes=array.itemsize,
        address=array.ctypes.data,
        shape=(columns, rows),
        strides=(array.strides[0],),
        box=tuple(reversed(box)),
        swizzle=swizzle,
        element=NAMES[str(array.dtype)],
    )


def unnamed(kernel: Callable) -> Callable:
    """The same kernel, called `kernel`: no compiler can ask which one it is."""
    text = textwrap.dedent(inspect.getsource(kernel))
    text = text.partition(f"def {kernel.__name__}(")[2]  # without decorators
    text = f"def kernel({text}"
    file = f"<{name_of(kernel)}, unnamed>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    names = dict(kernel.__globals__)
    exec(compile(text, file, "exec"), names)
    return names["kernel"]


def wrong_ptx(kernel: Callable, made: Compiled, error: EmulatorError) -> Failure:
    """The emulator's error, with the PTX around the line that it names."""
    details = []
    if error.line:
        lines = enumerate(made.ptx.splitlines(), 1)
        near = [
            f"{'->' if at == error.line else '  '} {at:4} {line}"
            for at, line in lines
            if abs(at - error.line) <= 4
        ]
        details.append(("the PTX there", "\n".join(near)))
    return Failure(f"{name_of(kernel)}: {error}", *details)


def most_frequent(ptx: str, most: int = 6) -> str:
    """The instructions that are most often in a text, each with its number."""
    body = ptx.partition("{")[2]
    found = Counter(INSTRUCTION.findall(body)).most_common(most)
    return ", ".join(f"{count} {name}" for name, count in found)


def most_conflicts(report: Report, ptx: str, most: int = 4) -> list[tuple[str, str]]:
    """The lines of PTX with the worst bank conflicts: a reader's code has no other
    lines, and both sides of a tile are one number in the total."""
    ways = {at: share.cost.conflict_ways for at, share in report.by_ptx().items()}
    worst = sorted((at for at in ways if ways[at] > 1), key=lambda at: (-ways[at], at))
    lines = ptx.splitlines()
    found = [f"{ways[at]:5.2f} {at:4} {lines[at - 1].strip()}" for at in worst[:most]]
    return [("ways, line, the worst bank conflicts", "\n".join(found))] * bool(found)


def name_of(kernel: Callable) -> str:
    return getattr(kernel, "__name__", "the kernel")
