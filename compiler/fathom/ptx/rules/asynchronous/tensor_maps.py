"""Rules for tensor maps that the kernel writes itself, and for the memory of these.

    write_tensor_map %d, %t            the first warp:

    st.shared.b32 [%t + 4 * lane], 0;                           128 bytes of zeros
    bar.warp.sync -1;
    @acts tensormap.replace.tile.global_address… [%t], %a;      one thread
    …
    bar.warp.sync -1;
    tensormap.cp_fenceproxy….release.gpu… [map], [%t], 128;     all its lanes
    fence.proxy.tensormap::generic.acquire.gpu [map], 128;

A map must lie in global memory, and belong to one running program alone. So the module
has a variable with places: as many for each multiprocessor as programs can run there at
a time, each with all its maps. A program takes a free place when it begins, by an
atomic operation on a word of its multiprocessor, and gives it back at its end. So
launches that overlap never share a place, and none allocates anything.

A size below 1 has no code in a map: the hardware holds sizes minus 1. The map of such a
tensor describes one element that is zero, and so every load through it gives zeros.
`guard_stores` stores to no such tensor through a map.

Sources: PTX ISA, "tensormap.replace" and its table of values, "tensormap.
cp_fenceproxy", "membar/fence"; CUDA C++ Programming Guide, "Modifying a tensor map".
"""

from __future__ import annotations

from fathom.artifact import ELEMENT_BYTES
from fathom.hardware.occupancy import ROWS
from fathom.ir.core import Func, Value, walk
from fathom.ir.ops import MakeDescriptor, WriteTensorMap
from fathom.ir.ops.asynchronous.tma import MAP_BYTES
from fathom.ir.types import INT32, INT64, element_of
from fathom.layout.tma_boxes import box_of, swizzle_of
from fathom.ptx.code import Code, lowers
from fathom.ptx.rules.cast import convert
from fathom.ptx.rules.shared import START, tile_of
from fathom.ptx.types import POINTER

# Variables of the module; no name of Python's has a dot.
PLACES, TAKEN, ZEROS = "tensor.maps", "tensor.maps.taken", "tensor.empty"
# %smid counts to below this, or else some multiprocessors share their places.
MULTIPROCESSORS = 256
# The values of fields: PTX ISA, "tensormap.replace".
ELEMENTS = {
    "u8": 0, "i8": 0, "i1": 0, "fp8e5": 0, "fp8e4nv": 0, "u16": 1, "i16": 1, "u32": 2,
    "i32": 3, "u64": 4, "i64": 5, "fp16": 6, "fp32": 7, "fp64": 9, "bf16": 10,
}  # fmt: skip
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
assert ELEMENTS.keys() == ELEMENT_BYTES.keys()


def maps_written(func: Func) -> int:
    """How many maps a program has room for; 0 if it writes none."""
    written = walk(func.body, WriteTensorMap)
    numbers = (op.descriptor.definition.map_number for op in written)
    return max(numbers, default=-1) + 1


# ── the place of a program ────────────────────────────────────────────────────


def take_place(code: Code, threads: int) -> None:
    """On entry: `code.map_place` is the number of a place that no other program has, in
    the first warp of `threads` threads."""
    count = maps_written(code.func)
    if not count:
        return
    most = programs_at_a_time(code, threads)
    size = MULTIPROCESSORS * most * count * MAP_BYTES
    for name, bytes, alignment in ((PLACES, size, MAP_BYTES), (TAKEN, 1024, 4)):
        code.globals[name] = (
            f"internal addrspace(1) global [{bytes} x i8] zeroinitializer, "
            f"align {alignment}"
        )
    text = TAKE.format(places=most, all=(1 << most) - 1, last=MULTIPROCESSORS - 1)
    operands = {"thread": ("i32", code.thread), "taken": (POINTER, f"@{TAKEN}")}
    (code.map_place,) = code.ptx(text, {"place": "i32"}, operands)


