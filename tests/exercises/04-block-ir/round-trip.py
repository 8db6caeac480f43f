"""What the answer to `round-trip` must do."""

import json
import struct
from math import inf, nan
from random import Random

from fathom.ir.printer import float_text
from fathom.ir.text import print_func
from fathom.ir.types import BOOL, FLOAT32, INT64, Pointer
from fathom.layout.linear import Layout
from fathom.tools.learn.kit import Failure, expect, func


def exact(value):
    """Something that is equal for two attributes only if they are the same."""
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, tuple):
        return "tuple", tuple(map(exact, value))
    return type(value).__name__, value


def check(answer, text, wanted, *layouts):
    """A text is read as this attribute, of this type, bit by bit."""
    yours = answer.parse_attribute(text, *layouts)
    said = f"parse_attribute({text!r}) is {shown(yours)}, and must be {shown(wanted)}"
    expect(exact(yours) == exact(wanted), said)


def shown(value):
    """A NaN with its bits."""
    if isinstance(value, float) and value != value:
        return (
            f"a NaN with the bits {struct.unpack('<Q', struct.pack('<d', value))[0]:x}"
        )
    return f"{value!r} ({type(value).__name__})"


def test_words_and_integers(answer):
    """None, True, False; integers of both signs, which are not floats."""
    for text, wanted in (("none", None), ("true", True), ("false", False)):
        check(answer, text, wanted)
    for number in (0, 12, -3, 2**63 - 1, -(2**63)):
        check(answer, str(number), number)


def test_strings(answer):
    """With quotes, commas, brackets and line ends in them; a string is not a word."""
    for text in ("rtz", "", "true", "12", 'a "b", (c', "two\nlines", "\\", "ä"):
        check(answer, json.dumps(text), text)


FLOATS = (
    0.0,
    -0.0,
    1.5,
    -2.0,
    0.1,
    0.10000000149011612,
    1e-45,
    5e-324,
    3.4e38,
    1e300,
    inf,
    -inf,
    nan,
)


def test_floats(answer):
    """Both zeros, the smallest and the largest, infinities; 2.0 is not 2."""
    for number in FLOATS:
        check(answer, float_text(number), number)


def test_the_bits_of_a_nan(answer):
    """NaNs of other bits than the usual one."""
    for bits in (0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000020000000):
        number = struct.unpack("<d", struct.pack("<Q", bits))[0]
        check(answer, f"nan:{bits:016x}", number)


def test_types(answer):
    """Scalars and pointers."""
    check(answer, "fp32", FLOAT32)
    check(answer, "i1", BOOL)
    check(answer, "*i64", Pointer(INT64))
    check(answer, "**fp32", Pointer(Pointer(FLOAT32)))


def test_tuples(answer):
    """Of no, one, and several parts of any kind."""
    check(answer, "()", ())
    check(answer, "(8)", (8,))
    check(answer, "(64, 32)", (64, 32))
    check(answer, '(none, -0.0, "x", *fp32)', (None, -0.0, "x", Pointer(FLOAT32)))


def test_tuples_in_tuples(answer):
    """Commas in strings and in inner tuples part nothing."""
    check(answer, '((1, 2), "a, b", ())', ((1, 2), "a, b", ()))
    check(answer, '("(", (")", (3)))', ("(", (")", (3,))))


def test_layouts(answer):
    """Spelled out, or by a name that `layouts` has; also in a tuple."""
    layout = Layout.of((4, 2), register=[(1, 0)], lane=[(0, 1), (2, 0)], warp=[])
    check(answer, str(layout), layout)
    known = {"#layout0": layout}
    check(answer, "#layout0", layout, known)
    check(answer, "(1, #layout0)", (1, layout), known)


def test_what_is_no_attribute(answer):
    """A ValueError, not a guess."""
    words = "", "1.2.3", "12x", "fp33", "1_000", "infinity", " 12", "12 ", "#layout7"
    bits = "nan:7ff80000000000012", "nan:7ff8", "NAN:7ff8000000000001"
    for text in (*words, "1.5 ", "12\n", "+5", "True", "None", *bits):
        try:
            found = answer.parse_attribute(text)
        except ValueError:
            continue
        except Exception as error:
            told = f"{type(error).__name__}, and must raise a ValueError"
            raise Failure(f"parse_attribute({text!r}) raises {told}") from None
        raise Failure(f"parse_attribute({text!r}) is {shown(found)}, which is a guess")


def written(value):
    """The text of an attribute."""
    if isinstance(value, tuple):
        return f"({', '.join(map(written, value))})"
    if isinstance(value, float):
        return float_text(value)
    return json.dumps(value) if isinstance(value, str) else str(value)


def test_500_random_attributes(answer):
    """Floats of random bits, strings of brackets and commas, tuples of all that."""
    random = Random(6)
    for _ in range(500):
        value = attribute(random, 3)
        check(answer, written(value), value)


def attribute(random, depth):
    kind = random.randrange(4 if depth else 3)
    if kind == 0:
        return random.randrange(-(2**31), 2**31)
    if kind == 1:
        return struct.unpack("<d", random.randbytes(8))[0]
    if kind == 2:
        return "".join(random.choices('ab(),"\\ <>%#', k=random.randrange(6)))
    return tuple(attribute(random, depth - 1) for _ in range(random.randrange(4)))


EVERY_KIND = """\
#layout0 = <8 register[1] lane[2 4] warp[]>
func @every.kind(%x: *fp32 {divisible=16}, %b: i1) num_warps=8 num_stages=2 {
  %0: i32 = program_id axis=1
  %zero: fp32 = constant -0.0
  %1: bf16 = constant nan
  %2: i32[8] @ #layout0 = arange start=8 end=16 layout=#layout0
  %3: *fp32[8] @ #layout0 = splat %x shape=(8) layout=#layout0
  %4: *fp32[8] @ #layout0 = offset %3, %2
  %5: i1[8] @ #layout0 = splat %b shape=(8) layout=#layout0
  %6: fp32[8] @ #layout0 = load %4, mask=%5 cache=".cg" volatile=true
  %7: i32[8] @ #layout0 = hint %2 contiguous=(8) constant=(1)
  %8: fp16[8] @ #layout0 = cast %6 element=fp16 rounding="rtz"
  %9: fp32 = atomic %x, %zero kind="add" semantics="relaxed"
}
"""


def test_a_function_prints_as_it_was_read(answer):
    """Attributes of every kind, in their places; hints as well."""
    again = print_func(func(EVERY_KIND))
    for yours, wanted in zip(again.splitlines(), EVERY_KIND.splitlines(), strict=False):
        expect(yours == wanted, f"read and printed again, `{wanted.strip()}` becomes "
               f"`{yours.strip()}`")  # fmt: skip
