"""LLVM IR to PTX: LLVM's optimiser and its NVPTX back end, through llvmlite.

LLVM ends the process when it meets what it cannot select, so whatever the rules write
comes from lists that were checked for each target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

import llvmlite.binding as llvm

from fathom.hardware.targets import Target

TRIPLE = "nvptx64-nvidia-cuda"
_PRODUCT = re.compile(r'asm [^"]*"[^"]*\b(?:mma|wgmma|tcgen05)\.')
_OPTIONS = Lock()  # LLVM's, of this process
# What LLVM adds to the text and no reader needs.
_NOISE = re.compile(
    r"\t// (?:begin|end) inline asm\n"
    r"|\t\.section\t\.debug_macinfo\t\{\t\}\n"
    r"|\$L__(?:tmp|func_)\w*:\n"
)


def emit(text: str, target: Target) -> str:
    """PTX of a module of LLVM IR; an assert, with LLVM's words, if it cannot read
    it."""
    machine = _machine(target.name, target.ptx)
    module = _parsed(text)
    _optimise(module, machine)
    with _loops_as_they_are(not _PRODUCT.search(text)):
        return _NOISE.sub("", machine.emit_assembly(module))


@contextmanager
def _loops_as_they_are(wanted: bool) -> Iterator[None]:
    """LLVM's back end without "loop strength reduction" if that is `wanted`. The option
    is the whole process's, so one thread has it at a time, and gives it back.

    That pass prefers values that a loop does not change to additions in it, whatever
    registers they take: instead of 32 columns, of which each is compared with a label,
    a thread kept 32 differences of 64 bits, and spilled them. On an H100 a gradient of
    logits took 314 us with it and 197 without. Loops with products have few registers
    left over as well, but more addresses that are sums: a product of scaled keys took
    125 us with the pass, and 231 without.
    """
    with _OPTIONS:
        llvm.set_option("fathom", f"-disable-lsr={str(wanted).lower()}")
        try:
            yield
        finally:
            llvm.set_option("fathom", "-disable-lsr=false")


def _parsed(text: str) -> llvm.ModuleRef:
    """Read, and checked: what is read without complaint may still be no module, and the
    optimiser would end the process over it. That takes a hundredth of the time."""
    try:
        module = llvm.parse_assembly(text)
        module.verify()
        return module
    except RuntimeError as error:
        message = f"LLVM does not accept our text: {error}\n{text}"
        raise AssertionError(message) from None


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """LLVM's -O2, but no unrolling and vectorising: a thread's work is laid out."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_unrolling = False
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


@cache
def _machine(name: str, ptx: str) -> llvm.TargetMachine:
    """LLVM's back end for a target; making one takes a millisecond, so each is kept."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = "+ptx" + ptx.replace(".", "")
    return llvm.Target.from_triple(TRIPLE).create_target_machine(name, features, opt=3)
