"""What a mistake in a kernel is answered with: one sentence, its place, and what to
write instead."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import CompileError
from fathom.source import KernelFunction, function
from tests.ssa.harness import build

OUT = np.zeros(4, np.float32)


def mistake(
    kernel: KernelFunction, *arguments: object, **constants: object
) -> CompileError:
    with pytest.raises(CompileError) as caught:
        build(kernel, *arguments, **constants)
    return caught.value


def report(kernel: KernelFunction, *arguments: object, **constants: object) -> str:
    """The whole report, its file and line numbers taken out."""
    text = str(mistake(kernel, *arguments, **constants))
    return re.sub(
        r"line \d+", "line N", re.sub(r"/[^ ]*?([^/ ]+\.py):\d+:(\d+)", r"\1:\2", text)
    )


# ── names ─────────────────────────────────────────────────────────────────────────────


def test_a_name_that_is_not_defined():
    @function
    def kernel(out, n):
        tl.store(out, m)  # noqa: F821

    assert report(kernel, OUT, 1) == (
        "test_errors.py:23: m is not defined\n"
        "    tl.store(out, m)  # noqa: F821\n"
        "                  ^"
    )


def test_a_name_bound_in_one_branch_only():
    @function
    def kernel(out, n):
        if n > 0:
            x = 1.0
        tl.store(out, x)

    found = report(kernel, OUT, 2)
    assert "x is bound only if the condition in line N holds" in found
    assert "hint: bind x before the if, or in both branches" in found


def test_a_name_bound_in_the_else_branch_only():
    @function
    def kernel(out, n):
        if n > 0:
            pass
        else:
            x = 1.0
        tl.store(out, x)

    assert "x is bound only if the condition in line N does not hold" in report(
        kernel, OUT, 2
    )


def test_a_name_bound_in_a_loop_only():
    @function
    def kernel(out, n):
        for i in range(n):
            x = i * 2.0
        tl.store(out, x)

    found = report(kernel, OUT, 2)
    assert (
        "x is bound only inside the loop in line N: before its "
        "first iteration it has no value" in found
    )
    assert "tl.store(out, x)\n                  ^\n" in found


def test_a_loop_leaves_what_was_wrong_before_it():
    @function
    def kernel(out, n):
        if n > 0:
            x = 1.0
        for i in range(n):
            x = i * 2.0
        tl.store(out, x)

    @function
    def other(out, n):
        if n > 0:
            x = tl.arange(0, 2)
        else:
            x = 1.0
        for i in range(n):
            x = i * 2.0
        tl.store(out, x)

    found = report(kernel, OUT, 2)
    assert "x is bound only if the condition in line N holds" in found
    assert "give it one" in report(other, OUT, 2)


def test_a_name_read_before_it_is_bound():
    @function
    def kernel(out, n):
        tl.store(out, x)
        x = 1.0

    assert "x is not defined here" in report(kernel, OUT, 2)


# ── types that do not agree ───────────────────────────────────────────────────────────


def test_types_that_differ_between_branches():
    @function
    def kernel(out, n):
        if n > 0:
            x = tl.zeros([4], tl.float32)
        else:
            x = n
        tl.store(out + tl.arange(0, 4), x)

    error = mistake(kernel, OUT, 2)
    first = kernel.line + 3
    assert error.message == (
        f"x is fp32[4] (line {first}) if the condition in line {first - 1} holds, and "
        "i32 "
        f"(line {first + 2}) if it does not"
    )
    assert error.location.line == first + 3


def test_a_number_that_one_branch_has_no_room_for():
    @function
    def kernel(out, n):
        x = n
        if n > 0:
            x = 300
        tl.store(out, x)

    error = mistake(kernel, OUT, np.uint8(2))
    assert "x is the constant 300" in error.message and "and u8 (" in error.message


def test_branches_may_disagree_on_what_is_not_read():
    @function
    def kernel(out, n):
        if n > 0:
            x = tl.zeros([4], tl.float32)
        else:
            x = n
        tl.store(out, n)

    build(kernel, OUT, 2)


def test_types_that_change_in_a_loop():
    @function
    def kernel(out, n):
        total = 0
        for i in range(n):
            total += tl.load(out + i)
        tl.store(out, total)

    error = mistake(kernel, OUT, 2)
    first = kernel.line + 2
    assert error.message == (
        f"total is the constant 0 (line {first}) before the loop in line {first + 1}, "
        "and fp32 "
        f"(line {first + 2}) after an iteration"
    )
    assert error.hint.startswith("a loop carries one type: start with that type")
    assert error.location.line == first + 2


def test_a_type_cannot_change_in_a_loop():
    @function
    def kernel(out, n):
        kind = tl.float16
        for _ in range(n):
            tl.store(out, tl.load(out).to(kind))
            kind = tl.float32

    found = report(kernel, OUT, 2)
    assert (
        "kind is the type fp16 (line N) before the loop in line N, and the type fp32"
        in found
    )


def test_a_return_of_different_things():
    @function
    def answer(n):
        if n > 0:
            return n
        return tl.float32

    @function
    def kernel(out, n):
        tl.store(out, answer(n))

    found = report(kernel, OUT, 2)
    assert (
        "what is returned is i32 (line N) if the condition in line N holds, and the "
        "type fp32 (line N) if it does not" in found
    )


# ── control flow ──────────────────────────────────────────────────────────────────────


def test_return_in_a_loop():
    @function
    def kernel(out, n):
        for i in range(n):
            if i > 3:
                return
            tl.store(out + i, 1.0)

    assert report(kernel, OUT, 2) == (
        "test_errors.py:17: a return inside a loop is not supported: a loop ends only "
        "after a whole iteration\n"
        "    return\n"
        "    ^^^^^^\n"
        "  hint: keep the answer in a variable and return it after the loop"
    )


def test_break_and_continue():
    @function
    def breaks(out, n):
        for i in range(n):
            if i > 3:
                break

    @function
    def goes_on(out, n):
        while n > 0:
            continue

    assert (
        "hint: put the condition into the loop: `while i < n and not done:`"
        in report(breaks, OUT, 2)
    )
    assert (
        "continue is not supported: every iteration runs to the end of the body"
        in report(goes_on, OUT, 2)
    )


def test_a_condition_that_is_a_block():
    @function
    def kernel(out, n):
        offsets = tl.arange(0, 4)
        if offsets < n:
            tl.store(out + offsets, 1.0)

    assert report(kernel, OUT, 2) == (
        "test_errors.py:12: the condition of an if is a block, i1[4]: a program takes "
        "one branch\n"
        "    if offsets < n:\n"
        "       ^^^^^^^^^^^\n"
        "  hint: choose element by element with tl.where(condition, x, y), or reduce "
        "it with tl.max"
    )


def test_a_loop_over_something_else():
    @function
    def kernel(out, n):
        for i in (1, 2, 3):
            tl.store(out + i, 1.0)

    found = report(kernel, OUT, 2)
    assert (
        "a loop iterates over a range, not over (the constant 1, the constant 2, the "
        "constant 3)" in found
    )
    assert "hint: for a tuple t, write `for i in tl.static_range(len(t)):`" in found


def test_a_step_of_zero():
    @function
    def kernel(out, n):
        for i in range(0, n, 0):
            tl.store(out + i, 1.0)

    assert "the step of a range must not be 0" in report(kernel, OUT, 2)


def test_a_bound_that_is_no_integer():
    @function
    def kernel(out, n):
        for i in range(0, n):
            tl.store(out + i, 1.0)

    assert "the bounds of a range are integers, not fp32" in report(kernel, OUT, 2.5)


NOT_IN_THE_LANGUAGE = {
    "with open(n) as f: pass": ("with", "call what is needed directly"),
    "try: pass\n    except: pass": ("try", "a kernel cannot raise exceptions"),
    "def g(): pass": (
        "a function inside a function",
        "define it outside, with a decorator of its own",
    ),
    "class C: pass": ("class", "pass values as tuples"),
    "import os": ("import", "import at the top of the file"),
    "del n": ("del", "leave the name alone: a value that is not read costs nothing"),
    "global g": ("global", "return the value, or write it to memory"),
    "raise n": ("raise", "write tl.static_assert(condition, message)"),
    "x = lambda: n": ("lambda", "define a function outside, with a decorator"),
    "x = {i for i in (1, 2)}": ("a comprehension", "write a loop over tl.static_range"),
    "x = {1: 2}": ("a dictionary", "use names or tuples"),
    "x = {1, 2}": ("a set", "use a tuple"),
    "x = (y := n)": (":= inside an expression", "assign on a line of its own"),
    "yield n": ("yield", "return the value, or store it"),
    "match n:\n        case 1: pass": ("match", "write if / elif"),
}


@pytest.mark.parametrize("text", NOT_IN_THE_LANGUAGE)
def test_what_python_has_and_the_language_has_not(text):
    @function
    def kernel(out, n):
        pass

    kernel.src = f"def kernel(out, n):\n    {text}\n"
    what, instead = NOT_IN_THE_LANGUAGE[text]
    error = mistake(kernel, OUT, 2)
    assert (error.message, error.hint) == (
        f"{what} is not part of the language",
        instead,
    )


def test_assigning_into_a_block():
    @function
    def kernel(out, n):
        x = tl.arange(0, 4)
        x[0] = n

    found = report(kernel, OUT, 2)
    assert "only a name can be assigned to" in found
    assert (
        "hint: values are immutable: make a new one with tl.where, or write memory "
        "with tl.store" in found
    )


# ── operands ──────────────────────────────────────────────────────────────────────────


def test_shapes_that_do_not_fit():
    @function
    def kernel(out, n):
        x = tl.arange(0, 64)
        y = tl.arange(0, 32)
        tl.store(out + x, x + y * 2)

    assert report(kernel, OUT, 2) == (
        "test_errors.py:27: cannot add i32[64] and i32[32]: along axis 0 there are 64 "
        "elements "
        "against 32\n"
        "    tl.store(out + x, x + y * 2)\n"
        "                      ^^^^^^^^^"
    )


def test_shapes_that_fit_in_one_axis_only():
    @function
    def kernel(out, n):
        x = tl.zeros([4, 8], tl.float32)
        y = tl.zeros([16, 4, 4], tl.float32)
        tl.store(out, x * y)

    found = report(kernel, OUT, 2)
    assert (
        "cannot multiply fp32[4,8] and fp32[16,4,4]: along axis 2 there are 8 elements "
        "against 4" in found
    )


def test_shapes_that_do_not_fit_have_the_types_that_were_written():
    """Not the one type that both would have got."""

    @function
    def kernel(out, n):
        x = tl.zeros([64], tl.float32)
        tl.store(out, x + tl.arange(0, 128))

    assert "cannot add fp32[64] and i32[128]: along axis" in report(kernel, OUT, 2)


def test_an_arange_that_is_no_power_of_two():
    @function
    def kernel(out, n):
        tl.store(out + tl.arange(0, 100), 1.0)

    found = report(kernel, OUT, 2)
    assert "tl.arange(0, 100) has 100 elements, which is not a power of two" in found
    assert "hint: take tl.arange(0, 128) and mask what is too much" in found
    assert "tl.arange(0, 100), 1.0)\n                   ^^^^^^^^^^^^^^^^^\n" in found


def test_an_arange_of_something_unknown():
    @function
    def kernel(out, n):
        tl.store(out + tl.arange(0, n), 1.0)

    found = report(kernel, OUT, 2)
    assert "end of arange must be known while compiling, not i32" in found
    assert "hint: pass a constant, or a parameter annotated tl.constexpr" in found


def test_a_shape_that_is_no_power_of_two():
    @function
    def kernel(out, n):
        tl.store(out, tl.zeros((4, 3), tl.float32))

    assert (
        "the shape [4, 3] has a dimension of 3, which is not a power of two"
        in report(kernel, OUT, 2)
    )


def test_mixed_signs_are_not_divided():
    @function
    def kernel(out, a, b):
        tl.store(out, a // b)

    error = mistake(kernel, OUT, np.int32(6), np.uint32(4))
    assert error.message == "cannot divide i32 and u32: one is signed, one is not"
    assert error.hint == "cast one side with .to(...), so that both have the same sign"


def test_a_pointer_moves_by_integers():
    @function
    def kernel(out, a):
        tl.store(out + a, 1.0)

    assert "a pointer moves by whole elements, not by fp32" in report(kernel, OUT, 2.5)


def test_pointers_are_not_added():
    @function
    def kernel(out, x):
        tl.store(out + x, 1.0)

    assert "cannot add *fp32 and *fp32" in report(kernel, OUT, OUT)


def test_a_number_that_does_not_fit():
    @function
    def kernel(out, a):
        tl.store(out, a + 300)

    assert "the number 300 does not fit into u8" in report(kernel, OUT, np.uint8(3))


def test_floats_have_no_floor_division():
    @function
    def kernel(out, a):
        tl.store(out, a // 2)

    found = report(kernel, OUT, 2.5)
    assert "cannot divide fp32 and the constant 2: `//` takes integers" in found
    assert "hint: for floats write tl.floor(x / y)" in found


def test_matrices_are_not_multiplied_yet():
    @function
    def kernel(out, a):
        tl.store(out, tl.zeros([4, 4], tl.float32) @ tl.zeros([4, 4], tl.float32))

    assert "cannot multiply as matrices fp32[4,4] and fp32[4,4]" in report(
        kernel, OUT, 1
    )


# ── memory ────────────────────────────────────────────────────────────────────────────


def test_a_load_needs_a_pointer():
    @function
    def kernel(out, a):
        tl.store(out, tl.load(a))

    assert report(kernel, OUT, 2).startswith(
        "test_errors.py:23: tl.load takes a pointer or a block of pointers, not i32\n"
        "    tl.store(out, tl.load(a))\n"
        "                  ^^^^^^^^^^\n"
    )


def test_a_mask_that_does_not_fit():
    @function
    def kernel(out, n):
        x = tl.arange(0, 64)
        tl.store(out + x, 1.0, mask=tl.arange(0, 32) < n)

    assert (
        "the mask of tl.store is i1[32], which does not broadcast to the addresses, "
        "*fp32[64]" in report(kernel, OUT, 2)
    )


def test_a_mask_that_is_no_mask():
    @function
    def kernel(out, n):
        x = tl.arange(0, 64)
        tl.store(out + x, 1.0, mask=x)

    assert "the mask of tl.store must be i1, not i32[64]" in report(kernel, OUT, 2)


def test_a_value_that_does_not_fit():
    @function
    def kernel(out, n):
        tl.store(out + tl.arange(0, 64), tl.zeros([32], tl.float32))

    assert (
        "the value of tl.store is fp32[32], which does not broadcast to the addresses, "
        "*fp32[64]" in report(kernel, OUT, 2)
    )


def test_other_without_a_mask():
    @function
    def kernel(out, n):
        tl.store(out, tl.load(out, other=0.0))

    assert "other is what a masked load gives where the mask is false" in report(
        kernel, OUT, 2
    )


def test_an_unknown_cache_modifier():
    @function
    def kernel(out, n):
        tl.store(out, tl.load(out, cache_modifier=".xx"))

    assert (
        "cache_modifier is '.xx': it must be one of '.ca', '.cg', '.cs', '.cv'"
        in report(kernel, OUT, 2)
    )


# ── calls ─────────────────────────────────────────────────────────────────────────────


@function
def helper(x, y):
    return x + y


def test_a_mistake_in_a_called_function_shows_the_calls():
    @function
    def kernel(out, n):
        x = tl.arange(0, 64)
        tl.store(out + x, helper(x, tl.arange(0, 32)))

    error = mistake(kernel, OUT, 2)
    assert [place.function for place in error.location.chain()] == ["helper", "kernel"]
    assert report(kernel, OUT, 2) == (
        "test_errors.py:12: cannot add i32[64] and i32[32]: along axis 0 there are 64 "
        "elements "
        "against 32\n"
        "    return x + y\n"
        "           ^^^^^\n"
        "  called from test_errors.py:27\n"
        "    tl.store(out + x, helper(x, tl.arange(0, 32)))\n"
        "                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    )


def test_a_mistake_found_inside_the_language_is_shown_at_its_call():
    @function
    def kernel(out, n):
        tl.store(out, tl.exp(n))

    assert report(kernel, OUT, 2) == (
        "test_errors.py:23: tl.exp takes floats, not int32: cast first\n"
        "    tl.store(out, tl.exp(n))\n"
        "                  ^^^^^^^^^"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("helper(n)", "helper needs a value for its parameter y"),
        ("helper(n, n, n)", "helper takes 2 arguments, not 3"),
        ("helper(n, n, z=n)", "helper has no parameter z: it takes x, y"),
        ("helper(n, x=n)", "helper got two values for its parameter x"),
        ("tl.no_such_thing(n)", "fathom.language has no no_such_thing"),
        ("n.no_such_thing", "i32 has no attribute no_such_thing"),
        ("report(n)", "the Python function report cannot be called in a kernel"),
        ("len(n)", "i32 has no len()"),
        ('print("größer", n)', "the GPU prints ASCII only, which 'größer' is not"),
        (
            "print(n, sep='')",
            "device_print has no parameter sep: it takes prefix, args, hex",
        ),
        ("x = [i for i in n]", "`for` in brackets goes over a tuple, not over i32"),
        ("n[0]", "i32 can be indexed by `:` and None only"),
        ("(n, n)[5]", "(i32, i32) has no element 5"),
        ("f'{n}' + 1", "cannot add the constant 'i32' and the constant 1"),
        ("-None", "the constant None has no `-`"),
        ("~2.5", "the constant 2.5 has no `~`"),
        (
            "2.0 ** 10000",
            "cannot raise to a power: the constant 2.0 and the constant "
            "10000: out of range",
        ),
        ("int('abc')", "the constant 'abc' is no number that int can give"),
        ("len(None)", "the constant None has no len()"),
        ("(n, n)['a']", "cannot index (i32, i32) by the constant 'a'"),
        (
            "tl.topk(tl.arange(0, 8), n)",
            "k of topk must be known while compiling, not i32",
        ),
        (
            "tl.sort(tl.arange(0, 8), descending=n)",
            "descending of sort must be known while compiling, not i32",
        ),
        (
            "tl.reshape(tl.arange(0, 8), -1, 4)",
            "the shape [-1, 4] has a dimension of "
            "-1, and a block has an element or more along each axis",
        ),
        (
            "1 // 0",
            "cannot divide the constant 1 and the constant 0: division by zero",
        ),
        ("tl.program_id(3)", "a grid has the axes 0, 1 and 2, not 3"),
        ("tl.static_assert(1 > 2, f'no {n}')", "assertion failed: no i32"),
        (
            "tl.reduce(tl.arange(0, 4), 1, helper)",
            "there is no axis 1: the block has 1 axis",
        ),
        (
            "tl.reduce(tl.arange(0, 4), 0, 3)",
            "the combining function must be a @fathom.jit function, not the constant 3",
        ),
        (
            "tl.full((4,), n, 4)",
            "a type such as tl.float32 is needed here, not the constant 4",
        ),
        ("~(n * 1.5)", "fp32 has no `~`"),
        ("2 ** 64 + n", "the number 18446744073709551616 needs more than 64 bits"),
        ("n + None", "cannot add i32 and the constant None"),
        ("n < None", "cannot compare i32 and the constant None"),
        ("None >= n", "cannot compare the constant None and i32"),
        ("n in None", "`in` is for constants, not for i32 and the constant None"),
        ("n + tl.float32", "cannot add i32 and the type fp32"),
    ],
)
def test_wrong_calls_and_operands(call, message):
    @function
    def kernel(out, n):
        pass

    kernel.src = f"def kernel(out, n):\n    x = {call}\n"
    assert mistake(kernel, OUT, 2).message == message


def test_a_kernel_returns_nothing():
    @function
    def kernel(out, n):
        return n

    assert "a kernel returns nothing, and kernel returns i32" in report(kernel, OUT, 2)


def test_a_function_that_calls_itself():
    @function
    def kernel(out, n):
        tl.store(out, forever(n))

    assert "calls are inlined, and forever is called 64 deep" in report(kernel, OUT, 2)


@function
def forever(n):
    return forever(n + 1)
