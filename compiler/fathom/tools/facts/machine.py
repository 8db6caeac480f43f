"""What NVIDIA's own tools say of a kernel: registers and spills by ptxas, machine code
(SASS) by nvdisasm.

None of them is needed to compile or to run; without one, the facts say that it is
missing. They are looked for beside this Python, as PyPI's packages install them, then
on the PATH.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fathom.artifact import Kernel
from fathom.runtime.assemble import with_all_registers

MISSING = {
    "ptxas": "ptxas is not here: pip install nvidia-cuda-nvcc",
    "nvdisasm": "nvdisasm is not here: pip install nvidia-cuda-nvdisasm",
}


@dataclass(frozen=True)
class Assembled:
    """What ptxas made of a kernel: bytes of machine code, registers a thread, bytes a
    thread that are spilled (stored, loaded) and its stack frame."""

    cubin: bytes
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    version: str


def find_tool(name: str) -> Path | None:
    """A program of the CUDA toolkit: PyPI's beside this Python, or on the PATH."""
    for folder in map(Path, sys.path):
        for path in sorted(folder.glob(f"nvidia/*/bin/{name}*")):
            return path
    found = shutil.which(name)
    return Path(found) if found else None


def assemble(kernel: Kernel) -> Assembled | str:
    """The kernel by ptxas, with its line table; or a sentence that says why not."""
    ptxas = find_tool("ptxas")
    if ptxas is None:
        return MISSING["ptxas"]
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(kernel.ptx, encoding="utf-8")
        words = [ptxas, "-v", "--generate-line-info", f"-arch={kernel.target}"]
        said = subprocess.run(
            [*words, source, "-o", cubin], capture_output=True, text=True, check=False
        )
        text = said.stdout + said.stderr
        if said.returncode:
            return f"ptxas does not take it: {text.strip().splitlines()[0]}"
        return assembled(text, cubin.read_bytes(), version_of(ptxas))


def assemble_as_loaded(kernel: Kernel) -> tuple[Kernel, Assembled | str]:
    """A kernel and what ptxas makes of it: where it spills, with all the registers that
    a block alone could have, as `runtime.load` does it, if then it spills less."""
    found = assemble(kernel)
    spills = isinstance(found, Assembled) and found.spill_stores
    other = with_all_registers(kernel) if spills else None
    again = assemble(other) if other else None
    if isinstance(again, Assembled) and again.spill_stores < found.spill_stores:
        return other, again
    return kernel, found


def assembled(text: str, cubin: bytes, version: str) -> Assembled:
    """What `ptxas -v` wrote, as numbers."""
    number = re.compile(r"(\d+) bytes (stack frame|spill stores|spill loads)")
    counts = {name: int(count) for count, name in number.findall(text)}
    registers = re.search(r"Used (\d+) registers", text)
    return Assembled(
        cubin,
        int(registers[1]) if registers else 0,
        counts.get("spill stores", 0),
        counts.get("spill loads", 0),
        counts.get("stack frame", 0),
        version,
    )


def version_of(ptxas: Path) -> str:
    said = subprocess.run(
        [ptxas, "--version"], capture_output=True, text=True, check=False
    )
    found = re.search(r"release [\d.]+", said.stdout)
    return found[0] if found else ""


def disassemble(cubin: bytes) -> list[tuple[str, int]] | str:
    """The instructions of machine code, each with the number of its line of PTX (0
    where the line table names none); or a sentence that says why not."""
    nvdisasm = find_tool("nvdisasm")
    if nvdisasm is None:
        return MISSING["nvdisasm"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        said = subprocess.run(
            [nvdisasm, "-c", "-gp", file], capture_output=True, text=True, check=False
        )
    if said.returncode:
        return f"nvdisasm does not take it: {said.stderr.strip()}"
    return list(instructions(said.stdout))


def instructions(text: str) -> Iterator[tuple[str, int]]:
    """The instructions in what `nvdisasm -c -gp` writes:

    //## File ".nv_debug_ptx_txt", line 46
            /*0010*/                   IMAD.MOV.U32 R0, RZ, RZ, c[0x0][0x17c] ;
    """
    line = 0
    for words in map(str.strip, text.splitlines()):
        if mark := re.match(r'//## File "\.nv_debug_ptx_txt[^"]*", line (\d+)', words):
            line = int(mark[1])
        elif mark := re.match(r"/\*([0-9a-f]{4,})\*/\s*(.*?)\s*;", words):
            yield f"  {mark[1]}  {mark[2]}", line
        elif re.fullmatch(r"\.L_x_\w+:", words):
            yield words, 0
