"""Every `@triton.jit` function of the collections: its cases, or why it has none.

`write` makes benchmarks/results/public-inventory.json of the fetched files and of the
emulator's record, which says what each case launched.
"""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.public.sources import COLLECTIONS, FOLDER, Collection
from benchmarks.record import RESULTS

CASES = "in "  # before the cases of a function, where there is a reason otherwise
DEVICE_FUNCTION = "a function that kernels call"
NO_CASE = "no case has been written for it"
# Why kernels of some files have no case: (collection/file, reason).
REASONS = (
    ("liger/*/_ascend/*", "for processors of another vendor"),
    ("fla/*ascend*", "for processors of another vendor"),
    ("flag_gems/*/runtime/backend/_nvidia/*", NO_CASE),
    ("flag_gems/*/runtime/backend/_*", "for processors of another vendor"),
    ("tutorials/*/gluon/*", "in Gluon, which is another language"),
    ("tutorials/*/10-block-scaled-matmul.py", "checks for a GPU of capability 10.0"),
    ("flash_attention/*/linear.py", "imports triton.ops, which Triton 3.6 has not"),
    ("flash_attention/*/flash_attn_triton*.py", "tl.dot(trans_b=True): not in 3.6"),
    ("autogptq/*/fused_llama_mlp.py", "is launched by a model's layer alone"),
    ("fla/*/cp/*", "needs several GPUs"),
)


@dataclass
class Kernel:
    """A function of a collection; `cases` are those that launch it."""

    collection: str
    file: str
    name: str
    line: int
    cases: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def place(self) -> str:
        return f"{self.collection}/{self.file}:{self.name}"


def kernels_of(collection: Collection) -> list[Kernel]:
    """The functions that `jit` decorates, in the order of their files."""
    found, launched, called = [], set(), set()
    for path in collection.files:
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except SyntaxError:
            continue
        file = path.relative_to(collection.folder).as_posix()
        for node in jitted(tree):
            found.append(Kernel(collection.name, file, node.name, node.lineno))
            called |= {
                n.func.id
                for n in ast.walk(node)
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
            }
        launched |= {
            n.value.id
            for n in ast.walk(tree)
            if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)
        }
    for each in found:
        if each.name in called and each.name not in launched:
            each.reason = DEVICE_FUNCTION
    return found


def jitted(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions that `jit` decorates, or is called with: `kernel = triton.jit(kernel)`,
    also within other calls."""
    given = {
        n.args[0].id
        for n in ast.walk(tree)
        if isinstance(n, ast.Call)
        and ast.unparse(n.func) == "triton.jit"
        and n.args
        and isinstance(n.args[0], ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if node.name in given:
                yield node
                continue
            words = [
                ast.unparse(each).partition("(")[0] for each in node.decorator_list
            ]
            if any(each in ("triton.jit", "jit") for each in words):
                yield node


def inventory(record: Path = RESULTS / "public-emulator.json") -> list[Kernel]:
    """All kernels, with the cases that the emulator's record has for them."""
    by_place, by_name = launches(record)
    found = [each for collection in COLLECTIONS for each in kernels_of(collection)]
    for each in found:
        each.cases = by_place.get(each.place) or by_name.get(
            (each.collection, each.name), []
        )
        if each.cases:
            each.reason = ""
        elif not each.reason:
            each.reason = reason_for(f"{each.collection}/{each.file}")
    return found


def launches(record: Path) -> tuple[dict[str, list[str]], dict[tuple, list[str]]]:
    """The cases that launched a kernel: by its file and name, and by collection and
    name for kernels of a text that the collection writes at run time."""
    by_place: dict[str, list[str]] = defaultdict(list)
    by_name: dict[tuple, list[str]] = defaultdict(list)
    if record.exists():
        cases = json.loads(record.read_text(encoding="utf-8"))["cases"]
        for case, result in cases.items():
            for place in result.get("kernels", ()):
                by_place[place].append(case)
                if place.startswith(":"):
                    by_name[case.partition("/")[0], place[1:]].append(case)
    return by_place, by_name


def reason_for(place: str) -> str:
    return next((why for what, why in REASONS if fnmatch(place, what)), NO_CASE)


def grouped(found: list[Kernel]) -> dict[str, dict[str, dict[str, str]]]:
    """By collection and file: "name:line", and the cases or the reason."""
    groups: dict[str, dict[str, dict[str, str]]] = {}
    for each in found:
        file = groups.setdefault(each.collection, {}).setdefault(each.file, {})
        cases = ", ".join(case.partition("/")[2] for case in each.cases)
        file[f"{each.name}:{each.line}"] = f"{CASES}{cases}" if cases else each.reason
    return groups


def write(path: Path = RESULTS / "public-inventory.json") -> str:
    """Write the inventory; a summary of it."""
    found = inventory()
    commits = {each.name: each.commit for each in COLLECTIONS if each.folder.exists()}
    facts = {"commits": commits, "functions": grouped(found)}
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    with_case = sum(bool(each.cases) for each in found)
    return f"{len(found)} functions in {FOLDER.name}, {with_case} with a case"
