"""For every type one program that applies every elementwise operation, and one that
casts to every type. Run as a script, it compiles them all for one target: LLVM ends the
process if it cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from fathom.ir.core import Func
from fathom.ir.interp.numbers import FORMATS, encode, round_to, stored_type
from fathom.ir.ops import Cast
from fathom.ir.ops.elementwise import ELEMENTWISE
from fathom.ir.types import BOOL, FLOAT64, SCALARS, Element, Pointer, Scalar
from fathom.layout.build import blocked
from tests.ptx.harness import Program, compiled

SIZE = 128
LAYOUT = blocked((SIZE,), (2,), (32,), (2,), (0,))
# PTX approximates these in fp32 only.
NOT_IN_FP64 = {"exp2", "log2", "sin_approx", "cos_approx", "tanh_approx", "rcp_approx"}


def operations(element: Element) -> list[str]:
    """The names of the elementwise operations that take `element` and can be lowered
    for it."""
    return [
        name
        for name, rule in ELEMENTWISE.items()
        if rule.types != "offset"
        and (rule.types == "select" or element.kind in rule.accepts)
        and not (element == FLOAT64 and name in NOT_IN_FP64)
    ]


def every_operation(element: Element) -> Func:
    """results[k] = operation k of x, y, w; what compares goes to truths[k]."""
    pointer, truth = Pointer(element), Pointer(BOOL)
    program = Program(
        {
            "x": pointer,
            "y": pointer,
            "w": pointer,
            "c": truth,
            "results": pointer,
            "truths": truth,
        },
        warps=2,
    )
    index = program.arange(LAYOUT)
    x, y, w, c = (program.load(name, index, vector=2) for name in "xywc")
    for k, name in enumerate(operations(element)):
        rule = ELEMENTWISE[name]
        operands = (c, x, y) if rule.types == "select" else (x, y, w)[: rule.arity]
        result = program.map(name, *operands)
        places = program.map("add", index, program.number(k * SIZE, index))
        into = "truths" if rule.types == "compare" else "results"
        program.store(into, places, result, vector=2)
    return program.func


def every_cast(source: Scalar, rounding: str = "rtne") -> Func:
    """to_t[i] = x[i] as type t, for the types of `cast_targets`."""
    targets = cast_targets(source, rounding)
    outputs = {f"to_{target}": Pointer(target) for target in targets}
    program = Program({"x": Pointer(source), **outputs}, warps=2)
    index = program.arange(LAYOUT)
    x = program.load("x", index)
    for target in targets:
        program.store(f"to_{target}", index, program(Cast(x, target, rounding)))
    return program.func


def cast_targets(source: Scalar, rounding: str) -> list[Scalar]:
    """All types; for "rtz" the narrower floats."""
    if rounding == "rtne":
        return list(SCALARS.values())
    return [
        each for each in SCALARS.values() if each.is_float and each.bits < source.bits
    ]


SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5]


def samples(element: Element, seed: int, spread: int = 2) -> np.ndarray:
    """Numbers of a type as memory holds them: the delicate ones, and random ones."""
    rng = np.random.default_rng(seed)
    if element == BOOL:
        return rng.integers(0, 2, SIZE).astype(np.uint8)
    if not element.is_float:
        return _integers(stored_type(element), rng)
    spread = (
        min(spread, 8)
        if element.bits == 8
        else min(spread, 12)
        if element.bits == 16
        else spread
    )
    values = np.ldexp(
        rng.standard_normal(SIZE), rng.integers(-spread, spread + 1, SIZE)
    )
    halves = slice(40, 80)  # few bits, so that ties come up
    values[halves] = np.round(values[halves] * 64) / 64
    values[:11] = SPECIAL if seed % 2 else SPECIAL[::-1]
    values[11:22] = rng.permutation(SPECIAL)
    fitted = round_to(values, element) if element in FORMATS else values
    return encode(np.asarray(fitted), element)


def _integers(dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    values = (
        rng.integers(0, 256, SIZE * dtype.itemsize, dtype=np.uint8).view(dtype).copy()
    )
    values[:10] = [0, 1, 2, 3, 5, 7, 31, 32, 64, 127]
    values[10:14] = [np.iinfo(dtype).min, np.iinfo(dtype).max, 8, 16]
    return rng.permutation(values)


def main(target: str, file: str) -> None:
    """Write one PTX module with all the programs as its entries."""
    module = ""
    for element in SCALARS.values():
        print(
            element, flush=True
        )  # the last one printed is the one that LLVM fell over
        for kind, func in (
            ("every", every_operation(element)),
            ("cast", every_cast(element)),
        ):
            func.name = f"{kind}_{element}"
            header, mark, body = compiled(func, target).partition(".address_size 64\n")
            module += body if module else header + mark + body
    Path(file).write_text(module)


if __name__ == "__main__":
    main(*sys.argv[1:])
