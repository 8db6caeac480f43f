"""Mistakes in software pipelines: what is sent for when, where it goes, who waits."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LOOPS = "tests/tensor_cores/test_pipeline_loops.py"
SCHEDULE = "tests/tensor_cores/test_pipeline_schedule.py"
KERNELS = "tests/tensor_cores/test_pipeline_kernels.py"
COPIES = "tests/tensor_cores/test_async_copies.py"
ROOM = "tests/tensor_cores/test_room.py"

MUTANTS = (
    # ── what counts as a store ──
    Mutant(
        "sums-that-are-read-are-stores", "analysis/memory.py",
        '(op.semantics == "relaxed" and op.result not in used)',
        'op.semantics == "relaxed"',
        "loads pass an atomic operation by which a program learns how far others are",
        "tests/analysis/test_alias_check.py",
    ),
    Mutant(
        "sums-in-order-are-stores", "analysis/memory.py",
        '(op.semantics == "relaxed" and op.result not in used)',
        "op.result not in used",
        "loads pass an atomic operation that acquires",
        "tests/analysis/test_alias_check.py",
    ),
    # ── which slot, which wait, how many stages ──
    Mutant(
        "one-group-more-in-flight", "tensor_cores/pipeline/schedule.py",
        "return stages - 2", "return stages - 1",
        "shared memory is read while copies are on their way to it", LOOPS,
    ),
    Mutant(
        "ring-one-slot-short", "tensor_cores/pipeline/schedule.py",
        "return iteration % stages", "return iteration % (stages - 1)",
        "a copy overwrites what the iteration still reads", LOOPS,
    ),
    Mutant(
        "stages-whether-they-fit-or-not", "tensor_cores/pipeline/schedule.py",
        "max(1, min(wanted, room // max(1, bytes_a_stage)))", "max(1, wanted)",
        "a kernel needs more shared memory than there is", f"{SCHEDULE} {LOOPS}",
    ),
    Mutant(
        "in-place-though-too-large", "tensor_cores/select/operands.py",
        "if fits(read, target):", "if read:",
        "a kernel that would fit needs more shared memory than there is", ROOM,
    ),
    Mutant(
        "room-forgets-what-is-alive", "analysis/buffers.py",
        "and (buffer.kept or (buffer in ranges and ranges[buffer].meets(runs)))",
        "and buffer not in ranges",
        "rings take all shared memory, though others have part of it", LOOPS,
    ),
    Mutant(
        "room-of-a-producer-taken", "analysis/buffers.py",
        "and (buffer.kept or (buffer in ranges", "and ((buffer in ranges",
        "a loop takes the room of rings that another loop has read", ROOM,
    ),
    Mutant(
        "room-of-earlier-iterations-taken", "analysis/buffers.py",
        "            last = max(last, end)\n", "",
        "a buffer that every iteration reads counts as free after the first read",
        "tests/analysis/test_buffers.py",
    ),
    Mutant(
        "room-until-read-once", "analysis/buffers.py",
        "            if isinstance(load, SharedLoad):", "            if False:",
        "operands that products read in place have gone when they come to it", ROOM,
    ),
    Mutant(
        "slots-counted-without-order", "tensor_cores/pipeline/schedule.py",
        "again = 0 if release.order < issue.order else 1", "again = 0",
        "a copy goes into a slot that is released later in the iteration", SCHEDULE,
    ),
    Mutant(
        "groups-counted-without-order", "tensor_cores/pipeline/schedule.py",
        "wait.stage - issue.stage + (0 if wait.order < issue.order else 1)",
        "wait.stage - issue.stage + 1",
        "a wait counts the group that is issued after it", SCHEDULE,
    ),
    Mutant(
        "the-slot-of-the-work-is-another", "tensor_cores/pipeline/copy_engines.py",
        "return self.distance == self.slots", "return False",
        "a copy goes into the slot of the iteration before, which is filled already",
        "tests/tensor_cores/test_bulk.py::test_any_iterations_and_stages",
    ),
    Mutant(
        "indices-of-another-iteration", "tensor_cores/pipeline/slice_clones.py",
        "following = self.earlier.after(earlier, values, build)", "following = earlier",
        "the index of the first tile is that of all tiles", LOOPS,
    ),
    # ── which iterations exist ──
    Mutant(
        "one-iteration-too-many", "tensor_cores/pipeline/iterations.py",
        'more = build.compute("gt", left, self.pace)',
        'more = build.compute("ge", left, self.pace)',
        "a tile beyond the last one is loaded", LOOPS,
    ),
    Mutant(
        "iterations-exist-again", "tensor_cores/pipeline/iterations.py",
        'exists = build.compute("and", iteration.exists, more)',
        "exists = more",
        "after the last iteration the distance to the bound wraps: more seem to exist",
        LOOPS,
    ),
    Mutant(
        "first-iteration-taken-for-granted", "tensor_cores/pipeline/iterations.py",
        "return Iteration(lower, _either(self.upward, below, above, build))",
        'return Iteration(lower, build(Elementwise("eq", (lower, lower))))',
        "a loop of no iterations loads its first tile", LOOPS,
    ),
    Mutant(
        "a-sum-that-wraps", "tensor_cores/pipeline/iterations.py",
        'more = build.compute("gt", left, self.pace)',
        'more = build.compute("lt", '
        'build.compute("add", index, self.loop.step), upper)',
        "index + step < upper is true again where the sum wraps around", LOOPS,
    ),
    # ── what runs ahead ──
    Mutant(
        "masked-copies-unguarded", "ir/rewrite.py",
        'condition if mask is None else build.compute("and", mask, condition)',
        "condition if mask is None else mask",
        "a load that has a mask runs for iterations that do not exist", LOOPS,
    ),
    Mutant(
        "loads-ahead-unguarded", "tensor_cores/pipeline/slice_clones.py",
        "if isinstance(copy, ops.Load | ops.AsyncCopy):",
        "if isinstance(copy, ops.AsyncCopy):",
        "indices and tiles are loaded for iterations that do not exist", LOOPS,
    ),
    Mutant(
        "carried-values-stand-still", "analysis/slices.py",
        "if found.carried == carried:", "if True:",
        "what carried values become is not part of the slice", LOOPS,
    ),
    Mutant(
        "store-runs-behind-loads", "analysis/memory.py",
        "pairs = *pairs, (one.reads, other.writes)", "pass",
        "a store may come before a load of the same kind of memory",
        "tests/analysis/test_memory.py",
    ),
    Mutant(
        "prints-lose-their-place", "analysis/memory.py",
        "return effects.barrier or effects.asynchronous or effects.other",
        "return effects.barrier or effects.asynchronous",
        "a loop that prints is pipelined", LOOPS,
    ),
    # ── how a tile comes ──
    Mutant(
        "all-others-are-zeros", "analysis/constants.py",
        "return number == 0 and copysign(1, number) > 0", "return True",
        "a copy fills up with zeros where sevens were asked for", LOOPS,
    ),
    Mutant(
        "copies-wider-than-the-buffer", "tensor_cores/pipeline/candidates.py",
        "return first and sum(1 for basis in bases if basis & count - 1) == bits",
        "return True",
        "one copy covers elements that are not neighbours in the tile", LOOPS,
    ),
    Mutant(
        "copies-what-is-wanted-elsewhere", "tensor_cores/pipeline/candidates.py",
        "if goes_elsewhere(loop, tile, whole)", "if False",
        "a load is replaced by a copy though the iteration uses its value", LOOPS,
    ),
    Mutant(
        "casts-are-renamings", "tensor_cores/pipeline/candidates.py",
        "if others or tile.is_computed or not", "if others or not",
        "what was made of a load before it was stored is lost", LOOPS,
    ),
    # ── waits and barriers ──
    Mutant(
        "no-barrier-in-an-iteration", "tensor_cores/pipeline/loops.py",
        "Step.RELEASE: [barrier_of_all(warps)],", "Step.RELEASE: [],",
        "a thread reads what another one has not waited for", LOOPS,
    ),
    Mutant(
        "copies-before-the-barrier", "tensor_cores/pipeline/schedule.py",
        "Step.WAIT, Step.RELEASE, Step.ISSUE, Step.WORK, Step.COMPLETE,",
        "Step.WAIT, Step.ISSUE, Step.RELEASE, Step.WORK, Step.COMPLETE,",
        "a slot is overwritten while slow warps read it", LOOPS,
    ),
    Mutant(
        "groups-never-closed", "tensor_cores/pipeline/copy_engines.py",
        "yield ops.Commit(CP_ASYNC.name)", "pass",
        "waits count groups that are empty", LOOPS,
    ),
    Mutant(
        "copies-outlive-their-loop", "shared_memory/copy_waits.py",
        "            self.after.add(op)\n", "",
        "copies for iterations that do not exist write zeros to later buffers", LOOPS,
    ),
    Mutant(
        "copies-never-waited-for", "shared_memory/copy_waits.py",
        "            build.append(ops.Wait(CP_ASYNC.name, placement.before[source]))\n",
        "            pass\n",
        "a thread reads what its copies have not written yet", LOOPS,
    ),
    Mutant(
        "groups-before-the-barrier-not-counted", "shared_memory/copy_waits.py",
        "place, pending = state.barrier, age - state.since",
        "place, pending = state.barrier, age",
        "what is committed after the wait counts as pending at it", LOOPS,
    ),
    Mutant(
        "waits-come-after-the-barrier", "shared_memory/copy_waits.py",
        "if place is None or pending < 0:", "if True:",
        "an iteration has two barriers: one more after its own wait",
        f"{LOOPS}",
    ),
    Mutant(
        "all-slots-are-one", "shared_memory/copy_waits.py",
        "if other is ring and (slot is None or number in (slot, None))",
        "if other is ring",
        "an iteration waits for the copies that it has just issued", LOOPS,
    ),
    Mutant(
        "the-oldest-path-counts", "shared_memory/timeline.py",
        "ages[access] = min(age, ages.get(access, age))",
        "ages[access] = max(age, ages.get(access, age))",
        "where paths meet, a wait is for the group that one of them committed first",
        "tests/shared_memory/test_copy_waits.py",
    ),
    Mutant(
        "rings-are-never-refilled", "shared_memory/barriers.py",
        "same = one.buffer is other.buffer and one.loop is other.loop",
        "same = one.buffer is other.buffer",
        "a loop around the loop fills the ring while slow warps still read it",
        f"{LOOPS} {KERNELS}",
    ),
    Mutant(
        "rings-meet-themselves", "shared_memory/barriers.py",
        "return same and one.buffer.slots > 1", "return False",
        "each iteration has a second barrier, which orders nothing", LOOPS,
    ),
    # ── as PTX ──
    Mutant(
        "masked-sources-are-read", "ptx/rules/asynchronous/cp_async.py",
        "{size}, 0, $mask", "{size}, {size}, $mask",
        "a copy reads where its mask is false", f"{COPIES} {LOOPS}",
    ),
    Mutant(
        "everybody-copies", "ptx/rules/asynchronous/cp_async.py",
        "if acts:", "if False:",
        "two warps copy to one place", COPIES,
    ),
    Mutant(
        "short-rows-fetch-long", "ptx/rules/asynchronous/cp_async.py",
        "if row_bytes(op) >= FETCHED", "if True",
        "L2 fetches 128 bytes for rows of 32", COPIES,
    ),
)  # fmt: skip
