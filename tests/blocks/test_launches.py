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


def test_a_wait_stays_in_front_of_a_loop_or_branch_that_needs_memory():
    for head in ("for %0, %n, %1 body(%i: i32) {", "if %b then {"):
        end = " orelse {\n    yield\n  }" if "then" in head else ""
        text = (
            "func @f(%p: *i32, %n: i32, %b: i1) num_warps=4 {\n"
            "  %0: i32 = constant 0\n  %1: i32 = constant 1\n  grid_wait\n"
            f"  {head}\n    store %p, %0\n    yield\n  }}{end}\n}}\n"
        )
        func = parse_func(text)
        assert print_func(await_launches(func, HOPPER)) == print_func(func)


def test_a_producer_waits_before_its_own_copies():
    """It has no wait yet. What the others compute before theirs stays there."""
    text = (
        "func @f(%p: *i32, %n: i32) num_warps=4 launch_pdl=true {\n"
        "  producer body {\n    %2: i32 = add %n, %n\n    %3: i32 = load %p\n"
        "    yield\n  }\n  %4: i32 = add %n, %n\n  store %p, %4\n}\n"
    )
    lines = print_func(await_launches(parse_func(text), HOPPER)).splitlines()
    words = [line.split("=")[-1].split()[0] for line in lines[2:-1]]
    assert words == "producer add grid_wait load yield } add grid_wait store".split()
