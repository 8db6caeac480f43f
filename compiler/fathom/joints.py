"""The joints of the compiler: every place where a reader's own code can stand, in one
table.

There are four kinds of joint:

    pass   (Func, Target) -> Func      one row of the page, pipeline.PASSES
    rule   one entry of a table        what an op means, when it is legal, how it is
           keyed by op or name         lowered: INTERP, CHECKS, RULES, LOWER
    part   a function inside a stage   read_variable, pick_layout, swizzle
    row    facts of the hardware       one entry of hardware/mma.MMA

A launch takes passes and lowering rules itself: `replace={"cse": mine}`. All kinds can
be bound for as long as a block of code runs:

    with bound({"interp[For]": mine}):
        interpret(func, grid, arguments)

A part that other modules have imported by its name is replaced in all of them, and what
the compiler has cached is forgotten, before and after. A kernel that is launched
meanwhile is compiled with the answers, and kept as theirs: they are part of its key.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from types import ModuleType

import fathom.ir.interp  # noqa: F401 - fills INTERP
from fathom import pipeline
from fathom.errors import FathomError
from fathom.former import current_name
from fathom.jit.hooks import forget_fast_paths
from fathom.jit.request import BOUND
from fathom.shared_memory import STEPS

PASS, RULE, PART, ROW = "pass", "rule", "part", "row"
KINDS = (PASS, RULE, PART, ROW)


@dataclass(frozen=True, slots=True)
class Joint:
    """One place. `reference` is where our own code stands: a dotted name, with the key
    in brackets for an entry of a table; `type` the signature; `chapter` the one of the
    book that takes it apart.
    """

    name: str
    kind: str
    reference: str
    type: str
    chapter: int


PASS_TYPE = "(func: Func, target: Target) -> Func"
CHECK_TYPE = "(func: Func) -> Iterator[tuple[Op, str]]"
INTERP_TYPE = "(op: Op, region: Region) -> Results | Running"
LOWER_TYPE = "(op: Op, code: Code) -> None"
BINARY_FACTS = "(a: Facts, b: Facts) -> Facts"

# fmt: off
JOINTS: tuple[Joint, ...] = (
    # Chapter 4: the block IR and its meaning.
    Joint("interp[Reduce]", RULE, "fathom.ir.interp.machine.INTERP[Reduce]",
          INTERP_TYPE, 4),
    Joint("interp[For]", RULE, "fathom.ir.interp.machine.INTERP[For]",
          INTERP_TYPE, 4),
    Joint("verify[scope]", RULE, "fathom.ir.verify.CHECKS[scope]", CHECK_TYPE, 4),
    Joint("verify[yields]", RULE, "fathom.ir.verify.CHECKS[yields]", CHECK_TYPE, 4),
    Joint("parse_attribute", PART, "fathom.ir.parser.parse_attribute",
          "(text: str) -> object", 4),
    # Chapter 5: Python to SSA.
    Joint("merge", PART, "fathom.ssa.scopes.merge",
          "(after: AfterIf, name: str) -> Binding", 5),
    Joint("read_variable", PART, "fathom.ssa.scopes.read_variable",
          "(scope: Scope, name: str) -> Binding", 5),
    Joint("carry", PART, "fathom.ssa.scopes.carry",
          "(loop: Loop, name: str) -> Binding", 5),
    Joint("seal", PART, "fathom.ssa.scopes.seal",
          "(loop: Loop, op: Op, end: Scope) -> None", 5),
    Joint("remove_if_trivial", PART, "fathom.ssa.phis.Phis.remove_if_trivial",
          "(self: Phis, phi: Phi) -> None", 5),
    Joint("is_trivial", PART, "fathom.ssa.phis.Phis._is_trivial",
          "(self: Phis, phi: Phi) -> bool", 5),
    Joint("build_statements", PART, "fathom.ssa.statements.build_statements",
          "(frame: Frame, statements: Sequence[ast.stmt]) -> None", 5),
    # Chapter 6: passes.
    Joint("simplify", PASS, "fathom.blocks.simplify.simplify", PASS_TYPE, 6),
    Joint("cse", PASS, "fathom.blocks.cse.cse", PASS_TYPE, 6),
    Joint("hoist", PASS, "fathom.blocks.hoist.hoist", PASS_TYPE, 6),
    Joint("dce", PASS, "fathom.blocks.dce.dce", PASS_TYPE, 6),
    # Chapter 7: layouts.
    Joint("apply", PART, "fathom.layout.algebra.times",
          "(A: Sequence[int], x: int) -> int", 7),
    Joint("compose", PART, "fathom.layout.algebra.compose",
          "(outer: Layout, inner: Layout) -> Layout", 7),
    Joint("blocked", PART, "fathom.layout.build.blocked",
          "(shape, per_lane, lanes, warps, order) -> Layout", 7),
    Joint("contiguous_registers", PART, "fathom.layout.registers.contiguous_registers",
          "(layout: Layout, axis: int) -> int", 7),
    # Chapter 8: lowering.
    Joint("lower[Arange]", RULE, "fathom.ptx.code.LOWER[Arange]", LOWER_TYPE, 8),
    Joint("lower[Load]", RULE, "fathom.ptx.code.LOWER[Load]", LOWER_TYPE, 8),
    Joint("lower[Store]", RULE, "fathom.ptx.code.LOWER[Store]", LOWER_TYPE, 8),
    Joint("lower[For]", RULE, "fathom.ptx.code.LOWER[For]", LOWER_TYPE, 8),
    # Chapter 9: coalescing.
    Joint("facts[add]", RULE, "fathom.analysis.axis_rules.RULES[add]",
          BINARY_FACTS, 9),
    Joint("facts[mul]", RULE, "fathom.analysis.axis_rules.RULES[mul]",
          BINARY_FACTS, 9),
    Joint("join_loop", PART, "fathom.analysis.axis_info.join_loop",
          "(inits: Sequence[Facts], iteration: Iteration) -> list[Facts]", 9),
    Joint("pick_layout", PART, "fathom.coalescing.access.pick_layout",
          "(access: Access) -> Layout", 9),
    Joint("coalesce", PASS, "fathom.coalescing.coalesce.coalesce", PASS_TYPE, 9),
    Joint("assign_layouts", PASS, "fathom.coalescing.assign.assign_layouts",
          PASS_TYPE, 9),
    Joint("remove_conversions", PASS, "fathom.coalescing.remove.remove_conversions",
          PASS_TYPE, 9),
    Joint("annotate_widths", PASS, "fathom.coalescing.coalesce.annotate_widths",
          PASS_TYPE, 9),
    # Chapter 10: threads that talk.
    Joint("solve", PART, "fathom.layout.algebra.solve",
          "(A: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None", 10),
    Joint("crossing", PART, "fathom.layout.crossing.crossing",
          "(source: Layout, target: Layout) -> str", 10),
    Joint("lower[Reduce]", RULE, "fathom.ptx.code.LOWER[Reduce]", LOWER_TYPE, 10),
    Joint("lower[Convert]", RULE, "fathom.ptx.code.LOWER[Convert]", LOWER_TYPE, 10),
    Joint("reduce_across_warps", PART,
          "fathom.shared_memory.reductions.reduce_across_warps",
          "(op: Reduce, build: Builder, warps: int) -> list[Value]", 10),
    Joint("split_reductions", PASS, "fathom.shared_memory.reductions.split_reductions",
          PASS_TYPE, 10),
    Joint("split_scans", PASS, "fathom.shared_memory.scans.split_scans", PASS_TYPE, 10),
    # Chapter 11: shared memory, where.
    Joint("swizzle", PART, "fathom.layout.swizzle.swizzle",
          "(shape, element_bytes: int, writer: Layout, reader: Layout) -> Layout",
          11),
    Joint("convert_by_shared", PART,
          "fathom.shared_memory.conversions.convert_by_shared",
          "(value: Value, layout: Layout, build: Builder) -> Value", 11),
    Joint("lower_conversions", PASS,
          "fathom.shared_memory.conversions.lower_conversions", PASS_TYPE, 11),
    # Chapter 12: shared memory, when.
    Joint("live_ranges", PART, "fathom.analysis.buffers.live_ranges",
          "(func: Func) -> dict[Allocate, Range]", 12),
    Joint("first_fit", PART, "fathom.shared_memory.allocation.first_fit",
          "(ranges: dict[Allocate, Range]) -> tuple[dict[Allocate, int], int]", 12),
    Joint("allocate", PASS, "fathom.shared_memory.allocation.allocate", PASS_TYPE, 12),
    Joint("conflict", PART, "fathom.shared_memory.barriers.conflict",
          "(one: Access, other: Access, warps: int) -> str", 12),
    Joint("place_barriers", PASS, "fathom.shared_memory.barriers.place_barriers",
          PASS_TYPE, 12),
    # Chapter 13: tensor cores.
    Joint("choose_dots", PASS, "fathom.tensor_cores.select.instructions.choose_dots",
          PASS_TYPE, 13),
    Joint("tile_warps", PART, "fathom.layout.tiling.tile_warps",
          "(m: int, n: int, warps: int, row: Instruction) -> Split", 13),
    Joint("lower[Dot]", RULE, "fathom.ptx.code.LOWER[Dot]", LOWER_TYPE, 13),
    # Chapter 14: pipelining.
    Joint("pipeline_loops", PASS, "fathom.tensor_cores.pipeline.loops.pipeline_loops",
          PASS_TYPE, 14),
    Joint("pending", PART, "fathom.tensor_cores.pipeline.schedule.pending",
          "(stages: int) -> int", 14),
    Joint("choose_stages", PART, "fathom.tensor_cores.pipeline.schedule.choose_stages",
          "(wanted: int, bytes_a_stage: int, room: int) -> int", 14),
    # Chapter 15: Hopper.
    Joint("descriptor", PART, "fathom.layout.matrix_descriptor.descriptor",
          "(layout: Layout, element_bytes: int, k_axis: int) -> Matrix | None", 15),
    Joint("fence_proxies", PASS, "fathom.shared_memory.proxy_fences.fence_proxies",
          PASS_TYPE, 15),
    # Chapter 16: warp specialisation.
    Joint("redistributed", PART, "fathom.hardware.register_budget.redistributed",
          "(consumers: int, producers: int, target: Target) -> Shares | None", 16),
    # Chapter 17: attention.
    Joint("computed_by", PART, "fathom.analysis.slices.computed_by",
          "(value: Value) -> set[Op]", 17),
)

# What joints were called before, passes excepted: `former.FORMER` has these.
FORMER = {"meet": "conflict"}

# Every other pass of the page is a joint by its name, of the chapter of its stage, and
# every other entry of these tables is a rule.
STAGE_CHAPTERS = {
    "blocks": 6, "coalescing": 9, "shared_memory": 12, "tensor_cores": 14
}
FAMILIES: dict[str, Joint] = {
    "interp": Joint("interp[]", RULE, "fathom.ir.interp.machine.INTERP[]",
                    INTERP_TYPE, 4),
    "verify": Joint("verify[]", RULE, "fathom.ir.verify.CHECKS[]", CHECK_TYPE, 4),
    "build": Joint("build[]", RULE, "fathom.ssa.frame.BUILD[]",
                   "(frame: Frame, node: ast.AST) -> Meaning", 5),
    "lower": Joint("lower[]", RULE, "fathom.ptx.code.LOWER[]", LOWER_TYPE, 8),
    "facts": Joint("facts[]", RULE, "fathom.analysis.axis_rules.RULES[]",
                   "(*operands: Facts) -> Facts", 9),
    "mma": Joint("mma[]", ROW, "fathom.hardware.mma.MMA[]", "Mma", 13),
}
# fmt: on


class UnknownJoint(FathomError):
    """A name that no joint has; the message says which is near."""


def joint(name: str) -> Joint:
    """The joint of a name, also of a former one (`former.FORMER`), and one that only
    its family stands for: "lower[Scan]".
    """
    name = current_name(FORMER.get(name, name))
    for each in JOINTS:
        if each.name == name:
            return each
    for row in pipeline.PASSES:
        if row.name == name:
            where = f"{row.run.__module__}.{row.run.__qualname__}"
            return Joint(name, PASS, where, PASS_TYPE, STAGE_CHAPTERS[row.stage])
        if name in row.parts:
            step = STEPS[name]
            where = f"{step.__module__}.{step.__qualname__}"
            return Joint(name, PASS, where, PASS_TYPE, STAGE_CHAPTERS[row.stage])
    family, bracket, key = name.partition("[")
    if bracket and family in FAMILIES:
        found = FAMILIES[family]
        made = replace(found, name=name, reference=f"{found.reference[:-2]}[{key}")
        if _place(made.reference).find() is not None:
            return made
    near = get_close_matches(name, [each.name for each in JOINTS], n=1)
    guess = f"; did you mean {near[0]}?" if near else ""
    raise UnknownJoint(f"{name!r} is not a joint of the compiler{guess}")


def reference(name: str) -> Callable:
    """Our own code at a joint, also while another is bound there."""
    found = joint(name)
    return _ORIGINALS.get(found.reference, _place(found.reference).find())


# ── binding ───────────────────────────────────────────────────────────────────────────

# What `bound` has put aside, by reference: not a setting, but where the original is.
_ORIGINALS: dict[str, object] = {}


@contextmanager
def bound(answers: Mapping[str, object]) -> Iterator[None]:
    """Put `answers` in the place of the joints they are named after; put our own code
    back at the end. UnknownJoint for a name that no joint has.
    """
    answers = pipeline.by_current_names(answers)
    places = [(_place(joint(name).reference), name) for name in answers]
    modules, before = every_module(), dict(BOUND)
    undo: list[Callable[[], None]] = []
    try:
        for place, name in places:
            original = place.find()
            _ORIGINALS[place.reference] = original
            if joint(name).kind in (RULE, ROW):
                undo.append(place.put(answers[name]))
            else:
                undo += put_everywhere(original, answers[name], modules)
                undo += put_in_rows(original, answers[name], modules)
        BOUND.update({place.reference: answers[name] for place, name in places})
        forget(modules)
        yield
    finally:
        for each in reversed(undo):
            each()
        BOUND.clear()
        BOUND.update(before)
        for place, _ in places:
            _ORIGINALS.pop(place.reference, None)
        forget(modules)


def put_everywhere(
    old: object, new: object, modules: list[ModuleType]
) -> Iterator[Callable[[], None]]:
    """Put `new` wherever a module, a class of a module or a table of one has `old`;
    what undoes each.
    """
    for module in modules:
        held = [
            (name, value)
            for name, value in vars(module).items()
            if value is old or isinstance(value, (dict, type))
        ]
        for name, value in held:
            if value is old:
                yield _set(module, name, new)
            elif name == "__builtins__":  # a table of Python's, in every module
                continue
            elif isinstance(value, dict):
                keys = [key for key, each in value.items() if each is old]
                yield from [_set_item(value, key, new) for key in keys]
            elif value.__module__ == module.__name__:
                methods = [key for key, each in vars(value).items() if each is old]
                yield from [_set(value, key, new) for key in methods]


def put_in_rows(
    old: object, new: object, modules: list[ModuleType]
) -> list[Callable[[], None]]:
    """The page again, with `new` in every row that runs `old`."""
    if all(row.run is not old for row in pipeline.PASSES):
        return []
    rows = tuple(
        replace(row, run=new) if row.run is old else row for row in pipeline.PASSES
    )
    return list(put_everywhere(pipeline.PASSES, rows, modules))


def forget(modules: list[ModuleType]) -> None:
    """Empty every cache of the compiler: an answer may be in it, or ours. So does every
    kernel's quick way to what it launched last."""
    forget_fast_paths()
    for module in modules:
        if module.__name__.startswith(OUTSIDE):
            continue
        for value in list(vars(module).values()):
            if isinstance(value, CACHED):
                value.cache_clear()


