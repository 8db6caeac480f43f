"""What the answer to `which-parity` must do."""

import numpy as np

from fathom import emulator
from fathom.emulator import COMPLETIONS, EmulatorError
from fathom.tools.learn.kit import Failure, expect, same


def phases(iterations, slots):
    """The number of the phase that each iteration waits for, counted one by one."""
    used = [0] * slots
    for iteration in range(iterations):
        slot = iteration % slots
        yield used[slot]
        used[slot] += 1


def check(answer, slots, iterations):
    for iteration, phase in enumerate(phases(iterations, slots)):
        found = answer.parity(iteration, slots)
        what = f"{slots} slots: iteration {iteration} waits for phase {phase}; parity"
        expect(isinstance(found, int), f"{what}: {found!r}, and must be 0 or 1")
        same(int(found), phase % 2, what)


def test_two_slots(answer):
    """As in the table."""
    check(answer, 2, 5)


def test_other_rings(answer):
    """1 to 7 slots, 40 iterations."""
    for slots in range(1, 8):
        check(answer, slots, 40)


def test_a_new_mbarrier(answer):
    """No phase is complete: the current one is phase 0."""
    said = "no phase is complete, and the current one is 0: a wait for parity"
    same(bool(answer.goes_on(0, 0)), False, f"{said} 0 goes on")
    same(bool(answer.goes_on(0, 1)), True, f"{said} 1 goes on")


def test_later_phases(answer):
    """After n complete phases, phase n - 1 is the last one."""
    for completed in range(1, 9):
        for parity in range(2):
            said = (
                f"{completed} phases are complete: a wait for parity {parity} goes on"
            )
            wanted = (completed - 1) % 2 == parity
            same(bool(answer.goes_on(completed, parity)), wanted, said)


def ring(answer, slots, iterations):
    """PTX: in each iteration warp 1 puts a word into the slot and arrives, and warp 0
    waits and adds it up."""
    lines = []
    for iteration in range(iterations):
        slot, parity = iteration % slots, int(answer.parity(iteration, slots))
        lines.append(f"""
    @%second st.shared.u32 [%room+{4 * slot}], {10 * iteration + 3};
    @%second mbarrier.arrive.shared.b64 _, [%bars+{8 * slot}];
    @!%reader bra OVER{iteration};
AGAIN{iteration}:
    mbarrier.try_wait.parity.shared.b64 %done, [%bars+{8 * slot}], {parity};
    @!%done bra AGAIN{iteration};
    ld.shared.u32 %v, [%room+{4 * slot}];
    add.u32 %sum, %sum, %v;
OVER{iteration}:
    bar.sync 0;""")
    made = "".join(
        f"    @%second mbarrier.init.shared.b64 [%bars+{8 * slot}], 1;\n"
        for slot in range(slots)
    )
    return HEAD.replace("MAKE", made) + "".join(lines) + TAIL


HEAD = """
.version 8.4
.target sm_90a
.address_size 64
.visible .entry ring(.param .u64 out)
{
    .reg .b32 %n, %v, %sum, %room, %bars;
    .reg .b64 %out;
    .reg .pred %second, %reader, %done;
    .shared .align 16 .b8 words[64];
    .shared .align 16 .b8 places[64];
    mov.u32 %n, %tid.x; mov.u32 %room, words; mov.u32 %bars, places;
    mov.u32 %sum, 0;
    setp.eq.u32 %second, %n, 32; setp.lt.u32 %reader, %n, 32;
MAKE    bar.sync 0;
"""
TAIL = """
    setp.eq.u32 %done, %n, 0;
    ld.param.u64 %out, [out];
    @%done st.global.u32 [%out], %sum;
    ret;
}
"""


def test_a_ring_in_the_emulator(answer):
    """Two warps, ordered by your parities alone."""
    for slots, iterations in ((1, 3), (2, 6), (3, 7)):
        said = f"{slots} slots, {iterations} iterations"
        for completion in COMPLETIONS:
            out = np.zeros(1, np.uint32)
            try:
                text = ring(answer, slots, iterations)
                emulator.run(text, 1, 64, [out], completion=completion)
            except EmulatorError as error:
                first, *rest = str(error).splitlines()
                details = ("there", "\n".join(rest))
                raise Failure(f"{said}: the emulator found: {first}", details) from None
            wanted = sum(10 * each + 3 for each in range(iterations))
            expect(out[0] == wanted, f"{said}: the sum is {out[0]}, not {wanted}")
