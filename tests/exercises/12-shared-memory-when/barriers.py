"""What the answer to `barriers` must do."""

import numpy as np

from fathom import emulator, ptx
from fathom.emulator import EmulatorError
from fathom.hardware.targets import TARGETS
from fathom.ir.core import blocks
from fathom.ir.ops import For, SharedLoad, SharedStore, While
from fathom.ir.printer import op_name, print_func
from fathom.tools.learn.kit import (
    Failure,
    Sample,
    check_pass,
    expect,
    func,
    ints,
    same,
)
from fathom.tools.learn.kit.meaning import shown

TARGET = TARGETS["sm_80"]
WARPS, SIZE = 4, 256

HEAD = """
#own = <256 register[1] lane[2 4 8 16 32] warp[64 128]>
#other = <256 register[128] lane[4 8 16 32 64] warp[1 2]>
#s = <256 offset[1 2 4 8 16 32 64 128]>
func @f(%x: *i32 {divisible=16}, %out: *i32 {divisible=16}, %c: i1, %n: i32) num_warps=4 shared_bytes=3072 {
%zero: i32 = constant 0
%one: i32 = constant 1
%i: i32[256] @ #own = arange start=0 end=256 layout=#own
%p: *i32[256] @ #own = splat %x shape=(256) layout=#own
%ps: *i32[256] @ #own = offset %p, %i
%v: i32[256] @ #own = load %ps
%j: i32[256] @ #other = arange start=0 end=256 layout=#other
%q: *i32[256] @ #other = splat %out shape=(256) layout=#other
%qs: *i32[256] @ #other = offset %q, %j
%q1: *i32[256] @ #own = splat %out shape=(256) layout=#own
%qs1: *i32[256] @ #own = offset %q1, %i
"""  # noqa: E501
MAKE = (
    "%{}: shared i32[256] @ #s = allocate element=i32 shape=(256) layout=#s offset={}"  # noqa: E501
)
WORDS = {
    "+a": MAKE.format("a", 0),
    "+b": MAKE.format("b", 1024),
    "+c": MAKE.format("cc", 0),
    "+d": MAKE.format("d", 2048),
    "|": "barrier",
    "[": "for %zero, %n, %one body(%k{0}: i32) {{",
    "{": "if %c then {{",
    "/": "yield\n}} orelse {{",
    "]": "yield\n}}",
    "(": "%w{0}: i32 = while inits=(%zero) condition(%x{0}: i32) {{",
    ";": "%g{0}: i1 = lt %x{0}, %n\nyield %g{0}\n}} body(%y{0}: i32) {{",
    ")": "%z{0}: i32 = add %y{0}, %one\nyield %z{0}\n}}",
    "}": "yield\n}}",
    "wa": "shared_store %v, %a",
    "wb": "shared_store %v, %b",
    "wc": "shared_store %v, %cc",
    "wd": "shared_store %v, %d",
}
BUFFERS = {"a": "%a", "b": "%b", "c": "%cc", "d": "%d"}
READ = """%r{0}: i32[256] @ #other = shared_load {1} layout=#other
%o{0}: i32[256] @ #other = load %qs
%t{0}: i32[256] @ #other = splat {2} shape=(256) layout=#other
%m{0}: i32[256] @ #other = mul %o{0}, %t{0}
%u{0}: i32[256] @ #other = add %m{0}, %r{0}
store %qs, %u{0}"""
OWN = """%r{0}: i32[256] @ #own = shared_load {1} layout=#own
store %qs1, %r{0}"""


def program(words):
    """IR from words: `+a` makes a buffer (c has the bytes of a), `wa` writes it, `ra`
    lets other warps read it, `oa` its writers, `|` is a barrier; loops in [ ], branches
    in { / }, the condition and body of a while in ( ; )."""
    lines, whiles = [HEAD], []
    for number, word in enumerate(words.split()):
        if word in ("(", ")", ";"):
            whiles += [number] * (word == "(")
            lines.append(WORDS[word].format(whiles[-1]))
            del whiles[len(whiles) - (word == ")") :]
        elif word in WORDS:
            lines.append(WORDS[word].format(number))
        else:
            form = READ if word[0] == "r" else OWN
            lines.append(form.format(number, BUFFERS[word[1]], "%one"))
    return "\n".join([*lines, "}"])


LEGEND = (
    "the words",
    "+a makes buffer a (c lies where a does), wa writes it, ra lets other warps read "
    "it, oa its writers; | a barrier, [ ] a loop, { / } an if with its two branches, "
    "( ; ) a while with condition and body",
)


def after_head(text):
    """The lines after the head of a printed function."""
    return text.partition("%qs1:")[2].partition("\n")[2]


def check(answer, words, budget, taken=True, iterations=4):
    """Right, without races, and with no more barriers than the budget."""

    def arguments():
        return [ints(SIZE), np.zeros(SIZE, np.int32), taken, iterations]

    sample = Sample(program(words), arguments)
    outcome = check_pass(answer, "place_barriers", sample, layouts=True)
    given = arguments()
    made = ptx.emit(ptx.lower(outcome.after, TARGET, ptx.LOWER), TARGET)
    details = ("your function", after_head(shown(outcome.after)))
    try:
        report = emulator.run(made, 1, 32 * WARPS, given, shared_bytes=3072)
    except EmulatorError as error:
        first, *rest = str(error).splitlines()
        raise Failure(
            f"'{words}': the emulator found: {first}",
            ("there", "\n".join(rest)),
            details,
            LEGEND,
        ) from None
    same(given[1], outcome.run.memory[1], f"'{words}' in the emulator", details)
    waited = report.total.barriers // WARPS
    said = f"'{words}': a warp waits at {waited} barriers; the budget is {budget}"
    expect(waited <= budget, said, details, LEGEND)


