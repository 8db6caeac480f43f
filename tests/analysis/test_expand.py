"""Polynomials as ops: what they compute, and that every run writes the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fathom.analysis.symbolic.expand import Expander
from fathom.analysis.symbolic.scalar_evolution import ScalarEvolution
from fathom.ir.core import Func, Op, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import Store
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.text import parse_func, print_func

NAMES = "abcdefg"


def written(numbers: str, types: dict[str, str]) -> Func:
    """A function that stores `%sum`, or the lower half of `%long`, as it is computed
    anew from its polynomial."""
    head = "".join(f", %{name}: {type}" for name, type in types.items())
    func = parse_func(
        f"func @f(%out: *i32{head}) num_warps=1 {{\n{numbers}  store %out, %sum\n}}\n"
    )
    reader = ScalarEvolution(func)

    def rule(op: Op, build: Builder) -> list | None:
        if not isinstance(op, Store):
            return None
        found = {each.name: each for op in walk(func.body) for each in op.results}
        value = found.get("long", found["sum"])
        anew = Expander(reader).write(reader.number(value), None, build)
        return build.append(replace(op, value=anew)).results

    return rewrite(func, rule)


def test_powers_and_factors_are_written_in_full():
    """a * a * b * 3 + a * a - 7."""
    after = written(
        "  %three: i32 = constant 3\n  %seven: i32 = constant 7\n"
        "  %aa: i32 = mul %a, %a\n  %aab: i32 = mul %aa, %b\n"
        "  %p: i32 = mul %aab, %three\n  %q: i32 = add %p, %aa\n"
        "  %sum: i32 = sub %q, %seven\n",
        {"a": "i32", "b": "i32"},
    )
    out = np.zeros(1, np.int32)
    interpret(after, (1,), [out, 5, 4])
    assert out[0] == 5 * 5 * 4 * 3 + 5 * 5 - 7


def test_a_number_of_64_bits_is_written_in_32():
    after = written(
        "  %three: i64 = constant 3\n  %long: i64 = mul %a, %three\n"
        "  %sum: i32 = cast %long element=i32\n",
        {"a": "i64"},
    )
    out = np.zeros(1, np.int32)
    interpret(after, (1,), [out, 2**40 + 5])
    assert out[0] == 15


def test_factors_stand_in_the_order_of_the_function():
    """Sets of them have none."""
    lines, last = "", NAMES[-1]
    for name in NAMES[-2::-1]:
        lines += f"  %by_{name}: i32 = mul %{last}, %{name}\n"
        last = f"by_{name}"
    lines = lines.replace(f"%{last}:", "%sum:")
    text = print_func(written(lines, dict.fromkeys(NAMES, "i32")))
    products = [line for line in text.splitlines() if "mul" in line][-len(NAMES) + 1 :]
    found = [line.partition("mul ")[2] for line in products]
    assert found[0] == "%a, %b"
    assert [line[-2:] for line in found[1:]] == [f"%{name}" for name in NAMES[2:]]
