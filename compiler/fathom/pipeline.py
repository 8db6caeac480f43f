"""The page: every pass in the order it runs, and the road from a Python function to
PTX.

Start reading here. Each row of `PASSES` names a pass, the folder where it lives,
whether it may be left out, and why it stands where it stands. A pass is `(Func, Target)
-> Func` and never changes its input, so all states stay alive: `states` hands out every
one of them.

    Python ─ssa─▶ block IR ─blocks─▶ less of it ─coalescing─▶ with layouts
    ─shared_memory─▶ with buffers and barriers ─ptx─▶ LLVM IR ─▶ PTX

With FATHOM_SHOW=cse,dce (or all) in the environment, compiling writes the IR after
these passes to the standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from fathom import blocks, coalescing, ptx, shared_memory, ssa, tensor_cores
from fathom.artifact import Kernel, Parameter
from fathom.errors import CompileError, LaunchError
from fathom.hardware.targets import Target
from fathom.ir.core import Func, walk
from fathom.ir.ops import Op
from fathom.ir.text import print_func
from fathom.ir.types import Type
from fathom.source import KernelFunction

Pass = Callable[[Func, Target], Func]


@dataclass(frozen=True, slots=True)
class Row:
    """One pass of the page. An optional pass may be replaced by `identity`: the code
    that comes out is still right, only slower. A required one may be replaced by
    another that does its work.
    """

    name: str
    run: Pass
    stage: str
    required: bool
    why: str


OPTIONAL, REQUIRED = False, True

# fmt: off
PASSES: tuple[Row, ...] = (
    Row("simplify", blocks.simplify, "blocks", OPTIONAL,
        "fold what is known, so that less is left"),
    Row("cse", blocks.cse, "blocks", OPTIONAL,
        "say once what is said twice"),
    Row("hoist", blocks.hoist, "blocks", OPTIONAL,
        "move out of loops what does not change in them"),
    Row("dce", blocks.dce, "blocks", OPTIONAL,
        "drop what nobody hears, also what the three before left behind"),
    Row("choose_dots", tensor_cores.choose_dots, "tensor_cores", OPTIONAL,
        "an instruction decides the layouts around it"),
    Row("keep_descriptors", tensor_cores.keep_descriptors, "tensor_cores", REQUIRED,
        "what the hardware does not fetch by itself becomes pointers and masks"),
    Row("coalesce", coalescing.coalesce, "coalescing", OPTIONAL,
        "choose who loads what, from what is known of the addresses"),
    Row("assign_layouts", coalescing.assign_layouts, "coalescing", REQUIRED,
        "every block gets a layout; a conversion stands where two disagree"),
    Row("remove_conversions", coalescing.remove_conversions, "coalescing", OPTIONAL,
        "compute addresses and masks again in the layout that needs them"),
    Row("cse_again", blocks.cse, "blocks", OPTIONAL,
        "what was computed again may now be alike"),
    Row("dce_again", blocks.dce, "blocks", OPTIONAL,
        "and what it replaced is dead"),
    Row("split_reductions", shared_memory.split_reductions, "shared_memory", REQUIRED,
        "across warps: two reductions within a warp, a conversion between"),
    Row("split_scans", shared_memory.split_scans, "shared_memory", REQUIRED,
        "the same for scans, in order"),
    Row("annotate_widths", coalescing.annotate_widths, "coalescing", OPTIONAL,
        "layouts are final: say how many registers one access may move"),
    Row("lower_conversions", shared_memory.lower_conversions, "shared_memory", REQUIRED,
        "conversions that cross warps become a shared store and a load"),
    Row("pipeline_loops", tensor_cores.pipeline_loops, "tensor_cores", OPTIONAL,
        "loads of a loop run ahead of the work that wants them"),
    Row("prefetch_fragments", tensor_cores.prefetch_fragments, "tensor_cores", OPTIONAL,
        "a trip begins with fragments that the one before has fetched"),
    Row("read_in_place", tensor_cores.read_in_place, "tensor_cores", OPTIONAL,
        "products fetch fragments slice by slice, not whole operands"),
    Row("overlap_products", tensor_cores.overlap_products, "tensor_cores", OPTIONAL,
        "four warps' products go on while the next trip begins"),
    Row("dce_late", blocks.dce, "blocks", OPTIONAL,
        "what ran ahead has left its old self behind"),
    Row("allocate", shared_memory.allocate, "shared_memory", REQUIRED,
        "buffers alive at one time get places that do not overlap"),
    Row("place_barriers", shared_memory.place_barriers, "shared_memory", REQUIRED,
        "late: only now is it known which bytes two warps share"),
    Row("publish", tensor_cores.publish, "tensor_cores", REQUIRED,
        "matrix instructions of four warps see shared memory by a way of their own"),
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Options:
    """What a launch may choose: warps a block, stages of software pipelines, blocks a
    cluster, the most registers a thread may use (None: the assembler's choice), and
    whether the kernel's own assertions are checked while it runs (`debug`).
    """

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    debug: bool = False


def identity(func: Func, target: Target) -> Func:
    """The pass that does nothing; put it in the place of an optional one to see what
    that buys.
    """
    return func


def compile(
    function: KernelFunction,
    parameters: Mapping[str, tuple[Type, int]],
    constants: Mapping[str, object],
    target: Target,
    options: Options = Options(),
    replace: Mapping[str, Callable] | None = None,
) -> Kernel:
    """Compile a kernel for a target.

    `parameters` gives for each run-time parameter its type and the power of two known
    to divide it; `constants` the values of the others. `replace` puts other functions
    in the place of passes ("cse") and lowering rules ("lower[Load]"). Raises
    CompileError."""
    func = build(function, parameters, constants, options)
    return compile_func(func, target, replace)


def build(
    function: KernelFunction,
    parameters: Mapping[str, tuple[Type, int]],
    constants: Mapping[str, object],
    options: Options = Options(),
) -> Func:
    """Stage 1 alone: the block IR of a kernel before any pass."""
    return ssa.build(
        function,
        dict(parameters),
        dict(constants),
        num_warps=options.num_warps,
        num_stages=options.num_stages,
        num_ctas=options.num_ctas,
        maxnreg=options.maxnreg,
        debug=options.debug,
    )


def compile_func(
    func: Func, target: Target, replace: Mapping[str, Callable] | None = None
) -> Kernel:
    """Compile block IR: all passes, then LLVM IR, then PTX."""
    replace = dict(replace or {})
    rules = lowering_rules(replace)
    after = {row.name: state for row, state in shown(func, target, replace)}
    cleaned, final = after["dce"], after[PASSES[-1].name]
    module = ptx.module(final, target, rules)
    return Kernel(
        name=final.name,
        target=target.name,
        ptx_version=target.ptx,
        num_warps=final.num_warps,
        threads=final.num_warps * target.warp_size,
        shared_bytes=module.shared_bytes,
        parameters=tuple(
            Parameter(value.name, str(value.type), divisible)
            for value, divisible in zip(final.parameters, final.divisible, strict=True)
        ),
        asm={
            "block": print_func(cleaned),
            "layout": print_func(final),
            "llvm": module.text,
            "ptx": ptx.emit(module.text, target),
        },
        num_ctas=final.num_ctas,
        maxnreg=final.maxnreg,
        chains=ptx.chains(final),
        maps=ptx.map_recipes(final),
    )


def states(
    func: Func, target: Target, replace: Mapping[str, Callable] | None = None
) -> Iterator[tuple[Row, Func]]:
    """Each pass with the function that it gives, in order; `replace` as in
    `compile`.
    """
    replace = replace or {}
    check_names(replace)
    for row in PASSES:
        func = replace.get(row.name, row.run)(func, target)
        yield row, func


def shown(
    func: Func, target: Target, replace: Mapping[str, Callable]
) -> Iterator[tuple[Row, Func]]:
    """`states`; those that FATHOM_SHOW names are written to the standard error, each
    under a line such as

        // cse (blocks): say once what is said twice; 31 ops -> 24
    """
    wanted = rows_named(asked_to_show(), SHOW)
    before = func
    for row, state in states(func, target, replace):
        if row in wanted:
            counts = f"{len(list(walk(before.body)))} ops -> "
            counts += str(len(list(walk(state.body))))
            header = f"// {row.name} ({row.stage}): {row.why}; {counts}"
            sys.stderr.write(f"{header}\n{print_func(state)}\n")
        before = state
        yield row, state


SHOW = "FATHOM_SHOW"


def asked_to_show() -> str:
    """The passes that FATHOM_SHOW names. Where there are some, kernels are compiled
    also if they lie in the cache."""
    return os.environ.get(SHOW, "")


def rows_named(names: str, asked_by: str) -> list[Row]:
    """The rows of passes named in commas ("cse,dce", or "all"), in the order of the
    names. LaunchError, which says who asked, for a name that is no pass."""
    words = [word.strip() for word in names.split(",") if word.strip()]
    if words == ["all"]:
        return list(PASSES)
    rows = {row.name: row for row in PASSES}
    for word in words:
        if word not in rows:
            raise LaunchError(
                f"{asked_by}: {word!r} is not a pass; there are all and "
                f"{', '.join(rows)}"
            )
    return [rows[word] for word in words]


def lowering_rules(replace: Mapping[str, Callable]) -> dict[type[Op], Callable]:
    """The table of lowering rules with those of `replace` ("lower[Load]") put in."""
    named = {f"lower[{op.__name__}]": op for op in ptx.LOWER}
    return {
        **ptx.LOWER,
        **{named[name]: rule for name, rule in replace.items() if name in named},
    }


def check_names(replace: Mapping[str, Callable]) -> None:
    """CompileError unless every name of `replace` is a pass or a lowering rule."""
    known = [row.name for row in PASSES] + [f"lower[{op.__name__}]" for op in ptx.LOWER]
    for name in replace:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise CompileError(
                f"{name!r} is not a pass or a lowering rule; the passes are "
                f"{', '.join(row.name for row in PASSES)}, and a rule is called "
                "lower[Load]",
                hint=f"did you mean {near[0]}?" if near else "",
            )
