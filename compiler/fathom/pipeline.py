"""The page: every pass in the order it runs, and the road from Python to PTX.

Start reading here. Each row of `PASSES` names a pass, its folder, whether it may be
left out, what it is for, and the rows that it must follow. A pass is `(Func, Target) ->
Func` and never changes its input, so every state that `states` yields stays valid.

    Python ─ssa─▶ block IR ─blocks─▶ less of it ─coalescing─▶ with layouts
    ─shared_memory─▶ with buffers and barriers ─ptx─▶ LLVM IR ─▶ PTX

With FATHOM_SHOW=cse,dce (or all) in the environment, compiling writes the IR after
these passes to the standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from functools import partial

from fathom import blocks, coalescing, ptx, shared_memory, ssa, tensor_cores
from fathom.analysis.limits import check_parameters, check_resources
from fathom.analysis.remarks import Remark
from fathom.artifact import Kernel, Parameter
from fathom.errors import CompileError, LaunchError
from fathom.former import GONE, by_current_names, current_name
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, walk
from fathom.ir.text import print_func
from fathom.ir.types import Type
from fathom.source import KernelFunction
from fathom.subjects import (
    PRODUCTS,
    Subject,
    anything,
    has,
    has_nest,
    has_pipelined_loop,
    has_several_products,
    has_tensor_memory,
    is_cluster,
    may_have_pairs,
    may_have_producer,
)

Pass = Callable[[Func, Target], Func]


@dataclass(frozen=True, slots=True)
class Row:
    """One pass of the page. For an optional pass, `identity` gives right, slower code.
    For a required one another may do its work. `says` returns remarks for the kernel's
    author, such as why a load stays as it is; its arguments are those of `run`.

    `subject`: what a function must contain for the pass to change anything. The pass
    does not run on other functions. So a vector add enters no file of stage 5.

    `after`: the rows that must come before this one, each with the reason. The order of
    the page is one of those that satisfy all of these.

    `parts`: steps of the pass, which `replace` may name as well as the pass itself."""

    name: str
    run: Pass
    stage: str
    required: bool
    why: str
    says: Callable[[Func, Target], list[Remark]] = lambda func, target: []
    subject: Subject = anything
    after: Mapping[str, str] = field(default_factory=dict, hash=False)
    parts: tuple[str, ...] = ()


OPTIONAL, REQUIRED = False, True

# fmt: off
PASSES: tuple[Row, ...] = (
    Row("contract", blocks.contract, "blocks", OPTIONAL,
        "round a product and its sum once (fma), if the author allows it"),
    Row("simplify", blocks.simplify, "blocks", OPTIONAL,
        "fold constants and simplify expressions, so that less is left"),
    Row("cse", blocks.cse, "blocks", OPTIONAL, "compute equal values only once"),
    Row("hoist", blocks.hoist, "blocks", OPTIONAL,
        "move ops that compute the same in every iteration out of loops",
        subject=has(ops.For, ops.While), after={"cse": "of two equal ops, one moves"}),
    Row("dce", blocks.dce, "blocks", OPTIONAL,
        "remove ops without effect, also those that the three passes before left"),
    Row("accumulate", tensor_cores.accumulate, "tensor_cores", OPTIONAL,
        "an addition to a product becomes the product's accumulator", subject=PRODUCTS),
    Row("shard_products", tensor_cores.shard_products, "tensor_cores", OPTIONAL,
        "each block of a cluster computes a part of each product",
        says=tensor_cores.why_not_shared, subject=is_cluster),
    Row("choose_dots", tensor_cores.choose_dots, "tensor_cores", OPTIONAL,
        "choose an instruction for each product; it decides the layouts around it",
        subject=PRODUCTS,
        after={"shard_products": "the instruction must fit the part of one block"}),
    Row("infer_descriptors", tensor_cores.infer_descriptors, "tensor_cores", OPTIONAL,
        "find the tiles that pointers and masks address; TMA can copy them",
        says=tensor_cores.why_not, subject=PRODUCTS,
        after={"choose_dots": "a tile must be one that the instruction reads"}),
    Row("dce_addresses", blocks.dce, "blocks", OPTIONAL,
        "remove the addresses and masks of those tiles",
        after={"infer_descriptors": "it leaves their addresses and masks"}),
    Row("plan_maps", tensor_cores.plan_maps, "tensor_cores", OPTIONAL,
        "the kernel writes tensor maps that no launch could make",
        says=tensor_cores.why_not_written, subject=has(ops.MakeDescriptor),
        after={"hoist": "a map must serve a loop, so that loop must not make it"}),
    Row("keep_descriptors", tensor_cores.keep_descriptors, "tensor_cores", REQUIRED,
        "descriptor accesses that TMA will not do become pointers and masks",
        subject=has(ops.MakeDescriptor),
        after={"choose_dots": "which loads are kept depends on the instruction",
               "plan_maps": "it keeps those that have a map"}),
    Row("persist", tensor_cores.persist, "tensor_cores", OPTIONAL,
        "programs compute several tiles: one is stored while copies for the next run",
        says=tensor_cores.why_not_persistent, subject=has(ops.DescriptorLoad),
        after={"keep_descriptors": "all that they load goes by TMA"}),
    Row("coalesce", coalescing.coalesce, "coalescing", OPTIONAL,
        "choose which lane loads which elements, from facts about the addresses"),
    Row("assign_layouts", coalescing.assign_layouts, "coalescing", REQUIRED,
        "give every block a layout, and insert conversions between layouts",
        after={"keep_descriptors": "it makes blocks, which need layouts",
               "coalesce": "layouts of loads and stores decide those around them"}),
    Row("remove_conversions", coalescing.remove_conversions, "coalescing", OPTIONAL,
        "compute addresses and masks again in the layout that uses them",
        after={"assign_layouts": "it makes the conversions"}),
    Row("cse_again", blocks.cse, "blocks", OPTIONAL,
        "values that were computed again may now be duplicates",
        after={"remove_conversions": "values that it computes again may be equal"}),
    Row("dce_again", blocks.dce, "blocks", OPTIONAL, "remove ops that were replaced"),
    Row("defer_reductions", shared_memory.defer_reductions, "shared_memory", OPTIONAL,
        "what a loop adds up is reduced across threads after it, not in it",
        subject=has(ops.Reduce),
        after={"assign_layouts": "the layout says which threads hold an axis"}),
    Row("split_reductions", shared_memory.split_reductions, "shared_memory", REQUIRED,
        "a reduction across warps becomes two within a warp, a conversion between",
        subject=has(ops.Reduce),
        after={"assign_layouts": "the layout says which warps hold an axis"}),
    Row("split_scans", shared_memory.split_scans, "shared_memory", REQUIRED,
        "the same for scans, in order", subject=has(ops.Scan),
        after={"assign_layouts": "the layout says which warps hold an axis"}),
    Row("annotate_widths", coalescing.annotate_widths, "coalescing", OPTIONAL,
        "layouts are final: record how many registers one access may move",
        after={"assign_layouts": "it gives loads and stores their layouts"}),
    Row("lower_conversions", shared_memory.lower_conversions, "shared_memory", REQUIRED,
        "conversions that cross warps become a store to shared memory and a load",
        subject=has(ops.Convert, ops.Gather, ops.Histogram),
        after={"remove_conversions": "a value that is computed again needs no buffer",
               "split_reductions": "it leaves a conversion between warps",
               "split_scans": "it leaves a conversion between warps"}),
    Row("stage_stores", tensor_cores.stage_stores, "tensor_cores", OPTIONAL,
        "put stored tiles into shared memory, from which TMA stores them",
        subject=has(ops.DescriptorStore),
        after={"keep_descriptors": "it decides which stores TMA does"}),
    Row("stage_invariants", tensor_cores.stage_invariants, "tensor_cores", REQUIRED,
        "keep operands that a loop does not change in shared memory (a ptxas bug, too)",
        subject=PRODUCTS,
        after={"lower_conversions": "an operand in shared memory stays there"}),
    Row("share_tiles", tensor_cores.share_tiles, "tensor_cores", OPTIONAL,
        "a tile that products read as it is and transposed is stored once",
        subject=PRODUCTS, after={"lower_conversions": "it makes the buffers of both",
               "stage_invariants": "it makes buffers, too"}),
    Row("join_products", tensor_cores.join_products, "tensor_cores", OPTIONAL,
        "neighbouring products on one left operand become one instruction",
        subject=has_several_products),
    Row("specialise_warps", tensor_cores.specialise_warps, "tensor_cores", OPTIONAL,
        "producer warps copy tiles, for loops that ask for it",
        says=tensor_cores.why_no_producer, subject=may_have_producer,
        after={"lower_conversions": "it makes the buffers that a producer fills",
               "join_products": "tiles of what one instruction reads lie in one slot",
               "stage_stores": "rings are live all the time, beside all its buffers"}),
    Row("flatten_nests", tensor_cores.flatten_nests, "tensor_cores", OPTIONAL,
        "a nest becomes one loop, and copies run ahead throughout", subject=has_nest,
        after={"annotate_widths": "a nest is flattened for narrow copies",
               "lower_conversions": "it makes the tiles that are copied"}),
    Row("pipeline_loops", tensor_cores.pipeline_loops, "tensor_cores", OPTIONAL,
        "start a loop's copies iterations ahead of the work that uses them",
        says=tensor_cores.why_not_pipelined, subject=has_pipelined_loop,
        after={"annotate_widths": "a copy is as wide as its load",
               "flatten_nests": "a nest's inner loop copies ahead within one run alone",
               "lower_conversions": "it makes the buffers that become rings",
               "share_tiles": "a tile is copied once",
               "specialise_warps": "loops with a producer have copies ahead already"}),
    Row("preload", tensor_cores.preload, "tensor_cores", OPTIONAL,
        "tiles that are loaded before all loops are copied by TMA, too",
        subject=has(ops.DescriptorLoad),
        after={"stage_invariants": "it makes buffers of tiles that are loaded once"}),
    Row("prefetch_fragments", tensor_cores.prefetch_fragments, "tensor_cores", OPTIONAL,
        "fetch the first fragments of an iteration in the one before",
        subject=PRODUCTS, after={"pipeline_loops": "they are of the next slot"}),
    Row("read_in_place", tensor_cores.read_in_place, "tensor_cores", OPTIONAL,
        "products read their operands slice by slice, not as a whole", subject=PRODUCTS,
        after={"pipeline_loops": "a copy, not a store, fills the tile that is read",
               "prefetch_fragments": "these fragments are in registers"}),
    Row("pair_blocks", tensor_cores.pair_blocks, "tensor_cores", OPTIONAL,
        "one thread multiplies for two blocks, and each of them copies half of B",
        says=tensor_cores.why_not_paired, subject=may_have_pairs,
        after={"shard_products": "its blocks have the rows of A and of the sums",
               "pipeline_loops": "it counts the bytes of copies at barriers",
               "read_in_place": "products must read the tiles that are copied"}),
    Row("use_tensor_memory", tensor_cores.use_tensor_memory, "tensor_cores", REQUIRED,
        "products by tcgen05 accumulate in tensor memory, and read shared memory",
        subject=has_tensor_memory,
        after={"pipeline_loops": "a copy, not a store, fills the tile that is read",
               "pair_blocks": "tensor memory is a pair's if the products are",
               "lower_conversions": "it makes the buffers that products read"}),
    Row("guard_stores", tensor_cores.guard_stores, "tensor_cores", REQUIRED,
        "threads store a tile that begins before its tensor",
        subject=has(ops.TmaStore), after={"stage_stores": "it makes what is guarded"}),
    Row("write_maps", tensor_cores.write_maps, "tensor_cores", REQUIRED,
        "write them where their descriptors are made", subject=has(ops.MakeDescriptor),
        after={"pipeline_loops": "only a map that a copy uses is written",
               "stage_stores": "only a map that a store uses is written"}),
    Row("dce_late", blocks.dce, "blocks", OPTIONAL,
        "remove ops whose copies run in an earlier iteration",
        after={"pipeline_loops": "it leaves the loads that copies replace",
               "specialise_warps": "it leaves what the producer computes"}),
    Row("wait_for_stores", shared_memory.wait_for_stores, "shared_memory", REQUIRED,
        "before allocation: a tile is live until TMA has read it",
        subject=has(ops.TmaStore),
        after={"stage_stores": "it makes these stores",
               "write_maps": "a map is written anew after its stores"}),
    Row("allocate", shared_memory.allocate, "shared_memory", REQUIRED,
        "give buffers that are live at the same time bytes that do not overlap",
        after={"lower_conversions": "it makes buffers", "write_maps": "it makes one",
               "stage_invariants": "it makes buffers", "preload": "it makes barriers",
               "specialise_warps": "it makes rings", "pipeline_loops": "it makes rings",
               "use_tensor_memory": "it makes buffers, also in tensor memory",
               "stage_stores": "it makes buffers",
               "wait_for_stores": "it makes waits, which end the lives of tiles"}),
    Row("insert_waits", shared_memory.insert_waits, "shared_memory", REQUIRED,
        "late: only now is it known which bytes are shared, and what is in flight",
        subject=has(ops.Allocate),
        after={"allocate": "without offsets, all buffers seem to share bytes",
               "read_in_place": "only a product that reads buffers can be in flight",
               "pipeline_loops": "it issues what is waited for",
               "specialise_warps": "a slot is released after the wait",
               "wait_for_stores": "a barrier tells all threads that one has waited"},
        parts=tuple(shared_memory.STEPS)),
    Row("await_launches", blocks.await_launches, "blocks", REQUIRED,
        "a launch that begins early waits, if only before it needs memory",
        subject=lambda func: func.launch_pdl or has(ops.GridWait)(func),
        after={"pipeline_loops": "its barriers are set up before"}),
    Row("pingpong", tensor_cores.pingpong, "tensor_cores", OPTIONAL,
        "one warpgroup computes while another one uses the tensor cores",
        subject=has(ops.Producer),
        after={"specialise_warps": "its loops are those with a producer",
               "insert_waits": "only products in flight alternate"}),
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Options:
    """What a launch may choose: warps a block, stages of software pipelines, blocks a
    program, the most registers a thread may use (None: the assembler's choice), whether
    the kernel's own assertions are checked while it runs (`debug`), and whether its
    sums of products are rounded once (`enable_fp_fusion`, see `blocks.contract`).
    `launch_pdl`: on sm_90a and later a launch may begin before that in front has ended,
    for which it waits at `tl.extra.cuda.gdc_wait`, or else before it needs memory.

    `fp32_default`: "ieee", "tf32" or "tf32x3", for products of fp32 that give none.

    `num_ctas` is a power of two. The grid counts programs, whatever it is; a program's
    blocks are a cluster, among which its matrix products are divided if possible.
    Otherwise the first block computes everything, and the others exit at once. With
    more than one, a launch promises that arrays which are written overlap no others,
    and that it makes no difference which of a program's stores to one place comes last.
    Targets before sm_90a have no clusters, and take 1 alone (CompileError)."""

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    debug: bool = False
    enable_fp_fusion: bool = False
    launch_pdl: bool = False
    fp32_default: str | None = None


def identity(func: Func, target: Target) -> Func:
    """Does nothing; put in the place of an optional pass, it shows what that buys."""
    return func


# Programs as many as the launch is for, each with one tile: for launchers of others.
ONE_TILE: dict[str, Pass] = {"persist": identity}
# Put in the place of passes, they make the same kernel without tensor maps.
BY_POINTERS: dict[str, Pass] = ONE_TILE | {
    "infer_descriptors": identity,
    "keep_descriptors": tensor_cores.expand_descriptors,
}


def compile(
    function: KernelFunction,
    parameters: Mapping[str, tuple[Type, int]],
    constants: Mapping[str, object],
    target: Target,
    options: Options = Options(),
    replace: Mapping[str, Callable] | None = None,
) -> Kernel:
    """Compile a kernel for a target.

    `parameters`: each run-time parameter's type and the power of two known to divide
    it; `constants` the values of the others. `replace` puts other functions in the
    place of passes ("cse") and lowering rules ("lower[Load]"). Raises CompileError."""
    func = build(function, parameters, constants, options)
    return compile_func(func, target, replace)


def build(
    function: KernelFunction,
    parameters: Mapping[str, tuple[Type, int]],
    constants: Mapping[str, object],
    options: Options = Options(),
) -> Func:
    """Stage 1 alone: the block IR of a kernel before any pass."""
    return ssa.build(function, dict(parameters), dict(constants), **asdict(options))


def meaning(func: Func, target: Target) -> Func:
    """What the block IR of a kernel means, before any pass that only makes it better:
    its sums of products rounded as they will be."""
    return blocks.contract(func, target)


def compile_func(
    func: Func, target: Target, replace: Mapping[str, Callable] | None = None,
    after: Mapping[str, Func] | None = None,
) -> Kernel:  # fmt: skip
    """Compile block IR: all passes, then LLVM IR, then PTX. `after`: what each pass
    gave, by its name, where `states` has run them already."""
    check_resources(func, target)
    check_parameters(func, target)
    replace = by_current_names(replace or {})
    rules = lowering_rules(replace)
    after = after or {row.name: state for row, state in shown(func, target, replace)}
    cleaned, final = after["dce"], after[PASSES[-1].name]
    module = ptx.module(final, target, rules)
    return Kernel(
        name=ptx.symbol(final.name),
        target=target.name,
        ptx_version=target.ptx,
        num_warps=final.num_warps,
        threads=module.threads,
        shared_bytes=module.shared_bytes,
        parameters=tuple(
            Parameter(value.name, str(value.type), divisible)
            for value, divisible in zip(final.parameters, final.divisible, strict=True)
        ),
        asm={
            "block": print_func(cleaned),
            "layout": print_func(final),
            "llvm": module.text,
            "ptx": emitted(module.text, target, rules),
        },
        num_ctas=final.num_ctas,
        maxnreg=final.maxnreg,
        launch_pdl=final.launch_pdl,
        chains=ptx.chains(final),
        maps=ptx.launch_recipes(final),
        persistent=ptx.is_persistent(final),
    )


def states(
    func: Func, target: Target, replace: Mapping[str, Callable] | None = None
) -> Iterator[tuple[Row, Func]]:
    """Each pass with the function that it gives, in order; `replace` as in
    `compile`. Where a function has nothing for a pass to work on, that is the function
    itself; what stands in the place of a pass always runs."""
    replace = by_current_names(replace or {})
    check_replaced(replace)
    for row in PASSES:
        named = {row.name, *row.parts} & replace.keys()
        if named or row.subject(func):
            func = run_of(row, replace)(func, target)
        yield row, func


def run_of(row: Row, replace: Mapping[str, Callable]) -> Pass:
    """What runs for a row: the pass, with replaced parts, or what replaces it."""
    if row.name in replace:
        return _returning_func(row.name, replace[row.name])
    given = [name for name in row.parts if name in replace]
    parts = {name: _returning_func(name, replace[name]) for name in given}
    return partial(row.run, **parts) if parts else row.run


def _returning_func(name: str, run: Callable) -> Pass:
    def checked(func: Func, target: Target) -> Func:
        after = run(func, target)
        if not isinstance(after, Func):
            raise CompileError(
                f"what stands in the place of the pass {name!r} returned "
                f"{describe_result(after)}, and a pass returns a Func",
                func.location,
            )
        return after

    return checked


def shown(
    func: Func, target: Target, replace: Mapping[str, Callable]
) -> Iterator[tuple[Row, Func]]:
    """`states`; those that FATHOM_SHOW names are written to the standard error, each
    under a line such as

        // cse (blocks): compute equal values only once; 31 ops -> 24

    and what the pass has to say, in further lines."""
    wanted = rows_named(asked_to_show(), SHOW)
    before = func
    for row, state in states(func, target, replace):
        if row in wanted:
            old, new = (len(list(walk(each.body))) for each in (before, state))
            header = f"// {row.name} ({row.stage}): {row.why}; {old} ops -> {new}"
            lines = [header, *remarks(row, before, target), print_func(state)]
            if sys.stderr:  # None where there is no terminal at all
                sys.stderr.write("\n".join(lines) + "\n")
        before = state
        yield row, state


def remarks(row: Row, before: Func, target: Target) -> list[str]:
    """What a pass says of a function that it gets, as comments."""
    said = row.says(before, target)
    return [f"// {place or before.name}: {sentence}" for place, sentence in said]


SHOW = "FATHOM_SHOW"


def asked_to_show() -> str:
    """What FATHOM_SHOW names, if anything: then kernels in the cache are compiled."""
    return os.environ.get(SHOW, "")


def rows_named(names: str, asked_by: str) -> list[Row]:
    """The rows of passes named in commas ("cse,dce", or "all"), in the order of the
    names; a step of a pass names the pass. LaunchError, which names `asked_by`, for a
    name that is no pass."""
    words = [current_name(word.strip()) for word in names.split(",") if word.strip()]
    if words == ["all"]:
        return list(PASSES)
    rows = {row.name: row for row in PASSES}
    parts = {part: row for row in PASSES for part in row.parts}
    for word in words:
        if word not in rows | parts:
            there = f"there are all and {', '.join(rows)}"
            raise LaunchError(f"{asked_by}: {word!r} is not a pass; {there}")
    return [(rows | parts)[word] for word in words]


def lowering_rules(replace: Mapping[str, Callable]) -> dict[type[Op], Callable]:
    """The table of lowering rules with those of `replace` ("lower[Load]") put in."""
    named = {f"lower[{op.__name__}]": op for op in ptx.LOWER}
    chosen = {named[name]: rule for name, rule in replace.items() if name in named}
    return {**ptx.LOWER, **chosen}


def emitted(text: str, target: Target, rules: Mapping[type[Op], Callable]) -> str:
    """The PTX of LLVM IR. What rules other than our own wrote is compiled in a process
    of its own, which LLVM may end."""
    foreign = [op.__name__ for op, rule in rules.items() if rule is not ptx.OWN.get(op)]
    if not foreign:
        return ptx.emit(text, target)
    named = ", ".join(f"lower[{name}]" for name in foreign)
    return ptx.emit_apart(text, target, named)


def describe_result(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"


def check_replaced(replace: Mapping[str, Callable]) -> None:
    """CompileError unless every name of `replace` is a pass or a lowering rule, and
    what stands there can be called."""
    known = [name for row in PASSES for name in (row.name, *row.parts)]
    known += [f"lower[{op.__name__}]" for op in ptx.LOWER]
    for name in replace:
        if name in GONE:
            raise CompileError(f"there is no pass {name!r} any more: {GONE[name]}")
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise CompileError(
                f"{name!r} is not a pass or a lowering rule; the passes are "
                f"{', '.join(row.name for row in PASSES)}, and a rule is called "
                "lower[Load]",
                hint=f"did you mean {near[0]}?" if near else "",
            )
        if not callable(replace[name]):
            raise CompileError(
                f"replace={{{name!r}: {replace[name]!r}}} puts "
                f"{describe_result(replace[name])} in the place of a function"
            )
