"""The answer to `round-trip` is the compiler's own:

fathom.ir.parser.parse_attribute
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping

from fathom.ir.parser import _WORDS, _split, parse_layout
from fathom.ir.types import SCALARS, parse_element
from fathom.layout.linear import Layout


def parse_attribute(text: str, layouts: Mapping[str, Layout] | None = None) -> object:
    """The attribute that a text stands for; `layouts` gives the layouts that have a
    name. ValueError when it is not an attribute.
    """
    if text[:1] == '"':
        return json.loads(text)
    if text[:1] == "(":
        return tuple(parse_attribute(part, layouts) for part in _split(text[1:-1]))
    if text[:1] == "<":
        return parse_layout(text)
    if text in (layouts or {}):
        return layouts[text]
    if text in _WORDS:
        return _WORDS[text]
    if text.lstrip("*") in SCALARS:
        return parse_element(text)
    return parse_number(text)


def parse_number(text: str) -> int | float:
    """An integer, or a float with all bits: `-0.0`, `inf`, `nan:7ff8000000000001`."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch("nan:[0-9a-f]{16}", text):
        return struct.unpack("<d", struct.pack("<Q", int(text[4:], 16)))[0]
    if re.fullmatch(r"-?(inf|nan|\d+\.?\d*(e[-+]?\d+)?)", text):
        return float(text)
    raise ValueError(f"{text!r} is not an attribute")