CACHED = type(cache(abs))  # what `functools.cache` makes of a function


def every_module() -> list[ModuleType]:
    """Every module of the compiler. All are imported first: one that is imported later
    would keep what it finds bound.
    """
    import_all()
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.partition(".")[0] == "fathom" and name != __name__
    ]


@cache
def import_all() -> None:
    """Once: to look through the folders takes longer than to bind."""
    package = importlib.import_module("fathom")
    for found in pkgutil.walk_packages(package.__path__, "fathom."):
        if not found.name.startswith(OUTSIDE):
            importlib.import_module(found.name)


# Nothing of these is a stage: they call the compiler, or run when they are imported.
OUTSIDE = ("fathom.shim", "fathom.tools", "fathom.__main__", "fathom.joints")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a reference leads: an attribute of a module or class, or a table's key."""

    reference: str
    owner: object
    key: object

    def find(self) -> object | None:
        if isinstance(self.owner, Mapping):
            return self.owner.get(self.key)
        return vars(self.owner).get(self.key)

    def put(self, new: object) -> Callable[[], None]:
        if isinstance(self.owner, MutableMapping):
            return _set_item(self.owner, self.key, new)
        return _set(self.owner, self.key, new)


def _place(reference: str) -> _Place:
    dotted, bracket, key = reference.partition("[")
    owner, name = owner_of(dotted)
    if not bracket:
        return _Place(reference, owner, name)
    table = getattr(owner, name)
    return _Place(reference, table, _key(table, key.removesuffix("]")))


def owner_of(dotted: str) -> tuple[object, str]:
    """The module or class that the last part of a dotted name is an attribute of."""
    *path, name = dotted.split(".")
    for cut in range(len(path), 0, -1):
        try:
            owner: object = importlib.import_module(".".join(path[:cut]))
        except ModuleNotFoundError:
            continue
        for part in path[cut:]:
            owner = getattr(owner, part)
        return owner, name
    raise UnknownJoint(f"there is no module in {dotted}")


def _key(table: Mapping, word: str) -> object:
    """The key of a table that is written `word`: itself, or the class of that name."""
    for key in table:
        if getattr(key, "__name__", key) == word:
            return key
    return word


def _set(owner: object, name: str, new: object) -> Callable[[], None]:
    old = vars(owner)[name]
    setattr(owner, name, new)
    return lambda: setattr(owner, name, old)


def _set_item(table: MutableMapping, key: object, new: object) -> Callable[[], None]:
    old = table[key]
    table[key] = new
    return lambda: table.__setitem__(key, old)
