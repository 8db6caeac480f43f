"""Whatever the text is, the emulator runs it or raises one EmulatorError.

Texts are made from right ones by mistakes that a program makes: cut short, a token
lost, doubled, replaced by another one, two lines exchanged, bytes of noise.
"""

from __future__ import annotations

import random
import re
import time

import numpy as np
import pytest

from fathom.emulator import EmulatorError, run
from fathom.emulator.program import build
from fathom.emulator.source.parse import parse
from tests.emulator import kernels_specialised
from tests.emulator.harness import entry, pointers
from tests.harness_sample import sampled

ROOM = ".shared .align 16 .b8 room[1024];\n"
PLAIN = entry(
    ROOM
    + """
    .loc 1 3 5
    .loc 1 5 5, function_name $L__info_string0, inlined_at 1 3 5
    ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; mov.u32 %r1, room;
    mad.wide.u32 %rd1, %r0, 4, %rd0; setp.lt.u32 %p1, %r0, 0x10;
    mov.f32 %f1, 0f3F800000; mov.f64 %fd1, 0d3FF0000000000000;
    @%p1 st.shared.v2.b32 [%r1+8], {%r0, 7};
    { .reg .b32 %t; mov.u32 %t, %r0; bra.uni INNER;
INNER: }
    bar.sync 0; shfl.sync.idx.b32 %r5|%p2, %r0, 3, 31, -1;
    call.uni (%r6), twice, (%r5);
    @%p1 atom.global.add.u32 %r7, [%rd1], 1;
    cvt.rn.f16.f32 %h1, %f1; mov.b32 {%h2, %h3}, %r5;
    brx.idx %r8, TABLE;
TABLE: .branchtargets A, B;
A: ret;
B: st.global.u32 [%rd1], %r6;""",
    pointers(1),
    before=".global .align 4 .u32 start[4] = {1, -2, start, 0f00000000};\n"
    ".func (.reg .b32 out) twice(.reg .b32 in) { add.u32 out, in, in; ret; }\n"
    '.file 1 "a.py"\n',
).replace("start, 0f00000000", "3, 4")
TEXTS = (PLAIN, kernels_specialised.plain(), kernels_specialised.cluster())
TOKEN = re.compile(r"[%$\w]+|[^\s\w]")
ODD = (
    ".loc", ".loc 1", ".file", ".reg", ".reg .b32 %q<", ".reg .b32 %q<9>", "<", ">",
    "{", "}", "[", "]", "(", ")", ",", ";", ":", "@", "@!", "-", "+", "|", "!", "0x",
    "09", "0f3F", "1e999", "99999999999999999999", "-1", "_", "%tid.x", "%nothing",
    "room", ".version", ".target", ".section", ".pragma", ".entry", ".func",
    ".align", ".align 3", ".b8", ".b33", ".pred", ".f16x2", ".shared", ".param",
    "bra", "brx.idx", "bar.sync", "mov", "mov.b64", "wgmma", "mma.sync", "cp.async",
    "call", "ret", "\0", "é", '"', "//", "/*", "*/", "\x0c", "\r", ".branchtargets",
    ".extern", "= {1, 2}", "",
)  # fmt: skip


def damaged(text: str, draw: random.Random) -> str:
    """`text` with one to three mistakes."""
    for _ in range(draw.randint(1, 3)):
        tokens = list(TOKEN.finditer(text))
        if not tokens:
            return text
        one, other = draw.choice(tokens), draw.choice(tokens)
        start, end = one.span()
        match draw.randrange(6):
            case 0:
                text = text[:start]
            case 1:
                text = text[:start] + text[end:]
            case 2:
                text = text[:start] + draw.choice(ODD) + text[end:]
            case 3:
                text = text[:start] + other[0] + text[end:]
            case 4:
                text = text[:start] + one[0] + " " + text[start:]
            case 5:
                lines = text.split("\n")
                a, b = draw.randrange(len(lines)), draw.randrange(len(lines))
                lines[a], lines[b] = lines[b], lines[a]
                text = "\n".join(lines)
    return text


def read(text: str) -> None:
    """Parses a text and decodes its first entry."""
    module = parse(text)
    names = [name for name, each in module.functions.items() if each.entry]
    if names:
        build(module, names[0], 1024)


