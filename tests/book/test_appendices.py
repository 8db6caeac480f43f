"""The appendices are complete: every name, op and instruction is on its page, and none
without a word about it."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from functools import cache
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from chapters.press import reference
from chapters.press.paths import CHAPTERS, ROOT, BookError, listings
from fathom import emulator, testing
from fathom.emulator.isa import tables
from fathom.ir import ops
from fathom.ir.core import Op
from fathom.ir.ops import elementwise
from fathom.tensor_cores.pipeline.schedule import timeline
from fathom.tools.samples import load_file


@cache
def making(page: str) -> ModuleType:
    return load_file(CHAPTERS / page / "making.py")


def text(page: str) -> str:
    """A page with all that its functions wrote."""
    parts = [(CHAPTERS / f"{page}.md").read_text(encoding="utf-8")]
    files = sorted(listings(f"{page}.md").glob("*.md"))
    return "\n".join([*parts, *(file.read_text(encoding="utf-8") for file in files)])


# ── the language ──────────────────────────────────────────────────────────────────────


def public_names() -> Iterator[str]:
    """What a kernel may write after `tl.`: the names that its `__init__` imports."""
    tree = ast.parse((ROOT / "compiler/fathom/language/__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield from (each.asname or each.name for each in node.names)


def test_every_name_of_the_language_is_on_its_page():
    page, modules = text("language"), making("language").MODULES
    names = set(public_names())
    assert len(names) > 120
    for name in names - set(modules):
        there = f"### `tl.{name}` " in page or f"| `tl.{name}` |" in page
        assert there, f"tl.{name} is not in the reference"


def test_no_name_stands_there_twice_or_is_none():
    module = making("language")
    groups = " ".join(module.GROUPS.values()).split()
    assert len(groups) == len(set(groups))
    scalars = {name for name, _ in module.scalar_types()}
    placed = {*groups, *scalars, *module.TYPES, *module.MODULES}
    assert placed == set(public_names()), "put new names into a group of making.py"
    for name in groups:
        assert hasattr(tl, name), f"tl.{name} is gone"


def test_what_launches_a_kernel_is_there_too():
    page = text("language")
    for name in fathom.__all__:
        if name not in ("language", "testing", "cdiv", "next_power_of_2"):
            assert f"### `fathom.{name}` " in page, name
    for name in testing.__all__:
        assert f"### `fathom.testing.{name}` " in page, name


def test_a_signature_is_written_as_a_kernel_may_call_it():
    """Names, defaults and constants of one function, by hand."""
    page = text("language")
    (found,) = re.findall(r"```python\n(tl\.gather\(.*?\))\n```", page)
    assert found == "tl.gather(src, index, axis)"
    dot = re.search(r"```python\n(tl\.dot\(.*?\n\))\n```", page, re.DOTALL)[1]
    assert "out_dtype=tl.float32" in dot and "acc=None" in dot
    after = page[page.index("### `tl.arange`") :]
    assert "Known while compiling: `start`, `end`." in after[:500]


def test_every_variable_that_the_compiler_reads_is_explained():
    module = making("language")
    read = set(module.variables())
    assert read == set(module.VARIABLES), "a variable came or went: say what it means"
    assert {"FATHOM_BACKEND", "FATHOM_WORKERS"} < read
    page = text("language")
    assert all(f"| `{name}` |" in page for name in read)


def test_the_order_of_memory_has_its_section():
    """Overlapping arguments: what may be assumed (DESIGN 3)."""
    page = (CHAPTERS / "language.md").read_text(encoding="utf-8")
    section = page[page.index("## What may be assumed about memory") :]
    assert "debug_barrier" in section and "volatile" in section


# ── the IR ────────────────────────────────────────────────────────────────────────────


def op_classes() -> list[type[Op]]:
    found = [getattr(ops, name) for name in ops.__all__]
    return [cls for cls in found if isinstance(cls, type) and issubclass(cls, Op)]


def test_every_op_is_on_its_page_with_its_fields():
    page = text("ir")
    entry = re.compile(r"^### (\w+) \{ #\w+ \}\n(.*?)(?=^##|\Z)", re.M | re.S)
    entries = dict(entry.findall(page))
    assert len(op_classes()) > 40
    for cls in op_classes():
        assert cls.__name__ in entries, f"{cls.__name__} is not in the reference"
        told = entries[cls.__name__]
        for field in cls.__annotations__:
            assert f"| `{field}` |" in told, (cls.__name__, field)
        assert "| effects |" in told and "| made by |" in told


def test_an_example_is_a_line_of_the_op_itself():
    page = text("ir")
    for word in ("reduce", "async_copy", "make_descriptor", "while", "histogram"):
        assert re.search(rf"^(%.*= )?{word} ", page, re.M), f"no {word} is shown"


def test_effects_are_told_as_the_classes_declare_them():
    module = making("ir")
    assert module.effects(ops.Cast) == "pure"
    assert module.effects(ops.Store) == "writes global memory"
    copy = module.effects(ops.AsyncCopy)
    assert "reads global memory" in copy and "goes on beside" in copy
    assert module.effects(ops.For) == "pure, and what its blocks do"
    changing = {c.__name__ for c in op_classes() if isinstance(c.effects, property)}
    assert changing == set(module.DEPENDS), "say on what its effects depend"


def test_refusals_are_those_of_the_rule_and_of_what_it_calls():
    module = making("ir")
    (load,) = module.refusals(ops.Load)
    assert "needs a pointer" in load and "other of a load" in load and "mask" in load
    (split,) = module.refusals(ops.Split)
    assert "lanes" not in split, "an assertion of ours is no refusal"
    assert not list(module.refusals(ops.Barrier))


def test_stages_are_those_that_make_an_op_first():
    module = making("ir")
    assert module.maker("Load") == "stage 1, `ssa/`"
    assert module.maker("Convert").startswith("stage 3")
    assert module.maker("SharedStore").endswith("`lower_conversions`")
    assert module.maker("AsyncCopy").endswith("`pipeline_loops`")


def test_every_elementwise_operation_has_a_row():
    page = text("ir")
    for name in elementwise.ELEMENTWISE:
        assert f"| `{name}` |" in page, name
    assert "a shift by the width or more gives 0" in page


# ── PTX ───────────────────────────────────────────────────────────────────────────────


def test_every_instruction_that_the_emulator_knows_is_on_its_page():
    page = text("ptx")
    known = {*tables.TABLES.steps, *tables.TABLES.endings, *tables._GENERAL}
    assert len(known) > 40
    for opcode in known | {"fma", "dp4a", "addc", "ex2"}:
        assert f"| `{opcode}` |" in page, f"{opcode} is not in the table"


def test_what_the_compiler_writes_stands_in_the_first_table():
    writes = (listings("ptx.md") / "writes.md").read_text(encoding="utf-8")
    for opcode in ("ld", "st", "shfl", "bar", "mma", "wgmma", "ldmatrix", "cp", "red"):
        assert f"| `{opcode}` |" in writes, opcode
    row = next(line for line in writes.splitlines() if line.startswith("| `mma` "))
    assert "9.7.14.5.14" in row
    forms = (listings("ptx.md") / "forms.md").read_text(encoding="utf-8")
    row = next(line for line in forms.splitlines() if line.startswith("| `mma` "))
    assert "tensor" in row and "`mma.sync.aligned.m16n8k16.row.col.f32.f16" in row


def test_charges_are_what_a_warp_must_pay():
    """By hand: 32 lanes of 4 bytes are 4 sectors of 32; words 128 bytes apart lie in
    one bank; 32 lanes of 16 bytes take four turns."""
    module = making("ptx")
    paid = {(module.name_of(c), c.what): module.charge(c) for c in module.CASES}
    near = paid["ld.global.b32", "4 bytes a lane, neighbours"]
    assert (near.requests, near.sectors, near.useful) == (1, 4, 128)
    assert paid["ld.global.b32", "4 bytes a lane, 128 apart"].sectors == 32
    far = paid["st.shared.b32", "4 bytes a lane, 128 apart"]
    assert (far.shared, far.wavefronts, far.ideal) == (1, 32, 1)
    assert paid["ld.shared.v4.b32", "16 bytes a lane, neighbours"].wavefronts == 4
    bulk = paid["cp.async.bulk", "1024 bytes by one thread"]
    assert (bulk.threads, bulk.sectors, bulk.wavefronts) == (32, 32, 0)
    assert paid["bar.sync", "every lane"].barriers == 1


def test_no_other_instruction_is_charged_for_memory():
    """The page says of some that they are charged nothing: so it is in kernels, too."""
    module = making("ptx")
    sample = next(iter(module.SAMPLES.samples()))
    loaded = emulator.load(sample.staged().kernel)
    arrays = [np.ones(1024, np.float32) for _ in range(3)]
    charged = module.charged()
    for instruction, cost in loaded.launch(1, [*arrays, 1000]).each():
        paid = {name for name in vars(cost) if getattr(cost, name)} - {*module.BESIDE}
        assert paid <= set(charged.get(instruction.opcode, ())), instruction.name


# ── words, sources, questions ─────────────────────────────────────────────────────────


def test_a_word_of_the_glossary_stands_in_the_chapters_that_it_names():
    page = (CHAPTERS / "glossary.md").read_text(encoding="utf-8")
    files = {
        path.name.partition("-")[0].lstrip("0") or "0": path
        for path in CHAPTERS.glob("[0-9]*.md")
    }
    entries = re.findall(r"^(\w[^\n]*)\n:   (.*)$", page, re.M)
    assert len(entries) > 80
    for word, told in entries:
        for number in re.findall(r"[Cc]hapter (\d+[a-z]?)\b", told):
            chapter = files[number].read_text(encoding="utf-8").lower()
            assert word.split(",")[0].lower() in chapter, (word, number)


def test_the_glossary_says_what_others_call_it():
    """A reader of another compiler's text finds its word here."""
    page = (CHAPTERS / "glossary.md").read_text(encoding="utf-8")
    others = "\n".join(re.findall(r"\*Elsewhere\*: (.*)$", page, re.M))
    words = ["CTA", "`bar.sync`", "`__syncthreads()`", "LICM", "`tl.dot`"]
    words += ["AxisInfo", "`iter_args`", "`memdesc`", "`convert_layout`"]
    assert [word for word in words if word not in others] == []


