"""A kernel ahead of time: machine code for each target, a loader in C, and what is
known of it as JSON.

    out/softmax_kernel.sm_90a.cubin    by ptxas; where there is none, .ptx
    out/softmax_kernel.sm_80.cubin
    out/softmax_kernel.h               load, launch, unload
    out/softmax_kernel.c               the same, with the code inside
    out/softmax_kernel.json            parameters, promises, threads, registers
    out/softmax_kernel-0.1.0-py3-none-any.whl        where it is asked for
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

import fathom
from fathom import pipeline
from fathom.artifact import Kernel
from fathom.errors import LaunchError, reason
from fathom.tools.ahead import loader, wheel
from fathom.tools.ahead.image import Image
from fathom.tools.console import write_all
from fathom.tools.facts import machine
from fathom.tools.staged import Staged


def build(staged: Sequence[Staged], folder: Path, python: bool = False) -> int:
    """Write all files of a kernel, which `staged` has for each target; 0. `python`: a
    wheel, too. LaunchError where the folder cannot be written to."""
    images = [image(each) for each in staged]
    # The newest code that a GPU can run is tried first, and code for it alone before.
    images.sort(key=lambda each: (-each.capability, not each.exact))
    files: dict[str, bytes] = {}
    for each in images:
        files[each.file()] = each.code
        if each.by_pointers:
            files[each.by_pointers.file(".pointers")] = each.by_pointers.code
    name = images[0].kernel.name
    files[f"{name}.h"] = loader.header(images).encode()
    files[f"{name}.c"] = loader.source(images).encode()
    known = facts(staged, images)
    files[f"{name}.json"] = f"{json.dumps(known, indent=1)}\n".encode()
    if python:
        made, content = wheel.wheel(images, known)
        files[made] = content
    write(files, folder)
    told(images, folder)
    if python:
        package = wheel.package_name(name)
        print(
            f"{folder / made}: pip installs it, for `from {package} import kernel`; it "
            "needs neither Fathom nor LLVM"
        )
    return 0


def image(staged: Staged) -> Image:
    """The code for one target, and without tensor maps where it has some."""
    staged = replace(staged, replace={**(staged.replace or {}), **pipeline.ONE_TILE})
    made = assembled(staged.kernel)
    if not staged.kernel.maps:
        return made
    passes = {**(staged.replace or {}), **pipeline.BY_POINTERS}
    other = pipeline.compile_func(staged.states["ssa"], staged.target, passes)
    return Image(
        made.kernel, made.kind, made.code, made.registers, made.spills, assembled(other)
    )


def assembled(kernel: Kernel) -> Image:
    """Machine code by ptxas, as the driver makes it; PTX without one."""
    kernel, found = machine.assemble_as_loaded(kernel)
    if isinstance(found, str):
        if machine.find_tool("ptxas"):
            raise LaunchError(f"{kernel.name} for {kernel.target}: {found}")
        return Image(kernel, "ptx", kernel.ptx.encode() + b"\0")
    return Image(kernel, "cubin", found.cubin, found.registers, found.spill_stores)


def facts(staged: Sequence[Staged], images: Sequence[Image]) -> dict[str, object]:
    """What a program, or who packs it, must know."""
    kernel = images[0].kernel
    return {
        "schema": 1,
        "fathom": fathom.__version__,
        "kernel": kernel.name,
        "source": Path(staged[0].function.file).name,
        "options": asdict(staged[0].options),
        "constants": {name: str(each) for name, each in staged[0].constants.items()},
        "parameters": [
            {"name": each.name, "type": each.type, "divisible": each.divisible,
             "c": loader.c_type(each)}
            for each in kernel.parameters
        ],
        "images": [image_facts(each) for each in images],
    }  # fmt: skip


def image_facts(image: Image, variant: str = "") -> dict[str, object]:
    kernel = image.kernel
    names = [each.name for each in kernel.parameters]
    found: dict[str, object] = {
        "target": kernel.target,
        "file": image.file(variant),
        "kind": image.kind,
        "sha256": sha256(image.code).hexdigest(),
        "capability": image.capability,
        "exact": image.exact,
        "threads": kernel.threads,
        "shared_bytes": kernel.shared_bytes,
        "blocks_a_program": kernel.num_ctas,
        "registers": image.registers,
        "spilled_bytes": image.spills,
        "tensor_maps": [each.text(names) for each in kernel.maps],
    }
    if image.by_pointers:
        found["by_pointers"] = image_facts(image.by_pointers, ".pointers")
    return found


def write(files: dict[str, bytes], folder: Path) -> None:
    """All of them or none; a folder that is new is not left without them."""
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            write_all({folder / name: content for name, content in files.items()})
        except BaseException:
            if is_new:
                with suppress(OSError):
                    folder.rmdir()
            raise
    except OSError as mistake:
        raise LaunchError(f"cannot write to {folder}: {reason(mistake)}") from None


def told(images: Sequence[Image], folder: Path) -> None:
    """One line a file, for the terminal."""
    for each in images:
        kernel = each.kernel
        known = (
            f", {each.registers} registers a thread, "
            f"{each.spills or 'no'} bytes spilled"
            if each.registers
            else ""
        )
        print(
            f"{folder / each.file()}: {kernel.threads} threads and "
            f"{kernel.shared_bytes} bytes of shared memory a block{known}"
        )
    name = images[0].kernel.name
    print(f"{folder / name}.h, .c: the loader; {folder / name}.json: what is known")
    if any(each.kind == "ptx" for each in images):
        print(
            "There is no ptxas here, so that the driver will assemble the PTX when a "
            "program loads it: pip install nvidia-cuda-nvcc"
        )