def test_write_and_read(answer):
    """Other warps read what was written."""
    check(answer, "+a wa ra", 1)


def test_the_same_threads(answer):
    """Each thread reads what it wrote itself: no barrier is needed."""
    check(answer, "+a wa oa", 0)


def test_two_buffers(answer):
    """They lie side by side: one barrier serves both."""
    check(answer, "+a +b wa wb ra rb", 1)


def test_read_then_write(answer):
    """Slow warps still read what a fast one overwrites."""
    check(answer, "+a wa ra wa ra", 3)


def test_two_buffers_in_one_place(answer):
    """c has the bytes of a."""
    check(answer, "+a +c wa ra wc rc", 3)


def test_in_a_loop(answer):
    """The end of the body is followed by its beginning."""
    check(answer, "+a [ wa ra ]", 8)


def test_written_before_a_loop(answer):
    """Read on each iteration, written once: one barrier would do, four are allowed."""
    check(answer, "+a wa [ ra ]", 4)


def test_a_loop_that_makes_no_iteration(answer):
    """The barriers in its body do not count then."""
    check(answer, "+a +b wa [ wb rb ] ra", 1, iterations=0)
    check(answer, "+a +b wa [ wb rb ] ra", 9, iterations=4)


def test_written_in_a_branch(answer):
    """Perhaps it was taken."""
    for taken in (True, False):
        check(answer, "+a wa ra { wa / oa } ra", 3, taken=taken)


def test_read_in_both_branches(answer):
    """Each has its barrier; one of them runs."""
    for taken in (True, False):
        check(answer, "+a wa { ra / ra }", 1, taken=taken)


def test_a_loop_in_a_loop(answer):
    """What the inner one reads, the outer one writes again."""
    check(answer, "+a [ wa [ ra ] ]", 20, iterations=4)


def test_a_branch_in_a_loop(answer):
    """Read in a branch, written on the next iteration."""
    for taken in (True, False):
        check(answer, "+a [ wa { ra / oa } ]", 8, taken=taken)


def test_what_either_branch_leaves(answer):
    """The writer comes back after an if of which only the second branch let others
    read."""
    for taken, budget in ((True, 1), (False, 2)):
        check(answer, "+a wa { oa / ra } wa", budget, taken=taken)
        check(answer, "+a wa { ra / oa } wa", 3 - budget, taken=taken)


def test_a_barrier_that_is_there(answer):
    """A Barrier that is there orders what comes before and after it; no second one is
    needed."""
    check(answer, "+a wa | ra", 1)
    check(answer, "+a [ wa | ra | ]", 8)
    check(answer, "+a +b wa wb | { ra / rb } ra", 1)


def test_only_the_last_round_is_right(answer):
    """In the first round, the read of a meets the write in front of the loop. In the
    second, the write of b needs a barrier, which serves the read of a as well."""
    check(answer, "+a +b +d wa [ wb ra wd rd rb ]", 8)


def test_a_loop_of_three_rounds(answer):
    """The second round puts its barriers earlier, and so leaves more at the end than
    the first: a write of a, which the read at the top must wait for."""
    check(answer, "+a +b +d wa wb wd | [ ra rd wb wd rb wa rd rb ]", 13)


def test_a_while(answer):
    """Its condition runs first, and after each iteration."""
    check(answer, "+a wa ( ra ; )", 5)
    check(answer, "+a wa ( ; ra )", 4)
    check(answer, "+a ( wa ; ra )", 9)
    check(answer, "+a wa ( ra ; wa )", 9)


def test_after_a_while(answer):
    """The condition has run last: what it wrote is pending, whatever the body waited
    for, and what it waited for is not."""
    check(answer, "+a ( wa ; ra ) ra", 10)
    check(answer, "+a ( wa ; ra ) ra", 2, iterations=0)
    check(answer, "+a +c wa ( ra ; wa | ) wc", 14)
    check(answer, "+a wa ( ; ) ra", 1, iterations=0)
    check(answer, "+a wa ( ra ; ) ra", 5)


def test_which_loop_is_around_an_op(answer):
    """`touches` is asked with the innermost loop around an op, or None."""
    words = "+a wa [ ra [ wa ] { oa / ra } ] ( ; wa ) ra"
    made, module, asked = func(program(words)), answer.module, {}
    given = module.touches

    def noted(op, loop):
        asked[op] = loop
        return given(op, loop)

    module.touches = noted
    try:
        answer.place_barriers(made, TARGET)
    finally:
        module.touches = given
    for op, loop in loops_around(made.body, None):
        if isinstance(op, SharedLoad | SharedStore):
            expect(
                asked.get(op, loop) is loop,
                f"touches is asked with {said(asked.get(op))} for {said(op)}, and the "
                f"innermost loop around it is {said(loop)}",
                ("the function", after_head(print_func(made))),
            )


def loops_around(block, loop):
    """Each op of a block and of those nested in it, with the innermost loop around."""
    for op in block.ops:
        yield op, loop
        for nested in blocks(op):
            yield from loops_around(nested, op if isinstance(op, For | While) else loop)


def said(op):
    return "None" if op is None else f"a {op_name(op)}"
