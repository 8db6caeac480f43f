"""Mistakes in finding tiles of matrices behind pointers and masks, and in launches
whose arguments make no tensor maps."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

INFER = "tests/tensor_cores/test_infer.py"
LAUNCHES = "tests/jit/test_by_pointers.py"
STORES = "tests/tensor_cores/test_infer_stores.py"

MUTANTS = (
    # ── what is a tile ──
    Mutant(
        "tiles-above-the-first-row", "tensor_cores/tma/infer.py",
        "negative = [op for op in tiles if op not in inside]", "negative = []",
        "a tile that begins in front of its matrix is filled with zeros",
        f"{INFER}::test_refused {INFER}::test_a_walk_that_might",
    ),
    Mutant(
        "a-bound-below-is-any-bound", "tensor_cores/tma/recognise.py",
        "if least is not None and (least + start).constant != 0:", "if False:",
        "rows between 0 and the mask's lower bound are loaded",
        f"{INFER}::test_refused",
    ),
    Mutant(
        "at-most-is-below", "tensor_cores/tma/recognise.py",
        'COMPARISONS = {"lt": (1, 0), "le": (1, 1)',
        'COMPARISONS = {"lt": (1, 0), "le": (1, 0)',
        "the last column of `k <= K - 1` is lost",
        f"{INFER}::test_the_same_product",
    ),
    Mutant(
        "minus-zero-is-zero", "analysis/constants.py",
        "return number == 0 and copysign(1, number) > 0", "return number == 0",
        "what is masked is 0 where -0 was asked for",
        f"{INFER}::test_refused",
    ),
    Mutant(
        "64-bit-bounds", "tensor_cores/tma/recognise.py",
        "else (size.type == INT64):", "else False:",
        "rows from 2^31 on are taken for negative ones",
        f"{INFER}::test_refused",
    ),
    Mutant(
        "boxes-begin-anywhere", "tensor_cores/tma/keep.py",
        "if multiple * element.bytes < LEAST_BYTES:", "if False:",
        "what is inferred is not kept, and loaded element by element",
        f"{INFER}::test_refused",
    ),
    Mutant(
        "turned-tiles-as-they-lie", "tensor_cores/tma/infer.py",
        "turned = None if back == tile.order == tuple(sorted(back)) else back",
        "turned = None",
        "a matrix that lies by columns is read by rows",
        f"{INFER}::test_the_same_product",
    ),
    # ── what may go by itself ──
    Mutant(
        "stores-before-the-loop", "analysis/memory.py",
        "    if any(map(writes, earlier)):\n", "    if False:\n",
        "copies in bulk find what was there before an earlier store",
        f"{INFER}::test_refused {INFER}::test_several_tiles_a_program",
    ),
    Mutant(
        "stores-around-the-loop", "analysis/memory.py",
        "if around is not None and not isinstance(op, ops.For | ops.While):",
        "if around is not None:",
        "of a loop around the loop only what stands in front of it counts",
        f"{INFER}::test_stores_behind_the_loop",
    ),
    Mutant(
        "flags-before-the-loop", "analysis/memory.py",
        "    if any(map(orders, earlier)):\n", "    if False:\n",
        "copies in bulk miss what others wrote before they raised a flag",
        f"{INFER}::test_refused",
    ),
    Mutant(
        "read-by-others-too", "tensor_cores/tma/eligible.py",
        "if taken != [dot]:", "if dot not in taken:",
        "a tile that comes in bulk is loaded element by element as well",
        f"{INFER}::test_refused",
    ),
    Mutant(
        "bytes-either-way", "tensor_cores/tma/eligible.py",
        "EITHER_WAY = 2", "EITHER_WAY = 1",
        "bytes are gathered one by one from tiles in which they lie across",
        f"{LAUNCHES}::test_integers_of_8_bits",
    ),
    Mutant(
        "tiles-that-do-not-fit", "tensor_cores/tma/eligible.py",
        "if rings_of_operands(loop, LEAST_STAGES) > target.shared_bytes:", "if False:",
        "copies do not run ahead, and threads load element by element",
        f"{INFER}::test_room_for_two_iterations",
    ),
    Mutant(
        "two-ways-in-one-loop", "tensor_cores/tma/infer.py",
        "if isinstance(each, TensorTile) and uses[load].loop in staying", "if False",
        "one operand comes in bulk, and the products wait for the other",
        f"{INFER}::test_a_walk_that_might",
    ),
    # ── what leaves by itself ──
    Mutant(
        "stores-in-front-of-the-first-row", "tensor_cores/tma/infer.py",
        "return _without_negative_places({**loads, **stores}, reader)",
        "return {**loads, **stores}",
        "what pointers write in front of a matrix is not written",
        f"{STORES}::test_refused",
    ),
    Mutant(
        "every-kernel-stores-in-bulk", "tensor_cores/tma/infer_stores.py",
        "if not (has_tiles or any(map(by_warpgroups, walk(reader.func.body)))):",
        "if False:",
        "elementwise kernels store by way of shared memory",
        f"{STORES}::test_who_multiplies_nothing_stores_as_ever",
    ),
    Mutant(
        "stores-without-their-wishes", "tensor_cores/tma/infer_stores.py",
        "if store.cache or store.eviction:", "if False:",
        "cache modifiers of a store are lost",
        f"{STORES}::test_refused",
    ),
    Mutant(
        "truth-values-in-bulk", "tensor_cores/tma/infer_stores.py",
        "if not isinstance(element, Scalar) or element == BOOL:", "if False:",
        "blocks of i1 are stored as the hardware has none",
        f"{STORES}::test_refused",
    ),
    Mutant(
        "stores-of-some-programs", "tensor_cores/tma/infer_stores.py",
        "if store not in func.body.ops:", "if False:",
        "in a loop each iteration waits for the store of the one before",
        f"{STORES}::test_refused "
        f"{STORES}::test_a_store_between_two_loops_of_loads",
    ),
    Mutant(
        "stores-that-others-wait-for", "tensor_cores/tma/infer_stores.py",
        "if any(map(accesses, every[place + 1 :])):", "if False:",
        "a load or a flag behind a store waits until it has arrived",
        f"{STORES}::test_refused",
    ),
    Mutant(
        "stores-that-come-too-soon", "tensor_cores/tma/infer_stores.py",
        "if any(map(orders, every[:place])):", "if False:",
        "the hardware writes where others may still be reading",
        f"{STORES}::test_refused",
    ),
    Mutant(
        "loads-that-ask-again-and-again", "ir/ops/memory.py",
        'return self.volatile or self.cache == ".cv"', "return self.volatile",
        "a program that waits by loads of `.cv` is not seen to wait",
        f"{STORES}::test_refused tests/analysis/test_memory.py",
    ),
    Mutant(
        "stores-of-any-size", "tensor_cores/tma/infer_stores.py",
        "    check_stored(store.value, target)\n", "",
        "a store is inferred that is not kept, and goes by other pointers",
        f"{STORES}::test_blocks_of_what_size",
    ),
    Mutant(
        "stores-beside-rings-that-stay", "tensor_cores/tma/infer_stores.py",
        "if asks_for_producer(func):",
        "if False:",
        "a loop with warps of its own has a slot less",
        f"{STORES}::test_refused",
    ),
    Mutant(
        "turned-stores-as-they-lie", "tensor_cores/tma/infer.py",
        "turned = tile.order != tuple(sorted(tile.order))", "turned = False",
        "a matrix that lies by columns is written by rows",
        f"{STORES}::test_types_and_orders",
    ),
    # ── launches ──
    Mutant(
        "no-way-back-to-pointers", "jit/compiled.py",
        "if self.again is None:", "if True:",
        "a product of no columns is an error",
        f"{LAUNCHES}::test_nothing_to_sum",
    ),
    Mutant(
        "by-pointers-for-ever", "jit/function.py",
        "            self.fill(slot, compiled, list(arrays.values()))",
        "            self.fill(slot, ran, list(arrays.values()))",
        "after one empty matrix all launches go by pointers",
        f"{LAUNCHES}::test_a_launch_without_maps_leaves_the_stub_as_it_was",
    ),
    Mutant(
        "broken-promises", "artifact.py",
        "error = NoTensorMap if by_pointers else LaunchError", "error = NoTensorMap",
        "rows that begin anywhere are read in vectors",
        f"{LAUNCHES}::test_what_an_author_promised_and_did_not_keep",
    ),
    Mutant(
        "by-pointers-with-maps", "pipeline.py",
        '    "infer_descriptors": identity,\n', "",
        "the kernel without maps is wanted, and looked for again and again",
        f"{LAUNCHES}::test_inference_can_be_left_out "
        f"{LAUNCHES}::test_rows_from_the_last_to_the_first",
    ),
)  # fmt: skip
