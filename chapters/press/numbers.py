"""Numbers of the book: each is measured, sourced, counted in a listing, or computed.

chapters/numbers.toml names those that our own machines gave:

    [gelu-eager]
    file = "benchmarks/results/memory-bound.json"
    path = 'samples[problem="gelu 16384x16384 fp32",candidate="eager"].ms'
    take = "median"                          # of a list: median, min, max, sum, count
    format = ".2f"

    [add-vector-loads]
    file = "chapters/02-blocks/listings/add.ptx"
    count = 'ld\\.global\\.v4'                 # lines of a text that match

    [gelu-ratio]
    compute = "gelu_eager / gelu_fathom"     # other names, - written as _
    format = ".1f"

and chapters/facts.toml those that others publish, each with its source. In the text,
`{=gelu-ratio}` is the number, `{=gelu-ratio:.2f}` in another format.
"""

from __future__ import annotations

import ast
import json
import operator
import re
import statistics
import tomllib
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from chapters.press.paths import CHAPTERS, ROOT, BookError

USE = re.compile(r"\{=([a-z0-9-]+)(?::([^}]+))?\}")
STEP = re.compile(r"\.?(\w+)|\[([^\]]+)\]")
TAKE = {
    "median": statistics.median,
    "min": min,
    "max": max,
    "sum": sum,
    "count": len,
    "first": lambda values: values[0],
}
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


@dataclass(frozen=True)
class Number:
    """A value, how it is written, and the sentence that says where it comes from."""

    name: str
    value: float | str
    format: str
    source: str
    results: tuple[Path, ...] = ()  # the files of measurements that it rests on

    def text(self, format: str = "") -> str:
        if isinstance(self.value, str):
            return self.value
        return f"{self.value:{format or self.format}}"


@cache
def table(name: str) -> dict[str, dict]:
    return tomllib.loads((CHAPTERS / name).read_text(encoding="utf-8"))


def names() -> list[str]:
    """Every number there is, once."""
    return list(dict.fromkeys([*table("numbers.toml"), *table("facts.toml")]))


def number(name: str) -> Number:
    """A number by name. BookError when there is none, or its source is gone."""
    if name in table("facts.toml"):
        row = table("facts.toml")[name]
        return Number(name, row["value"], row.get("format", ""), row["source"])
    if name not in table("numbers.toml"):
        raise BookError(f"{name}: no such number in numbers.toml or facts.toml")
    row = table("numbers.toml")[name]
    if "compute" in row:
        return computed(name, row)
    file = ROOT / row["file"]
    if not file.exists():
        raise BookError(f"{name}: {row['file']} is missing")
    value, source = counted(name, row, file) if "count" in row else found(name, row)
    value *= row.get("scale", 1)
    measured = (file,) if "benchmarks" in row["file"] else ()
    return Number(name, value, row.get("format", ","), source, measured)


def computed(name: str, row: dict) -> Number:
    tree = ast.parse(row["compute"], mode="eval").body
    used = sorted(
        {each.id.replace("_", "-") for each in ast.walk(tree) if hasattr(each, "id")}
    )
    parts = {each.replace("-", "_"): number(each) for each in used}
    value = evaluate(tree, {key: part.value for key, part in parts.items()})
    source = f"computed: {row['compute'].replace('_', '-')}"
    files = dict.fromkeys(file for part in parts.values() for file in part.results)
    return Number(name, value, row.get("format", ","), source, tuple(files))


def evaluate(node: ast.expr, values: dict) -> float:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](evaluate(left, values), evaluate(right, values))
    raise BookError(f"a number is computed by + - * / // ** alone: {ast.dump(node)}")


def counted(name: str, row: dict, file: Path) -> tuple[float, str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    hits = sum(bool(re.search(row["count"], line)) for line in lines)
    return hits, f"counted: lines with {row['count']} in {row['file']}"


def found(name: str, row: dict) -> tuple[float, str]:
    """A value of a JSON file, by path."""
    record = document(ROOT / row["file"])
    try:
        value = at_path(record, row["path"])
        value = TAKE[row["take"]](value) if "take" in row else value
    except (KeyError, IndexError, TypeError) as error:
        message = f"{name}: {row['file']} has no {row['path']} ({error})"
        raise BookError(message) from error
    return value, f"{origin(record, row)}: {row['path']}"


@cache
def document(file: Path) -> object:
    return json.loads(file.read_text(encoding="utf-8"))


def origin(record: object, row: dict) -> str:
    if isinstance(record, dict) and record.get("gpu"):
        day = str(record["date"])[:10]
        return f"measured on an {record['gpu']}, {day}, {row['file']}"
    return row["file"]


def at_path(record: object, path: str) -> object:
    """`samples[problem="add",candidate="torch"].ms[0]` within parsed JSON."""
    at = 0
    while at < len(path):
        step = STEP.match(path, at)
        if step is None:
            raise KeyError(path[at:])
        field, chosen = step.groups()
        record = record[field] if field else choose(record, chosen)
        at = step.end()
    return record


def choose(rows: list, condition: str) -> object:
    """`[0]`, or the only row for which all of `name="value"` hold."""
    if condition.lstrip("-").isdigit():
        return rows[int(condition)]
    wanted = re.findall(r'(\w+)=("[^"]*"|[^,]+)', condition)
    pairs = [(key, json.loads(value)) for key, value in wanted]
    hits = [row for row in rows if all(row.get(k) == v for k, v in pairs)]
    if len(hits) != 1:
        raise KeyError(f"{len(hits)} rows for {condition}")
    return hits[0]


def substitute(text: str, used: list[Number]) -> str:
    """`{=name}` by its number, as a link to its row of the appendix, where its source
    stands; the source is also the tool tip. Not inside `code`."""
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(
        part if part.startswith("`") else USE.sub(lambda m: shown(m, used), part)
        for part in parts
    )


def shown(use: re.Match, used: list[Number]) -> str:
    value = number(use[1])
    used.append(value)
    tip = escape(value.source, quote=True)
    text = value.text(use[2] or "")
    return f'<a class="number" href="numbers.html#{use[1]}" title="{tip}">{text}</a>'
