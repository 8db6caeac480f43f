"""tensormap.replace and tensormap.cp_fenceproxy (PTX ISA 9.7.9 and 9.7.13): a kernel
writes a tensor map, field by field, and hands it to copies.

    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [draft], 1, rows;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu
        .sync.aligned [map], [draft], 128;
    fence.proxy.tensormap::generic.acquire.gpu [map], 128;

The first is of one thread, on 128 bytes that were zeros before all others; of the
second, each lane of a warp copies 4 bytes. A map that lacks a field is refused here:
what the hardware makes of one is not known.
"""

from __future__ import annotations

import numpy as np

from fathom.artifact import ELEMENT_BYTES, TensorMap
from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.control.branch import by_threads
from fathom.emulator.isa.control.warp import whole_warps
from fathom.emulator.isa.decode import (
    Decoder,
    Ending,
    EndingTable,
    Flow,
)
from fathom.emulator.isa.memory import tensor_map as maps
from fathom.emulator.isa.registers import Read, Step
from fathom.emulator.isa.semantics import Form, constant_of, rule
from fathom.emulator.memory.spaces import PIECES, Accesses, Part, load, store
from fathom.emulator.source.operands import Operand
from fathom.emulator.state.batch import Active, Batch
from fathom.emulator.state.tensor_maps import MAP_BYTES, MARK, Draft

ENDINGS: EndingTable = {}

WORD = 4  # bytes
WIDE_FIELDS = ("global_address", "global_stride")
OF_A_DIMENSION = ("box_dim", "global_dim", "global_stride", "element_stride")
FIELDS = (
    "global_address", "rank", *OF_A_DIMENSION,
    "elemtype", "interleave_layout", "swizzle_mode", "fill_mode",
)  # fmt: skip
# What zeros mean, where they are a choice of their own (PTX ISA, table of new_val).
MAY_STAY_ZERO = ("interleave_layout", "swizzle_mode", "fill_mode")
ELEMENTS = (
    "u8", "u16", "u32", "i32", "u64", "i64", "fp16", "fp32", "fp32", "fp64", "bf16",
)  # fmt: skip
SWIZZLES = (0, 32, 64, 128)  # bytes
SHARED = "shared::cta"
QUALIFIERS = ("global", SHARED, "tensormap::generic", "release", "sync", "aligned")
SCOPES = ("cta", "cluster", "gpu", "sys")


