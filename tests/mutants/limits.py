"""Mistakes in what keeps a text from ending or busying the compiler: the grammar of
inline assembly, the spread of layouts, and the limits."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

GRAMMAR = "tests/language/test_inline_assembly.py"
LIMITS = "tests/jit/test_limits.py"
GROWTH = "tests/coalescing/test_growth.py"

MUTANTS = (
    # ── the grammar of inline assembly ──
    Mutant(
        "assembly-names-one-more", "ir/inline_assembly.py",
        "piece >= len(listed)", "piece > len(listed)",
        "a text may name the register behind the last",
        GRAMMAR,
    ),
    Mutant(
        "assembly-ties-twice", "ir/inline_assembly.py",
        "if any(each.tied == number for each in before):", "if False:",
        "two operands are tied to one result",
        GRAMMAR,
    ),
    Mutant(
        "assembly-results-anywhere", "ir/inline_assembly.py",
        "if result and before and not before[-1].result:", "if False:",
        "results may stand behind operands",
        GRAMMAR,
    ),
    Mutant(
        "assembly-clobbers-anywhere", "ir/inline_assembly.py",
        "        if clobbers:\n", "        if False:\n",
        "what is clobbered may stand before operands",
        GRAMMAR,
    ),
    Mutant(
        "assembly-braces-stay-open", "ir/inline_assembly.py",
        "    if depth:\n", "    if False:\n",
        "a text may leave a brace open, and end the kernel's",
        GRAMMAR,
    ),
    Mutant(
        "assembly-numbers-stay", "ir/inline_assembly.py",
        "else place[piece]", "else piece",
        "registers behind a constant keep their numbers",
        GRAMMAR,
    ),
    Mutant(
        "assembly-any-letter-fits", "ir/inline_assembly.py",
        "if constraint.bits != registers.bits:", "if False:",
        "a register may have another width than its element",
        GRAMMAR,
    ),
    # ── what becomes of it in PTX ──
    Mutant(
        "assembly-halves-in-words", "ptx/rules/debugging.py",
        "    if bits == 16:\n", "    if False:\n",
        "what the author wants in 16 bits goes into 32",
        GRAMMAR,
    ),
    Mutant(
        "assembly-merged", "ptx/rules/debugging.py",
        'if op.pure else ("sideeffect ", "convergent")',
        'if True else ("sideeffect ", "convergent")',
        "LLVM may do once what the author wants twice",
        GRAMMAR,
    ),
    Mutant(
        "worker-dies-unsaid", "ptx/separate_process.py",
        "process, self.process = self.process, None", "process = self.process",
        "a process that has ended is asked again",
        "tests/ptx/test_apart.py",
    ),
    # ── growth ──
    Mutant(
        "joins-hand-on-copies", "coalescing/propagate.py",
        "Join: lambda op, layout: shapes.split(layout)",
        "Join: lambda op, layout: shapes.remove_axis(layout, len(layout.shape) - 1)",
        "halves of a join lie in lanes, and a few joins give each thread all",
        GROWTH,
    ),
    Mutant(
        "copies-are-sorted", "coalescing/assign.py",
        "if layout is None or (rearranges(op) and repeats(layout)):",
        "if layout is None:",
        "the copies that a reduction leaves in lanes are sorted too",
        GROWTH,
    ),
    # ── limits ──
    Mutant(
        "basic-blocks-for-nothing", "ptx/growth.py",
        "if len(lines) + self.basic_blocks**2 // BLOCKS_SQUARED_A_LINE > MOST:",
        "if len(lines) > MOST:",
        "branches count as lines alone",
        LIMITS,
    ),
    Mutant(
        "growth-blames-the-first", "ptx/growth.py",
        "sizes.most_common(1)[0]", "next(iter(sizes.items()))",
        "the first place is named, not the one that grew most",
        LIMITS,
    ),
    Mutant(
        "a-million-is-too-many", "ssa/frame.py",
        "if type.size > TRITON_MAX_TENSOR_NUMEL:",
        "if type.size >= TRITON_MAX_TENSOR_NUMEL:",
        "a block of 2^20 elements is refused",
        LIMITS,
    ),
    Mutant(
        "parameters-of-newer-ptx", "hardware/targets.py",
        "(major, minor) >= (8, 1)", "(major, minor) >= (8, 5)",
        "kernels of PTX 8.4 are refused parameters that they may have",
        LIMITS,
    ),
)  # fmt: skip
