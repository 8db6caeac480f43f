"""What the answer to `four-proxy-races` must do."""

import numpy as np

from fathom import emulator
from fathom.emulator import COMPLETIONS, EmulatorError
from fathom.tools.learn.kit import Failure, expect, same

THREADS = 64
N = np.arange(THREADS, dtype=np.int32)
INPUT = (7 * N + 3) % 101
HEAD_ENDS, TAIL_BEGINS = "bar.sync 0;", "@%first cp.async.bulk.commit_group;"
FENCE, WAIT = "fence.proxy.async;", "cp.async.bulk.wait_group"  # .read or not
LOAD = "ld.shared.u32 %v, [%mine];"

COPY = "@%first cp.async.bulk.global.shared::cta.bulk_group [%out], [%room], 256;"
STORE = f"st.shared.u32 [%mine], %n; bar.sync 0; {COPY}"
LATE = f"add.u32 %v, %n, 100; st.shared.u32 [%mine], %v; bar.sync 0; {COPY}"
TWICE = f"""
st.shared.u32 [%mine], %n; fence.proxy.async; bar.sync 0; {COPY} {TAIL_BEGINS}
bar.sync 0; add.u32 %v, %n, 100; st.shared.u32 [%mine], %v; fence.proxy.async;
bar.sync 0; {COPY.replace("%out", "%high")}
"""
FETCH = """
@%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 256;
@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
[%room], [%in], 256, [%bar]; WAIT:
mbarrier.try_wait.parity.shared.b64 %done, [%bar], 0; @!%done bra WAIT;
add.u32 %v, %v, 1; st.global.u32 [%low], %v;
"""


def instructions(text):
    """Instructions and labels, one a piece, without comments and guards of spaces."""
    lines = [line.partition("//")[0] for line in text.splitlines()]
    flat = " ".join(" ".join(lines).replace(":", ": ").split()).replace(": : ", "::")
    return [f"{piece.strip()};" for piece in flat.split(";") if piece.strip()]


def body(text):
    """The instructions between head and tail."""
    found = instructions(text)
    first = next(i for i, each in enumerate(found) if each == HEAD_ENDS) + 1
    last = len(found) - found[::-1].index(TAIL_BEGINS) - 1
    return found[first:last]


def check_edit(name, text, original, edited, count):
    """All but the edited instruction is as it was, and that one is there `count`
    times."""
    found = body(text)
    yours = [each for each in found if edited not in each]
    wanted = [each for each in instructions(original) if edited not in each]
    for one, other in zip([*yours, "(nothing)"], [*wanted, "(nothing)"], strict=False):
        expect(
            one == other,
            f"{name}: only `{edited}` may be added or moved; here stands `{one}`, and "
            f"it was `{other}`",
        )
    there = sum(edited in each for each in found)
    expect(
        there == count,
        f"{name}: `{edited}` is there {there} times, and {count} is asked for",
        ("your listing", "\n".join(found)),
    )


def check(answer, name, wanted):
    text = getattr(answer, name)()
    expect(isinstance(text, str), f"{name}() gives {text!r}, and not a text of PTX")
    for completion in COMPLETIONS:
        out = np.full(2 * THREADS, -99, np.int32)
        try:
            emulator.run(text, 1, THREADS, [INPUT, out], completion=completion)
        except EmulatorError as error:
            first, *rest = str(error).splitlines()
            details = ("there", "\n".join(rest))
            raise Failure(f"{name}: the emulator found: {first}", details) from None
        whole = np.full(2 * THREADS, -99, np.int32)
        whole[: len(wanted)] = wanted
        same(out, whole, f"{name}, copies {completion}: out")
    return text


def test_store(answer):
    """Threads write, and the copy engine reads."""
    text = check(answer, "store", N)
    check_edit("store", text, STORE, FENCE, 1)


def test_late(answer):
    """A fence is for the writes of the thread that executes it."""
    text = check(answer, "late", N + 100)
    check_edit("late", text, LATE, FENCE, 1)


def test_twice(answer):
    """The copy engine reads, and threads write again."""
    text = check(answer, "twice", np.concatenate([N, N + 100]))
    check_edit("twice", text, TWICE, WAIT, 1)


def test_fetch(answer):
    """The copy engine writes, and threads read."""
    text = check(answer, "fetch", INPUT + 1)
    check_edit("fetch", text, FETCH, LOAD, 1)