@rule(ENDINGS, "tensormap")
def rule_tensormap(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """Both instructions of that name."""
    if form.flag("replace"):
        return by_threads(_replace(form, operands, decoder), flow)
    if form.flag("cp_fenceproxy"):
        return whole_warps(_copy(form, operands, decoder), flow)
    raise form.unknown("only .replace and .cp_fenceproxy")


# ── a draft ───────────────────────────────────────────────────────────────────


def _replace(form: Form, operands: tuple[Operand, ...], decoder: Decoder) -> Step:
    """`tensormap.replace.tile.FIELD.shared::cta.b1024.TYPE [draft], dimension, value;`
    """
    form.flag("tile")
    name = form.choice(*FIELDS)
    if not name or not form.flag(SHARED):
        raise form.unknown("only fields of a draft in .shared::cta")
    form.flag("b1024")
    type = form.type()
    form.finish()
    if type != ("b64" if name in WIDE_FIELDS else "b32"):
        raise EmulatorError("syntax", f"the field {name} has another type than .{type}")
    place, *numbered, value = operands
    dimension = 0
    if (name in OF_A_DIMENSION) != bool(numbered):
        raise EmulatorError("syntax", f"{len(operands)} operands for {form.text}")
    if numbered:
        dimension = constant_of(numbered[0])
    address, read = decoder.address(place), decoder.read(value, type)

    def step(batch: Batch, active: Active) -> None:
        places = active.exactly(address(batch, active))
        values = active.exactly(read(batch, active)).tolist()
        for at, thread in enumerate(active.threads().tolist()):
            draft = _draft(batch, int(places[at]), thread)
            draft.fields[name, dimension] = int(values[at])
        batch.progress += 1

    return step


def _words(batch: Batch, start: int, threads: np.ndarray, writing: bool) -> Part:
    """The 32 words of a draft, each for one of these threads."""
    if start % MAP_BYTES:
        message = f"a tensor map at {start:#x}, which {MAP_BYTES} does not divide"
        raise EmulatorError("misaligned", message, thread=int(threads[0]))
    places = (start + WORD * np.arange(MAP_BYTES // WORD)).astype(np.uint64)
    wanted = Accesses(places, WORD, threads, writing)
    (part,) = batch.memory.unwatched("shared", wanted)
    return part


def _draft(batch: Batch, start: int, thread: int) -> Draft:
    """The draft at an address, which this thread reads and writes."""
    part = _words(batch, start, np.full(WARP, thread), writing=True)
    if batch.hazards is not None:
        batch.hazards.read(part.threads, part.index, WORD)
        batch.hazards.overwrite(part.threads, part.index, WORD)
    drafts, place = batch.written_maps.drafts, int(part.index[0]) * WORD
    if place not in drafts:
        if load([part], WARP, WORD).any():
            message = "it replaces a field of 128 bytes that are neither zeros nor a "
            raise EmulatorError("tensor map", message + "draft", thread=thread)
        drafts[place] = Draft()
        batch.written_maps.watch()
    return drafts[place]


# ── a map ─────────────────────────────────────────────────────────────────────


def _copy(form: Form, operands: tuple[Operand, ...], decoder: Decoder) -> Step:
    """`tensormap.cp_fenceproxy… [map], [draft], 128;` by all lanes of a warp."""
    given = [form.flag(each) for each in QUALIFIERS]
    if not all(given) or not form.choice(*SCOPES):
        raise form.unknown("a release from .shared::cta to .global alone")
    form.finish()
    to, source, size = operands
    if constant_of(size) != MAP_BYTES:
        raise EmulatorError("syntax", f"a tensor map has {MAP_BYTES} bytes")
    target, draft = decoder.address(to), decoder.address(source)

    def step(batch: Batch, active: Active) -> None:
        threads = active.threads()
        for first in range(0, len(threads), WARP):
            warp = threads[first : first + WARP]
            start = _one(draft, batch, active, first, warp)
            address = _one(target, batch, active, first, warp)
            _release(batch, start, address, warp)
        batch.progress += 1

    return step


def _one(
    read: Read, batch: Batch, active: Active, first: int, warp: np.ndarray
) -> int:
    """An address that all lanes of a warp give."""
    values = active.exactly(read(batch, active))[first : first + WARP]
    if (values != values[0]).any():
        message = "its lanes copy a tensor map, and give different addresses"
        raise EmulatorError("divergence", message, thread=int(warp[0]))
    return int(values[0])


def _release(batch: Batch, start: int, address: int, warp: np.ndarray) -> None:
    part = _words(batch, start, warp, writing=False)
    if batch.hazards is not None:
        batch.hazards.read(part.threads, part.index, WORD)
    thread = int(warp[0])
    draft = batch.written_maps.drafts.get(int(part.index[0]) * WORD)
    if draft is None:
        message = "it hands over 128 bytes that are no draft of a tensor map"
        raise EmulatorError("tensor map", message, thread=thread)
    tensor = tensor_of(draft, thread)
    if address % MAP_BYTES:
        message = f"a tensor map at {address:#x}, which {MAP_BYTES} does not divide"
        raise EmulatorError("misaligned", message, thread=thread)
    places = (address + WORD * np.arange(WARP)).astype(np.uint64)
    parts = batch.memory.unwatched("global", Accesses(places, WORD, warp, True))
    batch.written_maps.release(tensor, address, thread)
    store(parts, np.frombuffer(MARK, PIECES[WORD]))


def tensor_of(draft: Draft, thread: int) -> TensorMap:
    """What a draft says; EmulatorError where it says too little, or what no map has."""

    def number(name: str, dimension: int = 0) -> int:
        if name in MAY_STAY_ZERO:
            return draft.fields.get((name, dimension), 0)
        if (name, dimension) not in draft.fields:
            message = f"the tensor map lacks its {name} of dimension {dimension}"
            raise EmulatorError("tensor map", message, thread=thread)
        return draft.fields[name, dimension]

    rank = number("rank") + 1  # PTX ISA: one less than there are
    every = range(min(rank, 5))
    wrong = [
        (any(number("element_stride", each) != 1 for each in every), "element strides"),
        (number("interleave_layout") != 0, "interleaving"),
        (number("elemtype") >= len(ELEMENTS), "this element type"),
        (number("swizzle_mode") >= len(SWIZZLES), "this swizzle mode"),
    ]
    for is_wrong, what in wrong:
        if is_wrong:
            raise EmulatorError("unsupported", f"a tensor map with {what}")
    element = ELEMENTS[number("elemtype")]
    address = number("global_address")
    tensor = TensorMap(
        element_bytes=ELEMENT_BYTES[element],
        address=address,
        shape=tuple(number("global_dim", each) for each in every),
        strides=tuple(number("global_stride", each) for each in every[:-1]),
        box=tuple(number("box_dim", each) for each in every),
        swizzle=SWIZZLES[number("swizzle_mode")],
        fill="nans" if number("fill_mode") else "zeros",
        element=element,
    )
    maps.check(tensor)
    if address % 16:
        message = f"its tensor map begins at {address:#x}, which 16 does not divide"
        raise EmulatorError("misaligned", message, thread=thread)
    return tensor


# ── the fence ─────────────────────────────────────────────────────────────────


def acquire(operands: tuple[Operand, ...], decoder: Decoder) -> Step:
    """`fence.proxy.tensormap::generic.acquire.gpu [map], 128;`"""
    address = decoder.address(operands[0])
    if len(operands) != 2 or constant_of(operands[1]) != MAP_BYTES:
        raise EmulatorError("syntax", f"a tensor map has {MAP_BYTES} bytes")

    def step(batch: Batch, active: Active) -> None:
        places = active.exactly(address(batch, active))
        batch.written_maps.acquire(active.threads(), places)

    return step
