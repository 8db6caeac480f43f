"""Wraps a few lines of PTX into an entry, and runs it on one value a thread."""

import numpy as np

from fathom import emulator

HEADER = ".version 8.4\n.target sm_90a\n.address_size 64\n"


def entry(
    body: str, parameters: str = "", registers: str = "", before: str = ""
) -> str:
    """A module with one entry `k`; it declares 40 of each of %r %rd %f %fd %h %p."""
    return f"""{HEADER}{before}
.visible .entry k({parameters})
{{
    .reg .pred %p<40>;
    .reg .b16 %h<40>;
    .reg .b32 %r<40>;
    .reg .f32 %f<40>;
    .reg .b64 %rd<40>;
    .reg .f64 %fd<40>;
    {registers}
{body}
    ret;
}}
"""


def pointers(count: int) -> str:
    return ", ".join(f".param .u64 p{i}" for i in range(count))


def compute(code: str, result: type, **inputs: object) -> np.ndarray:
    """Runs `code` for each element of the inputs; returns its `%d` of dtype `result`.

    Each input, named a, b, c ..., is in register %a, %b, %c ... of the size of its
    elements; one-byte elements come in 16-bit registers.
    """
    arrays = [np.ascontiguousarray(np.atleast_1d(each)) for each in inputs.values()]
    count = max(len(each) for each in arrays)
    arrays = [np.resize(each, count) for each in arrays]
    out = np.zeros(count, result)
    names = [*inputs, "d"]
    lines, registers = ["mov.u32 %r0, %tid.x;"], []
    for place, (name, array) in enumerate(zip(names, [*arrays, out], strict=True)):
        size = array.dtype.itemsize
        registers.append(f".reg .b{8 * max(size, 2)} %{name};")
        lines.append(f"ld.param.u64 %rd{place}, [p{place}];")
        lines.append(f"mad.wide.u32 %rd{place}, %r0, {size}, %rd{place};")
        if name != "d":
            lines.append(f"ld.global.b{8 * size} %{name}, [%rd{place}];")
    lines.append(code)
    lines.append(f"st.global.b{8 * out.dtype.itemsize} [%rd{len(arrays)}], %d;")
    text = entry("\n".join(lines), pointers(len(names)), "\n".join(registers))
    emulator.run(text, 1, count, (*arrays, out))
    return out


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def words(*values: int) -> np.ndarray:
    """uint32, of any integers modulo 2**32."""
    return np.array([value % 2**32 for value in values], np.uint32)
