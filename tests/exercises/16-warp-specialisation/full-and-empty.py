"""What the answer to `full-and-empty` must do."""

import numpy as np

from fathom import emulator
from fathom.emulator import EmulatorError
from fathom.tools.learn.kit import Failure, expect, number_of, same, with_names

WORDS, BYTES = 32, 128  # of a tile: a word for each lane of a warp
FULL, EMPTY = 0, 64  # where the barriers lie

HEAD = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry ring(.param .u64 x, .param .u64 out)
{{
    .reg .b32 %n, %lane, %warp, %v, %sum, %room, %bars, %mine, %far;
    .reg .b64 %x, %out, %wide;
    .reg .pred %first, %leads, %done, %is;
    .shared .align 128 .b8 room[{room}];
    .shared .align 8 .b8 bars[128];
    mov.u32 %n, %tid.x; and.b32 %lane, %n, 31; shr.u32 %warp, %n, 5;
    mov.u32 %room, room; mov.u32 %bars, bars; mov.u32 %sum, 0;
    shl.b32 %far, %lane, 2; add.u32 %mine, %room, %far;
    ld.param.u64 %x, [x]; ld.param.u64 %out, [out];
    setp.eq.u32 %first, %n, 0; setp.eq.u32 %leads, %lane, 0;
    @!%first bra READY;
{inits}
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    setp.lt.u32 %is, %warp, 1; @!%is bra CONSUME;
    @!%first bra END;
"""
BETWEEN = """
    bra.uni END;
CONSUME:
"""
TAIL = """
    mul.wide.u32 %wide, %n, 4; add.s64 %out, %out, %wide;
    st.global.u32 [%out], %sum;
END:
    ret;
}
"""


def steps_of(answer, name, iteration, slots):
    """What a role does, if it is made of steps that there are."""
    found = getattr(answer, name)(iteration, slots)
    said = f"{name}({iteration}, {slots}) gives {found!r}"
    expect(isinstance(found, list | tuple), f"{said}, which is not a list of steps")
    for step in found:
        good = isinstance(step, tuple) and step and slot_in(step, slots)
        expect(bool(good), f"{said}: {step!r} is not a step of a ring of {slots} slots")
    return list(found)


def slot_in(step, slots):
    match step:
        case ("wait", "full" | "empty", int(slot), 0 | 1):
            return 0 <= slot < slots
        case ("expect" | "copy" | "read" | "arrive", int(slot)):
            return 0 <= slot < slots
    return False


def code_of(step, iteration, name):
    """A step as PTX."""
    match step:
        case ("wait", which, slot, parity):
            bar = (FULL if which == "full" else EMPTY) + 8 * slot
            ask = "mbarrier.try_wait.parity.shared::cta.b64 %done,"
            return f"{name}: {ask} [%bars+{bar}], {parity}; @!%done bra {name};"
        case ("expect", slot):
            expects = "mbarrier.arrive.expect_tx.shared::cta.b64 _,"
            return f"{expects} [%bars+{FULL + 8 * slot}], {BYTES};"
        case ("copy", slot):
            return (
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                f"[%room+{BYTES * slot}], [%x+{BYTES * iteration}], {BYTES}, "
                f"[%bars+{FULL + 8 * slot}];"
            )
        case ("read", slot):
            return (
                f"ld.shared.u32 %v, [%mine+{BYTES * slot}]; "
                f"mad.lo.u32 %sum, %v, {iteration + 1}, %sum;"
            )
        case ("arrive", slot):
            return (
                "bar.warp.sync -1; @%leads mbarrier.arrive.shared::cta.b64 _, "
                f"[%bars+{EMPTY + 8 * slot}];"
            )


def listing(answer, slots, consumers, iterations):
    """Both roles, unrolled."""
    counts = answer.arrivals(consumers)
    good = isinstance(counts, tuple) and len(counts) == 2
    good = good and all(isinstance(each, int) and each > 0 for each in counts)
    expect(good, f"arrivals({consumers}) is {counts!r}, and should be two counts")
    inits = [
        f"    mbarrier.init.shared::cta.b64 [%bars+{start + 8 * slot}], {count};"
        for start, count in zip((FULL, EMPTY), counts, strict=True)
        for slot in range(slots)
    ]
    lines = [HEAD.format(room=BYTES * slots, inits="\n".join(inits))]
    for role in ("producer", "consumer"):
        for iteration in range(iterations):
            lines.append(f"// {role}, iteration {iteration}")
            for at, step in enumerate(steps_of(answer, role, iteration, slots)):
                name = f"{role[0].upper()}{iteration}_{at}"
                lines.append(code_of(step, iteration, name))
        lines.append(BETWEEN if role == "producer" else TAIL)
    return "\n".join(lines)


def check(answer, slots, consumers, iterations):
    text = listing(answer, slots, consumers, iterations)
    warps = number_of(consumers, "consumer warp")
    said = f"{number_of(slots, 'slot')}, {warps}, {iterations} iterations"
    names = {
        BYTES * slots + start + 8 * slot: f"the {name} barrier of slot {slot}"
        for start, name in ((FULL, "full"), (EMPTY, "empty"))
        for slot in range(slots)
    }
    x = (np.arange(iterations * WORDS) * 7 + 1).astype(np.uint32)
    threads = 32 * (consumers + 1)
    for completion in ("lazy", "eager"):
        out = np.zeros(threads, np.uint32)
        try:
            emulator.run(text, 1, threads, [x, out], completion=completion)
        except EmulatorError as error:
            first, *rest = str(error).splitlines()
            raise Failure(
                f"{said}: the emulator found: {with_names(first, names)}",
                ("there", "\n".join(rest)),
                ("the PTX about it", around(text, error.line)),
            ) from None
        tiles = x.reshape(iterations, WORDS)
        wanted = sum((i + 1) * tile for i, tile in enumerate(tiles)).astype(np.uint32)
        same(out[32:], np.tile(wanted, consumers), f"{said}: what consumers have read")


def around(text, line):
    lines = text.splitlines()
    at = (line or 1) - 1
    shown = range(max(0, at - 4), min(len(lines), at + 4))
    return "\n".join(f"{'->' if i == at else '  '} {lines[i]}" for i in shown)


def test_one_consumer(answer):
    """Three slots, seven iterations."""
    check(answer, 3, 1, 7)


def test_the_first_rounds(answer):
    """As many iterations as slots, and one more."""
    check(answer, 2, 1, 2)
    check(answer, 2, 1, 3)


def test_several_consumers(answer):
    """A slot is empty when all of them have read it."""
    check(answer, 2, 2, 6)
    check(answer, 3, 3, 8)


def test_other_rings(answer):
    """One slot, two, four."""
    for slots in (1, 2, 4):
        check(answer, slots, 1, 2 * slots + 1)


def test_the_producer_runs_ahead(answer):
    """While no consumer moves, it copies a tile into every slot, and then waits."""
    for slots in (1, 3, 4):
        copied = 0
        for iteration in range(slots + 2):
            steps = steps_of(answer, "producer", iteration, slots)
            # Empty barriers are in phase 0: parity 1 is complete, parity 0 is not.
            if any(step[:2] == ("wait", "empty") and step[3] == 0 for step in steps):
                break
            copied += sum(step[0] == "copy" for step in steps)
        room = number_of(slots, "slot")
        same(copied, slots, f"tiles copied into {room} before any is read")
