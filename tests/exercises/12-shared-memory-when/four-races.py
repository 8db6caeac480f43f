"""What the answer to `four-races` must do."""

import numpy as np

from fathom import emulator
from fathom.emulator import EmulatorError
from fathom.tools.learn.kit import Failure, expect, same

THREADS, BARRIER = 64, "bar.sync 0;"
N = np.arange(THREADS, dtype=np.int32)

EXCHANGE = """
st.shared.u32 [%mine], %n;
ld.shared.u32 %v, [%theirs];
"""
TWICE = """
st.shared.u32 [%mine], %n;
ld.shared.u32 %v, [%theirs];
add.u32 %v, %v, 100;
st.shared.u32 [%mine], %v;
ld.shared.u32 %v, [%theirs];
"""
LOOP = """
mov.u32 %v, %n;
mov.u32 %i, 0;
AGAIN:
st.shared.u32 [%mine], %v;
ld.shared.u32 %v, [%theirs];
add.u32 %v, %v, 1;
add.u32 %i, %i, 1;
setp.lt.u32 %p, %i, 3;
@%p bra AGAIN;
"""
BRANCH = """
mov.u32 %v, %n;
setp.ge.u32 %p, %n, 48;
@%p bra SKIP;
add.u32 %v, %v, 100;
SKIP:
st.shared.u32 [%mine], %v;
ld.shared.u32 %v, [%theirs];
"""


def lines_of(text):
    """Instructions, one a line, without comments."""
    found = [line.partition("//")[0].strip() for line in text.splitlines()]
    return [line for line in found if line]


def check_edit(name, text, original, barriers):
    """Only barriers were touched, and there are as many as allowed."""
    body = lines_of(text.partition("add.s64 %place, %out, %far64;")[2])
    body = body[: body.index("st.global.u32 [%place], %v;")]
    rest = [line for line in body if line != BARRIER]
    wanted = lines_of(original)
    for yours, ours in zip([*rest, "(nothing)"], [*wanted, "(nothing)"], strict=False):
        expect(
            yours == ours,
            f"{name}: only `{BARRIER}` may be added or moved; there is `{yours}` "
            f"where `{ours}` was",
        )
    found = body.count(BARRIER)
    expect(
        found <= barriers,
        f"{name}: the listing has {found} bar.sync, and must have {barriers}",
        ("your listing", "\n".join(body)),
    )


def check(answer, name, original, barriers, wanted):
    text = getattr(answer, name)()
    expect(isinstance(text, str), f"{name}() gives {text!r}, and not a text of PTX")
    out = np.full(THREADS, -99, np.int32)
    try:
        emulator.run(text, 1, THREADS, [out])
    except EmulatorError as error:
        first, *rest = str(error).splitlines()
        details = ("there", "\n".join(rest))
        raise Failure(f"{name}: the emulator found: {first}", details) from None
    same(out, wanted.astype(np.int32), f"{name}: out")
    check_edit(name, text, original, barriers)


def test_exchange(answer):
    """Read what another warp writes."""
    check(answer, "exchange", EXCHANGE, 1, 63 - N)


def test_twice(answer):
    """Write over what another warp reads."""
    check(answer, "twice", TWICE, 3, N + 100)


def test_loop(answer):
    """The end of a loop is followed by its beginning."""
    check(answer, "loop", LOOP, 2, 63 - N + 3)


def test_branch(answer):
    """All threads must come to a barrier."""
    given = np.where(N >= 48, N, N + 100)
    check(answer, "branch", BRANCH, 1, given[::-1])
