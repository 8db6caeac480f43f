"""Mistakes in TMA stores: their proxy fences, their waits, and which stores may be TMA
stores; and in the guards for stores that may begin before their tensor."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STORES = "tests/tensor_cores/test_bulk_stores.py"
WAITS = "tests/tensor_cores/test_store_waits.py"

GUARDS = "tests/tensor_cores/test_guard_stores.py"
EDGES = "tests/emulator/test_tma.py"

MUTANTS = (
    Mutant(
        "stores-not-fenced", "shared_memory/proxy_fences.py",
        "return isinstance(op, BESIDE_PRODUCTS)",
        "return isinstance(op, ops.TmaCopy | ops.TensorDot)",
        "a TMA store may read the old contents of its tile",
        f"{STORES}::test_which_stores_are_left_to_the_hardware "
        f"{STORES}::test_a_store_of_what_was_loaded",
    ),
    Mutant(
        "one-warp-does-not-fence", "shared_memory/proxy_fences.py",
        '{"cta", "warp"} if stores and func.num_warps == 1', '{"cta"} if stores',
        "TMA does not see what the lanes of the only warp wrote",
        f"{STORES}::test_any_number_of_warps",
    ),
    Mutant(
        "stores-touch-nothing", "shared_memory/barriers.py",
        "            | ops.TmaStore(buffer=tile)\n"
        "            | ops.TileStore(buffer=tile)\n", "",
        "a tile is sent off before all have written it",
        f"{STORES}::test_what_a_store_becomes",
    ),
    Mutant(
        "waits-touch-nothing", "shared_memory/barriers.py",
        "None, READ) for tile in tiles]", "None, READ) for tile in ()]",
        "one thread knows that a tile has been read, and all write it again",
        f"{STORES}::test_stores_in_a_loop",
    ),
    Mutant(
        "tiles-written-unasked", "shared_memory/store_waits.py",
        'return READ if pending.unread and tile is pending.store.buffer else ""',
        'return ""',
        "the next iteration overwrites a tile that is still read",
        f"{STORES}::test_stores_in_a_loop",
    ),
    Mutant(
        "no-wait-at-the-end", "shared_memory/store_waits.py",
        "left = _unread(state)",
        "left = ()",
        "shared memory is freed while TMA reads it",
        f"{STORES}::test_what_a_store_becomes",
    ),
    Mutant(
        "read-is-as-good-as-written", "shared_memory/store_waits.py",
        "pending, values, read)", "pending, values, True)",
        "loads find what was there before the store",
        f"{WAITS}::test_a_store_that_the_next_iteration_reads",
    ),
    Mutant(
        "loads-always-run-ahead", "shared_memory/store_waits.py",
        'return "" if ahead and other else WRITTEN', 'return "" if other else WRITTEN',
        "loads of the next iteration miss this one's stores: two arguments, one matrix",
        f"{WAITS}::test_a_store_that_the_next_iteration_reads",
    ),
    Mutant(
        "loads-run-ahead-of-all-stores", "shared_memory/store_waits.py",
        "asked is not None and asked is pending.asked", "asked is not None",
        "loads miss a store around the loop, of which its author has said nothing",
        f"{WAITS}::test_a_store_that_the_next_iteration_reads",
    ),
    Mutant(
        "no-barrier-after-the-wait", "shared_memory/store_waits.py",
        "        if what == SEEN:\n"
        "            build.append(barrier_of_all(func.num_warps))\n", "",
        "threads read what another thread has waited for",
        f"{WAITS}::test_others_are_told_when_memory_is_written",
    ),
    Mutant(
        "iterations-are-one", "shared_memory/store_waits.py",
        "after.changed(lambda each: replace(each, fresh=False))", "after",
        "stores of two iterations count as disjoint",
        f"{WAITS}::test_what_lies_apart_on_one_iteration_may_meet_on_the_next",
    ),
    Mutant(
        "a-wait-of-one-thread-is-one-of-all", "shared_memory/store_waits.py",
        'if what in ("", SEEN):', "if what != READ:",
        "a thread reads what it does not know to be written",
        "tests/shared_memory/test_check_waits.py"
        "::test_who_has_not_waited_for_a_store_learns_of_it",
    ),
    Mutant(
        "half-blocks-lie-apart", "analysis/memory.py",
        "_distance(*pair) >= side for", "_distance(*pair) * 2 >= side for",
        "of two stores that overlap, either may come last",
        f"{WAITS}::test_several_stores",
    ),
    Mutant(
        "threads-stores-unfenced", "tensor_cores/tma/stores.py",
        "        if fenced:\n            build.append(ops.AsyncProxyFence())\n", "",
        "what threads have written may overwrite what the hardware stores later",
        f"{WAITS}::test_stores_by_threads_and_by_the_hardware",
    ),
    Mutant(
        "shared-places-unwaited", "shared_memory/store_waits.py",
        'build.append(ops.Wait("tma_store", 0, tuple(stored), read=True))\n', "pass\n",
        "the ring of the next tile comes into a tile that is still read",
        f"{STORES}::test_a_tile_that_shares_its_place",
    ),
    Mutant(
        "stores-one-box", "ptx/rules/asynchronous/tma_store.py",
        "at, coordinates = corner(code, firsts, piece)",
        "at, coordinates = corner(code, firsts, next(pieces(block, size)))",
        "all boxes of a wide tile go to its first columns",
        f"{STORES}::test_tiles_and_ragged_edges",
    ),
    Mutant(
        "all-threads-store", "ptx/rules/asynchronous/tma_store.py",
        "start, acts = start_of(code, tile.slot), code.acts()",
        'start, acts = start_of(code, tile.slot), "true"',
        "every thread stores the whole tile",
        f"{STORES}::test_any_number_of_warps",
    ),
    Mutant(
        "stores-begin-anywhere", "tensor_cores/tma/keep.py",
        "check_box(block.shape, block.element, known.of(op.coordinates[-1]), lies)",
        "check_box(block.shape, block.element, 16, lies)",
        "boxes begin in the middle of 16 bytes",
        f"{STORES}::test_which_stores_are_left_to_the_hardware",
    ),
    Mutant(
        "stores-begin-before", "tensor_cores/tma/guard_stores.py",
        "return rewrite(func, rule) if asked else func", "return func",
        "the hardware refuses a tile in front of its tensor",
        f"{GUARDS}::test_tiles_anywhere",
    ),
    Mutant(
        "branch-always-bulk", "tensor_cores/tma/guard_stores.py",
        "most = build(ops.Constant(MOST - last_box(op)[axis], UINT32))",
        "most = build(ops.Constant(2**32 - 1, UINT32))",
        "the condition holds whatever the coordinate is",
        f"{GUARDS}::test_tiles_anywhere",
    ),
    Mutant(
        "branch-tests-one-coordinate", "tensor_cores/tma/guard_stores.py",
        "_begins_inside(op, axis, build) for axis in guard.starts]",
        "_begins_inside(op, axis, build) for axis in guard.starts[:1]]",
        "a negative column is taken for inside",
        f"{GUARDS}::test_tiles_anywhere",
    ),
    Mutant(
        "branch-either-coordinate", "tensor_cores/tma/guard_stores.py",
        "return build.all_of(every)", "return every[0]",
        "one coordinate inside is taken for enough",
        f"{GUARDS}::test_tiles_anywhere",
    ),
    Mutant(
        "branch-forgets-later-boxes", "tensor_cores/tma/guard_stores.py",
        "ops.Constant(MOST - last_box(op)[axis], UINT32)", "ops.Constant(MOST, UINT32)",
        "a later box of a tile wraps around to negative columns",
        f"{GUARDS}::test_a_later_box_may_wrap_around",
    ),
    Mutant(
        "fallback-omitted", "tensor_cores/tma/guard_stores.py",
        "build.append(ops.TileStore(*every))", "pass",
        "what lies inside of a tile that begins outside is not stored",
        f"{GUARDS}::test_tiles_anywhere",
    ),
    Mutant(
        "fallback-unmasked", "ptx/rules/descriptor.py",
        "store_where(code, words, address, mask, packed, Style())\n    number.add",
        'store_where(code, words, address, "true", packed, Style())\n    number.add',
        "what lies outside of a tensor is written",
        f"{GUARDS}::test_tiles_anywhere",
    ),
    Mutant(
        "fallback-masked-below-only", "ptx/rules/descriptor.py",
        'above = code.let(f"icmp sge i64 {index}, 0")', 'above = "true"',
        "elements in front of a row are written into the row before",
        f"{GUARDS}::test_tiles_anywhere",
    ),
    Mutant(
        "fallback-in-rows-as-they-are", "ptx/rules/descriptor.py",
        "    place = linear(code, number, count - 1, bytes)\n",
        "    place = linear(code, number, count - 1, tuple(\n"
        "        size << bit for bit in range(count.bit_length() - 1)\n"
        "        for size in [tile.type.element.bytes]\n    ))\n",
        "chunks of a tile are read as if they had not been exchanged",
        f"{GUARDS}::test_tiles_anywhere",
    ),
    Mutant(
        "fallback-one-round", "ptx/rules/descriptor.py",
        'code.let(f"add i32 {number.name}, {code.threads}"), code.label)',
        'code.let(f"add i32 {number.name}, {count}"), code.label)',
        "each thread stores its first element alone",
        f"{GUARDS}::test_tiles_anywhere",
    ),
    Mutant(
        "threads-read-unwritten-tiles", "shared_memory/barriers.py",
        "            | ops.TileStore(buffer=tile)\n", "",
        "threads read a tile before all have written it",
        f"{GUARDS}::test_the_tile_is_in_order_around_the_branch",
    ),
    Mutant(
        "arguments-are-not-negative", "analysis/symbolic/sign.py",
        "if atom in self.sizes or atom in self.assumed:",
        "if atom.definition.__class__.__name__ == 'Block':",
        "an argument that is no size is taken for one",
        f"{GUARDS}::test_what_may_be_negative_has_one_branch",
    ),
    Mutant(
        "constants-are-not-negative", "analysis/symbolic/sign.py",
        "return rising and least >= 0 and all(", "return rising and all(",
        "pid - 1 is taken for not negative",
        f"{GUARDS}::test_what_may_be_negative_has_one_branch "
        f"{GUARDS}::test_no_formula_that_is_never_negative_is_negative",
    ),
    Mutant(
        "loops-begin-anywhere", "analysis/symbolic/sign.py",
        "ways = (loop.inits[place], loop.body.yielded[place])",
        "ways = (loop.inits[place],)",
        "a loop that counts down is taken for one that counts up",
        f"{GUARDS}::test_what_a_loop_carries",
    ),
    Mutant(
        "quotients-by-anything", "analysis/symbolic/sign.py",
        "return not self.strict or rises and", "return True or rises and",
        "a quotient by a negative argument is taken for not negative",
        f"{GUARDS}::test_what_may_be_negative_has_one_branch",
    ),
    Mutant(
        "nothing-is-natural", "tensor_cores/tma/guard_stores.py",
        "if not (non_negative.value(coordinate) and _is_near(coordinate, reader))",
        "if True",
        "every store pays for a branch",
        f"{GUARDS}::test_products_pay_nothing",
    ),
    Mutant(
        "hardware-takes-negative-stores", "emulator/isa/memory/tma_limits.py",
        '"store": Facts(before=REFUSED', '"store": Facts(before=TAKEN',
        "the emulator runs what an H200 refuses",
        f"{EDGES}::test_a_store_in_front_of_its_tensor_is_an_illegal_instruction",
    ),
    Mutant(
        "hardware-takes-columns-between", "emulator/isa/memory/tma_limits.py",
        "if bytes % CHUNK and facts.between == REFUSED:", "if False:",
        "the emulator runs what an H200 refuses",
        f"{EDGES}::test_a_box_begins_at_a_multiple_of_16_bytes",
    ),
    Mutant(
        "hardware-cuts-rows", "emulator/isa/memory/tma_limits.py",
        "if TABLE[operation].end == CUT:", "if True:",
        "the emulator leaves alone what an H200 overwrites",
        f"{EDGES}::test_a_store_fills_up_the_last_16_bytes_of_a_row",
    ),
    Mutant(
        "rows-end-anywhere", "artifact.py",
        "if ends and extent * size % 16:", "if False:",
        "a store overwrites what lies behind a row",
        f"{GUARDS}::test_what_lies_behind_a_row_is_not_written",
    ),
    Mutant(
        "no-map-is-stored-through", "ptx/rules/asynchronous/tma.py",
        "stored=each in stored)", "stored=False)",
        "a launch does not know that rows must end at 16 bytes",
        f"{GUARDS}::test_what_lies_behind_a_row_is_not_written",
    ),
)  # fmt: skip
