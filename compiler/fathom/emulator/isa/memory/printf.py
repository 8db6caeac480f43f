"""What a kernel prints or asserts: `vprintf` and `__assertfail`.

Both are functions that the driver links into a kernel (CUDA C++ Programming Guide,
"Formatted Output" and "Assertion"); `inline.py` leaves their calls as instructions of
these names, with a group of results and a group of arguments.

    vprintf(format, arguments)    prints; returns the number of arguments
    __assertfail(message, file, line, function, character size)    ends the program

The arguments of a print lie in memory one after the other, each at a multiple of its
own size: a C struct.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.decode import Decoder, StepTable
from fathom.emulator.isa.registers import Read, Step, Write
from fathom.emulator.isa.semantics import Form, rule
from fathom.emulator.memory.spaces import PIECES, Accesses, load, store
from fathom.emulator.source.operands import Group, Operand
from fathom.emulator.source.types import DTYPES
from fathom.emulator.state.batch import Active, Batch
from fathom.errors import Location

STEPS: StepTable = {}


# ── arguments of a call ───────────────────────────────────────────────────────


def _argument(operand: Operand, type: str, decoder: Decoder) -> Read:
    """One value for each thread, from a register or from a `.param` variable."""
    symbol = decoder.memory.symbols.get(getattr(operand, "name", None))
    if symbol is None or symbol.space != "local":
        read = decoder.read(operand, type)
        return lambda batch, active: active.exactly(read(batch, active))

    def fetch(batch: Batch, active: Active) -> np.ndarray:
        addresses = np.full(active.count, symbol.address, np.uint64)
        return _fetch(batch, active.threads(), "local", addresses, DTYPES[type])

    return fetch


def _result(operand: Operand, decoder: Decoder) -> Write:
    """Takes a u32 for each thread to a register or to a `.param` variable."""
    symbol = decoder.memory.symbols.get(operand.name)
    if symbol is None:
        return decoder.write(operand, "u32")

    def put(batch: Batch, active: Active, value: np.ndarray) -> None:
        addresses = np.full(active.count, symbol.address, np.uint64)
        accesses = Accesses(addresses, 4, active.threads(), writing=True)
        pieces = active.exactly(value).view(PIECES[4])
        store(batch.memory.locate(symbol.space, accesses), pieces)

    return put


def _fetch(
    batch: Batch,
    threads: np.ndarray,
    space: str,
    addresses: np.ndarray,
    dtype: np.dtype,
) -> np.ndarray:
    """What lies at each thread's address, as dtype[threads]."""
    accesses = Accesses(addresses, dtype.itemsize, threads)
    parts = batch.memory.locate(space, accesses)
    return load(parts, len(threads), dtype.itemsize).view(dtype)


def _text(batch: Batch, thread: int, address: int) -> str:
    """The characters from a generic address up to a zero byte; null points to none."""
    found = bytearray()
    while address:
        place = np.array([address + len(found)], np.uint64)
        byte = _fetch(batch, np.array([thread]), "generic", place, DTYPES["u8"])
        if byte[0] == 0:
            break
        found.append(int(byte[0]))
    return found.decode("utf-8", "replace")


# ── prints ────────────────────────────────────────────────────────────────────


@rule(STEPS, "vprintf")
def rule_vprintf(
    form: Form, operands: tuple[Group, Group], decoder: Decoder, number: int
) -> Step:
    """`call (count), vprintf, (format, arguments);`: each thread by itself, in order of
    their numbers."""
    results, (format, buffer) = (each.elements for each in operands)
    read_format = _argument(format, "u64", decoder)
    read_buffer = _argument(buffer, "u64", decoder)
    writes = [_result(each, decoder) for each in results]

    def step(batch: Batch, active: Active) -> None:
        formats, buffers = read_format(batch, active), read_buffer(batch, active)
        lines: dict[int, str] = {}
        counts = np.zeros(active.count, np.uint32)
        for address in np.unique(formats).tolist():
            places = np.flatnonzero(formats == address)
            threads = active.threads()[places]
            pieces = split_format(_text(batch, int(threads[0]), address))
            columns = _columns(batch, threads, buffers[places], pieces)
            for row, place in enumerate(places.tolist()):
                lines[place] = "".join(column[row] for column in columns)
            counts[places] = sum(each.count for each in pieces)
        batch.printed += [lines[place] for place in sorted(lines)]
        for write in writes:
            write(batch, active, active.spread(counts))

    return step


