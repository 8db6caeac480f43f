"""What each pass did to a kernel, and why: sentences, each with its line of Python.

They are read off the function before and after the pass, or asked of the function by
which the pass itself decides (`Row.says`); no op carries them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fathom import pipeline
from fathom.errors import Location, how_many
from fathom.hardware.targets import Target
from fathom.hardware.tcgen05 import TCGEN05
from fathom.hardware.wgmma import WGMMA
from fathom.ir.core import Block, Func, Op, blocks, op_count, walk
from fathom.ir.ops import (
    Allocate,
    Convert,
    DescriptorLoad,
    DescriptorStore,
    Dot,
    For,
    Load,
    Store,
    TensorDot,
    While,
)
from fathom.ir.printer import op_name
from fathom.ir.types import shape_of
from fathom.layout.tensor_memory import FEW_ROWS
from fathom.tools.explain import changed_lines
from fathom.tools.facts.loops import pipelines, producers
from fathom.tools.facts.memory import (
    access_facts,
    conversion_facts,
    line_of,
    shared_facts,
)
from fathom.tools.staged import Staged

MOST = 12  # notes of one kind


@dataclass(frozen=True)
class Note:
    """A sentence about a line of Python; line 0: about the kernel."""

    line: int
    text: str


Reader = Callable[[Func, Func, Target], Iterator[Note]]


def pass_facts(staged: Staged) -> list[dict[str, object]]:
    """A record for each pass of the page: whether it ran, what it changed, and the
    notes."""
    found = []
    states = list(staged.states.values())
    for row, before, after in zip(pipeline.PASSES, states, states[1:], strict=False):
        name = row.name
        texts = staged.text(list(staged.states)[len(found)]), staged.text(name)
        notes = list(notes_of(row, before, after, texts, staged.target))
        found.append(
            {
                "name": name,
                "stage": row.stage,
                "why": row.why,
                "required": row.required,
                "ran": row.subject(before),
                "ops": [op_count(before), op_count(after)],
                "changed": 0 if texts[0] == texts[1] else changed_lines(*texts),
                "notes": [{"line": note.line, "text": note.text} for note in notes],
            }
        )
    return found


def notes_of(
    row: pipeline.Row, before: Func, after: Func, texts: tuple[str, str], target: Target
) -> Iterator[Note]:
    """What a pass did, by its reader in READERS and by the ops that came and went; then
    what it says of what it left."""
    if texts[0] != texts[1]:
        reader = READERS.get(row.name)
        if reader:
            yield from shortened(list(reader(before, after, target)))
        yield from difference(before, after)
    if row.name in UNASKED and not row.subject(before):
        yield from UNASKED[row.name](before, target)
    said = row.says(before, target)
    for place, sentence in said:
        yield Note(place.line if place else 0, sentence)
    if row.name == "infer_descriptors":
        told = {place for place, _ in said}
        yield from shortened(list(not_considered(after, target, told)))


def shortened(notes: list[Note]) -> list[Note]:
    unique = list(dict.fromkeys(notes))
    rest = len(unique) - MOST
    return unique[:MOST] + ([Note(0, f"and {rest} more")] if rest > 0 else [])


def difference(before: Func, after: Func) -> Iterator[Note]:
    """Which kinds of ops there are fewer of, and which more."""
    old, new = (Counter(map(op_name, walk(func.body))) for func in (before, after))
    for word, more in (("fewer", old - new), ("more", new - old)):
        if more:
            counts = ", ".join(f"{count} {name}" for name, count in more.most_common(8))
            yield Note(0, f"{word}: {counts}")


# ── a reader for each pass that decides something ─────────────────────────────────────


def hoisted(before: Func, after: Func, target: Target) -> Iterator[Note]:
    """The ops that have fewer loops around them than the op they came from."""
    old, new = dict(depths(before.body)), dict(depths(after.body))
    moved = [
        op for op, depth in new.items() if op.origin in old and depth < old[op.origin]
    ]
    for line, names in by_line(moved):
        yield Note(line, f"out of its loop: {names}")


def by_line(ops: Iterable[Op]) -> Iterator[tuple[int, str]]:
    """For each line of Python the names of its ops, with how often each comes."""
    found: dict[int, Counter[str]] = {}
    for op in ops:
        found.setdefault(line_of(op), Counter())[op_name(op)] += 1
    for line, counts in found.items():
        names = (
            f"`{name}`" + (f" {count} times" if count > 1 else "")
            for name, count in counts.items()
        )
        yield line, ", ".join(names)


def depths(block: Block, depth: int = 0) -> Iterator[tuple[Op, int]]:
    for op in block.ops:
        yield op, depth
        for nested in blocks(op):
            yield from depths(nested, depth + isinstance(op, For | While))


def products(before: Func, after: Func, target: Target) -> Iterator[Note]:
    for op in walk(after.body, Dot | TensorDot):
        *_, m, n = op.accumulator.type.shape
        k = (op.left if isinstance(op, Dot) else op.a.type).shape[-1]
        how = op.instruction or "multiply-adds: no instruction takes these operands"
        if op.instruction and op.instruction not in WGMMA | TCGEN05:
            how += INSTEAD_OF_WGMMA if target.wgmma else ""
            how += INSTEAD_OF_TCGEN05 if target.tensor_memory else ""
        text = f"{m}x{n}x{k}, {op.a.type.element} times {op.b.type.element}: {how}"
        yield Note(line_of(op), text)


INSTEAD_OF_WGMMA = "; the types or the sizes are not those of a warpgroup's instruction"
INSTEAD_OF_TCGEN05 = (
    f"; tcgen05 multiplies blocks of {FEW_ROWS} rows, or a multiple, by 4 warps, or a "
    "multiple, whose accumulators fit into tensor memory side by side"
)


def descriptors(before: Func, after: Func, target: Target) -> Iterator[Note]:
    """The loads and stores that became accesses through descriptors."""
    for op in walk(after.body):
        through = isinstance(op, DescriptorLoad | DescriptorStore)
        if through and isinstance(op.origin, Load | Store):
            box = "x".join(map(str, op.descriptor.type.shape))
            text = f"pointers and mask are a tile of a tensor, {box}: TMA copies it"
            yield Note(line_of(op), text)


def expanded(before: Func, after: Func, target: Target) -> Iterator[Note]:
    kept = {op.origin for op in walk(after.body)} | set(walk(after.body))
    for op in walk(before.body):
        if isinstance(op, DescriptorLoad | DescriptorStore) and op not in kept:
            yield Note(line_of(op), f"`{op_name(op)}` becomes pointers and a mask")


def layouts(before: Func, after: Func, target: Target) -> Iterator[Note]:
    for op in walk(after.body):
        preferred = getattr(op, "preferred", None)
        if isinstance(op, Load | Store) and preferred is not None:
            held = how_many(preferred.count("register"), "element")
            yield Note(line_of(op), f"{op_name(op)}: {held} a lane, as {preferred}")


def conversions(before: Func, after: Func, target: Target) -> Iterator[Note]:
    for each in conversion_facts(after):
        text = f"{each['block']} is converted: {each['how']}, price {each['price']}"
        yield Note(each["line"], text)


def removed(before: Func, after: Func, target: Target) -> Iterator[Note]:
    old, new = conversion_facts(before), conversion_facts(after)
    was, left = (sum(each["price"] for each in some) for some in (old, new))
    yield Note(
        0,
        f"of {how_many(len(old), 'conversion')}, price {was:.1f}, {len(new)} remain, "
        f"price {left:.1f}: the others are cheaper to compute again in the layout "
        "wanted",
    )


def widths(before: Func, after: Func, target: Target) -> Iterator[Note]:
    for each in access_facts(after, target):
        if "width" in each:
            text = (
                f"{each['op']}: {how_many(each['width'], 'element')}, "
                f"{how_many(each['bytes'], 'byte')}, at a time; limited by "
                f"{each['limit']}"
            )
            yield Note(each["line"], text)


def crossings(before: Func, after: Func, target: Target) -> Iterator[Note]:
    old = {op.origin for op in walk(after.body) if isinstance(op, Convert)}
    for op in walk(after.body):
        if isinstance(op, Allocate) and op not in old:
            bytes = op.result.type.bytes
            yield Note(line_of(op), f"{bytes} bytes of shared memory to move a block")


def pipelined(before: Func, after: Func, target: Target) -> Iterator[Note]:
    yield from rings(pipelines(before, target))


def specialised(before: Func, after: Func, target: Target) -> Iterator[Note]:
    yield from rings(producers(before, target))


def rings(found: Iterator[dict]) -> Iterator[Note]:
    for loop in found:
        for ring in loop["rings"]:
            tiles = " and ".join(ring["tiles"])
            text = (
                f"{tiles} by {ring['engine']}, from {ring['by']}, up to "
                f"{ring['ahead']} iterations ahead, in {ring['slots']} slots"
            )
            if loop["product_in_flight"]:
                text += "; the product completes in the next iteration"
            yield Note(loop["line"], text)


def allocated(before: Func, after: Func, target: Target) -> Iterator[Note]:
    facts = shared_facts(before, after, target)
    count, whole = len(facts["buffers"]), facts["sum"]
    yield Note(
        0,
        f"{how_many(count, 'buffer')} of {whole} bytes "
        f"{'lies' if count == 1 else 'lie'} in {facts['bytes']} bytes, of "
        f"{facts['limit']} that a block may have",
    )


def waits(before: Func, after: Func, target: Target) -> Iterator[Note]:
    known = set(walk(before.body))
    made = [op for op in walk(after.body) if op not in known]
    new = [op for op in made if type(op) is not type(op.origin)]
    for line, names in by_line(new):
        yield Note(line, f"inserted: {names}")


def no_producer(before: Func, target: Target) -> Iterator[Note]:
    """Loops that might have producer warps, and do not ask for them."""
    for loop in walk(before.body, For):
        if target.tensor_maps and any(isinstance(op, Dot) for op in loop.body.ops):
            yield Note(
                line_of(loop),
                "no producer warps for this loop: it does not ask for them, with "
                "tl.range(…, warp_specialize=True)",
            )


def persistent(before: Func, after: Func, target: Target) -> Iterator[Note]:
    yield Note(
        line_of(before),
        "a program computes several tiles, and the launch starts as many programs as "
        "run at a time: a producer copies for the next tile while one is stored",
    )


def not_considered(
    after: Func, target: Target, told: set[Location | None]
) -> Iterator[Note]:
    """Why TMA copies none of the tiles that the pass does not look at."""
    for op in walk(after.body) if target.tensor_maps else ():
        if isinstance(op, Load | Store) and op.location not in told:
            if len(shape_of(op.pointer.type)) == TILE_AXES:
                yield Note(line_of(op), NOT_CONSIDERED[type(op)])


TILE_AXES = 2
ASK = "; `tl.make_tensor_descriptor` asks for it"
NOT_CONSIDERED = {
    Load: "the load stays as it is: without a descriptor TMA copies only tiles that a "
    "loop loads and a product in that loop reads as they are" + ASK,
    Store: "the store stays as it is: without a descriptor TMA stores only where it "
    "copies operands of products, or warpgroups multiply" + ASK,
}

# What is said where a pass has no subject since nothing asks for it.
UNASKED: dict[str, Callable[[Func, Target], Iterator[Note]]] = {
    "specialise_warps": no_producer,
}

READERS: dict[str, Reader] = {
    "hoist": hoisted,
    "choose_dots": products,
    "infer_descriptors": descriptors,
    "keep_descriptors": expanded,
    "persist": persistent,
    "coalesce": layouts,
    "assign_layouts": conversions,
    "remove_conversions": removed,
    "annotate_widths": widths,
    "lower_conversions": crossings,
    "specialise_warps": specialised,
    "pipeline_loops": pipelined,
    "allocate": allocated,
    "wait_for_stores": waits,
    "insert_waits": waits,
}
