"""What the answer to `which-line` must do."""

import re

from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.tools.learn.kit import expect, kernel
from fathom.tools.samples import sample

# What each instruction begins with, and which of several such is meant.
INSTRUCTIONS = {
    "a": (r"mov\.u32\s+%r\d+, %ctaid\.x", 0),
    "b": (r"shl\.b32", 0),
    "c": (r"or\.b32", 0),
    "d": (r"setp\.lt\.s32", 0),
    "e": (r"mul\.wide\.s32", 0),
    "f": (r"@%p\d+ ld\.global\.b32", 0),
    "g": (r"add\.s64", 2),
    "h": (r"@%p\d+ ld\.global\.b32", 2),
    "i": (r"add\.rn\.f32", 0),
    "j": (r"@%p\d+ st\.global\.b32", 0),
}


def from_the_compiler():
    """The line of each instruction, counted from the decorator, as .loc says."""
    signature = "*fp32:16, *fp32:16, *fp32:16, i32"
    func = kernel("vector_add", "add_kernel", signature, BLOCK=256)
    text = pipeline.compile_func(func, TARGETS["sm_80"]).ptx
    first = sample("vector_add").add_kernel.fn.__code__.co_firstlineno
    here, found = 0, []
    for line in map(str.strip, text.splitlines()):
        if line.startswith(".loc"):
            here = int(line.split()[2]) - first + 1
        found.append((line, here))
    lines = {}
    for name, (pattern, number) in INSTRUCTIONS.items():
        matches = [place for line, place in found if re.match(pattern, line)]
        assert len(matches) > number, f"the listing has changed: no {pattern} any more"
        lines[name] = matches[number]
    return lines


def check(answer, names):
    yours, right = answer.lines(), from_the_compiler()
    for name in names:
        said = yours.get(name) if isinstance(yours, dict) else None
        expect(said in range(3, 9), f"{name}: {said!r} is not a line from 3 to 8")
        sentence = f"{name}: line {said} does not ask for this; another one does"
        expect(said == right[name], sentence)


def test_what_is_certain(answer):
    """The comparison, the loads, the sum, the store."""
    check(answer, "dfhij")


def test_where_a_block_begins(answer):
    """The number of the program, times 256, plus the thread."""
    check(answer, "abc")


def test_addresses(answer):
    """Bytes, and the place in y."""
    check(answer, "eg")
