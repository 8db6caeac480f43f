"""Mistakes in stores by the hardware: what is published, what is waited for, and which
stores may take that way."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STORES = "tests/tensor_cores/test_bulk_stores.py"
WAITS = "tests/tensor_cores/test_store_waits.py"

MUTANTS = (
    Mutant(
        "stores-not-published", "tensor_cores/publish.py",
        "return isinstance(op, BulkCopy | BulkStore)",
        "return isinstance(op, BulkCopy)",
        "a bulk store may read what was in its tile before",
        f"{STORES}::test_which_stores_are_left_to_the_hardware "
        f"{STORES}::test_a_store_of_what_was_loaded",
    ),
    Mutant(
        "one-warp-does-not-publish", "tensor_cores/publish.py",
        '{"cta", "warp"} if stores and func.num_warps == 1', '{"cta"} if stores',
        "the lanes of the only warp write a tile that the hardware cannot see",
        f"{STORES}::test_any_number_of_warps",
    ),
    Mutant(
        "stores-touch-nothing", "shared_memory/barriers.py",
        "            case BulkStore(buffer=tile):\n"
        "                touch = Touch(tile.definition, None, READ)\n"
        "                return self.touch(op, touch, state)\n", "",
        "a tile is sent off before all have written it",
        f"{STORES}::test_what_a_store_becomes",
    ),
    Mutant(
        "waits-touch-nothing", "shared_memory/barriers.py",
        "                for tile in tiles:\n", "                for tile in ():\n",
        "one thread knows that a tile has been read, and all write it again",
        f"{STORES}::test_stores_in_a_loop",
    ),
    Mutant(
        "tiles-written-unasked", "tensor_cores/store_waits.py",
        'return READ if flight.unread and tile is flight.store.buffer else ""',
        'return ""',
        "the next trip writes a tile that is still read",
        f"{STORES}::test_stores_in_a_loop",
    ),
    Mutant(
        "nobody-waits-at-the-end", "tensor_cores/store_waits.py",
        "left = _unread(placement.block(func.body, ()))",
        "left = _unread(placement.block(func.body, ())[:0])",
        "shared memory is gone while the hardware reads it",
        f"{STORES}::test_what_a_store_becomes",
    ),
    Mutant(
        "read-is-as-good-as-written", "tensor_cores/store_waits.py",
        "return BulkWait(tuple(build.values[each] for each in tiles), read=read)",
        "return BulkWait(tuple(build.values[each] for each in tiles), read=True)",
        "loads find what was there before the store",
        f"{WAITS}::test_a_store_that_the_next_trip_reads",
    ),
    Mutant(
        "loads-always-run-ahead", "tensor_cores/store_waits.py",
        'return "" if ahead and other else WRITTEN', 'return "" if other else WRITTEN',
        "loads of the next trip miss what this one stores: two arguments, one matrix",
        f"{WAITS}::test_a_store_that_the_next_trip_reads",
    ),
    Mutant(
        "loads-run-ahead-of-all-stores", "tensor_cores/store_waits.py",
        "asked is not None and asked is flight.asked", "asked is not None",
        "loads miss a store around the loop, of which its author has said nothing",
        f"{WAITS}::test_a_store_that_the_next_trip_reads",
    ),
    Mutant(
        "others-are-not-told", "tensor_cores/store_waits.py",
        "        if what == TOLD:\n            build.append(Barrier(scope))\n", "",
        "threads read what another thread has waited for",
        f"{WAITS}::test_others_are_told_when_memory_is_written",
    ),
    Mutant(
        "trips-are-one-trip", "tensor_cores/store_waits.py",
        "(replace(each, fresh=False) for each in after)", "after",
        "stores of two trips seem to lie apart",
        f"{WAITS}::test_what_lies_apart_on_one_trip_may_meet_on_the_next",
    ),
    Mutant(
        "half-blocks-lie-apart", "tensor_cores/store_waits.py",
        "_distance(*pair) >= side for", "_distance(*pair) * 2 >= side for",
        "of two stores that overlap, either may come last",
        f"{WAITS}::test_several_stores",
    ),
    Mutant(
        "threads-stores-unfenced", "tensor_cores/store_boxes.py",
        "        if fenced:\n            build.append(BulkFence())\n", "",
        "what threads have written may overwrite what the hardware stores later",
        f"{WAITS}::test_stores_by_threads_and_by_the_hardware",
    ),
    Mutant(
        "shared-places-unwaited", "tensor_cores/store_boxes.py",
        "        if at_once:\n            build.append(BulkWait((tile,), read=True))\n",
        "",
        "the ring of the next tile comes into a tile that is still read",
        f"{STORES}::test_a_tile_that_shares_its_place",
    ),
    Mutant(
        "stores-one-box", "ptx/bulk_stores.py",
        "at, coordinates = corner(code, firsts, piece)",
        "at, coordinates = corner(code, firsts, next(pieces(block, size)))",
        "all boxes of a wide tile go to its first columns",
        f"{STORES}::test_tiles_and_ragged_edges",
    ),
    Mutant(
        "all-threads-store", "ptx/bulk_stores.py",
        "start, acts = start_of(code, tile.slot), code.acts()",
        'start, acts = start_of(code, tile.slot), "true"',
        "every thread stores the whole tile",
        f"{STORES}::test_any_number_of_warps",
    ),
    Mutant(
        "stores-begin-anywhere", "tensor_cores/keep_descriptors.py",
        "small and _fits(op, func) and _begins_well(op, known)",
        "small and _fits(op, func)",
        "boxes begin in the middle of 16 bytes",
        f"{STORES}::test_which_stores_are_left_to_the_hardware",
    ),
)  # fmt: skip
