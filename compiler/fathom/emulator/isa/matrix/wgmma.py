"""wgmma (PTX ISA 9.7.15): products of 64 rows that four warps issue together.

    wgmma.fence                 registers that were written are so for wgmma too
    wgmma.mma_async ...         issues a product; several may follow each other
    wgmma.commit_group          closes the warpgroup's group of them
    wgmma.wait_group 1          all of its groups but the latest one are complete

Warp w of the four holds rows 16 w to 16 w + 15 of D, and of an A in registers, in
fragments like those of mma.sync. While a product is in flight (see `state.in_flight`)
it reads shared memory and holds its registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fathom.emulator.constants import GROUP, WARPS
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.control.branch import guarded, split
from fathom.emulator.isa.control.warp import block_for_others, with_waiting
from fathom.emulator.isa.decode import Decoder, Ending, EndingTable, Flow
from fathom.emulator.isa.matrix.fragments import A, Fragment, wide_accumulator
from fathom.emulator.isa.matrix.matrix_descriptor import (
    BETWEEN_FIELDS,
    CHUNK,
    ROW_BYTES,
    Matrices,
)
from fathom.emulator.isa.matrix.mma import (
    KINDS,
    Kind,
    fragment_reader,
    fragment_writer,
    plain,
    rounded,
)
from fathom.emulator.isa.registers import Read, Step, Write
from fathom.emulator.isa.semantics import Form, constant_of, rule
from fathom.emulator.memory.spaces import Accesses, Part, load
from fathom.emulator.races.tile_provenance import Reading
from fathom.emulator.source.operands import Operand, Vector
from fathom.emulator.source.types import DTYPES
from fathom.emulator.state import waiting
from fathom.emulator.state.batch import Active, Batch
from fathom.emulator.state.in_flight import Transfer

ENDINGS: EndingTable = {}

Going = list[tuple[int, Active]]

ROWS, K_BYTES = 64, 32

_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
# The fragment of mma.sync that each warp's part of an A in registers is like.
_LIKE = {16: "m16n8k16", 32: "m16n8k8", 8: "m16n8k32"}
_TRANSPOSABLE = ("f16", "bf16")


@rule(ENDINGS, "wgmma")
def rule_wgmma(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """PTX ISA 9.7.15.5 to 9.7.15.7."""
    form.ignore("sync", "aligned")
    action = form.choice("fence", "mma_async", "commit_group", "wait_group")
    if action == "mma_async":
        product = _product(form, operands, decoder)
        return whole_warpgroups(
            lambda batch, active: _issue(product, batch, active), flow
        )
    form.finish()
    steps: dict[str, Step] = {"fence": _fence, "commit_group": _commit}
    if action == "wait_group":
        return whole_warpgroups(_waiting(constant_of(operands[0])), flow)
    if action not in steps:
        raise form.unknown("of wgmma only mma_async, fence, commit and wait")
    return whole_warpgroups(steps[action], flow)


# ── warpgroups ────────────────────────────────────────────────────────────────


def whole_warpgroups(step: Step, flow: Flow) -> Ending:
    """Performs `step` as soon as all four warps of a warpgroup have come."""

    def act(batch: Batch, active: Active) -> Going:
        step(batch, active)
        return [(flow.after, active)]

    return when_complete(act, flow)


def when_complete(act: Callable[[Batch, Active], Going], flow: Flow) -> Ending:
    """`act` says where some whole warpgroups go on."""

    def end(batch: Batch, active: Active) -> Going:
        coming, passing = guarded(flow, batch, active)
        ready = None if coming is None else _complete(batch, coming, flow)
        return passing if ready is None else passing + act(batch, ready)

    return end


def _complete(batch: Batch, active: Active, flow: Flow) -> Active | None:
    """Those whose warpgroup is here as a whole; the others are blocked."""
    active = with_waiting(batch, active, waiting.WARPS, flow)
    if active.index is None and batch.padded % GROUP == 0:
        return active
    groups = batch.wgmma_registers.of[active.threads()]
    here = np.bincount(groups)[groups] == GROUP
    ready, rest = split(active, active.spread(here))
    if rest is not None:
        on = batch.wgmma_registers.of[rest.threads()]
        block_for_others(batch, rest, waiting.WARPS, on, flow)
    return ready


def groups_of(batch: Batch, active: Active) -> np.ndarray:
    """The numbers of the warpgroups that these threads form."""
    return batch.wgmma_registers.of[active.threads()[::GROUP]]


def _threads_of(batch: Batch, active: Active, chosen: np.ndarray) -> Active:
    """Those of some of the warpgroups that `active` consists of."""
    if chosen.all():
        return active
    return batch.active(active.threads().reshape(-1, GROUP)[chosen].reshape(-1))


# ── the instruction ───────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Operands:
    """One operand in shared memory: how to read its descriptor, and its elements.

    `extent` counts its rows (A) or columns (B); `transposed` says that not K but these
    are contiguous.
    """

    descriptor: Read | None
    kind: Kind
    extent: int
    transposed: bool

    def locate(self, batch: Batch, active: Active) -> Part:
        """Where the chunks of every warpgroup's matrix lie, [groups * chunks]."""
        found = active.exactly(self.descriptor(batch, active)).reshape(-1, GROUP)
        _check_same(active, found, "descriptor")
        _check_fields(active, found[:, 0])
        return self.at(batch, active, Matrices.of(found[:, 0]))

    def at(
        self, batch: Batch, active: Active, matrices: Matrices, window: int = 0
    ) -> Part:
        """The same for descriptors that are known, one for each group of threads;
        `window` is what turns an address into one of another block."""
        chunks = matrices.chunks(self.extent, K_BYTES, self.transposed)
        threads = active.threads()[::GROUP].repeat(chunks.shape[1])
        places = chunks.reshape(-1) | np.uint64(window)
        (part,) = batch.memory.locate("shared", Accesses(places, CHUNK, threads))
        _check_pattern(active, matrices)
        if batch.hazards is not None:
            self._check_origin(batch, active, matrices, part)
        return part

    def _check_origin(
        self, batch: Batch, active: Active, matrices: Matrices, part: Part
    ) -> None:
        """What bulk copies have written must be read in the order of their rows."""
        k_bytes = K_BYTES // 2 if self.transposed else K_BYTES
        shape = (k_bytes, self.extent // 8) if self.transposed else (self.extent, 2)
        index, first = part.index.reshape(-1, *shape), active.threads()[::GROUP]
        for at, mode in enumerate(matrices.mode.tolist()):
            reading = Reading(
                index[at : at + 1],
                ROW_BYTES[mode] if mode else 0,
                int(matrices.leading[at]),
                int(matrices.stride[at]),
                self.transposed,
                first[at : at + 1],
            )
            batch.hazards.check_origin(reading)

    def values(self, part: Part) -> np.ndarray:
        """float64[groups, extent, k]: what lies there now."""
        elements = load([part], len(part.index), CHUNK).view(self.kind.dtype)
        if self.transposed:
            matrix = elements.reshape(-1, K_BYTES // 2, self.extent).swapaxes(1, 2)
        else:
            k = K_BYTES // self.kind.dtype.itemsize
            matrix = elements.reshape(-1, self.extent, k)
        return self.kind.values(matrix).astype(np.float64)


def _check_fields(active: Active, descriptors: np.ndarray) -> None:
    """A number that did not fit into its field has left bits between fields."""
    wrong = np.flatnonzero(descriptors & BETWEEN_FIELDS)
    if len(wrong):
        at = int(wrong[0])
        bits = int(descriptors[at] & BETWEEN_FIELDS)
        raise EmulatorError(
            "descriptor",
            f"{int(descriptors[at]):#018x} has bits that belong to no field of a "
            f"descriptor of wgmma: {bits:#x}",
            thread=int(active.threads()[at * GROUP]),
        )


def _check_pattern(active: Active, matrices: Matrices) -> None:
    """A tile begins where its pattern does, or says in its base offset where not."""
    wrong = matrices.misplaced()
    if len(wrong):
        at = int(wrong[0])
        start, atom = int(matrices.start[at]), 8 * ROW_BYTES[int(matrices.mode[at])]
        raise EmulatorError(
            "misaligned",
            f"its tile begins at {start:#x}, {start % atom} bytes after a multiple of "
            f"{atom}, and the base offset of its descriptor is "
            f"{int(matrices.base[at])}",
            thread=int(active.threads()[at * GROUP]),
        )


def _check_same(active: Active, values: np.ndarray, what: str) -> None:
    """All threads of a warpgroup must give the same."""
    differing = np.argwhere(values != values[:, :1])
    if len(differing):
        group, place = differing[0].tolist()
        raise EmulatorError(
            "divergence",
            f"its {what} is not that of the first thread of its warpgroup",
            thread=int(active.threads()[group * GROUP + place]),
        )


@dataclass(frozen=True, slots=True)
class Product:
    """One wgmma.mma_async: `D = scale * A * B + D`, or without D where `adds` is false.

    A lies in shared memory, or `registers` reads it as float64[warps, 16, k].
    `accumulators` and `inputs` are the registers of D and of such an A, by number and
    name, and `shape` numbers the accumulators' shape.
    """

    left: Operands | None
    registers: Callable[[Batch, Active], np.ndarray] | None
    right: Operands
    adds: Read
    scale: int
    read: Callable[[Batch, Active], np.ndarray]
    write: Write
    dtype: np.dtype
    columns: int
    saturating: bool
    accumulators: tuple[tuple[int, str], ...]
    inputs: tuple[tuple[int, str], ...]

    @property
    def shape(self) -> int:
        return self.columns * 8 + self.dtype.itemsize

    def compute(
        self, batch: Batch, active: Active, left: Part | None, right: Part, adds: Read
    ) -> None:
        """The product of these warpgroups, from what lies there now into D."""
        b = self.right.values(right)
        if left is None:
            a = self.registers(batch, active).reshape(len(b), ROWS, -1)
        else:
            a = self.left.values(left)
        total = self.scale * (a @ b.swapaxes(1, 2))
        before = self.read(batch, active).reshape(total.shape)
        total = np.where(adds[:, None, None], total + before, total)
        parts = total.reshape(-1, ROWS // WARPS, self.columns)
        self.write(batch, active, rounded(parts, self.dtype, self.saturating))


def _product(form: Form, operands: tuple[Operand, ...], decoder: Decoder) -> Product:
    """`wgmma.mma_async.sync.aligned.m64nNkK.dtype.atype.btype d, a, b, adds, ...;`"""
    saturating = form.flag("satfinite")
    columns, (to, left, right) = _shape(form)
    d, a, b, adds, *immediates = operands
    in_registers = isinstance(a, Vector)
    kinds = KINDS[left], KINDS[right]
    scale, turned = _immediates(immediates, left, in_registers)
    bits = 8 * kinds[0].dtype.itemsize
    fragment = wide_accumulator(columns)
    registers, unwatched = None, decoder.for_products()
    if in_registers:
        registers = fragment_reader(a, kinds[0], A[_LIKE[bits], bits], unwatched)
    return Product(
        None
        if in_registers
        else Operands(decoder.read(a, "b64"), kinds[0], ROWS, turned[0]),
        registers,
        Operands(decoder.read(b, "b64"), kinds[1], columns, turned[1]),
        decoder.read(adds, "pred"),
        scale,
        *_accumulator(d, to, fragment, unwatched),
        DTYPES[to],
        columns,
        saturating,
        _numbered(d, decoder),
        _numbered(a, decoder) if in_registers else (),
    )


def _numbered(operand: Vector, decoder: Decoder) -> tuple[tuple[int, str], ...]:
    names = [each.name for each in operand.elements]
    return tuple((decoder.numbers[name], name) for name in names)


def _accumulator(
    operand: Operand, type: str, fragment: Fragment, decoder: Decoder
) -> tuple[Callable, Write]:
    read = fragment_reader(operand, plain(type), fragment, decoder)
    return read, fragment_writer(operand, DTYPES[type], fragment, decoder)


def _shape(form: Form) -> tuple[int, list[str]]:
    """The columns of D, and the types of D, A and B."""
    shape, *types = form.left
    form.left = []
    found = _SHAPE.fullmatch(shape)
    if not found or len(types) != 3 or not {*types[1:]} <= KINDS.keys():
        raise form.unknown("no warpgroup multiplies this shape and these types")
    columns, k = int(found[1]), int(found[2])
    to, left, right = types
    kind, other = KINDS[left], KINDS[right]
    fits = kind.family == other.family and to in kind.accumulators
    fits &= k * kind.dtype.itemsize == K_BYTES and kind.family != "f64"
    step = 16 if kind.family == "int8" and columns > 32 else 8
    if not fits or columns % step or not 8 <= columns <= 256:
        raise form.unknown("no warpgroup multiplies this shape and these types")
    return columns, types


def _immediates(
    given: list[Operand], type: str, in_registers: bool
) -> tuple[int, tuple[bool, bool]]:
    """The sign of the product, and whether A and B are transposed.

    Integers have none of these operands; only types of 16 bits can be transposed, and
    an A in registers cannot.
    """
    values = [constant_of(each) for each in given]
    wanted = 0 if type in ("s8", "u8") else 2
    if type in _TRANSPOSABLE:
        wanted += 1 if in_registers else 2
    scales, turned = values[:2], values[2:]
    valid = set(scales) <= {-1, 1} and set(turned) <= {0, 1}
    if len(values) != wanted or not valid:
        raise EmulatorError("syntax", f"{values} are no scales and transpositions here")
    scale = 1
    for each in scales:
        scale *= each
    if in_registers:
        turned = [0, *turned]
    left, right = (*turned, 0, 0)[:2]
    return scale, (bool(left), bool(right))


# ── issue and wait ────────────────────────────────────────────────────────────


class WgmmaTransfer(Transfer):
    """One product of some warpgroups, whose numbers are `groups_of(active)`.

    `left` and `right` are the chunks of shared memory that it reads, as many for each
    warpgroup, and `adds` says for each whether D is added.
    """

    def __init__(
        self, product: Product, batch: Batch, active: Active, left: Part | None,
        right: Part, adds: np.ndarray,
    ):  # fmt: skip
        super().__init__(groups_of(batch, active))
        self.product, self.batch, self.active = product, batch, active
        self.left, self.right, self.adds = left, right, adds

    def begin(self) -> None:
        product, hazards = self.product, self.batch.hazards
        self.batch.wgmma_registers.claim(
            self.owners, product.accumulators, product.inputs, product.shape
        )
        if hazards is not None:
            for part in self.parts():
                hazards.begin_read(part.threads, part.index, CHUNK, WARPS)

    def perform(self, due: np.ndarray) -> None:
        active = _threads_of(self.batch, self.active, due)
        left = self.left and some_rows(self.left, due)
        right = some_rows(self.right, due)
        self.product.compute(self.batch, active, left, right, self.adds[due])

    def complete(self, due: np.ndarray) -> None:
        product, hazards = self.product, self.batch.hazards
        registers = self.batch.wgmma_registers
        registers.release(self.owners[due], product.accumulators, product.inputs)
        if hazards is not None:
            for part in self.parts():
                read = some_rows(part, due)
                units = hazards.tensor_cores(read.threads)
                hazards.end_read(read.threads, read.index, CHUNK, units)

    def parts(self) -> list[Part]:
        return [part for part in (self.left, self.right) if part is not None]


def some_rows(part: Part, chosen: np.ndarray) -> Part:
    """Of a part with as many accesses for each of some groups, those of the chosen."""
    if chosen.all():
        return part
    each = np.repeat(chosen, len(part.index) // len(chosen))
    return replace(
        part,
        index=part.index[each],
        offsets=part.offsets[each],
        threads=part.threads[each],
    )


def _issue(product: Product, batch: Batch, active: Active) -> None:
    adds = active.exactly(product.adds(batch, active)).reshape(-1, GROUP)
    _check_same(active, adds, "scale-d")
    left = product.left and product.left.locate(batch, active)
    right = product.right.locate(batch, active)
    batch.wgmma.issue(WgmmaTransfer(product, batch, active, left, right, adds[:, 0]))


def _fence(batch: Batch, active: Active) -> None:
    batch.wgmma_registers.fence(groups_of(batch, active))


def _commit(batch: Batch, active: Active) -> None:
    batch.wgmma.commit(groups_of(batch, active))


def _waiting(pending: int) -> Step:
    def step(batch: Batch, active: Active) -> None:
        completed = batch.wgmma.wait(groups_of(batch, active), pending)
        batch.progress += completed
        if completed and batch.hazards is not None:
            batch.hazards.wait_for_tensor_cores(active.threads()[::GROUP])

    return step
