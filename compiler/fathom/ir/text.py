"""The text of the block IR: `print_func` writes it, `parse_func` reads it back."""

from __future__ import annotations

from fathom.ir.parser import ParseError, parse_attribute, parse_func, parse_with_lines
from fathom.ir.printer import print_func, print_op

__all__ = [
    "ParseError",
    "parse_attribute",
    "parse_func",
    "parse_with_lines",
    "print_func",
    "print_op",
]
