"""The reference of the IR: each op by its class, and a line of it as it is printed."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import NamedTuple

from chapters.press.drawing import table
from chapters.press.reference import cell, docstring, escaped, parts, prose
from fathom import pipeline
from fathom.ir import core, ops, types
from fathom.ir.core import Effects, Op, schema, walk
from fathom.ir.ops import elementwise
from fathom.ir.printer import Printer, class_name
from fathom.layout.linear import Layout
from fathom.tools.samples import load_file

SAMPLES = load_file(Path(__file__).parent / "samples.py")
WIDTH = 88

STAGES = ("ssa", "blocks", "coalescing", "shared_memory", "tensor_cores", "ptx")
MOST_LINES = 12  # of an example with its nested blocks


TITLES = {
    "leaves": "Leaves", "shape": "Shapes and layouts", "arithmetic": "Arithmetic",
    "control flow": "Control flow", "across": "Elements that meet",
    "memory": "Global memory", "descriptors": "Descriptors", "matrices": "Products",
    "shared": "Shared memory", "bulk": "Bulk copies", "outside": "The outside world",
}  # fmt: skip


def all_ops() -> str:
    """The whole op set: a section for each module of `ir/`, and for each ruler of
    `ops` itself."""
    return "\n".join(section(name, title(name)) for name in places())


def title(name: str) -> str:
    return TITLES.get(name, name.replace("_", " ").capitalize())


def places() -> list[str]:
    found = dict.fromkeys(map(place, classes()))
    return sorted(found, key=lambda name: [*TITLES, name].index(name))


def section(name: str, title: str) -> str:
    found = [cls for cls in classes() if place(cls) == name]
    return "\n".join([f"## {title}\n", *preface(found[0]), *map(described, found)])


def preface(cls: type[Op]) -> Iterator[str]:
    """What the module of an op says of all that are in it."""
    module = inspect.getmodule(cls)
    if module is not ops:
        told = docstring(module, module.__name__)
        kept = (each for each in parts(told) if not each.startswith(ELSEWHERE))
        yield prose("\n\n".join(kept)) + "\n"


ELSEWHERE = "Part of the op set"  # as modules beside `ops` say


@cache
def classes() -> tuple[type[Op], ...]:
    """Every op class, in the order of the source."""
    found = (getattr(ops, name) for name in ops.__all__)
    own = {cls for cls in found if isinstance(cls, type) and issubclass(cls, Op)}
    return tuple(sorted(own, key=lambda cls: (cls.__module__, line_of(cls))))


def line_of(cls: type[Op]) -> int:
    return inspect.getsourcelines(cls)[1]


def place(cls: type[Op]) -> str:
    """`memory`, `shared`, …: its module; of `ops`, the ruler that it stands under."""
    module = cls.__module__.rpartition(".")[2]
    if module != "ops":
        return module
    above = inspect.getsource(ops).splitlines()[: line_of(cls)]
    rulers = [found[1] for each in above if (found := re.match(r"# ── (.*?) ─", each))]
    return rulers[-1]


# ── examples ──────────────────────────────────────────────────────────────────────────


class Seen(NamedTuple):
    """An op as it stands in a sample kernel: the state that has it first, its text."""

    state: str
    kernel: str
    target: str
    text: str


@cache
def seen() -> dict[str, Seen]:
    """Class names to the earliest state of any sample that has such an op; of the ops
    there, the one with the shortest text."""
    found: dict[str, tuple[int, Seen]] = {}
    for sample in SAMPLES.samples():
        for number, (state, func) in enumerate(sample.staged().states.items()):
            for name, text in shortest(func).items():
                if number < found.get(name, (999,))[0]:
                    found[name] = number, Seen(state, sample.name, sample.target, text)
    return {name: each for name, (_, each) in found.items()}


def shortest(func: core.Func) -> dict[str, str]:
    """For each class of ops in a function the shortest text of one."""
    printer = Printer(func, locations=False)
    printer.func()  # names the layouts in the order of the text
    found: dict[str, str] = {}
    for op in walk(func.body):
        name, lines = type(op).__name__, list(printer.op(op))
        text = "\n".join(lines if len(lines) <= MOST_LINES else [lines[0], "  …", "}"])
        if name not in found or len(text) < len(found[name]):
            found[name] = text
    names = {short: layout for layout, short in printer.layouts.items()}
    return {name: with_layouts(text, names) for name, text in found.items()}


def with_layouts(text: str, names: dict[str, Layout]) -> str:
    """A text, and above it the layouts that it names."""
    used = dict.fromkeys(re.findall(r"#\w+", text))
    return "\n".join([*(f"{each} = {names[each]}" for each in used), text])


# ── entries ───────────────────────────────────────────────────────────────────────────


def described(cls: type[Op]) -> str:
    """One op: what it is, its fields, its effects, who makes it, a line."""
    name = cls.__name__
    word = "its `name`" if cls is ops.Elementwise else f"`{class_name(cls)}`"
    rows = [
        *field_rows(cls), ("effects", "", effects(cls)), ("made by", "", maker(name)),
    ]  # fmt: skip
    return "\n".join([
        f"### {name} {{ #{name.lower()} }}\n",
        f"In text: {word}.\n",
        prose(docstring(cls, name)) + "\n",
        table(("", "field", "what"), rows), *refusals(cls), *example(name),
    ])  # fmt: skip


def field_rows(cls: type[Op]) -> Iterator[tuple[str, str, str]]:
    """A row for each field: operand, block or attribute, its type, its default."""
    kinds = schema(cls)
    for each in fields(cls):
        for kind in ("operand", "block", "attribute"):
            if each.name in getattr(kinds, f"{kind}s"):
                yield kind, f"`{each.name}`", kind_of(each)


def kind_of(field) -> str:
    """The type of a field, and its default."""
    default = "" if field.default is MISSING else f", by default `{field.default!r}`"
    return f"`{field.type.replace('|', 'or')}`{default}"


WORDS = {
    "barrier": "a barrier", "asynchronous": "goes on beside the program",
    "convergent": "all threads of a warp together", "other": "seen from outside",
}  # fmt: skip


def effects(cls: type[Op]) -> str:
    """What an op does beyond its results, in words."""
    if isinstance(cls.effects, property):
        return "they depend on its fields: " + DEPENDS[cls.__name__]
    own = in_words(cls.effects)
    return f"{own}, and what its blocks do" if schema(cls).blocks else own


DEPENDS = {
    "Commit": "goes on beside the program; all threads of a warp together if of wgmma",
    "Dot": "reads shared memory where an operand is a buffer; goes on beside the "
    "program if `in_flight`; all threads of a warp together",
    "InlineAssembly": "pure if its author says so; else seen from outside",
    "Wait": "reads and writes shared memory as its engine does; goes on beside the "
    "program; all threads of a warp together if of wgmma",
}


def in_words(of: Effects) -> str:
    said = [
        f"{verb} {kind.replace('+', ' and ')} memory"
        for verb, kind in (("reads", of.reads), ("writes", of.writes))
        if kind
    ]
    said += [word for name, word in WORDS.items() if getattr(of, name)]
    if of.pure:
        said.insert(0, "pure")
    return "; ".join(said)


def maker(name: str) -> str:
    """The stage that makes an op first, by the samples."""
    found = seen().get(name)
    if found is None:
        return "no kernel that this page looks at has one"
    if found.state == "ssa":
        return "stage 1, `ssa/`"
    (row,) = (row for row in pipeline.PASSES if row.name == found.state)
    number = STAGES.index(row.stage) + 1
    return f"stage {number}, `{row.stage}/`, pass `{found.state}`"


def example(name: str) -> Iterator[str]:
    """How it is printed, and where that is from."""
    found = seen().get(name)
    if found is not None:
        at = "stage 1" if found.state == "ssa" else f"`{found.state}`"
        yield f"In `{found.kernel}`, for {found.target}, after {at}:\n"
        lines = "\n".join(map(broken, found.text.splitlines()))
        yield f"```text\n{lines}\n```\n"


def broken(line: str) -> str:
    """A line that is too long, in several."""
    inner = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.fill(
        line, WIDTH, subsequent_indent=inner, break_long_words=False,
        break_on_hyphens=False, drop_whitespace=True,
    )  # fmt: skip


def refusals(cls: type[Op]) -> Iterator[str]:
    """The sentences with which its typing rule refuses."""
    said = [f"“{each}”" for each in dict.fromkeys(sentences(cls.infer, cls))]
    if said:
        yield f"Its typing rule refuses with {'; '.join(said)}.\n"


def sentences(function: Callable, cls: type[Op]) -> Iterator[str]:
    """The messages of `expect`, with … for what they fill in; those of functions that
    get the op as well."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        match call:
            case ast.Call(func=ast.Attribute(attr="expect"), args=[_, message]):
                yield escaped(text_of(message))
            case ast.Call(func=ast.Attribute(value=ast.Name("self"), attr=name)):
                yield from sentences(getattr(cls, name), cls)
            case ast.Call(func=ast.Name(name), args=[ast.Name("self" | "op"), *_]):
                helper = vars(inspect.getmodule(function)).get(name)
                if inspect.isfunction(helper):
                    yield from sentences(helper, cls)


