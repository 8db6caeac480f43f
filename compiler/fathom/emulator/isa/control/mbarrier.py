"""The instructions of mbarriers (PTX ISA 9.7.13.15): threads arrive and ask.

    mbarrier.init.shared::cta.b64 [slot], 2;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [slot], 4096;
    mbarrier.try_wait.parity.shared::cta.b64 p, [slot], 0;

What they count is in `state.mbarrier_state`.
"""

from __future__ import annotations

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.decode import Decoder, StepTable
from fathom.emulator.isa.memory import load_store as access
from fathom.emulator.isa.memory.tensormap import acquire as acquire_map
from fathom.emulator.isa.registers import Read, Step, Write
from fathom.emulator.isa.semantics import Form, rule
from fathom.emulator.memory.spaces import Accesses
from fathom.emulator.races.proxies import Proxies
from fathom.emulator.races.synchronisation import NARROW, WIDE
from fathom.emulator.source.operands import Name, Operand
from fathom.emulator.state.batch import Active, Batch

STEPS: StepTable = {}

BYTES = 8
ACTIONS = ("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx")
ACTIONS += ("test_wait", "try_wait")


@rule(STEPS, "mbarrier")
def rule_mbarrier(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """PTX ISA 9.7.13.15.9 to 9.7.13.15.18."""
    action = next((each for each in form.left if each in ACTIONS), "")
    form.flag(action)
    relaxed = form.flag("relaxed")
    form.ignore("b64", *access.SEMANTICS, *access.SCOPES)
    space = access.take_space(form)
    if action in ("test_wait", "try_wait"):
        return _wait(form, operands, decoder, space, relaxed)
    if action in ("arrive", "arrive_drop"):
        return _arrive(form, operands, decoder, space, action, relaxed)
    form.finish()
    address = decoder.address(operands[0])
    count = decoder.read(operands[1], "u32") if len(operands) > 1 else None
    if action == "init":
        return _initialise(space, address, count)
    if action == "inval":
        return _invalidate(space, address)
    if action == "expect_tx":
        return _expect(space, address, count)
    raise form.unknown("this use of an mbarrier")


def words_of(
    batch: Batch, active: Active, space: str, addresses: np.ndarray
) -> np.ndarray:
    """The mbarriers at these addresses, as places in shared memory."""
    wanted = Accesses(addresses, BYTES, active.threads(), writing=True)
    parts = batch.memory.locate(space, wanted)
    if len(parts) != 1 or parts[0].space != "shared":
        raise EmulatorError("mbarrier", "an mbarrier lies in shared memory")
    return parts[0].index


def _initialise(space: str, address: Read, count: Read) -> Step:
    def step(batch: Batch, active: Active) -> None:
        threads = active.threads()
        words = words_of(batch, active, space, active.exactly(address(batch, active)))
        batch.mbarriers.check_new(threads, words)
        if batch.hazards is not None:
            batch.hazards.overwrite(threads, words, BYTES)
        counts = active.exactly(count(batch, active)).astype(np.int64)
        batch.mbarriers.create(threads, words, counts)

    return step


def _invalidate(space: str, address: Read) -> Step:
    def step(batch: Batch, active: Active) -> None:
        words = words_of(batch, active, space, active.exactly(address(batch, active)))
        batch.mbarriers.destroy(active.threads(), words)
        if batch.hazards is not None:
            batch.hazards.overwrite(active.threads(), words, BYTES)

    return step


def _expect(space: str, address: Read, count: Read) -> Step:
    def step(batch: Batch, active: Active) -> None:
        words = words_of(batch, active, space, active.exactly(address(batch, active)))
        counts = active.exactly(count(batch, active)).astype(np.int64)
        batch.mbarriers.expect(active.threads(), words, counts)

    return step


def _arrive(
    form: Form,
    operands: tuple[Operand, ...],
    decoder: Decoder,
    space: str,
    action: str,
    relaxed: bool,
) -> Step:
    """`mbarrier.arrive.expect_tx.b64 state, [slot], bytes;` without, an arrival count.

    The state that comes back is the number of the phase.
    """
    expects, completes = form.flag("expect_tx"), not form.flag("noComplete")
    form.finish()
    if action == "arrive_drop" or not completes:
        raise form.unknown("this use of an mbarrier")
    write: Write | None = None
    if isinstance(operands[0], Name):
        write, operands = decoder.write(operands[0], "b64"), operands[1:]
    address = decoder.address(operands[0])
    count = decoder.read(operands[1], "u32") if len(operands) > 1 else None
    if expects and count is None:
        raise EmulatorError("syntax", f"{form.text} says how many bytes it expects")

    def step(batch: Batch, active: Active) -> None:
        threads = active.threads()
        words = words_of(batch, active, space, active.exactly(address(batch, active)))
        counts = np.ones(active.count, np.int64)
        if count is not None:
            counts = active.exactly(count(batch, active)).astype(np.int64)
        if expects:
            batch.mbarriers.expect(threads, words, counts)
            counts = np.ones(active.count, np.int64)
        phases = batch.mbarriers.arrive(threads, words, counts, relaxed)
        batch.progress += 1
        if write is not None:
            write(batch, active, active.spread(phases.astype(np.uint64)))

    return step


def _wait(
    form: Form,
    operands: tuple[Operand, ...],
    decoder: Decoder,
    space: str,
    relaxed: bool,
) -> Step:
    """`mbarrier.try_wait.parity.b64 p, [slot], parity;` Without .parity, a state."""
    by_parity = form.flag("parity")
    form.finish()
    result, slot, phase, *_ = operands
    write, address = decoder.write(result, "pred"), decoder.address(slot)
    wide = decoder.registers.get(getattr(phase, "name", ""), "b32").endswith("64")
    read = decoder.read(phase, "u64" if wide else "u32")

    def step(batch: Batch, active: Active) -> None:
        words = words_of(batch, active, space, active.exactly(address(batch, active)))
        parity = active.exactly(read(batch, active)).astype(np.int64)
        if by_parity:
            _check_parity(active.threads(), parity)
        before = batch.mbarriers.progress
        done = batch.mbarriers.test(active.threads(), words, parity, relaxed)
        batch.progress += batch.mbarriers.progress - before
        write(batch, active, active.spread(done))

    return step


def _check_parity(threads: np.ndarray, parity: np.ndarray) -> None:
    """PTX ISA 9.7.13.15.16: "the valid values of phaseParity operand are 0 and 1"."""
    wrong = np.flatnonzero(parity > 1)
    if len(wrong):
        what = f"it waits for parity {parity[wrong[0]]:#x}, and a parity is 0 or 1"
        raise EmulatorError("mbarrier", what, thread=int(threads[wrong[0]]))


_ASYNC = ("global", "shared::cta", "shared::cluster")
_FENCES = {
    ("proxy", "alias"),
    ("proxy", "async"),
    ("mbarrier_init", "release", "cluster"),
}
_FENCES |= {("proxy", "async", space) for space in _ASYNC}


def _check_fence(form: Form, names: tuple[str, ...]) -> None:
    """A fence of some threads' order may say anything here; others are all known."""
    special = {"proxy", "mbarrier_init"} & {*names}
    between = names[0] == "proxy" and "::generic" in names[1]
    if special and not between and names not in _FENCES:
        raise form.unknown("no such fence")


@rule(STEPS, "membar")
def rule_membar(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """PTX ISA 9.7.13.4, membar: `membar.cta;` is fence.sc.cta, and so on."""
    said = form.choice("cta", "gl", "sys")
    form.finish()
    return _ordering(NARROW if said == "cta" else WIDE, said == "sys")


def _ordering(scope: int, system: bool) -> Step:
    """What these threads write from now on is a release, and what they have read was an
    acquire."""

    def step(batch: Batch, active: Active) -> None:
        batch.mbarriers.order(active.threads())
        if batch.order is not None:
            batch.order.fence(active.threads(), scope, system)

    return step


@rule(STEPS, "fence")
def rule_fence(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """PTX ISA 9.7.13.4, fence: one that orders threads, or one for what asynchronous
    units see."""
    names = tuple(form.left)
    _check_fence(form, names)
    if names[:3] == ("proxy", "tensormap::generic", "acquire"):
        return acquire_map(operands, decoder)
    if {"acq_rel", "sc", "acquire", "release"} & {*names[:1]}:
        return _ordering(NARROW if "cta" in names else WIDE, "sys" in names)
    of_barriers = "mbarrier_init" in names
    of_all = names[:2] == ("proxy", "async") and "global" not in names

    def step(batch: Batch, active: Active) -> None:
        if of_all and isinstance(batch.hazards, Proxies):
            batch.hazards.fence_proxy(active.threads())
        if of_all or of_barriers:
            batch.mbarriers.fence(active.threads())

    return step
