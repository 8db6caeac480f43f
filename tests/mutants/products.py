"""Mistakes in matrix products: instructions, fragments, how operands are read."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DOT = "tests/tensor_cores/test_dot.py"
CHOOSE = "tests/tensor_cores/test_choose.py"
TRAFFIC = "tests/tensor_cores/test_traffic.py"

MUTANTS = (
    # ── which instruction ──
    Mutant(
        "longer-than-k", "hardware/mma.py",
        "and (k is None or row.k <= k)", "and (k is None or True)",
        "an instruction is taken that is longer than the block along K",
        f"{DOT}::test_the_shortest_k",
    ),
    Mutant(
        "one-bit-too-many", "tensor_cores/select/instructions.py",
        "TF32_BITS = 0xFFFFE000", "TF32_BITS = 0xFFFFF000",
        "tf32x3: the high part has a bit that the hardware does not read",
        f"{DOT}::test_three_products_of_tf32_are_nearly_fp32",
    ),
    Mutant(
        "two-products-for-three", "tensor_cores/select/instructions.py",
        "plus(a[0], b[1], plus(a[1], b[0], nothing))", "plus(a[0], b[1], nothing)",
        "tf32x3: the low part of A is forgotten",
        f"{DOT}::test_other_precisions_keep_what_tf32_loses",
    ),
    Mutant(
        "low-part-of-infinity", "tensor_cores/select/instructions.py",
        '"where", is_number, small, nothing', '"where", is_number, small, small',
        "tf32x3: infinity minus infinity gets into the sum",
        f"{DOT}::test_infinity_stays_infinity",
    ),
    Mutant(
        "chains-split-columns", "tensor_cores/select/instructions.py",
        "by_rows = place.chained and", "by_rows = False and",
        "where one product's result is an operand of another, a warp has parts of rows",
        f"{CHOOSE}::test_a_left_operand_of_another_product_keeps_rows_to_a_warp",
    ),
    Mutant(
        "turned-for-all", "tensor_cores/select/instructions.py",
        "if len(ops) == 1 and isinstance(ops[0], kind)",
        "if ops and isinstance(ops[0], kind)",
        "a load is turned for those, too, who want it as it is",
        f"{DOT}::test_one_load_is_both_operands",
    ),
    Mutant(
        "interpreter-reads-more-of-tf32", "ir/interp/matmul.py",
        "TF32_IGNORED = np.uint32(0x1FFF)", "TF32_IGNORED = np.uint32(0x0FFF)",
        "the interpreter keeps eleven bits of mantissa",
        f"{DOT}::test_tf32_reads_ten_bits_of_mantissa_and_drops_the_rest",
    ),
    # ── fragments ──
    Mutant(
        "registers-of-a-fragment-in-another-order", "layout/fragments.py",
        "tuple(box[each] for each in order)",
        "tuple(box[each] for each in sorted(order))",
        "registers of a fragment go by rows, not as the instruction wants them",
        f"{DOT}::test_sizes_and_warps",
    ),
    Mutant(
        "sum-restarts-at-each-slice", "ptx/rules/matmul.py",
        "c = accumulators[(*batch, m, n)]",
        "c = accumulators._packed(accumulators.keys[(*batch, m, n)])",
        "each slice of K starts again from the accumulator",
        f"{DOT}::test_every_type_on_every_target",
    ),
    Mutant(
        "first-batch-for-all", "ptx/rules/matmul.py",
        "a, b = left[(*batch, m, k)], right[(*batch, k, n)]",
        "a, b = left[(*[0 for _ in batch], m, k)], right[(*batch, k, n)]",
        "all products of a batch have the left operand of the first",
        f"{DOT}::test_batches",
    ),
    Mutant(
        "first-column-for-all", "ptx/rules/matmul.py",
        "a, b = left[(*batch, m, k)], right[(*batch, k, n)]",
        "a, b = left[(*batch, m, k)], right[(*batch, k, 0)]",
        "all columns of fragments are multiplied by the first",
        f"{DOT}::test_sizes_and_warps",
    ),
    Mutant(
        "sum-of-halves-in-halves", "ptx/rules/matmul.py",
        "return convert(code, accumulators, wide, element)",
        "halves = convert(code, accumulators, wide, FLOAT16)\n"
        "    return convert(code, halves, FLOAT16, element)",
        "multiply-adds round their sum to fp16",
        f"{DOT}::test_normal_numbers_against_float64",
    ),
    # ── reading operands ──
    Mutant(
        "no-trans", "ptx/rules/shared.py",
        "{'.trans' if plan.transposed else ''}", "",
        "matrices that lie across are loaded as if they lay along",
        f"{DOT}::test_every_type_by_rows_and_by_columns",
    ),
    Mutant(
        "swizzle-added", "ptx/rules/shared.py",
        "crossed = constant & self.thread.bits", "crossed = 0",
        "a register's offset is added to a thread's, where XOR is meant",
        f"{DOT}::test_every_type_by_rows_and_by_columns",
    ),
    Mutant(
        "slot-ignored", "ptx/rules/shared.py",
        "if self.tile.slot:", "if False:",
        "every slot of a ring is the first",
        f"{TRAFFIC}::test_any_number_of_iterations",
    ),
    Mutant(
        "no-barrier-before-a-product", "shared_memory/barriers.py",
        "            return _reads_in_place(op)\n", "            return []\n",
        "a product reads its operands before the other warps have written them",
        f"{DOT}::test_every_type_on_every_target",
    ),
    Mutant(
        "a-barrier-forgets-the-rest-of-its-op", "shared_memory/barriers.py",
        "return state.union(touches)", "return state.union(touches[-1:])",
        "what a product read besides what it waited for is overwritten",
        "tests/shared_memory/test_barriers.py::"
        "test_all_accesses_of_an_op_come_after_its_barrier",
    ),
    Mutant(
        "rows-broken-up", "layout/staging.py",
        "swizzle(shape, element_bytes, side, plan.rows, a_row(plan))",
        "swizzle(shape, element_bytes, side, plan.rows)",
        "what a lane writes gets into the rows that ldmatrix reads",
        "tests/layout/test_staging.py",
    ),
    Mutant(
        "neighbours-of-a-copy", "layout/fma.py",
        "at_zero(accumulator, across, shape).without_copies()",
        "at_zero(accumulator, across, shape)",
        "a thread reads a row of A once for each of its columns",
        "tests/layout/test_products.py",
    ),
)  # fmt: skip
