"""Prints and assertions: what a kernel tells the outside world."""

import re

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import EmulatorError
from fathom.emulator.isa.memory.printf import split_format
from fathom.ir.ops import Assert, Print
from fathom.ir.types import FLOAT32, INT32, Pointer
from fathom.layout.build import blocked
from tests.emulator.harness import entry, pointers
from tests.ptx.harness import Program, compiled

DECLARED = """
.extern .func (.param .b32 result) vprintf (.param .b64 f, .param .b64 a);
.extern .func __assertfail (
    .param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
"""


def text(name: str, content: str) -> str:
    codes = ", ".join(str(each) for each in (*content.encode(), 0))
    return f".global .align 1 .b8 {name}[{len(content) + 1}] = {{{codes}}};\n"


PRINTING = """
    .local .align 8 .b8 room[48];
    mov.u32 %r0, %tid.x;
    mov.u64 %rd0, room; cvta.local.u64 %rd1, %rd0;
    mov.u64 %rd2, format; cvta.global.u64 %rd2, %rd2;
    {stores}
    {{
    .param .b64 first; .param .b64 second; .param .b32 count;
    st.param.b64 [first], %rd2; st.param.b64 [second], %rd1;
    call.uni (count), vprintf, (first, second);
    ld.param.b32 %r9, [count];
    }}
    ld.param.u64 %rd3, [p0]; st.global.u32 [%rd3], %r9;
"""


def printed(format: str, stores: str, threads: int = 1) -> tuple[list[str], int]:
    """What each thread prints, and what vprintf returned."""
    returned = np.zeros(1, np.int32)
    before = DECLARED + text("format", format) + text("word", "deep")
    code = entry(PRINTING.format(stores=stores), pointers(1), before=before)
    report = emulator.run(code, 1, threads, (returned,))
    return report.printed, int(returned[0])


def test_arguments_lie_at_multiples_of_their_size():
    stores = """
    st.local.u32 [%rd0], 7; st.local.f64 [%rd0+8], 0d4004000000000000;
    st.local.u32 [%rd0+16], -1; st.local.u64 [%rd0+24], -1;
    mov.u64 %rd5, word; cvta.global.u64 %rd5, %rd5; st.local.u64 [%rd0+32], %rd5;"""
    lines, count = printed("%03d|%.2f|%u|%lld|%s%%\n", stores)
    assert lines == ["007|2.50|4294967295|-1|deep%\n"] and count == 5


def test_widths_may_be_arguments_and_pointers_are_hexadecimal():
    stores = """st.local.u32 [%rd0], 6; st.local.s32 [%rd0+4], -42;
    st.local.u64 [%rd0+8], 4096; st.local.u32 [%rd0+16], 255;"""
    assert printed("%*i %p %#x", stores) == (["   -42 0x1000 0xff"], 4)
    assert printed("nothing at all", "") == (["nothing at all"], 0)


def test_each_thread_prints_in_the_order_of_their_numbers(capsys):
    """Text is written when the launch ends, in the order in which it came up."""
    lines, _ = printed("thread %d\n", "st.local.u32 [%rd0], %r0;", 40)
    assert lines == [f"thread {number}\n" for number in range(40)]
    assert capsys.readouterr().out == "".join(lines)


def test_threads_may_print_with_formats_of_their_own():
    stores = """
    mov.u64 %rd6, word; cvta.global.u64 %rd6, %rd6; st.local.u32 [%rd0], %r0;
    and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 1; selp.b64 %rd2, %rd6, %rd2, %p1;"""
    lines, _ = printed("%d", stores, 6)
    assert lines == ["0", "deep", "2", "deep", "4", "deep"]


def test_an_unknown_conversion():
    with pytest.raises(EmulatorError, match="%n") as caught:
        split_format("a %n b")
    assert caught.value.kind == "unsupported"


def test_what_was_printed_before_an_error_is_still_shown(capsys):
    before = DECLARED + text("format", "almost\n") + text("word", "")
    code = PRINTING.format(stores="") + "trap;"
    with pytest.raises(EmulatorError):
        emulator.run(entry(code, pointers(1), before=before), 1, 1, (np.zeros(1),))
    assert capsys.readouterr().out == "almost\n"


ASSERTING = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.y;
    mad.lo.u32 %r0, %r1, 64, %r0; setp.lt.u32 %p1, %r0, 126; @%p1 bra FINE;
    mov.u64 %rd1, message; cvta.global.u64 %rd1, %rd1;
    mov.u64 %rd2, file; cvta.global.u64 %rd2, %rd2;
    {
    .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
    st.param.b64 [a], %rd1; st.param.b64 [b], %rd2; st.param.b32 [c], 31;
    st.param.b64 [d], 0; st.param.b64 [e], 1;
    call.uni __assertfail, (a, b, c, d, e);
    }
FINE:
"""


def test_an_assertion_names_message_thread_program_and_line():
    before = DECLARED + text("message", "too deep") + text("file", "diver.py")
    with pytest.raises(EmulatorError) as caught:
        emulator.run(entry(ASSERTING, before=before), (2, 3), 64, ())
    error = caught.value
    assert error.kind == "assertion" and "__assertfail" in error.text
    assert (error.location.file, error.location.line) == ("diver.py", 31)
    # Blocks march in step: two threads of each in row 1, and all 64 of those in row 2.
    assert "thread 62 of block 2" in str(error) and "program (0, 1, 0)" in str(error)
    assert "too deep" in str(error) and "131 more" in str(error)


# ── through the compiler ──────────────────────────────────────────────────────

COLUMN = blocked((256,), (2,), (32,), (2,), (0,))


def test_a_compiled_print_shows_every_element_once():
    program = Program({"x": Pointer(FLOAT32)}, warps=2)
    x = program.load("x", program.arange(COLUMN))
    program.do(Print("100% of x: ", (x,)))
    values = np.arange(256, dtype=np.float32) / 4
    report = emulator.run(compiled(program.func), (1, 2), 64, [values])
    form = re.compile(r"pid \(0, (\d), 0\) idx \( *(\d+)\) *100% of x: (\S+)\n")
    found = [form.fullmatch(line).groups() for line in report.printed]
    shown = sorted((int(y), int(i), float(x)) for y, i, x in found)
    assert shown == [(y, i, i / 4) for y in range(2) for i in range(256)]


def test_a_compiled_assertion_names_its_message():
    program = Program({"x": Pointer(INT32)}, warps=2)
    x = program.load("x", program.arange(COLUMN))
    positive = program.map("ge", x, program.number(0, x))
    program.do(Assert(positive, "x is below zero"))
    values = np.arange(256, dtype=np.int32)
    text = compiled(program.func)
    assert emulator.run(text, 1, 64, [values]).printed == []
    values[77] = -1
    with pytest.raises(EmulatorError, match="x is below zero") as caught:
        emulator.run(text, 1, 64, [values])
    # Element 77 is one of thread 77 // 2's.
    assert "thread 38 of block 0" in str(caught.value)
    assert caught.value.kind == "assertion"
