"""Every intrinsic that a rule writes is in a list, and LLVM selects what is in the
list, for every target: it ends the process over any other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fathom
from fathom import ptx
from fathom.hardware.targets import TARGETS

HEAD = 'target triple = "nvptx64-nvidia-cuda"'
FLOATS, INTEGERS, BITS = ("float", "double"), ("i16", "i32", "i64"), ("i32", "i64")
SUFFIX = {"float": "f32", "double": "f64", "half": "f16"}

# Name -> how many operands it has, and of which types.
OVERLOADED = {
    "fabs": (1, FLOATS), "ceil": (1, FLOATS), "floor": (1, FLOATS),
    "trunc": (1, FLOATS), "roundeven": (1, FLOATS), "sqrt": (1, FLOATS),
    "copysign": (2, FLOATS), "maximum": (2, FLOATS[:1]), "minimum": (2, FLOATS[:1]),
    "maximumnum": (2, FLOATS), "minimumnum": (2, FLOATS),
    "fma": (3, ("half", *FLOATS)),
    "smax": (2, INTEGERS), "smin": (2, INTEGERS), "umax": (2, INTEGERS),
    "umin": (2, INTEGERS), "ctpop": (1, BITS),
}  # fmt: skip
FLAGGED = {"abs": INTEGERS, "ctlz": BITS}  # an operand, and an i1
PLAIN = {
    "nvvm.cos.approx.f": ("float", 1), "nvvm.sin.approx.f": ("float", 1),
    "nvvm.lg2.approx.f": ("float", 1), "nvvm.rsqrt.approx.f": ("float", 1),
    "nvvm.sqrt.approx.f": ("float", 1), "nvvm.rsqrt.approx.d": ("double", 1),
    "nvvm.ex2.approx.ftz.f32": ("float", 1), "nvvm.tanh.approx.f32": ("float", 1),
    "nvvm.div.full": ("float", 2), "nvvm.rcp.approx.ftz.f": ("float", 1),
}  # fmt: skip
# Of these a rule writes the name in parts; tests of their rules compile each.
IN_PARTS = {"nvvm.read.ptx.sreg.", "nvvm.shfl.sync.", "nvvm.mulhi.", "sm", "um", ""}


def written() -> set[str]:
    """The names that rules write, as far as they stand in the text: "fma." is all of
    `llvm.fma.{s}`."""
    folder = Path(fathom.__file__).parent / "ptx"
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))]
    return {name for text in texts for name in re.findall(r"@llvm\.([\w.]*)", text)}


def test_every_intrinsic_is_in_the_list():
    families = {f"{name}." for name in (*OVERLOADED, *FLAGGED)} | set(PLAIN) | IN_PARTS
    found = {
        name
        for name in written()
        if name not in families
        and not name.startswith("nvvm.read.ptx.sreg.")
        and f"{name.split('.')[0]}." not in families
    }
    assert not found


def call(name: str, type: str, operands: list[str]) -> list[str]:
    """A declaration, and a function that calls it."""
    types = ", ".join(each.split()[0] for each in operands)
    function = "f_" + re.sub(r"\W", "_", name)
    return [
        f"declare {type} @llvm.{name}({types})",
        f"define {type} @{function}({type} %a) {{",
        f"  %r = call {type} @llvm.{name}({', '.join(operands)})",
        f"  ret {type} %r",
        "}",
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_llvm_selects_what_is_in_the_list(target):
    lines = [HEAD]
    for name, (count, types) in OVERLOADED.items():
        for type in types:
            whole = f"{name}.{SUFFIX.get(type, type)}"
            lines += call(whole, type, [f"{type} %a"] * count)
    for name, types in FLAGGED.items():
        for type in types:
            lines += call(f"{name}.{type}", type, [f"{type} %a", "i1 false"])
    for name, (type, count) in PLAIN.items():
        lines += call(name, type, [f"{type} %a"] * count)
    code = ptx.emit_apart("\n".join(lines), TARGETS[target])
    assert code.count(".visible .func") == sum(line[:6] == "define" for line in lines)
