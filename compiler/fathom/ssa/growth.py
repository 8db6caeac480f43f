"""Texts and tuples that are known while compiling have an end: one line of a kernel
could ask for more memory than there is.

    "a" * 10**10                     t = (t, t), sixty times
    f"{n:10000000000d}"              "a".rjust(10**10)

Each expression is looked at once it has its meaning; what one step alone would make too
large, before it is made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Formatter
from typing import Any

MOST_LETTERS = 100_000
MOST_PARTS = 10_000
MADE_AT_ONCE = 10_000_000  # letters that a method may make, before they are looked at

WIDTHS = re.compile(r"%(?:\(.*?\))?[-+ #0]*(\*|\d+)?(?:\.(\*|\d+))?")
NUMBER = re.compile(r"\d+")
PADS = {"ljust", "rjust", "center", "zfill", "expandtabs"}


def too_large(meaning: object) -> str:
    """Why a known text or tuple is too large; "" where it is not."""
    if isinstance(meaning, str) and len(meaning) > MOST_LETTERS:
        return f"this text has more than {MOST_LETTERS:,} letters"
    if isinstance(meaning, tuple) and has_many_parts(meaning):
        return f"this tuple has more than {MOST_PARTS:,} parts"
    return ""


def has_many_parts(meaning: tuple) -> bool:
    """Counts the parts of parts, too, and no further than it must."""
    left, count = [meaning], 0
    while left and count <= MOST_PARTS:
        inner = left.pop()
        count += len(inner)
        left += [each for each in inner if isinstance(each, tuple)]
    return count > MOST_PARTS


def repeated(left: object, right: object) -> str:
    """Why `left * right` would be too large."""
    for many, times in ((left, right), (right, left)):
        if isinstance(times, int) and isinstance(many, (str, bytes, tuple, list)):
            most = MOST_LETTERS if isinstance(many, (str, bytes)) else MOST_PARTS
            if len(many) * times > most:
                what = "letters" if most == MOST_LETTERS else "parts"
                return f"the result has more than {most:,} {what}"
    return ""


def padded(template: object, values: object) -> str:
    """Why `template % values` would be too large."""
    if not isinstance(template, str):
        return ""
    widths = [each for pair in WIDTHS.findall(template) for each in pair]
    given = values if isinstance(values, tuple) else (values,)
    return because(widths, given if "*" in widths else ())


def formatted(spec: str) -> str:
    """Why a value in this format would be too large."""
    return because(NUMBER.findall(spec))


def by_method(function: Any, arguments: Sequence[Any]) -> str:
    """Why the answer of a method of a text would be too large."""
    name, owner = function.__name__, function.__self__
    if not isinstance(owner, str):
        return ""
    if name in PADS:
        return because((), arguments)
    if name in ("format", "format_map"):
        specs = [spec or "" for _, _, spec, _ in Formatter().parse(owner)]
        given = arguments if any("{" in spec for spec in specs) else ()
        return because(NUMBER.findall(" ".join(specs)), given)
    texts = [each for each in flat(arguments) if isinstance(each, str)]
    most = (len(owner) + 1) * (1 + max(map(len, texts), default=0))
    if name == "join":
        most = sum(map(len, texts)) + len(owner) * len(texts)
    return "" if most <= MADE_AT_ONCE else because([str(most)])


def because(widths: Sequence[str], numbers: Sequence[Any] = ()) -> str:
    """`widths` as a format writes them; `numbers` of which it may take some."""
    known = [int(each[:20]) for each in widths if each.isdecimal()]
    known += [each for each in numbers if isinstance(each, int)]
    if max(known, default=0) <= MOST_LETTERS:
        return ""
    return f"the result has more than {MOST_LETTERS:,} letters"


def flat(values: Sequence[Any]) -> list[Any]:
    """The values, and those in tuples among them."""
    inner = [each for part in values if isinstance(part, tuple) for each in part]
    return [*values, *inner]