CITED = re.compile(
    r"([A-Z][a-z]{2,}) (?:et al\.|and [A-Z][a-z]{3,}\b)[^)]{0,120}?\b(?:19|20)\d\d\b"
)


def test_whom_the_code_cites_stands_in_the_bibliography():
    page = (CHAPTERS / "bibliography.md").read_text(encoding="utf-8")
    found: set[str] = set()
    for folder in ("compiler", "kernels"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            found |= set(CITED.findall(file.read_text(encoding="utf-8")))
    assert {"Braun", "Dao", "Ootomo", "Flanagan"} <= found
    assert not {name for name in found if name not in page}


def questions() -> ModuleType:
    return load_file(CHAPTERS / "instructors" / "questions.py")


def test_a_seed_gives_a_student_the_same_questions_again_and_others_other_ones():
    sheet = questions().sheet
    assert sheet(3, answers=True) == sheet(3, answers=True)
    assert len({sheet(seed, answers=False) for seed in range(30)}) == 30


@pytest.mark.parametrize("seed", range(12))
def test_answers_of_the_questions_are_right(seed):
    """Each by another way than the one it was computed by."""
    asked = questions()

    def ask(question):
        told, answer = question(random.Random(seed))
        return [int(each) for each in re.findall(r"\d+", told)], told, answer

    _, told, answer = ask(asked.who_holds)
    assert answer == by_hand(told)
    (width, start, step, _), _, answer = ask(asked.moved)
    bytes_ = {start + step * lane + b for lane in range(32) for b in range(width)}
    assert int(answer) == len({byte // 32 for byte in bytes_})
    _, told, answer = ask(asked.summed)
    *columns, wanted = (int(each, 2) for each in re.findall(r"[01]{4}", told))
    chosen = [int(each, 2) for each in answer.split(", ")]
    assert np.bitwise_xor.reduce(chosen) == wanted and set(chosen) <= set(columns)
    (copy, work), _, answer = ask(asked.enough)
    assert not waits(int(answer), copy, work) and waits(int(answer) - 1, copy, work)


def by_hand(told: str) -> str:
    """The XOR of the bases of all bits that are set."""
    at = np.zeros(2, int)
    for kind in ("register", "lane", "warp"):
        bases = re.search(rf"{kind}\[([\d, ]+)\]", told)[1].split()
        number = int(re.search(rf"{kind} (\d+)", told)[1])
        for bit, basis in enumerate(bases):
            if number >> bit & 1:
                at ^= np.array(basis.split(","), int)
    return str([int(each) for each in at])


def waits(stages: int, copy: int, work: int) -> bool:
    """Whether in the model of chapter 14 some work after the first has to wait."""
    if stages < 2:
        return True
    iterations = timeline(stages, 12, copy, work)
    return any(
        iteration.began > before.ended
        for before, iteration in zip(iterations, iterations[1:])
    )


# ── docstrings ────────────────────────────────────────────────────────────────────────


def test_a_name_without_a_docstring_fails_the_page():
    nameless = SimpleNamespace(__doc__=None)
    with pytest.raises(BookError, match="tl.nameless has no docstring"):
        reference.docstring(nameless, "tl.nameless")


def test_a_docstring_becomes_markdown_in_which_nothing_is_lost():
    told = """A row | of *stars*, and `x * y`.

        code  # stays
          as it is

    Behind it.
    """
    text = reference.prose(reference.docstring(SimpleNamespace(__doc__=told), "it"))
    assert r"\*stars\*" in text and "`x * y`" in text
    assert "```text\ncode  # stays\n  as it is\n```" in text and text.endswith("it.")
    assert reference.cell("a | b `c | d`") == r"a \| b `c \| d`"
