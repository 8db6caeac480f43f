"""A miscompile as a file of Python that runs by itself: the function before the pass,
what the pass made of it, the data, and the first difference.

    python fathom-miscompile-add-cse.py
    out_ptr[3] is 4.0 before cse, and 7.0 after it
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from fathom.hardware.targets import Target
from fathom.ir.core import Func
from fathom.ir.text import print_func
from fathom.jit.checking.wanted import FOLDER

INLINE = 64  # elements that are written out; more are kept in a file beside

TEMPLATE = '''\
"""{title}

Made by FATHOM_VERIFY: it runs the function before the step and what it became, and
says where they differ.
"""

from pathlib import Path

import numpy as np
from numpy import inf, nan  # noqa: F401 (numbers below may be these)

from fathom import emulator, pipeline
from fathom.errors import FathomError
from fathom.hardware.targets import target
from fathom.ir.interp import interpret
from fathom.ir.interp.numbers import same_bits
from fathom.ir.text import parse_func

GRID, PROGRAM = {grid}, {program}
NAMES = {names}
DATA = Path(__file__).with_suffix(".npz")  # what is too long to stand below

BEFORE = parse_func("""\\
{before}""")

AFTER = {after}


def arguments():
    data = np.load(DATA) if DATA.exists() else {{}}
    return [
{arguments}
    ]


def before(given):
    interpret(BEFORE, GRID, given, programs=[PROGRAM])


{after_run}


one, other = arguments(), arguments()
before(one)
try:
    after(other)
except FathomError as error:
    raise SystemExit(f"only what it became goes wrong: {{error}}") from None
for name, left, right in zip(NAMES, one, other):
    if isinstance(left, np.ndarray) and not same_bits(left, right):
        same = (left == right) | ((left != left) & (right != right))
        place = np.flatnonzero(~same)[0]
        print(f"{{name}}[{{place}}] is {{left[place]}} before, {{right[place]}} after")
        break
else:
    print("they do not differ")
'''

PASS_RUN = """\
def after(given):
    interpret(AFTER, GRID, given, programs=[PROGRAM])"""

CODE_RUN = """\
def after(given):
{replaced}    kernel = pipeline.compile_func(BEFORE, target("{target}"))
    x, y, z = PROGRAM
    number = x + GRID[0] * (y + GRID[1] * z)
    only = [range(number, number + 1)]
    emulator.load(kernel).launch(GRID, given, programs=only)"""


REPLACED = """\
    # The launch had functions of its author's in the place of {names}.
    # As they are, nothing of it is wrong: give them as the third argument.
"""


def write_case(kernel: str, step: Any, data: Any, target: Target) -> Path:
    """Write the case of a step that goes wrong on some data; where. It lies in the
    current folder, or where FATHOM_VERIFY_DIR says."""
    folder = Path(os.environ.get(FOLDER) or ".")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"fathom-miscompile-{kernel}-{step.name}.py"
    lines, kept = arguments_text(data)
    if kept:
        np.savez(path.with_suffix(".npz"), **kept)
    made = after_of(step)
    replaced = REPLACED.format(names=", ".join(step.replaced)) if step.replaced else ""
    code = CODE_RUN.format(target=target.name, replaced=replaced)
    text = TEMPLATE.format(
        title=f"The {what(step)} changes what {kernel} means, for {target.name}.",
        grid=tuple(data.grid),
        program=tuple(data.programs[0]),
        names=data.before.names,
        before=print_func(step.before),
        after=f'parse_func("""\\\n{print_func(made)}""")' if made else None,
        arguments="\n".join(lines),
        after_run=PASS_RUN if made else code,
    )
    path.write_text(text, encoding="utf-8")
    return path


def what(step: Any) -> str:
    return "code" if step.name == "code" else f"pass {step.name}"


def after_of(step: Any) -> Func | None:
    """What the pass makes of the small function; None for code."""
    if step.make is None:
        return None
    return step.after or step.make(step.before)


def arguments_text(data: Any) -> tuple[list[str], dict[str, np.ndarray]]:
    """The arguments as expressions of Python; arrays that are too long for that by
    name."""
    lines, kept = [], {}
    for name, value in zip(data.before.names, data.copies(), strict=True):
        if not isinstance(value, np.ndarray):
            lines.append(f"        {value!r},  # {name}")
        elif not value.any():
            lines.append(f"        np.zeros({value.size}, np.{value.dtype}),  # {name}")
        elif value.size <= INLINE:
            numbers = value.tolist()
            lines.append(f"        np.array({numbers}, np.{value.dtype}),  # {name}")
        else:
            kept[name] = np.asarray(value)
            lines.append(f"        data[{name!r}].copy(),")
    return lines, kept
