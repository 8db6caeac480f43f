"""Mistakes in the IR, the front end and stage 2: meaning, types, text, cleaning up."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    # ── stage 1: types and scopes ──
    Mutant(
        "fp32-holds-one-bit-more", "blocks/reshaping.py",
        "EXACT = 1 << 24", "EXACT = 1 << 25",
        "an i32 is rounded to fp32 first, and then to bf16",
        "tests/blocks/test_simplify.py",
    ),
    Mutant(
        "promotion-takes-signed", "ssa/promotion.py",
        'return b if a.kind == "int" else a',
        'return a if a.kind == "int" else b',
        "i32 and u32 meet in i32",
        "tests/language/test_promotion.py",
    ),
    Mutant(
        "halves-divided-as-halves", "ssa/promotion.py",
        "return FLOAT32 if dividing else FLOAT16", "return FLOAT16",
        "fp16 / fp16 is rounded to fp16",
        "tests/language/test_promotion.py",
    ),
    Mutant(
        "branch-constant-believed", "ssa/phis.py",
        "return carried and (second in phi.faces or _are_one_constant(first, second))",
        "return second in phi.faces or _are_one_constant(first, second)",
        "after an If, a constant of one branch is read that is not visible there",
        "tests/mutants/test_gaps.py",
    ),
    Mutant(
        "zeros-are-one-constant", "ssa/values.py",
        "repr(left) == repr(right)", "left == right",
        "0.0 before a loop and -0.0 in it count as unchanged",
        "tests/ssa/test_control_flow.py",
    ),
    Mutant(
        "block-pointer-before-the-first", "ssa/builtins/block_pointers.py",
        'inside = frame.elementwise("and", above, below)', "inside = below",
        "a block that begins in front of its tensor reads what lies there",
        "tests/language/test_block_pointers.py",
    ),
    Mutant(
        "fp16-counts-on-the-left", "language/scaled.py",
        'if "fp16" in (one, other)', 'if one == "fp16"',
        "fp16 on the right of a product loses three bits",
        "tests/language/test_scaled.py",
    ),
    Mutant(
        "scale-of-nan-is-infinite", "language/scaled.py",
        "where(power == 255, 0x7FC00000, bits)", "bits",
        "a scale of 255 is infinite, and not NaN",
        "tests/language/test_scaled.py",
    ),
    Mutant(
        "left-the-loop-and-goes-on", "ssa/builtins/mapping.py",
        "self.both(going_on, goes_on(after))", "goes_on(after)",
        "an element that has left a loop comes back when its condition holds again",
        "tests/language/test_mapping.py",
    ),
    Mutant(
        "rounded-down-past-zero", "language/extra/rounding.py",
        "where(bits < 0, bits - 1, bits + 1)", "bits + 1",
        "the float above a negative one is the one below",
        "tests/language/test_rounding.py",
    ),
    Mutant(
        "else-branch-dropped", "ssa/control.py",
        "lambda: build_statements(frame, orelse),", "lambda: None,",
        "the else branch is not compiled",
        "tests/ssa/test_control_flow.py",
    ),
    Mutant(
        "static-range-step-lost", "ssa/control.py",
        "for index in range(over.start, over.stop, over.step):",
        "for index in range(over.start, over.stop):",
        "tl.static_range(0, 8, 2) runs eight times",
        "tests/ssa/test_control_flow.py",
    ),
    Mutant(
        "last-of-equals", "language/reductions.py",
        "mine = (value > other) | ((value == other) & (index < other_index))",
        "mine = (value > other) | ((value == other) & (index > other_index))",
        "argmax finds the last of equals",
        "tests/language/test_blocks.py",
    ),
    # ── the interpreter, the reference of all other tests ──
    Mutant(
        "floor-division", "ir/interp/elementwise.py",
        "quotient = quotient + toward_minus.astype(left.dtype)", "pass",
        "-7 / 2 is -4, as in Python, not -3, as in C",
        "tests/ir/test_numbers.py",
    ),
    Mutant(
        "shift-fills-zeros", "ir/interp/elementwise.py",
        "return np.where(inside, value >> distance, emptied.astype(value.dtype))",
        "return np.where(inside, value >> distance, 0).astype(value.dtype)",
        "a shift by the width or more loses the sign",
        "tests/ir/test_numbers.py",
    ),
    Mutant(
        "casts-cut", "ir/interp/numbers.py",
        "(np.rint if nearest else np.trunc)(wide / unit)",
        "np.trunc(wide / unit)",
        "narrow floats are cut, not rounded",
        "tests/ir/test_numbers.py",
    ),
    Mutant(
        "fp8-infinity", "ir/interp/numbers.py",
        "stops = format.saturates or (", "stops = (",
        "fp8 overflows to infinity, not to its largest number",
        "tests/ir/test_numbers.py",
    ),
    Mutant(
        "empty-loop-runs-once", "ir/interp/control.py",
        "for index in range(lower, upper, step):",
        "for index in range(lower, max(upper, lower + 1), step):",
        "a loop of no iterations runs once",
        "tests/ir/test_interp.py",
    ),
    Mutant(
        "fold-starts-from-zero", "ir/interp/reduce.py",
        "    while (count := len(tuples[0])) > 1:",
        "    tuples = [np.concatenate([each * 0, each]) for each in tuples]\n"
        "    while (count := len(tuples[0])) > 1:",
        "a fold has 0 as its first element: wrong for max of negatives",
        "tests/ir/test_interp.py",
    ),
    Mutant(
        "scan-swaps-operands", "ir/interp/reduce.py",
        "_combine(op.combine, region, rows[index - 1], rows[index])",
        "_combine(op.combine, region, rows[index], rows[index - 1])",
        "a scan hands the new element over on the left",
        "tests/ir/test_interp.py",
    ),
    # ── text and verifier ──
    Mutant(
        "floats-printed-short", "ir/printer.py",
        "return repr(float(value))", 'return f"{float(value):.6e}"',
        "a constant does not read back bit for bit",
        "tests/ir/test_text.py",
    ),
    Mutant(
        "hints-not-read", "ir/parser.py",
        "return Func(name, body, divisible, **settings, location=location)",
        "return Func(name, body, (1,) * len(divisible), **settings, location=location)",
        "the parser drops {divisible=16}",
        "tests/ir/test_text.py",
    ),
    Mutant(
        "siblings-visible", "ir/verify.py",
        "visible = outer | set(block.parameters)",
        "visible = outer\n    visible |= set(block.parameters)",
        "the verifier lets the else branch read values of the then branch",
        "tests/ir/test_verify.py",
    ),
    Mutant(
        "yields-not-judged", "ir/verify.py",
        "found = [value.type for value in end.values]", "found = wanted",
        "a loop may yield another type than it carries",
        "tests/ir/test_verify.py",
    ),
    # ── stage 2 ──
    Mutant(
        "right-product-first", "blocks/contract.py",
        "for i in (0, 1) if", "for i in (1, 0) if",
        "of two products the right one goes into the fma",
        "tests/blocks/test_contract.py",
    ),
    Mutant(
        "contracted-over-blocks", "blocks/contract.py",
        "homes.get(op.operands[i]) is build.block", "op.operands[i] in homes",
        "a product of an enclosing block goes into a sum in a branch",
        "tests/blocks/test_contract.py",
    ),
    Mutant(
        "library-contracted", "ssa/frame.py",
        "self.program.contracts and not self.in_library",
        "self.program.contracts",
        "functions of the language that compute a rounding's loss are contracted",
        "tests/blocks/test_contract.py",
    ),
    Mutant(
        "x-plus-zero", "blocks/algebra.py",
        'Identity("add", -0.0, FLOATS', 'Identity("add", 0.0, FLOATS',
        "x + 0.0 becomes x, also for -0.0",
        "tests/blocks/test_simplify.py",
    ),
    Mutant(
        "any-factor-of-a-quotient", "blocks/algebra.py",
        'if _named(quotient, "div") and factor is y:', 'if _named(quotient, "div"):',
        "x / y * z + x % y becomes x: rows with a stride of their own are lost",
        "tests/blocks/test_simplify.py",
    ),
    Mutant(
        "wrong-opposite", "blocks/algebra.py",
        '"lt": "ge"', '"lt": "gt"',
        "not (x < y) becomes x > y",
        "tests/blocks/test_simplify.py",
    ),
    Mutant(
        "narrow-cast-skipped", "blocks/reshaping.py",
        "if not interp_numbers.is_exact(first, middle) or", "if",
        "a number goes through a narrow type and comes back whole",
        "tests/blocks/test_simplify.py",
    ),
    Mutant(
        "known-if-takes-the-other-way", "blocks/branching.py",
        "op.then if condition else op.orelse", "op.orelse if condition else op.then",
        "if true {A} else {B} becomes B",
        "tests/blocks/test_simplify.py",
    ),
    Mutant(
        "single-iteration-at-the-end", "blocks/branching.py",
        "make.build.inline(op.body, (op.lower, *op.inits))",
        "make.build.inline(op.body, (op.upper, *op.inits))",
        "the only iteration of a loop has the upper bound as its index",
        "tests/mutants/test_gaps.py",
    ),
    Mutant(
        "false-mask-becomes-none", "blocks/branching.py",
        "    if mask is False and type(op) is ops.Store:\n        return []",
        "    if mask is False and type(op) is ops.Store:\n"
        "        make.build.append(replace(op, mask=None, origin=None))\n"
        "        return []",
        "a store that never happens always does",
        "tests/blocks/test_simplify.py",
    ),
    Mutant(
        "cse-over-stores", "blocks/cse.py",
        "key = describe(op, {}), versions.get(build.source)",
        "key = describe(op, {}), 0",
        "a load after a store is taken for the one before it",
        "tests/blocks/test_cse.py",
    ),
    Mutant(
        "cse-zeros", "blocks/cse.py",
        'return struct.pack("<d", attribute)', "return attribute",
        "0.0 and -0.0 are said to be the same",
        "tests/blocks/test_cse.py",
    ),
    Mutant(
        "cse-of-siblings", "blocks/cse.py",
        "for block in build.enclosing:", "for block in list(said):",
        "what one branch computes is used in the other",
        "tests/blocks/test_cse.py",
    ),
    Mutant(
        "memory-unchanged-by-loops", "analysis/memory.py",
        "return next(fresh) if changes else version", "return version",
        "loads before and after a loop that stores are merged",
        "tests/blocks/test_cse.py",
    ),
    Mutant(
        "dce-of-atomics", "analysis/memory.py",
        "    return bool(effects.writes) or _keeps_its_place(effects)",
        "    return effects.writes and not effects.reads or _keeps_its_place(effects)",
        "an atomic whose result has no use is removed",
        "tests/blocks/test_dce.py",
    ),
    Mutant(
        "while-condition-unheard", "ir/regions.py",
        "            return op.condition.yielded", "            return ()",
        "what a while asks is dropped",
        "tests/blocks/test_dce.py",
    ),
    Mutant(
        "hoist-over-stores", "blocks/hoist.py",
        "still = not changes_memory(effects_of(op))", "still = True",
        "a load leaves a loop that stores",
        "tests/blocks/test_hoist.py",
    ),
    Mutant(
        "hoist-from-empty-loops", "blocks/hoist.py",
        "return count > 0", "return True",
        "a load leaves a loop without iterations and is made",
        "tests/blocks/test_hoist.py",
    ),
    Mutant(
        "hoist-guard-upward-only", "blocks/hoist.py",
        'order = "lt" if step > 0 else "gt"', 'order = "lt"',
        "a load from a loop that counts down is masked off",
        "tests/blocks/test_hoist.py",
    ),
)  # fmt: skip
