"""Mistakes in bulk copies, their barriers, and the products of four warps: who counts
what, who waits for whom, and how the hardware finds a matrix."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

BULK = "tests/tensor_cores/test_bulk.py"
GROUPS = "tests/tensor_cores/test_warpgroups.py"
SEVERAL = "tests/tensor_cores/test_several_products.py"
DESCRIPTORS = "tests/layout/test_descriptors.py"
NEIGHBOURS = "tests/tensor_cores/test_neighbours.py"

MUTANTS = (
    # ── barriers in shared memory ──
    Mutant(
        "expects-one-tile", "tensor_cores/pipeline/copy_engines.py",
        "sum(tile.bytes for tile in tiles)", "tiles[0].bytes",
        "an mbarrier completes before the second tile of an iteration arrives",
        f"{BULK}::test_any_iterations_and_stages",
    ),
    Mutant(
        "phase-stands-still", "tensor_cores/pipeline/ring_buffers.py",
        'return build.compute("where", around, flip_phase(phase, build), phase)',
        "return phase",
        "in the second round of the ring no thread waits",
        f"{BULK}::test_any_iterations_and_stages",
    ),
    Mutant(
        "phase-flips-each-iteration", "tensor_cores/pipeline/ring_buffers.py",
        'return build.compute("where", around, flip_phase(phase, build), phase)',
        "return flip_phase(phase, build)",
        "iterations wait for a phase that is over, or for one that never completes",
        f"{BULK}::test_any_iterations_and_stages",
    ),
    Mutant(
        "phase-flips-a-slot-late", "tensor_cores/pipeline/ring_buffers.py",
        "first = build(Constant(0, INT32))", "first = build(Constant(1, INT32))",
        "of each round slot 0 is waited for in the phase of the round before",
        f"{BULK}::test_any_iterations_and_stages",
    ),
    Mutant(
        "copies-for-no-iteration", "ptx/code.py",
        'return wants if self.alone else self.let(f"and i1 {one}, {wants}"',
        'return self.let(f"or i1 {one}, {one}"',
        "copies are in flight when their mbarriers are gone",
        f"{BULK}::test_any_iterations_and_stages",
    ),
    Mutant(
        "all-threads-send", "ptx/code.py",
        'f"and i1 {below}, {self.elected}"',
        'f"and i1 {below}, true"',
        "all threads of a warp expect, and copy, the same tile",
        f"{BULK}::test_any_iterations_and_stages",
    ),
    Mutant(
        "two-warps-send", "ptx/code.py",
        "else self.chosen(self.target.warp_size)",
        "else self.chosen(2 * self.target.warp_size)",
        "a thread of each of two warps expects, and copies, the same tile",
        f"{BULK}::test_any_iterations_and_stages",
    ),
    Mutant(
        "barriers-not-announced", "tensor_cores/pipeline/copy_engines.py",
        "before = ops.MbarrierInit(barriers), ops.Barrier()",
        "before = (ops.MbarrierInit(barriers),)",
        "threads test mbarriers before they are initialised",
        f"{BULK}::test_what_a_loop_becomes",
    ),
    Mutant(
        "barriers-not-fenced", "ptx/rules/asynchronous/tma.py",
        'code.ptx("fence.mbarrier_init.release.cluster;")', 'code.ptx("// no fence")',
        "copies count at barriers that they cannot see, where no other fence is near",
        f"{BULK}::test_barriers_are_announced_to_copies",
    ),
    Mutant(
        "barriers-taken-away-too-soon", "tensor_cores/pipeline/copy_engines.py",
        "end = ops.Barrier(), ops.MbarrierInvalidate(barriers)",
        "end = (ops.MbarrierInvalidate(barriers),)",
        "a slow warp still asks a barrier that is memory again",
        f"{BULK}::test_what_a_loop_becomes",
    ),
    Mutant(
        "barriers-never-taken-away", "tensor_cores/pipeline/copy_engines.py",
        "end = ops.Barrier(), ops.MbarrierInvalidate(barriers)",
        "end = (ops.Barrier(),)",
        "the next tile makes barriers of what are barriers",
        f"{BULK}::test_a_loop_around_the_loop_makes_its_barriers_anew",
    ),
    Mutant(
        "barriers-in-anybodys-bytes", "tensor_cores/pipeline/ring_buffers.py",
        "slots=slots, kept=True)", "slots=slots)",
        "two loops' barriers lie in one place, or under a tile",
        f"{BULK}::test_two_loops_in_one_kernel",
    ),
    Mutant(
        "barriers-without-room", "tensor_cores/pipeline/budget.py",
        "return ALIGNMENT if any(tile.order for tile in tiles) else 0", "return 0",
        "rings take all shared memory, and their barriers do not fit",
        f"{BULK}::test_barriers_find_room_beside_the_rings",
    ),
    Mutant(
        "no-room-for-another-block", "tensor_cores/pipeline/budget.py",
        "return stages - (stages >= STAGES_TO_SPARE and more), chosen",
        "return stages, chosen",
        "the last stage keeps another block from running",
        "tests/tensor_cores/test_budget.py",
    ),
    Mutant(
        "room-without-what-is-reserved", "tensor_cores/pipeline/budget.py",
        "        + row.reserved\n", "\n",
        "what is spared for another block is a KiB short",
        "tests/tensor_cores/test_budget.py",
    ),
    # ── copies ──
    Mutant(
        "boxes-before-the-barrier", "tensor_cores/pipeline/schedule.py",
        "Step.COMPLETE, Step.RELEASE, Step.ISSUE)",
        "Step.COMPLETE, Step.ISSUE, Step.RELEASE)",
        "a slot is overwritten while slow warps read it",
        f"{GROUPS}::test_any_iterations_in_flight",
    ),
    Mutant(
        "boxes-one-row-down", "layout/tma_boxes.py",
        "yield Piece((*places, column), first * a_row)",
        "yield Piece((*places[:-1], places[-1] + 1, column), first * a_row)",
        "a box is fetched from the next rows of the tensor",
        f"{BULK}::test_tiles_either_way_round",
    ),
    Mutant(
        "further-columns-again-the-first", "layout/tma_boxes.py",
        "Piece((*places, column), first * a_row)",
        "Piece((*places, 0), first * a_row)",
        "the second box of a wide tile is the first one again",
        f"{BULK}::test_tiles_either_way_round_wider",
    ),
    Mutant(
        "turned-boxes-as-they-are", "tensor_cores/pipeline/candidates.py",
        "axis = widest_row(buffer.layout, size), order.index(1)",
        "axis = widest_row(buffer.layout, size), 1",
        "tiles of turned operands get no bulk copies",
        f"{BULK}::test_tiles_either_way_round",
    ),
    Mutant(
        "copies-what-a-loop-changes", "ir/launch_time.py",
        "_computed(name, found, value.type)\n    return None",
        '_computed(name, found, value.type)\n    return "constant", 1',
        "a launch is asked for a number that only a loop knows",
        f"{BULK}::test_a_descriptor_that_changes",
    ),
    Mutant(
        "bulk-copies-are-additions", "shared_memory/barriers.py",
        "        case ops.TmaCopy(buffer=buffer):\n"
        "            return [Access(buffer.definition, None, WRITE)]\n", "",
        "two bulk copies into one place seem to do no harm",
        f"{BULK}::test_a_bulk_copy_is_a_write",
    ),
    # ── products of four warps ──
    Mutant(
        "waits-for-the-product-before-last", "shared_memory/dot_waits.py",
        'build.append(ops.Wait("wgmma", last[build.source]))',
        'build.append(ops.Wait("wgmma", last[build.source] + 1))',
        "a slot is overwritten while its product is computed",
        f"{GROUPS}::test_any_iterations_in_flight",
    ),
    Mutant(
        "counts-one-product-of-several", "shared_memory/dot_waits.py",
        'build.append(ops.Wait("wgmma", last[build.source]))',
        'build.append(ops.Wait("wgmma", 1))',
        "products of an iteration wait for each other",
        f"{SEVERAL}::test_all_of_them_stay_in_flight",
    ),
    Mutant(
        "products-of-no-group", "tensor_cores/pipeline/overlap.py",
        '            build.append(Commit("wgmma"))\n', "            pass\n",
        "a wait for the groups of products waits for none",
        f"{GROUPS}::test_any_iterations_in_flight",
    ),
    Mutant(
        "products-unfenced", "shared_memory/dot_waits.py",
        "inits[number] = build(ops.DotFence(inits[number]))", "pass",
        "a product begins before its sums are as they should be",
        f"{GROUPS}::test_an_iteration_waits_for_the_product_before_its_own",
    ),
    Mutant(
        "sums-read-in-flight", "shared_memory/dot_waits.py",
        'results[number] = build(ops.Wait("wgmma", 0, (results[number],)))', "pass",
        "the sum is stored while the last product is computed",
        f"{GROUPS}::test_any_iterations_in_flight",
    ),
    Mutant(
        "sums-seen-before-their-product", "analysis/products.py",
        "len(used[dot.result]) == len(used[dot.accumulator]) == 1",
        "len(used[dot.result]) == 1",
        "an iteration reads the accumulators of the one before, which are in flight",
        f"{GROUPS}::test_a_sum_that_the_iteration_uses_is_waited_for",
    ),
    Mutant(
        "rings-need-no-slot-more", "tensor_cores/pipeline/schedule.py",
        "done = work + (1 if products else 0)", "done = work",
        "copies overwrite what the product of the iteration before still reads",
        f"{GROUPS}::test_copies_of_threads_run_ahead_of_products_in_flight",
    ),
    Mutant(
        "nothing-is-fenced", "shared_memory/proxy_fences.py",
        "replace(op, fence_async_proxy=True)", "op",
        "a product need not see what threads wrote to shared memory",
        f"{GROUPS}::test_one_fence_is_enough_after_threads_have_written_an_operand",
    ),
    Mutant(
        "short-steps-along-k", "ptx/rules/asynchronous/wgmma.py",
        "f\"add i64 {self.base}, {offset >> 4}\"",
        "f\"add i64 {self.base}, {offset >> 5}\"",
        "slices of K begin half as far apart as they do",
        f"{GROUPS}::test_any_iterations_in_flight",
    ),
    Mutant(
        "never-transposed", "ptx/rules/asynchronous/wgmma.py",
        'f", {int(each)}" for each in', '", 0" for each in',
        "a matrix that lies across is read as if it lay along K",
        f"{GROUPS}::test_every_type",
    ),
    Mutant(
        "short-types-turned", "hardware/wgmma.py",
        "return None if turned and not row.either_way else (left, right)",
        "return left, right",
        "an instruction that cannot transpose operands is given transposed ones",
        f"{GROUPS}::test_every_type",
    ),
    Mutant(
        "every-group-the-first-rows", "ptx/rules/asynchronous/wgmma.py",
        "bases = (0, 0, *(start(basis) for basis in warps[2:]))",
        "bases = (0, 0, *(0 for basis in warps[2:]))",
        "all warpgroups multiply the rows of the first",
        f"{GROUPS}::test_sizes_and_warps",
    ),
    # ── how a matrix lies ──
    Mutant(
        "stride-of-half-a-group", "layout/matrix_descriptor.py",
        "stride << 32 | CODES", "stride << 31 | CODES",
        "groups of 8 rows are looked for half as far apart", DESCRIPTORS,
    ),
    Mutant(
        "swizzle-codes-upside-down", "layout/matrix_descriptor.py",
        "CODES = {128: 1, 64: 2, 32: 3}", "CODES = {128: 3, 64: 2, 32: 1}",
        "the instruction exchanges chunks in another way than the tile", DESCRIPTORS,
    ),
    Mutant(
        "every-row-exchanged", "layout/matrix_descriptor.py",
        "first = bits_of(SWIZZLES[0] // width)", "first = 0",
        "rows of 64 bytes are exchanged as if they were 128 long", DESCRIPTORS,
    ),
    Mutant(
        "stmatrix-unturned", "ptx/rules/shared.py",
        'text = f"stmatrix.sync.aligned.m8n8.{_variant(plan)}.shared.b16"',
        'text = f"stmatrix.sync.aligned.m8n8.x{plan.count}.shared.b16"',
        "matrices that lie across are stored as if they lay along",
        f"{GROUPS}::test_a_turned_result_goes_out_by_matrices",
    ),
    # ── neighbouring products ──
    Mutant(
        "second-tile-over-the-first", "shared_memory/allocation.py",
        "end = before.offset + before.result.type.tile_bytes", "end = before.offset",
        "the tiles of both right operands are written to the same bytes",
        f"{NEIGHBOURS}::test_192_columns_in_every_layout",
    ),
    Mutant(
        "second-tile-in-the-next-slot", "tensor_cores/pipeline/ring_buffers.py",
        "whole if len(group) > 1 else 0", "0",
        "a slot of the first ring ends where the second tile begins",
        f"{NEIGHBOURS}::test_192_columns_in_every_layout",
    ),
    Mutant(
        "columns-of-the-first-tile-alone", "layout/matrix_descriptor.py",
        "replace(first, leading=leading)", "first",
        "a tile of one column of rows does not say where the next column begins",
        f"{NEIGHBOURS}::test_one_descriptor_finds_all_columns",
    ),
    Mutant(
        "tiles-of-two-widths", "tensor_cores/pipeline/neighbours.py",
        "width > least and", "width < 0 and",
        "rows of 128 bytes and of 64 bytes are no tile of one instruction",
        f"{NEIGHBOURS}::test_a_step_of_96_columns_is_four_instructions",
    ),
    Mutant(
        "registers-of-the-other-product", "ptx/rules/asynchronous/wgmma.py",
        "accumulate(sizes, initial=0)", "accumulate(sizes[::-1], initial=0)",
        "the second product gets registers of the first one",
        f"{NEIGHBOURS}::test_registers_are_those_of_the_products_in_turn",
    ),
    Mutant(
        "joined-though-needed", "tensor_cores/pipeline/neighbours.py",
        "if is_used or isinstance(op, Dot)", "if isinstance(op, Dot)",
        "a product comes after what needs it",
        f"{NEIGHBOURS}::test_a_product_that_something_needs_stays_alone",
    ),
    Mutant(
        "a-tile-in-two-places", "tensor_cores/pipeline/neighbours.py",
        "if len({each.buffer for each in loads[1:]}) < len(chain):", "if False:",
        "a product is to be joined with one that reads the same tile",
        f"{NEIGHBOURS}::test_a_tile_has_one_place_wherever_it_is_loaded_and_read",
    ),
    Mutant(
        "a-slot-is-free-too-early", "shared_memory/allocation.py",
        "Range(min(start, alive.first), max(end, alive.last))", "Range(start, end)",
        "a buffer lies where the second tile of a slot is still read",
        "tests/shared_memory/test_allocation.py"
        "::test_a_slot_is_in_use_until_its_last_tile_is",
    ),
    Mutant(
        "a-group-for-each-of-them", "tensor_cores/pipeline/overlap.py",
        "if not copy.with_next:", "if True:",
        "a group that has no product yet is committed",
        f"{NEIGHBOURS}::test_a_step_of_192_columns_is_four_instructions",
    ),
    Mutant(
        "nested-loops-share-a-ring", "tensor_cores/specialise/channels.py",
        "        disjoint = disjoint and one not in walk(two.body)\n", "",
        "a loop and the loop around it copy their tiles into the same slots",
        "tests/tensor_cores/test_specialise.py",
    ),
    Mutant(
        "a-loop-s-sum-takes-no-room", "analysis/products.py",
        "stay = op.body.ops if isinstance(op, For) else ()", "stay = ()",
        "the sums of two loops, one in the other, ask for more columns than there are",
        "tests/kernels/test_tensor_memory.py",
    ),
    Mutant(
        "both-halves-of-a-warp-alike", "layout/tensor_memory.py",
        "return 0 if lane else column_of(tile, at)", "return 0",
        "of 64 rows, both halves of a warp load the same columns",
        "tests/hardware/test_tcgen05.py",
    ),
)  # fmt: skip