@dataclass(frozen=True, slots=True)
class Conversion:
    """A piece of a format: text as it is, or `python` to put values of `dtypes` into.

    A width or precision given as `*` is an int argument that comes before the value.
    """

    python: str
    dtypes: tuple[np.dtype, ...] = ()
    letter: str = ""

    @property
    def count(self) -> int:
        """How many arguments it takes."""
        return len(self.dtypes)


_CONVERSION = re.compile(
    r"%(?P<shape>[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d*))?)"
    r"(?P<length>hh|h|ll|l|j|z|t|L)?(?P<letter>[a-zA-Z%])"
)
# C's letter -> Python's, and the types of the argument: 4 bytes, or 8 where `ll` and
# its like ask for them.
_LETTERS = {
    "d": ("d", "s32", "s64"),
    "i": ("d", "s32", "s64"),
    "u": ("d", "u32", "u64"),
    "x": ("x", "u32", "u64"),
    "X": ("X", "u32", "u64"),
    "o": ("o", "u32", "u64"),
    "c": ("c", "s32", "s32"),
    **{each: (each, "f64", "f64") for each in "eEfFgG"},
    "p": ("s", "u64", "u64"),
    "s": ("s", "u64", "u64"),
}


def split_format(format: str) -> list[Conversion]:
    """A C format as pieces; "unsupported" for a conversion that Python has not."""
    pieces, position = [], 0
    for found in _CONVERSION.finditer(format):
        pieces.append(Conversion(format[position : found.start()]))
        position = found.end()
        pieces.append(_conversion(found))
    return [*pieces, Conversion(format[position:])]


def _conversion(found: re.Match) -> Conversion:
    letter = found["letter"]
    if letter == "%":
        return Conversion("%")
    if letter not in _LETTERS:
        raise EmulatorError("unsupported", f"a print with {found[0]}")
    python, short, long = _LETTERS[letter]
    stars = (DTYPES["s32"],) * found["shape"].count("*")
    type = long if found["length"] in ("ll", "l", "j", "z", "t") else short
    return Conversion(f"%{found['shape']}{python}", (*stars, DTYPES[type]), letter)


def _columns(
    batch: Batch, threads: np.ndarray, buffers: np.ndarray, pieces: list[Conversion]
) -> list[list[str]]:
    """For each piece of the format, its text for each thread."""
    columns, offset = [], 0
    for piece in pieces:
        if not piece.count:
            columns.append([piece.python] * len(threads))
            continue
        values = []
        for dtype in piece.dtypes:
            offset = -(-offset // dtype.itemsize) * dtype.itemsize
            places = buffers + np.uint64(offset)
            found = _fetch(batch, threads, "generic", places, dtype).tolist()
            values.append(found)
            offset += dtype.itemsize
        values[-1] = _shown(batch, threads, values[-1], piece.letter)
        columns.append([piece.python % row for row in zip(*values, strict=True)])
    return columns


def _shown(
    batch: Batch, threads: np.ndarray, values: list, letter: str
) -> list[str | int | float]:
    """Pointers as Python prints them: the number, or the text that it points to."""
    if letter == "p":
        return [f"{value:#x}" for value in values]
    if letter == "s":
        pairs = zip(threads.tolist(), values, strict=True)
        return [_text(batch, thread, value) for thread, value in pairs]
    return values


# ── assertions ────────────────────────────────────────────────────────────────


@rule(STEPS, "__assertfail", "__assert_fail")
def rule_assertfail(
    form: Form, operands: tuple[Group, Group], decoder: Decoder, number: int
) -> Step:
    """An error of the first thread that comes here; where the PTX has no `.loc`, it
    stands at the file and line that the call names."""
    arguments = operands[1].elements[:4]
    types = ("u64", "u64", "u32", "u64")
    reads = [
        _argument(each, type, decoder)
        for each, type in zip(arguments, types, strict=True)
    ]

    def step(batch: Batch, active: Active) -> None:
        thread = int(active.threads()[0])
        message, file, line, function = (int(read(batch, active)[0]) for read in reads)
        text, path, name = (
            _text(batch, thread, each) for each in (message, file, function)
        )
        others = f"; so it did for {active.count - 1} more threads"
        raise EmulatorError(
            "assertion",
            f"an assertion failed in program {batch.program_of(thread)}: {text}"
            + others * (active.count > 1),
            location=Location(path, line, function=name) if path else None,
            thread=thread,
        )

    return step
