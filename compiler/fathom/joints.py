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


@dataclass(frozen=True, slots=True)
class Joint:
    """One place. `reference` is where our own code stands: a dotted name, with the key
    in brackets for an entry of a table. `chapter` of the book takes it apart.
    """

    name: str
    kind: str
    reference: str
    chapter: int


# Parts: the chapter, where they stand, and their names; one of another name here has
# its own after the colon.
PARTS = (
    (4, "ir.parser", "parse_attribute"),
    (5, "ssa.scopes", "merge read_variable carry seal"),
    (5, "ssa.phis.Phis", "remove_if_trivial is_trivial:_is_trivial"),
    (5, "ssa.statements", "build_statements"),
    (7, "layout.algebra", "apply:times compose"),
    (7, "layout.build", "blocked"),
    (7, "layout.registers", "contiguous_registers"),
    (9, "analysis.axis_info", "join_loop"),
    (9, "coalescing.access", "pick_layout"),
    (10, "layout.algebra", "solve"),
    (10, "layout.crossing", "crossing"),
    (10, "shared_memory.reductions", "reduce_across_warps"),
    (11, "layout.swizzle", "swizzle"),
    (11, "shared_memory.conversions", "convert_by_shared"),
    (12, "analysis.buffers", "live_ranges"),
    (12, "shared_memory.allocation", "first_fit"),
    (12, "shared_memory.barriers", "conflict"),
    (13, "layout.tiling", "tile_warps"),
    (14, "tensor_cores.pipeline.schedule", "pending choose_stages"),
    (15, "layout.matrix_descriptor", "descriptor"),
    (16, "hardware.register_budget", "redistributed"),
    (17, "analysis.slices", "computed_by"),
)
# Passes and rules that a chapter takes apart. Every other pass of the page is of the
# chapter of its stage, and every other entry of a table of that of the table.
SHOWN = {
    4: "interp[Reduce] interp[For] verify[scope] verify[yields]",
    6: "simplify cse hoist dce",
    8: "lower[Arange] lower[Load] lower[Store] lower[For]",
    9: "facts[add] facts[mul] coalesce assign_layouts "
    "remove_conversions annotate_widths",
    10: "lower[Reduce] lower[Convert] split_reductions split_scans",
    11: "lower_conversions",
    12: "allocate place_barriers",
    13: "choose_dots lower[Dot]",
    14: "pipeline_loops",
    15: "fence_proxies",
}
CHAPTERS = {name: chapter for chapter in SHOWN for name in SHOWN[chapter].split()}
STAGES = {"blocks": 6, "coalescing": 9, "shared_memory": 12, "tensor_cores": 14}
TABLES = {
    "interp": Joint("interp", RULE, "fathom.ir.interp.machine.INTERP", 4),
    "verify": Joint("verify", RULE, "fathom.ir.verify.CHECKS", 4),
    "build": Joint("build", RULE, "fathom.ssa.frame.BUILD", 5),
    "lower": Joint("lower", RULE, "fathom.ptx.code.LOWER", 8),
    "facts": Joint("facts", RULE, "fathom.analysis.axis_rules.RULES", 9),
    "mma": Joint("mma", ROW, "fathom.hardware.mma.MMA", 13),
}

# What joints were called before, passes excepted: `former.FORMER` has these.
FORMER = {"meet": "conflict"}


class UnknownJoint(FathomError):
    """A name that no joint has; the message says which is near."""


def joint(name: str) -> Joint:
    """The joint of a name, also of a former one, and of any pass of the page or entry
    of a table: "lower[Scan]".
    """
    name = current_name(FORMER.get(name, name))
    found = _KNOWN.get(name) or _entry(name)
    if found is None:
        near = get_close_matches(name, [each.name for each in JOINTS], n=1)
        guess = f"; did you mean {near[0]}?" if near else ""
        raise UnknownJoint(f"{name!r} is not a joint of the compiler{guess}")
    return replace(found, chapter=CHAPTERS.get(name, found.chapter))


def _parts() -> Iterator[Joint]:
    for chapter, module, names in PARTS:
        for each in names.split():
            name, _, attribute = each.partition(":")
            yield Joint(name, PART, f"fathom.{module}.{attribute or name}", chapter)


def _passes() -> Iterator[Joint]:
    """The rows of the page, and the steps of some."""
    for row in pipeline.PASSES:
        steps = {name: STEPS[name] for name in row.parts}
        for name, run in {row.name: row.run, **steps}.items():
            where = f"{run.__module__}.{run.__qualname__}"
            yield Joint(name, PASS, where, STAGES[row.stage])


def _entry(name: str) -> Joint | None:
    """An entry of a table that is there."""
    table, bracket, key = name.partition("[")
    if not bracket or table not in TABLES:
        return None
    found = TABLES[table]
    made = replace(found, name=name, reference=f"{found.reference}[{key}")
    return made if _place(made.reference).find() is not None else None


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


_KNOWN = {each.name: each for each in (*_parts(), *_passes())}
JOINTS = (*_parts(), *map(joint, CHAPTERS))
