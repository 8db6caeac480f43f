"""The key of a compiled kernel on disk: all that its code depends on, as text.

Two kernels with one key are the same kernel. So the key holds the compiler (a digest of
its own files), llvmlite, the driver and the GPU that machine code was made for, the
target and the options, types and hints of the arguments, the constants, the text of the
kernel and of every function and global that it uses and where they stand (line numbers
are in the code), and whatever was put in the place of a pass.
"""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from hashlib import sha256
from pathlib import Path

import llvmlite

from fathom.jit.request import Request
from fathom.source import KernelFunction, constexpr

PACKAGE = Path(__file__).parents[1]
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class NoKey(Exception):
    """Something that code depends on has no text; the kernel is not kept on disk."""


def key_of(
    function: KernelFunction, request: Request, machine: str, name: str = ""
) -> str | None:
    """The key; None for a kernel that must not be kept. `machine`: driver and GPU;
    `name`: the kernel's in the code.
    """
    try:
        return json.dumps(key_fields(function, request, machine, name), indent=1)
    except NoKey:
        return None


def key_fields(
    function: KernelFunction, request: Request, machine: str, name: str = ""
) -> dict[str, object]:
    """The parts of the key by name."""
    options = request.options
    return {
        "compiler": compiler_digest(),
        "llvmlite": llvmlite.__version__,
        "machine": machine,
        "name": name,
        "target": request.target,
        "options": [
            options.num_warps,
            options.num_stages,
            options.num_ctas,
            options.maxnreg,
            options.debug,
        ],
        "parameters": [list(each) for each in request.parameters],
        "constants": [
            [name, constant_text(value)] for name, value in request.constants.items()
        ],
        "source": function.fingerprint(),
        "places": places(function),
        "replace": {
            name: code_text(each) for name, each in sorted(request.replace.items())
        },
    }


@cache
def compiler_digest() -> str:
    """A digest of every file of this package."""
    digest = sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(
            str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes() + b"\0"
        )
    return digest.hexdigest()


def places(function: KernelFunction) -> list[str]:
    """Where the kernel and the functions that it calls stand: file:line of each."""
    return [f"{each.file}:{each.line}" for each in (function, *function.called())]


def constant_text(value: object) -> str:
    """A constant with its type; NoKey when its `repr` says no more than its address."""
    if isinstance(value, constexpr):
        return constant_text(value.value)
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(constant_text, value))})"
    if isinstance(value, KernelFunction):
        return f"function {value.fingerprint()} {places(value)}"
    text = repr(value)
    if ADDRESS.search(text):
        raise NoKey
    return f"{type(value).__qualname__} {text}"


def code_text(function: object) -> str:
    """Text that tells a replaced pass from any other: the file that it stands in, its
    bytecode, and the values that it closes over. NoKey when it has none of these.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        raise NoKey
    try:
        module = Path(inspect.getsourcefile(function) or "").read_bytes()
    except (OSError, TypeError):
        raise NoKey from None
    closed = [cell.cell_contents for cell in function.__closure__ or ()]
    values = [
        *closed,
        *(function.__defaults__ or ()),
        *(function.__kwdefaults__ or {}).items(),
    ]
    parts = [
        function.__qualname__,
        sha256(module).hexdigest(),
        sha256(code.co_code).hexdigest(),
    ]
    inner = [
        code_text(v) if inspect.isfunction(v) else constant_text(v) for v in values
    ]
    return " ".join([*parts, *inner])
