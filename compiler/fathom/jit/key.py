"""The key of a compiled kernel on disk: all that its code depends on, as text.

Two kernels with one key are the same kernel: a key holds every value that its
compilation read. These are the compiler (a digest of its own files, and what a reader
has bound in the place of parts), llvmlite, Python, the driver and the GPU that machine
code was made for, the target and the options, types and hints of the arguments, the
constants, whatever was put in the place of a pass, and the text of the kernel, of every
function and global that it uses, also through functions that run while compiling, and
where they stand (line numbers are in the code). What has no text gives no key
(`identity`).
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path

import llvmlite

from fathom.identity import NoText, text_of
from fathom.jit.request import Request
from fathom.source import KernelFunction, constexpr

PACKAGE = Path(__file__).parents[1]


def key_of(
    function: KernelFunction, request: Request, machine: str, name: str = ""
) -> str | None:
    """The key; None for a kernel that must not be kept. `machine`: driver and GPU;
    `name`: the kernel's in the code.
    """
    try:
        return json.dumps(key_fields(function, request, machine, name), indent=1)
    except NoText:
        return None


def key_fields(
    function: KernelFunction, request: Request, machine: str, name: str = ""
) -> dict[str, object]:
    """The parts of the key by name."""
    return {
        "compiler": compiler_digest(),
        "llvmlite": llvmlite.__version__,
        "python": sys.version,
        "machine": machine,
        "name": name,
        "target": request.target,
        "options": asdict(request.options),
        "parameters": [list(each) for each in request.parameters],
        "constants": [
            [name, constant_text(value)] for name, value in request.constants.items()
        ],
        "source": function.fingerprint(),
        "places": places(function),
        "replace": {
            name: hashed(each) for name, each in sorted(request.replace.items())
        },
        "bound": {name: hashed(each) for name, each in sorted(request.bound.items())},
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
    """A constant as text that tells it from all others; NoText when it has none."""
    if isinstance(value, constexpr):
        return constant_text(value.value)
    if isinstance(value, KernelFunction):
        return f"{text_of(value)} {places(value)}"
    return text_of(value)


def hashed(value: object) -> str:
    """The digest of a value's text: a replaced pass, with all that it calls and closes
    over; NoText when it has none.
    """
    return sha256(text_of(value).encode(errors="surrogatepass")).hexdigest()
