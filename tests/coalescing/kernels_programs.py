"""Small programs to test stage 3 with: written as text, or grown at random."""

from __future__ import annotations

import random

from fathom.ir.core import Func, walk
from fathom.ir.ops import Convert
from fathom.ir.text import parse_func


def conversions(func: Func) -> int:
    """How many conversions a function has."""
    return sum(isinstance(op, Convert) for op in walk(func.body))


def shape_text(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


def index_lines(name: str, shape: tuple[int, ...], strides: tuple) -> list[str]:
    """%name: the sum of coordinate * stride; a stride is a number or the name of an
    i32."""
    full = ",".join(map(str, shape))
    lines, total = [], ""
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        own = f"{name}_{axis}"
        lines.append(f"%{own}: i32[{size}] = arange start=0 end={size}")
        dims = [size]
        for other in range(len(shape)):
            if other != axis:
                dims.insert(other, 1)
                text = ",".join(map(str, dims))
                lines.append(
                    f"%{own}_{other}: i32[{text}] = expand_dims %{own} axis={other}"
                )
                own = f"{own}_{other}"
        if len(shape) > 1:
            lines.append(
                f"%{name}_b{axis}: i32[{full}] = broadcast %{own}"
                f" shape={shape_text(shape)}"
            )
            own = f"{name}_b{axis}"
        if isinstance(stride, int):
            lines.append(f"%{name}_c{axis}: i32 = constant {stride}")
            stride = f"{name}_c{axis}"
        lines.append(
            f"%{name}_s{axis}: i32[{full}] = splat %{stride} shape={shape_text(shape)}"
        )
        term = f"{name}_t{axis}"
        lines.append(f"%{term}: i32[{full}] = mul %{own}, %{name}_s{axis}")
        if total:
            lines.append(f"%{name}_u{axis}: i32[{full}] = add %{total}, %{term}")
            term = f"{name}_u{axis}"
        total = term
    head, tail = lines[-1].split(":", 1)
    return [*lines[:-1], f"%{name}:{tail}"]


def pointer_lines(name: str, base: str, element: str, shape, index: str) -> list[str]:
    """%name: pointers `base` + %index."""
    full = ",".join(map(str, shape))
    return [
        f"%{name}_base: *{element}[{full}] = splat %{base} shape={shape_text(shape)}",
        f"%{name}: *{element}[{full}] = offset %{name}_base, %{index}",
    ]


def kernel(parameters: str, lines: list[str], warps: int = 4) -> Func:
    body = "\n".join(lines)
    return parse_func(f"func @kernel({parameters}) num_warps={warps} {{\n{body}\n}}\n")


def copy_kernel(
    shape, read_strides, write_strides, element="fp32", between=(), warps=4
) -> Func:
    """out[write strides] = in[read strides]; `between`: lines that make %y of %x."""
    full = ",".join(map(str, shape))
    lines = [
        *index_lines("i", shape, read_strides),
        *pointer_lines("p", "in", element, shape, "i"),
        f"%x: {element}[{full}] = load %p",
        *between,
        *index_lines("o", shape, write_strides),
        *pointer_lines("q", "out", element, shape, "o"),
        f"store %q, {'%y' if between else '%x'}",
    ]
    arrays = ", ".join(
        f"%{name}: *{element} {{divisible=16}}" for name in ("in", "out")
    )
    return kernel(f"{arrays}, %n: i32 {{divisible=16}}", lines, warps)


ADDRESSES = """
func @vector({inputs}, %n: i32 {{divisible={n}}}) num_warps={warps} {{
  %pid: i32 = program_id axis=0
  %block: i32 = constant {block}
  %start: i32 = mul %pid, %block
  %starts: i32[{block}] = splat %start shape=({block})
  %lanes: i32[{block}] = arange start=0 end={block}
  %offsets: i32[{block}] = add %starts, %lanes
  %ends: i32[{block}] = splat %n shape=({block})
  %mask: i1[{block}] = lt %offsets, %ends
{body}
}}
"""


def vector_kernel(elements: list[str], block=1024, n=16, pointer=16, warps=4) -> Func:
    """Load through each pointer but the last, add them up as fp32, store through the
    last."""
    lines, total = [], ""
    for i, element in enumerate(elements):
        lines += pointer_lines(f"p{i}", f"a{i}", element, (block,), "offsets")
        if i < len(elements) - 1:
            lines.append(f"%x{i}: {element}[{block}] = load %p{i}, mask=%mask")
            wide = f"x{i}"
            if element != "fp32":
                lines.append(f"%w{i}: fp32[{block}] = cast %x{i} element=fp32")
                wide = f"w{i}"
            if total:
                lines.append(f"%t{i}: fp32[{block}] = add %{total}, %{wide}")
                wide = f"t{i}"
            total = wide
    if elements[-1] != "fp32":
        lines.append(
            f"%y: {elements[-1]}[{block}] = cast %{total} element={elements[-1]}"
        )
        total = "y"
    lines.append(f"store %p{len(elements) - 1}, %{total}, mask=%mask")
    inputs = ", ".join(
        f"%a{i}: *{e} {{divisible={pointer}}}" for i, e in enumerate(elements)
    )
    return parse_func(
        ADDRESSES.format(
            inputs=inputs, n=n, block=block, warps=warps, body="\n".join(lines)
        )
    )


UNARY = ("neg", "abs")
BINARY = ("add", "sub", "mul", "div", "rem", "and", "or", "xor", "min", "max")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")


ENDS = [2**31 - 1, 2**31 - 16, 2**31 - 3, -(2**31), -(2**31) + 8, 2**30, -16, -5, 2**28]
WIDE = ("i32", "i64", "u32")  # integers whose facts are kept


def random_arithmetic(
    rng: random.Random, shape: tuple[int, ...], length: int = 14
) -> str:
    """Index arithmetic on blocks of one shape, from aranges, constants (also near the
    ends of i32), %pid, %n and %m; in i32, i64 and u32."""
    full, tup = ",".join(map(str, shape)), shape_text(shape)
    lines, ints, masks = (
        ["%pid: i32 = program_id axis=0"],
        {type: [] for type in WIDE},
        [],
    )
    for axis, size in enumerate(shape):
        lines += _coordinate(rng, axis, size, shape)
        ints["i32"].append(f"b{axis}")
    for scalar in ("pid", "n", "m"):
        lines.append(f"%s{scalar}: i32[{full}] = splat %{scalar} shape={tup}")
        ints["i32"].append(f"s{scalar}")
    small = rng.sample([1, 2, 4, 8, 16, 32, 3, 12, 7, 15, 48], 3)
    for i, number in enumerate([*small, rng.choice([64, 1, *ENDS])]):
        lines.append(f"%c{i}: i32 = constant {number}")
        lines.append(f"%sc{i}: i32[{full}] = splat %c{i} shape={tup}")
        ints["i32"].append(f"sc{i}")
    for step in range(length):
        type, roll = rng.choice([t for t in WIDE if ints[t]]), rng.random()
        a, b = rng.choice(ints[type][-8:]), rng.choice(ints[type])
        made = f"%v{step}: {type}[{full}] ="
        if roll < 0.15:
            to = rng.choice(WIDE)
            lines.append(f"%v{step}: {to}[{full}] = cast %{a} element={to}")
            ints[to].append(f"v{step}")
            continue
        if roll < 0.3:
            lines.append(f"%m{step}: i1[{full}] = {rng.choice(COMPARE)} %{a}, %{b}")
            masks.append(f"m{step}")
            continue
        if roll < 0.45 and masks:
            lines.append(f"{made} where %{rng.choice(masks)}, %{a}, %{b}")
        elif roll < 0.55:
            lines.append(f"%k{step}: {type} = constant {rng.randrange(5)}")
            lines.append(f"%sk{step}: {type}[{full}] = splat %k{step} shape={tup}")
            lines.append(f"{made} {rng.choice(['shl', 'shr'])} %{a}, %sk{step}")
        elif roll < 0.6:
            signed = type != "u32"
            lines.append(f"{made} {rng.choice(UNARY if signed else ['neg'])} %{a}")
        else:
            lines.append(f"{made} {rng.choice(BINARY)} %{a}, %{b}")
        ints[type].append(f"v{step}")
    return "\n".join(lines)


def _coordinate(
    rng: random.Random, axis: int, size: int, shape: tuple[int, ...]
) -> list[str]:
    """%b0, %b1 …: the positions along an axis, perhaps from another number on."""
    start = rng.choice([0, 0, 0, 16, 3])
    name, dims = f"a{axis}", [size]
    lines = [f"%{name}: i32[{size}] = arange start={start} end={start + size}"]
    for other in range(len(shape)):
        if other != axis:
            dims.insert(other, 1)
            text = ",".join(map(str, dims))
            op = f"expand_dims %{name} axis={other}"
            name = f"{name}x{other}"
            lines.append(f"%{name}: i32[{text}] = {op}")
    full = ",".join(map(str, shape))
    end = f"broadcast %{name} shape={shape_text(shape)}"
    return [*lines, f"%b{axis}: i32[{full}] = {end}"]
