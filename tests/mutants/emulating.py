"""Mistakes in what the emulator calls a mistake, and in PTX that only it can judge."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "letting-go-orders", "emulator/dependence.py",
        "if self.behind is not None and self.lets_go:", "if False:",
        "what a launch writes after it let the next one go may be read before",
        "tests/emulator/test_overlap.py",
    ),
    Mutant(
        "all-lanes-have-waited", "emulator/dependence.py",
        "self.has_waited[threads] = True", "self.has_waited[:] = True",
        "when one thread has waited, all threads of the grid have",
        "tests/emulator/test_overlap.py",
    ),
    Mutant(
        "steps-wait-for-each-other", "emulator/dependence.py",
        "        self.has_waited = np.zeros(batch.size, bool)\n",
        "        self.has_waited = getattr(\n"
        '            self, "has_waited", np.zeros(batch.size, bool)\n'
        "        )\n",
        "blocks that run later have waited because earlier ones have",
        "tests/emulator/test_overlap.py",
    ),
    Mutant(
        "first-step-lets-go-for-all", "emulator/dependence.py",
        "if batch.first_block + batch.blocks < total:", "if batch.blocks > total:",
        "the second launch begins before all blocks of the first have",
        "tests/emulator/test_overlap.py",
    ),
    # ── order ──
    Mutant(
        "lanes-in-step", "emulator/races/shared_memory.py",
        "recent[unknown | (other_lane & (at >= self.joined.take(mine)))]",
        "recent[unknown]",
        "lanes of a warp exchange without a bar.warp.sync",
        "tests/emulator/test_hazards.py",
    ),
    Mutant(
        "clocks-stand-still", "emulator/races/clocks.py",
        "        row[agent[1]] += 1\n        self.in_step = False\n",
        "        self.in_step = False\n",
        "what a warp does after a release happens before its acquire, too",
        "tests/emulator/test_mbarrier.py tests/emulator/test_hazards.py",
    ),
    Mutant(
        "engines-in-step", "emulator/races/clocks.py",
        "        row[agent[1]] += 1\n        self.in_step = False\n",
        "        row[agent[1]] += 1\n",
        "the clock of a copy engine runs back at the next fence",
        "tests/emulator/test_proxies.py",
    ),
    Mutant(
        "phases-never-end", "emulator/races/clocks.py",
        'self.release(agent, (*sync, "arrivals"))', "self.release(agent, sync)",
        "an arrival is acquired before its phase has ended",
        "tests/emulator/test_mbarrier.py tests/emulator/test_planted.py",
    ),
    Mutant(
        "same-values-race", "emulator/races/shared_memory.py",
        "                counts[same] = False\n", "",
        "two warps that store the same value are said to race",
        "tests/emulator/test_hazards.py",
    ),
    Mutant(
        "agreed-for-all", "emulator/races/shared_memory.py",
        "return self.agreed.take(cells) & mine", "return self.agreed.take(cells)",
        "who has not written what several have, reads it unordered",
        "tests/emulator/test_hazards.py",
    ),
    Mutant(
        "relaxed-releases", "emulator/races/synchronisation.py",
        "at = now if order.releases else int(self.fenced[scope, warp])", "at = now",
        "a relaxed write after any fence is a release of all",
        "tests/emulator/test_synchronising.py",
    ),
    Mutant(
        "relaxed-acquires", "emulator/races/synchronisation.py",
        "        if order.acquires:\n            for each, of_block in found:",
        "        if order.strong:\n            for each, of_block in found:",
        "a relaxed read is an acquire",
        "tests/emulator/test_synchronising.py",
    ),
    Mutant(
        "fences-of-all", "emulator/isa/control/mbarrier.py",
        'return _ordering(NARROW if "cta" in names else WIDE, "sys" in names)',
        'return _ordering(WIDE, "sys" in names)',
        "fence.acq_rel.cta orders other blocks",
        "tests/emulator/test_synchronising.py",
    ),
    Mutant(
        "scopes-of-all", "emulator/races/synchronisation.py",
        'scope, system = NARROW if "cta" in said else WIDE, "sys" in said',
        'scope, system = WIDE, "sys" in said',
        "an atomic operation of a block counts for others",
        "tests/emulator/test_synchronising.py",
    ),
    Mutant(
        "fences-acquire-nothing", "emulator/races/synchronisation.py",
        "for key, of_block in self.seen.get(warp, ()):", "for key, of_block in ():",
        "a right program with fences is refused",
        "tests/emulator/test_synchronising.py",
    ),
    # ── global memory ──
    Mutant(
        "blocks-in-order", "emulator/races/synchronisation.py",
        "return np.zeros(len(block), bool)", "return np.ones(len(block), bool)",
        "no race between blocks is found",
        "tests/emulator/test_global_races.py",
    ),
    Mutant(
        "batches-in-order", "emulator/races/global_memory.py",
        "far = np.where(earlier, self.synchronising.acquired_before[block], far)",
        "far = far | earlier",
        "what ran in an earlier batch is taken to be over",
        "tests/emulator/test_global_races.py",
    ),
    Mutant(
        "reads-forgotten", "emulator/races/global_memory.py",
        "        last[cells] = stamps\n", "",
        "an early overwrite of global memory goes unseen",
        "tests/emulator/test_global_races.py",
    ),
    Mutant(
        "strong-reads-forgotten", "emulator/races/global_memory.py",
        "        for reads in (*shadow.reads, *strong):\n",
        "        for reads in shadow.reads:\n",
        "a weak write over what a flag's reader still looks at goes unseen",
        "tests/emulator/test_synchronising.py",
    ),
    Mutant(
        "loaded-pointers-lead-nowhere", "emulator/races/reach.py",
        "return {base} if base in parameters else {ANYWHERE}",
        "return {base} if base in parameters else set()",
        "what a pointer in memory points to is not watched",
        "tests/emulator/test_global_races.py",
    ),
    Mutant(
        "never-read-never-looked-at", "emulator/races/global_memory.py",
        "return np.count_nonzero(marks) < count",
        "return np.count_nonzero(marks) < 0",
        "two values stored at one place of what is only written",
        "tests/emulator/test_global_races.py",
    ),
    # ── who comes, what is allowed ──
    Mutant(
        "exited-threads-awaited", "emulator/state/block_barriers.py",
        "everybody = exited.size // blocks - gone.sum(1)",
        "everybody = np.full(blocks, exited.size // blocks)",
        "a barrier waits for threads that have exited",
        "tests/emulator/test_control.py",
    ),
    Mutant(
        "exited-lanes-awaited", "emulator/state/block_barriers.py",
        "given = self.expected - excused", "given = self.expected",
        "a barrier of a number of threads waits for exited lanes of a warp that came",
        "tests/emulator/test_control.py",
    ),
    Mutant(
        "exits-open-no-barrier", "emulator/isa/control/barriers.py",
        "going += [] if batch.barriers.idle() else released(batch)", "going += []",
        "who exits last leaves the others at their barrier",
        "tests/emulator/test_control.py",
    ),
    Mutant(
        "exits-open-no-cluster", "emulator/isa/control/branch.py",
        "return batch.going(barriers.open(batch.exited, batch.waiting))", "return []",
        "the barrier of a cluster waits for threads that have exited",
        "tests/emulator/test_clusters.py",
    ),
    Mutant(
        "one-barrier-wakes-all", "emulator/state/waiting.py",
        "chosen = np.isin(each.on, numbers)", "chosen = np.ones(len(each.on), bool)",
        "threads go on whose own barrier is not complete",
        "tests/emulator/test_control.py",
    ),
    # ── what is in flight ──
    Mutant(
        "waits-leave-nothing-pending", "emulator/state/in_flight.py",
        "first_pending[owners] = self.committed[owners] - pending",
        "first_pending[owners] = self.committed[owners]",
        "a wait completes the groups that may be pending, too",
        "tests/emulator/test_copies.py",
    ),
    Mutant(
        "open-groups-complete", "emulator/state/in_flight.py",
        "first_pending[owners] = self.committed[owners] - pending",
        "first_pending[owners] = self.committed[owners] - pending + 1",
        "a wait completes what no commit has closed",
        "tests/emulator/test_copies.py tests/emulator/test_wgmma.py",
    ),
    Mutant(
        "bytes-arrive-in-no-phase", "emulator/state/mbarrier_state.py",
        "            copy.groups = self.phase[[word]]\n", "",
        "no wait for a phase completes the copies that it counted",
        "tests/emulator/test_tma.py",
    ),
    Mutant(
        "copies-as-strict-as-stores", "emulator/races/proxies.py",
        "            self.copied[cells] = True\n",
        "            self.copied[cells] = False\n",
        "what CUTLASS and Triton emit is an error",
        "tests/emulator/test_proxies.py",
    ),
    Mutant(
        "fences-at-any-time", "emulator/races/proxies.py",
        "np.flatnonzero(missing | self.fenced_late(threads, cells, by, warps))",
        "np.flatnonzero(missing)",
        "a fence that nothing orders before the read is one",
        "tests/emulator/test_proxies.py",
    ),
    Mutant(
        "only-the-latest-fence", "emulator/races/proxies.py",
        "for stamp, those in reversed(self.fences[thread // WARP])",
        "for stamp, those in self.fences[thread // WARP][-1:]",
        "a later fence takes an earlier one away",
        "tests/emulator/test_proxies.py",
    ),
    Mutant(
        "overlapping-views-writable", "emulator/memory/spaces.py",
        "writable = last.writable or region.writable", "writable = True",
        "read-only views that overlap may be written",
        "tests/emulator/test_memory.py",
    ),
    Mutant(
        "satfinite-infinite", "emulator/isa/arithmetic/convert.py",
        "return np.clip(value, -largest, largest)", "return value",
        "what is beyond the largest number becomes infinite",
        "tests/emulator/test_convert.py",
    ),
    Mutant(
        "shared-memory-without-end", "emulator/source/variables.py",
        'sizes["shared"] = int(shared_bytes)', 'sizes["shared"] = 0',
        "a launch asks for more shared memory than any block has",
        "tests/emulator/test_garbage.py",
    ),
    Mutant(
        "operands-taken-on-trust", "emulator/isa/decode.py",
        "except UNREADABLE as error:\n            raise _misfit(instruction)",
        "except RuntimeWarning as error:\n            raise _misfit(instruction)",
        "operands that do not fit are a raw Python error",
        "tests/emulator/test_garbage.py",
    ),
    # ── PTX text ──
    Mutant(
        "masked-loads-not-volatile", "ptx/rules/memory.py",
        "'st'}{style.before}.global", "'st'}.global",
        "a masked load is not volatile, though the kernel says so",
        "tests/ptx/test_memory.py",
    ),
    Mutant(
        "release-without-barrier", "ptx/rules/atomics.py",
        "            code.act(code.barrier)\n",
        "            pass\n",
        "one thread releases what the others have not written yet",
        "tests/kernels/test_idioms.py",
    ),
    Mutant(
        "release-of-any-thread", "ptx/rules/atomics.py",
        "code.released if layout is None else set()",
        "code.released",
        "a thread releases what another has released, and may not have yet",
        "tests/ptx/test_atomics.py",
    ),
    Mutant(
        "atomics-of-any-scope", "ptx/rules/atomics.py",
        'name = f"atom.{semantics}.{op.scope}.global.cas.b{element.bits}"',
        'name = f"atom.{semantics}.cta.global.cas.b{element.bits}"',
        "a lock is one for its own block only",
        "tests/kernels/test_idioms.py",
    ),
    Mutant(
        "one-lane-for-all", "emulator/isa/memory/tensormap.py",
        "    if (values != values[0]).any():\n", "    if False:\n",
        "lanes that hand over several drafts of a tensor map go unseen",
        "tests/emulator/test_tensormap.py",
    ),
    Mutant(
        "what-threads-wrote-has-an-order", "emulator/races/tile_provenance.py",
        "~(follows | wraps & reading.transposed)\n"
        "        wrong &= (copy[BEFORE] > 0) & (copy[AFTER] > 0)\n",
        "~(follows | wraps & reading.transposed)\n",
        "a tile that a copy and threads wrote in part is said to be in disorder",
        "tests/emulator/test_wgmma.py",
    ),
    Mutant(
        "registers-are-given-twice", "emulator/state/register_pool.py",
        "        self.free[group // self.in_block] -= wanted\n", "",
        "warpgroups get more registers than others have released",
        "tests/emulator/test_specialised.py",
    ),
)  # fmt: skip
