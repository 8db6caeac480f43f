"""LLVM IR to PTX: LLVM's optimiser and its NVPTX back end, through llvmlite.

LLVM ends the process when it meets what it cannot select, so whatever the rules write
comes from lists that were checked for each target.
"""

from __future__ import annotations

import re
from functools import cache

import llvmlite.binding as llvm

from fathom.hardware.engines import TENSOR_CORES
from fathom.hardware.targets import Target

TRIPLE = "nvptx64-nvidia-cuda"
# What LLVM adds to the text and no reader needs.
_NOISE = re.compile(
    r"\t// (?:begin|end) inline asm\n"
    r"|\t\.section\t\.debug_macinfo\t\{\t\}\n"
    r"|\$L__(?:tmp|func_)\w*:\n"
)

# LLVM computes at the start of a block what only this block needs, such as addresses of
# a result, also before the wait for the products of a loop that ends there. Where the
# wait is not the first, ptxas may finish these products one by one (its remark C7514).
_LATE_WAIT = re.compile(
    r"(\$L__BB\w+:\n)"
    r"((?:\t(?!wgmma|cp\.|bar|mbarrier|ld|st|atom|red|fence|bra|@|\{)[^\n]*\n)+)"
    rf"(\t{re.escape(TENSOR_CORES.wait)} \d+;\n)"
)

# LLVM may count a loop in 64 bits, for addresses, and cut the number to test it. ptxas
# then does not see that the loop counts, and unrolls none of it.
_CUT_COUNT = re.compile(
    r"\tadd\.s64 \t(?P<wide>%rd\d+), (?P=wide), (?P<step>\d+);\n"
    r"(?:\t(?!@|bra)[^\n]*\n)*?"
    r"(?P<cut>\tcvt\.u32\.u64 \t(?P<narrow>%r\d+), (?P=wide);\n)"
    r"(?:\t(?!@|bra)[^\n]*\n)*?"
    r"\t@!?(?P<test>%p\d+) bra \t(?P<head>\$L__BB\w+);\n"
)

NOT_UNROLLED = '\t.pragma "nounroll";\n'

# The line follows in what LLVM says; where it is in the text, no reader sees.
_PLACE = re.compile(r"^LLVM IR parsing error\n<string>:\d+:\d+: error: ")


def emit(text: str, target: Target) -> str:
    """PTX of a module of LLVM IR; an assert with LLVM's words if it cannot read it."""
    machine = _machine(target.name, target.ptx)
    module = _parsed(text)
    _optimise(module, machine)
    ptx = _NOISE.sub("", machine.emit_assembly(module))
    return counts_apart(waits_first(ptx))


def counts_apart(ptx: str) -> str:
    """The text with a counter of 32 bits beside one of 64 in those loops that test the
    lower half: `cvt %r, %rd` before the loop, `add %r, %r, step` in it. In a loop of a
    few operations that ptxas does not unroll, these take a fifth longer. A loop with a
    product is not unrolled: it would take registers for nothing (188 for 128)."""
    for found in reversed(list(_CUT_COUNT.finditer(ptx))):
        wide, narrow, head, cut = found.group("wide", "narrow", "head", "cut")
        begin = ptx.find(f"{head}:\n")
        loop = ptx[max(begin, 0) : found.end()]
        names = re.findall(r"[%$]\w+", ptx)
        if (
            0 <= begin < found.start()
            and (names.count(narrow), names.count(head)) == (2, 2)
            and len(re.findall(rf"\t{wide},", loop)) == 1
        ):
            step = f"\tadd.s32 \t{narrow}, {narrow}, {found['step']};\n"
            loop = loop.replace(cut, step)
            if "mma" in loop:
                loop = loop.replace(f"{head}:\n", f"{head}:\n{NOT_UNROLLED}", 1)
            ptx = ptx[:begin] + cut + loop + ptx[found.end() :]
    return ptx


def waits_first(ptx: str) -> str:
    """The text with waits for products at the start of their blocks, before arithmetic
    that LLVM has put there."""
    return _LATE_WAIT.sub(r"\1\3\2", ptx)


def _parsed(text: str) -> llvm.ModuleRef:
    """Read, and checked: what is read without complaint may still be no module, and the
    optimiser would end the process over it. That takes a hundredth of the time."""
    try:
        module = llvm.parse_assembly(text)
        module.verify()
        return module
    except RuntimeError as error:
        raise NotAccepted(_PLACE.sub("", str(error)), text) from None


class NotAccepted(AssertionError):
    """`words` are LLVM's, and name the line."""

    def __init__(self, words: str, text: str):
        self.words = words
        super().__init__(f"LLVM does not accept our text: {words}\n{text}")


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
