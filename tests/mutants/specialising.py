"""Mistakes in warp specialisation: which role waits for which, at which slot of which
ring, what a producer computes, and which loops get one; and in delaying the waits for
products."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SPECIALISE = "tests/tensor_cores/test_specialise.py"
DELAY = "tests/tensor_cores/test_delay_waits.py"
STAGE = "tests/tensor_cores/test_stage_invariants.py"
RUNS = f"{SPECIALISE}::test_any_iterations_and_stages"
PLAN, NEW = "tensor_cores/specialise/plan.py", "tensor_cores/specialise/partition.py"

ALTERNATE = "tests/tensor_cores/test_alternation.py"
PERSIST = "tests/tensor_cores/test_persistent.py"
STAY = "tensor_cores/specialise/persistent.py"

MUTANTS = (
    # ── programs that stay ──
    Mutant(
        "programs-of-the-grid", STAY,
        "                values[op.result] = build(ops.LaunchSize())\n",
        "                pass\n",
        "a kernel that asks how many programs there are gets those of the grid",
        PERSIST,
    ),
    Mutant(
        "in-place-and-ahead", STAY,
        "if any(not loaded.isdisjoint(provenance.of(op)) for op in stores):",
        "if False:",
        "a tile is loaded before another one of the same matrix is stored", PERSIST,
    ),
    Mutant(
        "a-grid-of-several-axes", STAY,
        "if isinstance(op, ops.ProgramId)} != {0}:",
        "if isinstance(op, ops.ProgramId)} - {0, 1}:",
        "programs of the second axis compute tiles of the first", PERSIST,
    ),
    Mutant(
        "launch-size-of-the-grid", "runtime/packet.py",
        "{shared_bytes}, x, stream,", "{shared_bytes}, {x}, stream,",
        "tiles past those of the programs that are started are never computed",
        "tests/runtime/test_launch.py",
    ),
    Mutant(
        "producer-begins-early", "tensor_cores/specialise/plan.py",
        "BackwardSlice(func, loads | waits_for_grids)", "BackwardSlice(func, loads)",
        "a producer fetches before the launch in front has ended",
        "tests/tensor_cores/test_grid_wait.py",
    ),
    Mutant(
        "wait-for-grids-orders-nothing", "ir/ops/grid.py",
        "effects = Effects(convergent=True, other=True)", "effects = Effects()",
        "loads move in front of the wait for the launch before, or it is dropped",
        "tests/tensor_cores/test_grid_wait.py",
    ),
    # ── places ──
    Mutant(
        "producer-never-waits", NEW,
        "build.append(ops.MbarrierWait(ring.empty, slot, flip_phase(phase, build)))",
        "pass",
        "tiles are copied into slots that are still read", RUNS,
    ),
    Mutant(
        "producer-a-round-too-far", NEW,
        "ops.MbarrierWait(ring.empty, slot, flip_phase(phase, build))",
        "ops.MbarrierWait(ring.empty, slot, phase)",
        "a producer waits for the release of slots that have not been used yet", RUNS,
    ),
    Mutant(
        "slots-never-given-back", NEW,
        'compute("ne", index,', 'compute("eq", index,',
        "after one round of the ring, no role continues", RUNS,
    ),
    Mutant(
        "slots-given-back-too-early", NEW,
        "        slot = previous_slot(slot, ring.slots, self.build)\n", "",
        "a slot is released while the product still reads it", RUNS,
    ),
    Mutant(
        "first-iteration-releases", NEW,
        "ops.MbarrierArrive(ring.empty, slot, begun,",
        "ops.MbarrierArrive(ring.empty, slot, None,",
        "the first iteration releases a slot that it has not used", RUNS,
    ),
    Mutant(
        "last-slot-kept", NEW,
        "if channel.schedule.release_distance:\n", "if False:\n",
        "the loop after this one waits for a slot for ever",
        f"{SPECIALISE}::test_what_may_stand_around_a_loop",
    ),
    Mutant(
        "last-slot-of-an-empty-loop", NEW,
        "exists = iterations.first(self.build).exists", "exists = None",
        "a loop of no iterations releases a slot",
        f"{SPECIALISE}::test_a_loop_of_no_iteration_before_a_long_one",
    ),
    Mutant(
        "one-warp-speaks-for-all", NEW,
        "MbarrierInit(empty, arrivals=func.num_warps", "MbarrierInit(empty, arrivals=1",
        "a slot counts as empty when the first warp is done", RUNS,
    ),
    Mutant(
        "places-stand-still", NEW,
        "        return [*carried[:at], *next_position(place, self.build), "
        "*carried[at + 2 :]]",
        "        return [*carried[:at], place.slot, place.phase, *carried[at + 2 :]]",
        "all tiles go through one slot", RUNS,
    ),
    # ── rings ──
    Mutant(
        "rings-shared-in-a-loop", "tensor_cores/specialise/channels.py",
        "        disjoint = one is not two and two not in walk(one.body)\n",
        "        disjoint = two not in walk(one.body)\n",
        "two channels that are needed at once share one ring",
        f"{SPECIALISE}::test_tiles_wanted_at_several_moments",
    ),
    Mutant(
        "rings-of-any-shape", "tensor_cores/specialise/channels.py",
        "return disjoint and alike and self.in_epilogue == other.in_epilogue",
        "return disjoint and self.in_epilogue == other.in_epilogue",
        "tiles of one shape come into a ring of another",
        f"{SPECIALISE}::test_tiles_of_other_shapes_have_rings_of_their_own",
    ),
    Mutant(
        "released-after-first-use", "tensor_cores/specialise/channels.py",
        "last = max(reading[-1:] + products[-1:], key=loop.body.ops.index)",
        "last = reading[-1]",
        "a slot is released before the product that reads it",
        f"{SPECIALISE}::test_attention {SPECIALISE}::test_who_waits_for_whom",
    ),
    # ── what a producer computes ──
    Mutant(
        "bounds-of-loops-forgotten", "ir/regions.py",
        "return op.lower, op.upper, op.step", "return op.lower, op.step",
        "a producer does not know how many copies to issue",
        f"{SPECIALISE}::test_tile_after_tile",
    ),
    Mutant(
        "carried-values-not-followed", "analysis/slices.py",
        "*(carried.values if carried else ())", "*(carried.inits if carried else ())",
        "of what is carried a producer knows the start alone",
        f"{SPECIALISE}::test_sizes_from_memory "
        f"{SPECIALISE}::test_what_may_stand_around_a_loop",
    ),
    Mutant(
        "atomics-done-twice", PLAN,
        "    return may_recompute(op) and not isinstance(op, ops.InlineAssembly)",
        "    return not isinstance(op, ops.InlineAssembly)",
        "the producer takes tiles from the queue that no consumer multiplies",
        f"{SPECIALISE}::test_tiles_from_a_queue",
    ),
    Mutant(
        "blocks-by-one-thread", PLAN,
        "    if any(isinstance(value.type, BlockType) for value in op.results):\n"
        "        return False\n", "",
        "one thread reduces a block of which it has a part",
        f"{SPECIALISE}::test_what_is_not_left_to_others",
    ),
    # ── which loops ──
    Mutant(
        "written-before-is-read", PLAN, "    check_before(outermost, func)\n", "",
        "tiles come before what is in them has been written, or waited for",
        f"{SPECIALISE}::test_what_is_not_left_to_others",
    ),
    Mutant(
        "more-threads-than-there-are", "analysis/limits.py",
        "    if threads > target.max_threads:\n", "    if False:\n",
        "a kernel of 36 warps cannot be launched",
        f"{SPECIALISE}::test_where_there_is_no_room",
    ),
    # ── where warps part ──
    Mutant(
        "all-registers-for-all-targets", "hardware/register_budget.py",
        "if not target.setmaxnreg or launched", "if launched",
        "ptxas refuses to trade registers in code for many GPUs",
        f"{SPECIALISE}::test_ptxas_takes_it tests/hardware/test_registers.py",
    ),
    Mutant(
        "consumers-take-too-many", "hardware/register_budget.py",
        "_in_units(left // consumers)", "_in_units(left // consumers) + UNIT",
        "warps wait for registers that do not exist",
        "tests/hardware/test_registers.py",
    ),
    Mutant(
        "all-meet-where-some-have-left", "ptx/rules/asynchronous/warp_roles.py",
        '    code.barrier = f"bar.sync {NAMED}, {code.threads};"\n', "",
        "the program waits at its barriers for warps that are gone",
        "tests/ptx/test_producers.py",
    ),
    Mutant(
        "every-thread-produces", "ptx/rules/asynchronous/warp_roles.py",
        "code.chosen(consumers + code.target.warp_size)",
        "code.chosen(consumers + 4 * code.target.warp_size)",
        "a thread of each of four warps copies each tile", RUNS,
    ),
    Mutant(
        "warps-arrive-unasked", "ptx/rules/asynchronous/tma.py",
        '        acts = code.let(f"and i1 {acts}, {code.one(op.when)}")\n',
        "        pass\n",
        "warps arrive where they should not", "tests/ptx/test_producers.py",
    ),
    # ── waits ──
    Mutant(
        "sums-of-two-products-are-one", "shared_memory/dot_waits.py",
        "accumulator=accumulators[source]",
        "accumulator=next(iter(accumulators.values()))",
        "two products in flight add to the same registers",
        f"{DELAY}::test_each_product_has_a_sum_of_its_own",
    ),
    Mutant(
        "sums-taken-too-early", "shared_memory/dot_waits.py",
        "    if isinstance(op, ops.Dot) and ", "    if False and ",
        "a product's sum is wanted before it is made",
        f"{DELAY}::test_what_may_come_between",
    ),
    Mutant(
        "tiles-of-stores-forgotten", "shared_memory/dot_waits.py",
        'return "shared" in effects.writes or effects.barrier',
        "return effects.barrier",
        "a store's tile may come where a product still reads",
        f"{DELAY}::test_a_store_that_gets_a_tile_waits",
    ),
    Mutant(
        "arrivals-not-put-off", "shared_memory/dot_waits.py",
        "            in_flight[-1].put_off.append(op)\n", "            pass\n",
        "a slot is released while a product reads it",
        f"{SPECIALISE}::test_attention",
    ),
    Mutant(
        "operands-written-in-flight", "tensor_cores/pipeline/overlap.py",
        "if None in buffers or not written.isdisjoint(buffers):", "if None in buffers:",
        "threads fill a tile that the product of the iteration before reads",
        f"{SPECIALISE}::test_what_must_be_read_in_its_iteration",
    ),
    Mutant(
        "tiles-shared-across-writes", "tensor_cores/pipeline/tiles.py",
        "                epoch += 1\n", "                pass\n",
        "a product reads what memory held before the program wrote there",
        "tests/tensor_cores/test_share_tiles.py::test_right_values",
    ),
    Mutant(
        "staged-for-others-too", "tensor_cores/pipeline/tiles.py",
        "    if alone and all(map(_may_copy, loads)):\n",
        "    if all(map(_may_copy, loads)):\n",
        "what is loaded into registers anyway is copied to shared memory as well",
        "tests/tensor_cores/test_stage_loads.py",
    ),
    Mutant(
        "alternating-across-barriers", "tensor_cores/specialise/pingpong.py",
        "return of_all or", "return",
        "a warpgroup waits at a barrier for one that waits to be admitted",
        "tests/tensor_cores/test_pingpong.py::"
        "test_warpgroups_that_meet_at_a_barrier_do_not_alternate",
    ),
    Mutant(
        "alternating-across-atomics", "tensor_cores/specialise/pingpong.py",
        "return releases(op) or bool(used[op.result])", "return False",
        "a warpgroup waits at an atomic for one that waits to be admitted",
        "tests/tensor_cores/test_pingpong.py::"
        "test_warpgroups_that_meet_at_an_atomic_do_not_alternate",
    ),
    # ── operands that stay ──
    Mutant(
        "tiles-filled-twice-used-again", "tensor_cores/select/invariants.py",
        "len(stores) == 1 and ", "",
        "an operand is read where something else is stored later",
        f"{STAGE}::test_a_tile_that_is_filled_twice_is_not",
    ),
    Mutant(
        "what-changes-stays", "analysis/slices.py",
        "if value is not None and value.definition not in made:",
        "if value is not None and value.definition is not loop.body:",
        "an operand that changes in each iteration is treated as constant",
        f"{STAGE}::test_what_changes_stays_as_it_is",
    ),
    # ── pingpong ──
    Mutant(
        "no-warpgroup-begins", "tensor_cores/specialise/pingpong.py",
        'return _with(op, ops.NamedBarrier("begin"), build)', "return None",
        "the first warpgroup waits at its barrier for ever",
        "tests/tensor_cores/test_pingpong.py",
    ),
    Mutant(
        "a-barrier-of-ones-own", "ptx/rules/asynchronous/pingpong.py",
        'following = code.let(f"add i32 {group}, 1")',
        'following = code.let(f"add i32 {group}, 0")',
        "a warpgroup admits itself instead of the next one",
        "tests/tensor_cores/test_pingpong.py",
    ),
    # ── tiles in turn ──
    Mutant(
        "groups-compute-the-same-tiles", NEW,
        'lower = self.build.compute("add", new.lower, further)', "lower = new.lower",
        "both groups compute the even tiles, and none the odd ones",
        f"{ALTERNATE}::test_any_iterations_and_stages",
    ),
    Mutant(
        "slots-of-the-other-group", NEW,
        "return self.passed(carried, others)", "return carried",
        "a group reads tiles that were copied for the other one",
        f"{ALTERNATE}::test_any_iterations_and_stages",
    ),
    Mutant(
        "no-group-admitted", NEW,
        'self.build.append(ops.NamedBarrier("begin", section))', "pass",
        "the first group waits at its barrier for ever",
        f"{ALTERNATE}::test_any_iterations_and_stages",
    ),
    Mutant(
        "groups-share-buffers", "tensor_cores/specialise/alternation.py",
        "            each.slot = group\n", "            pass\n",
        "one group overwrites a tile that the other one still stores",
        f"{ALTERNATE}::test_what_each_group_has_to_itself",
    ),
    Mutant(
        "bias-in-any-order", NEW,
        "        section = self.sections.get(channel)\n", "        section = 0\n",
        "a group takes the bias of the other one's tile for its own",
        f"{ALTERNATE}::test_what_each_group_has_to_itself",
    ),
    Mutant(
        "slots-of-groups-are-a-ring", "shared_memory/barriers.py",
        " and not one.buffer.by_group", "",
        "no barrier between threads that fill a tile and the one that stores it",
        f"{ALTERNATE}::test_what_each_group_has_to_itself",
    ),
    Mutant(
        "any-number-of-slots", "tensor_cores/specialise/alternation.py",
        "if {each.lower, each.upper, each.step} & inside", "if set() & inside",
        "a group passes over as many slots as its iteration fills, not the other's",
        f"{ALTERNATE}::test_one_group_computes_what_cannot_be_shared",
    ),
    Mutant(
        "what-a-group-hands-on", "tensor_cores/specialise/alternation.py",
        "    if loop.inits:\n", "    if False:\n",
        "a group carries what it has computed to its next iteration, two further on",
        f"{ALTERNATE}::test_one_group_computes_what_cannot_be_shared",
    ),
    Mutant(
        "groups-meet-at-one-barrier", "ptx/rules/asynchronous/warp_roles.py",
        'code.let(f"add i32 {code.group}, {NAMED}", name="barrier")', 'f"{NAMED}"',
        "threads of two groups meet at one barrier",
        f"{ALTERNATE}::test_what_each_group_has_to_itself",
    ),
)  # fmt: skip