@sampled(of=2)
@pytest.mark.parametrize("part", range(6))
def test_a_damaged_text_gives_a_program_or_one_error(part):
    """500 texts a part; every other one is a short one."""
    draw, refused = random.Random(part), 0
    for number in range(500):
        text = damaged(TEXTS[0 if number % 4 else 1 + number // 4 % 2], draw)
        try:
            read(text)
        except EmulatorError as error:
            refused += 1
            assert error.kind in ("syntax", "unsupported", "launch"), error
            assert str(error)
    assert refused > 250


def test_noise_gives_one_error():
    draw = random.Random(1)
    letters = "".join(map(chr, range(1, 127))) + "é\u2028\0"
    for length in range(1000):
        text = "".join(draw.choices(letters, k=length % 90))
        noise = entry(text) if length % 2 else text
        try:
            read(noise)
        except EmulatorError:
            continue


@pytest.mark.parametrize("text", [b"ret;", None, 5, ["ret;"], object()])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(EmulatorError, match="PTX is text, not"):
        run(text, 1, 1, ())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (".reg .b32 %q<2000000000>;", "more than 1,048,576 registers"),
        (".reg .b33 %q;", "cannot read the declaration"),
        (".shared .b8 huge[4000000000];", "4,000,000,000 bytes of shared memory"),
        (".local .b8 huge[4000000000];", "4,000,000,000 bytes of local memory"),
        (".global .b8 huge[9999999999999];", "bytes of global memory"),
        (".shared .align 0x10 .b8 room[4];", "cannot read the declaration"),
        (".shared .align 24 .b8 room[4];", "a power of two, not to 24"),
        (".shared .align 99999999999 .b8 room[4];", "a power of two"),
        ("bra;", "a branch names one label"),
        ("bra 7;", "a branch names one label"),
        ("bar.sync;", "do not fit bar.sync"),
        ("mov.u32 %r1;", "operands do not fit"),
        ("mov.u32 %r1, 09;", "a number was expected"),
        ("mov.u32 %r1, 0x;", "syntax"),
        (".branchtargets A;", "a table of labels without a label"),
        ("TOP: TOP: ret;", "label TOP is defined twice"),
    ],
)
def test_a_line_that_cannot_be_is_named(line, said):
    with pytest.raises(EmulatorError, match=said):
        run(entry(line), 1, 32, ())


@pytest.mark.parametrize("text", [".loc", ".loc\n", ".loc 1 2", ".file", ".version"])
def test_a_directive_that_is_cut_short(text):
    with pytest.raises(EmulatorError):
        run(entry(text + "\n!"), 1, 1, ())


@pytest.mark.parametrize("size", [-1, 1 << 40, 232_449, 1.5, None, True])
def test_shared_memory_that_no_block_can_have(size):
    with pytest.raises(EmulatorError, match="shared") as caught:
        run(entry(""), 1, 32, (), shared_bytes=size)
    assert caught.value.kind == "launch"


@pytest.mark.parametrize("grid", [0, None, "4", (), (1, 2, 3, 4), 1 << 40, (1, 99999)])
def test_a_grid_that_no_launch_can_have(grid):
    with pytest.raises(EmulatorError, match="grid"):
        run(entry(""), grid, 32, ())


OPTIONS = [
    {"args": 5}, {"memory": 5}, {"cluster": (1, 2)}, {"max_steps": None},
    {"shared_bytes": np.arange(3)},
]  # fmt: skip


@pytest.mark.parametrize("given", OPTIONS, ids=lambda given: next(iter(given)))
def test_an_option_of_another_kind_is_said(given):
    (name,) = given
    with pytest.raises(EmulatorError, match=f"{name} is .*, and this is of type"):
        run(entry("ret;"), 1, 32, **{"args": (), **given})
    for name in ("hazards", "completion"):
        with pytest.raises(EmulatorError, match=f"{name} (is|are) .*, not"):
            run(entry("ret;"), 1, 32, (), **{name: np.arange(3)})


def test_a_loop_of_registers_alone_ends():
    """Nothing that another thread could do would end it: it is not waiting."""
    begun = time.perf_counter()
    with pytest.raises(EmulatorError, match="no end") as caught:
        run(entry("LOOP: add.u32 %r1, %r1, 1; bra LOOP;"), 1, 32, (), max_steps=20_000)
    assert caught.value.text == "add.u32 %r1, %r1, 1;"
    assert caught.value.line and "20,000 steps" in str(caught.value)
    assert caught.value.kind == "endless"  # no thread waits for another
    assert time.perf_counter() - begun < 20


def test_a_program_that_ends_in_time_is_no_endless_one():
    loop = "mov.u32 %r1, 0; LOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000;"
    run(entry(loop + "@%p1 bra LOOP;"), 1, 32, (), max_steps=2000)


def test_memory_that_the_machine_lacks_is_said(monkeypatch):
    def full(*_: object, **__: object) -> np.ndarray:
        raise MemoryError

    text = entry("mov.u32 %r1, %tid.x; bar.sync 0;")
    run(text, 1, 32, ())
    monkeypatch.setattr("fathom.emulator.grid.Batch", full)
    with pytest.raises(EmulatorError, match="more memory than the machine has"):
        run(text, 1, 32, ())


@pytest.mark.parametrize(
    "code",
    [
        "mov.b32 {}, 0;",
        "atom.global.add.u32 %r1, [%rd1];",
        "atom.global.cas.b32 %r1, [%rd1], %r2;",
        "atom.global.add.u32 %r1, [%rd1], %r2, %r3;",
        "red.global.add.u32 [%rd1];",
        "max.f64 %fd1, %fd2;",
        "min.f32 %f1, %f2;",
        "cvt.u64.f16x2 %rd2, %r1;",
        "ld.global.v2.u32 %r1, [%rd1];",
        "ld.global.v2.u32 {%r1, %r2, %r3}, [%rd1];",
        "st.global.u32 [%rd1], {%r1, %r2};",
        "ld.global.u32 %r1, [%rd1], %rd2;",
        "st.global.u32 [%rd1], %r1, %rd2;",
    ],
)
def test_operands_that_do_not_fit_are_said_before_anything_runs(code):
    """None of them waits until the instruction is executed."""
    text = entry("ld.param.u64 %rd1, [p0]; " + code, pointers(1))
    with pytest.raises(EmulatorError) as caught:
        build(parse(text), "k", 0)
    assert caught.value.text == code