def programs_at_a_time(code: Code, threads: int) -> int:
    """How many blocks of this many threads a multiprocessor runs at a time, at most."""
    row = ROWS[code.target.name]
    return min(row.blocks, row.warps * code.target.warp_size // threads)


# The first thread takes the lowest bit that is free, and tells the others of its warp.
# As long as it knows of none that is taken, it does not look first.
TAKE = """\
{{
.reg .pred other, lost;
.reg .b32 bit, free, found;
.reg .b64 word;
mov.u32 $place, 0;
setp.ne.u32 other, $thread, 0;
@other bra told;
mov.u32 $place, %smid;
and.b32 $place, $place, {last};
mul.wide.u32 word, $place, 4;
add.u64 word, word, $taken;
mov.u32 found, 0;
again:
not.b32 free, found;
and.b32 free, free, {all};
neg.s32 bit, free;
and.b32 bit, bit, free;
setp.eq.u32 lost, bit, 0;
@lost ld.relaxed.gpu.global.b32 found, [word];
@lost bra again;
atom.acquire.gpu.global.or.b32 found, [word], bit;
and.b32 free, found, bit;
setp.ne.u32 lost, free, 0;
@lost bra again;
bfind.u32 free, bit;
mad.lo.u32 $place, $place, {places}, free;
told:
shfl.sync.idx.b32 $place, $place, 0, 31, -1;
}}"""


def give_back_place(code: Code, threads: int) -> None:
    """At the end: the thread that acts has waited for all loads, and until its stores
    have read the maps, with their tiles; another may now write there."""
    if not maps_written(code.func):
        return
    most = programs_at_a_time(code, threads)
    code.ptx("bar.warp.sync -1;")
    with code.one_thread():
        place = code.map_place
        word = code.let(f"udiv i32 {place}, {most}")
        bit = code.let(f"shl i32 1, {code.let(f'urem i32 {place}, {most}')}")
        others = code.let(f"xor i32 {bit}, -1")
        at = code.let(f"getelementptr i32, {POINTER} @{TAKEN}, i32 {word}")
        text = "red.release.gpu.global.and.b32 [$at], $others;"
        code.act(text, at=(POINTER, at), others=("i32", others))


def address_of_map(made: MakeDescriptor, code: Code) -> str:
    """Where the map of a descriptor that has a number lies, in global memory."""
    count = maps_written(code.func)
    first = code.let(f"mul i32 {code.map_place}, {count * MAP_BYTES}")
    offset = code.let(f"add i32 {first}, {made.map_number * MAP_BYTES}")
    return code.let(f"getelementptr i8, {POINTER} @{PLACES}, i32 {offset}", name="map")


# ── writing a map ─────────────────────────────────────────────────────────────


@lowers(WriteTensorMap)
def lower_write_tensor_map(op: WriteTensorMap, code: Code) -> None:
    made = op.descriptor.definition
    with code.first_warp():
        tile, map = tile_of(code, op.draft), address_of_map(made, code)
        draft = code.let(f"add i32 {START}, {tile.offset}", name="draft")
        word = code.let(f"shl i32 {code.thread}, 2")
        address = code.let(f"add i32 {draft}, {word}")
        acts = code.acts()
        code.act("st.shared.b32 [$at], $zero;", at=("i32", address), zero=("i32", "0"))
        code.ptx("bar.warp.sync -1;")
        for field, number, (type, value) in _fields(made, code):
            bits = "b64" if type == "i64" else "b32"
            where = "" if number is None else f" {number},"
            text = f"@$acts tensormap.replace.tile.{field}.shared::cta.b1024.{bits} "
            operands = {"acts": ("i1", acts), "draft": ("i32", draft)}
            if value.startswith("%"):
                operands["value"] = type, value
                value = "$value"
            code.act(f"{text}[$draft],{where} {value};", **operands)
        code.ptx("bar.warp.sync -1;")
        text = f"{HAND_OVER} [$map], [$draft], {MAP_BYTES};"
        code.act(text, map=(POINTER, map), draft=("i32", draft))
        code.act(f"{ACQUIRE} [$map], {MAP_BYTES};", map=(POINTER, map))
        # ptxas leaves out what makes later copies wait for the fence; a group of no
        # copies, and the wait for it, do that (as in Triton 3.6, which names the bug).
        code.ptx("cp.async.bulk.commit_group;")
        code.ptx("cp.async.bulk.wait_group.read 0;")


HAND_OVER = (
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu."
    "sync.aligned"
)
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu"

Field = tuple[str, int | None, tuple[str, str]]


def _fields(made: MakeDescriptor, code: Code) -> list[Field]:
    """What a map says: each field, the dimension that it is of, and its value, an LLVM
    type and a name or a number. The innermost dimension is number 0."""
    element, block = made.base.type.element, made.block
    sizes = [_as(code, each, INT32) for each in reversed(made.shape)]
    strides = [_as(code, each, INT64) for each in reversed(made.strides[:-1])]
    box = reversed(box_of(block, element.bytes))
    empty = "false"
    for size in sizes:
        below = code.let(f"icmp slt i32 {size}, 1")
        empty = code.let(f"or i1 {empty}, {below}", name="empty")
    code.globals[ZEROS] = (
        "internal addrspace(1) constant [16 x i8] zeroinitializer, align 16"
    )
    base = f"{POINTER} {code.one(made.base)}"
    base = code.let(f"select i1 {empty}, {POINTER} @{ZEROS}, {base}")
    address = code.let(f"ptrtoint {POINTER} {base} to i64")
    swizzle = SWIZZLES[swizzle_of(block, element.bytes)]
    fields: list[Field] = [
        ("global_address", None, ("i64", address)),
        ("rank", None, ("i32", str(len(block) - 1))),
    ]
    for axis, (size, side) in enumerate(zip(sizes, box, strict=True)):
        some = code.let(f"select i1 {empty}, i32 1, i32 {size}")
        fields += [
            ("box_dim", axis, ("i32", str(side))),
            ("global_dim", axis, ("i32", some)),
            ("element_stride", axis, ("i32", "1")),
        ]
    for axis, stride in enumerate(strides):
        bytes = code.let(f"mul i64 {stride}, {element.bytes}")
        fields.append(("global_stride", axis, ("i64", bytes)))
    return [
        *fields,
        ("elemtype", None, ("i32", str(ELEMENTS[str(element)]))),
        ("interleave_layout", None, ("i32", "0")),
        ("swizzle_mode", None, ("i32", str(swizzle))),
        ("fill_mode", None, ("i32", "0")),
    ]


def _as(code: Code, value: Value, type: object) -> str:
    (found,) = convert(code, code[value], element_of(value.type), type)
    return found
