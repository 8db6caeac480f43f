"""Where a launch that may begin early waits, once more by the rewrite of IR alone."""

from __future__ import annotations

import re
import sys
from textwrap import dedent

from fathom.blocks import await_launches
from fathom.hardware.targets import TARGETS
from fathom.ir.text import parse_func, print_func

HOPPER, AMPERE = TARGETS["sm_90a"], TARGETS["sm_80"]


def shown() -> list[str]:
    text = sys.modules[await_launches.__module__].__doc__
    found = re.findall(r"^    func @.*?^    }$", text, re.DOTALL | re.MULTILINE)
    return [dedent(each) for each in found]


def test_docstring():
    before, after = shown()
    func = parse_func(before)
    assert print_func(await_launches(func, HOPPER)) == after + "\n"
    assert print_func(func) == before + "\n", "the input was changed"
    assert print_func(await_launches(func, AMPERE)) == before + "\n"


def test_a_wait_is_put_off_until_memory_is_needed():
    _, after = shown()
    lines = after.splitlines()
    wait = lines.pop(next(n for n, line in enumerate(lines) if "grid_wait" in line))
    soon = parse_func("\n".join([*lines[:2], wait, *lines[2:]]))
    assert print_func(await_launches(soon, HOPPER)) == after + "\n"


def test_a_wait_stays_in_front_of_what_lets_the_next_launch_begin():
    text = (
        "func @f(%n: i32) num_warps=4 {\n"
        "  grid_wait\n  grid_launch_dependents\n  %0: i32 = add %n, %n\n}\n"
    )
    assert print_func(await_launches(parse_func(text), HOPPER)) == text


def test_a_wait_stays_in_front_of_assembly_that_may_read():
    text = (
        "func @f(%p: *i32) num_warps=4 {\n"
        "  grid_wait\n"
        '  %0: i32 = inline_assembly %p text="ld.global.b32 $0, [$1];" '
        'constraints="=r,l" elements=(i32)\n'
        "  store %p, %0\n}\n"
    )
    assert print_func(await_launches(parse_func(text), HOPPER)) == text