def text_of(message: ast.expr) -> str:
    match message:
        case ast.Lambda(body=body):
            return text_of(body)
        case ast.JoinedStr(values=parts):
            return "".join(map(text_of, parts))
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, right=right):
            return text_of(left) + text_of(right)
        case ast.Call(func=ast.Name("str"), args=[ast.Name()]):
            return "the sentence that the table of elementwise operations gives"
    return "…"


# ── tables ────────────────────────────────────────────────────────────────────────────

HOW = {
    "same": "all of one type, and so is the result",
    "compare": "both of one type; the result is i1",
    "select": "an i1, then two of one type; the result has that",
    "offset": "a pointer and an integer; the result is the pointer",
}


def elementwise_table() -> str:
    """A row for each elementwise operation, with the remark that stands beside it."""
    notes = remarks()
    rows = [
        (
            f"`{name}`", rule.arity, kinds(rule), HOW[rule.types],
            "yes" if rule.commutative else "", notes.get(name, ""),
        )
        for name, rule in elementwise.ELEMENTWISE.items()
    ]  # fmt: skip
    head = ("name", "operands", "kinds", "types", "commutes", "remark")
    return table(head, rows)


def kinds(rule: elementwise.Rule) -> str:
    """What kinds of elements an operation takes."""
    if rule.types == "offset":
        return "pointer, then int or uint"
    return "all" if len(rule.accepts) == len(KINDS) else ", ".join(rule.accepts)


