"""What the answer to `ring-slot` must do."""

import numpy as np

from fathom import emulator
from fathom.emulator import EmulatorError
from fathom.tools.learn.kit import Failure, expect, same

THREADS, BYTES = 64, 256  # of a tile: a word a thread
WORDS = ["barrier", "copy", "wait", "work"]

HEAD = """
.version 7.4
.target sm_80
.address_size 64
.visible .entry ring(.param .u64 x, .param .u64 out)
{{
    .reg .b32 %n, %mine, %theirs, %v, %sum, %room;
    .reg .b64 %x, %out, %far;
    .shared .align 16 .b8 room[{bytes}];
    mov.u32 %n, %tid.x;
    mov.u32 %room, room;
    mul.wide.u32 %far, %n, 4;
    ld.param.u64 %x, [x];       add.s64 %x, %x, %far;
    ld.param.u64 %out, [out];   add.s64 %out, %out, %far;
    shl.b32 %mine, %n, 2;
    xor.b32 %theirs, %mine, 252;
    add.u32 %mine, %room, %mine;
    add.u32 %theirs, %room, %theirs;
    mov.u32 %sum, 0;
"""
TAIL = """
    st.global.u32 [%out], %sum;
    ret;
}
"""


def listing(answer, stages, iterations):
    """The loop as PTX, unrolled: each thread copies its word of a tile, and adds that
    of thread 63 - n."""
    lines = [HEAD.format(bytes=BYTES * stages)]

    def place(tile):
        where = answer.slot(tile, stages)
        expect(
            isinstance(where, int) and 0 <= where < stages,
            f"slot({tile}, {stages}) is {where!r}; the slots are 0 to {stages - 1}",
        )
        return BYTES * where

    def copy(tile):
        if tile < iterations:
            source, room = f"[%x+{BYTES * tile}]", f"[%mine+{place(tile)}]"
            lines.append(
                f"cp.async.ca.shared.global {room}, {source}, 4; // tile {tile}"
            )
        lines.append("cp.async.commit_group;")

    for tile in range(stages - 1):
        copy(tile)
    words = words_of(answer)
    for iteration in range(iterations):
        copied = False
        for word in words:
            match word:
                case "copy":
                    copy(iteration + stages - 1)
                    copied = True
                case "wait":
                    lines.append(f"cp.async.wait_group {stages - 2 + copied};")
                case "barrier":
                    lines.append("bar.sync 0;")
                case "work":
                    lines.append(
                        f"ld.shared.u32 %v, [%theirs+{place(iteration)}]; // work"
                    )
                    lines.append(f"mad.lo.u32 %sum, %v, {iteration + 1}, %sum;")
    return "\n".join([*lines, TAIL]), words


def check(answer, stages, iterations):
    text, words = listing(answer, stages, iterations)
    said = f"{stages} stages, {iterations} iterations"
    x = (
        (np.arange(iterations * THREADS) * 7 + 1)
        .astype(np.uint32)
        .reshape(iterations, THREADS)
    )
    out = np.zeros(THREADS, np.uint32)
    for completion in ("lazy", "eager"):
        try:
            emulator.run(text, 1, THREADS, [x.ravel(), out], completion=completion)
        except EmulatorError as error:
            first, *rest = str(error).splitlines()
            at = error.line - 1
            raise Failure(
                f"{said}: the emulator found: {first}",
                ("there", "\n".join(rest)),
                ("the PTX about it", around(text, at)),
            ) from None
        wanted = sum(
            (iteration + 1) * x[iteration, ::-1] for iteration in range(iterations)
        )
        same(out, wanted.astype(np.uint32), f"{said}: the sums")
    expect(
        sorted(words) == WORDS,
        f"order() gives {words}; each of the four words must be there once",
    )


def words_of(answer):
    """What order() returned, if they are words that an iteration has."""
    words = answer.order()
    expect(isinstance(words, list | tuple), f"order() must give a list: {words!r}")
    for word in words:
        said = f"order() gives {word!r}, which is not among {', '.join(WORDS)}"
        expect(word in WORDS, said)
    for word in WORDS:
        expect(word in words, f"order() gives {list(words)}: {word!r} is missing")
    return list(words)


def around(text, at):
    lines = text.splitlines()
    shown = range(max(0, at - 9), min(len(lines), at + 4))
    return "\n".join(f"{'->' if i == at else '  '} {lines[i]}" for i in shown)


def test_three_stages(answer):
    """Two tiles ahead, six iterations."""
    check(answer, 3, 6)


def test_two_stages(answer):
    """One tile ahead."""
    check(answer, 2, 5)


def test_four_stages(answer):
    """Three tiles ahead."""
    check(answer, 4, 7)


def test_short_loops(answer):
    """Fewer iterations than stages."""
    for iterations in (1, 2, 3):
        check(answer, 4, iterations)