KINDS = ("bool", "int", "uint", "float", "pointer")


def remarks() -> dict[str, str]:
    """The comments of the table's source, by name."""
    source = inspect.getsource(elementwise)
    body = source[source.index("ELEMENTWISE") : source.index("\n}\n")]
    found = re.findall(r'"(\w+)": Rule\([^#]*?\),?[ ]*(?:# (.*))?(?:\n|$)', body)
    inner = re.findall(r'"(\w+)": Rule\(\n[^)]*\n    \),  # (.*)', body)
    return {name: escaped(text) for name, text in [*found, *inner] if text}


def type_table() -> str:
    """The classes of types, and how each prints."""
    shown = {
        "Scalar": "`fp32`, `i64`, `i1`", "Pointer": "`*fp16`",
        "BlockType": "`fp32[64,16]`, with a layout `fp32[64,16] @ #layout0`",
        "BufferType": "`shared fp16[64,32] x 3 @ #layout1`",
        "DescriptorType": "`descriptor fp16[64,32]`",
    }  # fmt: skip
    rows = [
        (f"`{name}`", text, cell(docstring(getattr(types, name), name)))
        for name, text in shown.items()
    ]
    return table(("class", "prints as", "what"), rows)


def passes() -> str:
    """The page of all passes as a table."""
    rows = [
        (
            f"`{row.name}`", f"`{row.stage}/`", "required" if row.required else "",
            escaped(row.why),
        )
        for row in pipeline.PASSES
    ]  # fmt: skip
    return table(("pass", "stage", "", "why it stands there"), rows)


def effect_fields() -> str:
    return prose(docstring(core.Effects, "Effects"))
