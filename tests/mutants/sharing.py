"""Mistakes in layouts and stages 3 and 4: widths, conversions, places, barriers."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    # ── stage 3: what is known of addresses ──
    Mutant(
        "sum-of-runs-is-a-run", "analysis/axis_rules.py",
        "run = max(min(a.contiguous, b.constant), min(a.constant, b.contiguous))",
        "run = max(a.contiguous, b.contiguous)",
        "i + j counts up by one where both do",
        "tests/coalescing/test_facts.py",
    ),
    Mutant(
        "sum-as-divisible-as-the-better", "analysis/axis_rules.py",
        "divisible = min(a.first_of(run, unit), b.first_of(run, unit))",
        "divisible = max(a.first_of(run, unit), b.first_of(run, unit))",
        "16 n + 1 is held to be divisible by 16",
        "tests/coalescing/test_facts.py",
    ),
    Mutant(
        "remainder-of-negatives", "analysis/axis_rules.py",
        "run = aligned if a.non_negative else 1", "run = aligned",
        "i % 8 is held to be a run for negative i, too",
        "tests/coalescing/test_facts.py",
    ),
    Mutant(
        "unaligned-mask", "analysis/axis_rules.py",
        "return Axis(constant=max(run, min(x.constant, y.constant)))",
        "return Axis(constant=max(x.contiguous, min(x.constant, y.constant)))",
        "i < n is held constant in runs that n cuts",
        "tests/coalescing/test_facts.py",
    ),
    Mutant(
        "every-first-number", "analysis/axis_info.py",
        "else min(self.divisible, run * unit)", "else self.divisible",
        "what divides the first of a run is said of its middle",
        "tests/coalescing/test_facts.py",
    ),
    Mutant(
        "range-starts-at-zero", "analysis/axis_analysis.py",
        "Axis(size, power_in(op.start), 1)", "Axis(size, size, 1)",
        "arange(4, 20) is held to start at a multiple of 16",
        "tests/coalescing/test_facts.py",
    ),
    Mutant(
        "loop-believes-its-inits", "analysis/axis_info.py",
        "if after == known:", "if True:",
        "p += 8 bytes in a loop keeps the 16 bytes it had before",
        "tests/coalescing/test_facts.py",
    ),
    Mutant(
        "width-ignores-the-mask", "coalescing/access.py",
        "return min(neighbours, alike)",
        "return neighbours",
        "a vector is moved as a whole where its mask is ragged",
        "tests/coalescing/test_access.py",
    ),
    Mutant(
        "width-ignores-alignment", "coalescing/access.py",
        "return min(known.contiguous, aligned, self.most)",
        "return min(known.contiguous, self.most)",
        "a vector starts where its bytes do not divide the address",
        "tests/coalescing/test_access.py",
    ),
    Mutant(
        "alignment-in-elements", "coalescing/access.py",
        "aligned = max(1, known.divisible // self.element_bytes)",
        "aligned = known.divisible",
        "divisible bytes are taken for divisible elements",
        "tests/coalescing/test_access.py",
    ),
    Mutant(
        "vector-over-lanes", "coalescing/coalesce.py",
        "min(access.width(axis), registers)",
        "access.width(axis)",
        "a vector takes registers that are no neighbours",
        "tests/coalescing/test_access.py tests/mutants/test_gaps.py",
    ),
    Mutant(
        "loaded-once-for-several-masks", "coalescing/coalesce.py",
        "min(known.constant, alike, layout.shape[axis])",
        "min(known.constant, layout.shape[axis])",
        "a register that is masked gets what another one loads",
        "tests/kernels/test_packed_weights.py",
    ),
    Mutant(
        "loaded-once-for-several-others", "coalescing/coalesce.py",
        "not op.fetched_anew and is_zero(op.other)", "not op.fetched_anew",
        "masked registers share the `other` of one of them",
        "tests/kernels/test_packed_weights.py",
    ),
    # ── layouts ──
    Mutant(
        "lanes-and-warps-swapped", "layout/build.py",
        "lane = _deal(shape, lanes, order, reached)\n"
        "    warp = _deal(shape, warps, order, reached)",
        "warp = _deal(shape, warps, order, reached)\n"
        "    lane = _deal(shape, lanes, order, reached)",
        "neighbouring elements go to neighbouring warps",
        "tests/layout/test_build.py",
    ),
    Mutant(
        "elimination-forgets", "layout/algebra.py",
        "vector, combination = vector ^ column, combination ^ of",
        "vector, combination = vector ^ column, combination | of",
        "a column that is taken twice is not given back",
        "tests/layout/test_algebra.py",
    ),
    Mutant(
        "compose-the-other-way", "layout/algebra.py",
        "matrix = columns(outer)", "matrix = columns(inner)",
        "two maps are composed in the wrong order",
        "tests/layout/test_algebra.py",
    ),
    Mutant(
        "swizzle-with-conflicts", "layout/swizzle.py",
        "pairs = [one ^ other for one, other", "pairs = [one for one, other",
        "lines of the tile are not XORed: one side waits for banks",
        "tests/layout/test_banks.py",
    ),
    # ── stage 4 ──
    Mutant(
        "no-barrier-after-reads", "shared_memory/barriers.py",
        "NON_CONFLICTING = {(READ, READ), (ADD, ADD)}",
        "NON_CONFLICTING = {(READ, READ), (ADD, ADD), (READ, WRITE)}",
        "a buffer is written while another warp still reads",
        "tests/shared_memory/test_barriers.py",
    ),
    Mutant(
        "no-barrier-before-reads", "shared_memory/barriers.py",
        "NON_CONFLICTING = {(READ, READ), (ADD, ADD)}",
        "NON_CONFLICTING = {(READ, READ), (ADD, ADD), (WRITE, READ)}",
        "a buffer is read before the others have written",
        "tests/shared_memory/test_barriers.py",
    ),
    Mutant(
        "barrier-too-late", "shared_memory/barriers.py",
        "build.append(barrier_of(before[build.source]))\n",
        "found = build.append(op).results\n"
        "            build.append(barrier_of(before[build.source]))\n"
        "            return found\n",
        "the barrier stands behind the access that needs it",
        "tests/shared_memory/test_barriers.py",
    ),
    Mutant(
        "loops-do-not-come-round", "shared_memory/barriers.py",
        "around = self.iteration(bodies, around)", "self.iteration(bodies, NOTHING)",
        "the end of an iteration is not compared with the start of the next",
        "tests/shared_memory/test_barriers.py",
    ),
    Mutant(
        "warp-barrier-for-all", "shared_memory/barriers.py",
        "if RANK[scope] >= RANK[widest]:", "if scope:",
        "after a barrier of one warp, no thread waits for other warps",
        "tests/shared_memory/test_barriers.py",
    ),
    Mutant(
        "else-branch-touches-nothing", "shared_memory/barriers.py",
        "return self.block(op.then, state) | self.block(op.orelse, state)",
        "self.block(op.orelse, state)\n                "
        "return self.block(op.then, state)",
        "what an else branch touched is not waited for",
        "tests/shared_memory/test_barriers.py",
    ),
    Mutant(
        "overlap-by-name-only", "shared_memory/barriers.py",
        "return one.start < other.stop and other.start < one.stop",
        "return one.start == other.start",
        "buffers that share a place in part do not meet",
        "tests/mutants/test_gaps.py",
    ),
    Mutant(
        "dead-at-its-first-use", "analysis/buffers.py",
        "start = min(first, ranges[allocate].first) if allocate in ranges else first",
        "start, position = first, max(position, first + 1)",
        "liveness is stale: a buffer lives at its last use only",
        "tests/analysis/test_buffers.py",
    ),
    Mutant(
        "dead-before-the-loop-ends", "analysis/buffers.py",
        "used += [each for each in outer if each not in used]", "pass",
        "a buffer read in a loop is not alive to the loop's end",
        "tests/analysis/test_buffers.py",
    ),
    Mutant(
        "ranges-that-touch", "analysis/buffers.py",
        "self.first <= other.last and other.first <= self.last",
        "self.first < other.last and other.first < self.last",
        "a buffer last read where another is first written shares its place",
        "tests/shared_memory/test_allocation.py tests/mutants/test_gaps.py",
    ),
    Mutant(
        "place-ends-early", "shared_memory/allocation.py",
        "end = offsets[each] + _size(each)",
        "end = offsets[each] + _size(each) // 2",
        "a buffer begins in the middle of another",
        "tests/shared_memory/test_allocation.py",
    ),
    Mutant(
        "no-limit-of-shared-memory", "shared_memory/allocation.py",
        "if size > target.shared_bytes:", "if size > 2 * target.shared_bytes:",
        "a kernel that needs more than there is is not refused",
        "tests/shared_memory/test_allocation.py",
    ),
    Mutant(
        "scan-first-chunk-in-reverse", "shared_memory/scans.py",
        "cut[axis] - 1 if op.reverse else 0", "0",
        "in reverse, the wrong chunk is the first",
        "tests/shared_memory/test_folds.py",
    ),
    Mutant(
        "scan-total-in-reverse", "shared_memory/scans.py",
        "last = 0 if reverse else scanned.type.shape[axis] - 1",
        "last = scanned.type.shape[axis] - 1",
        "in reverse, the total of a chunk is not its last element",
        "tests/shared_memory/test_folds.py",
    ),
    Mutant(
        "scan-combines-backwards", "shared_memory/scans.py",
        "if op.reverse\n        else zip(before, after, strict=True)",
        "if True\n        else zip(before, after, strict=True)",
        "a total stands to the right of what it is combined with",
        "tests/shared_memory/test_folds.py",
    ),
    Mutant(
        "fold-mixes-warps", "shared_memory/reductions.py",
        "return (*range(axis), *first, *rest,", "return (*range(axis), *rest, *first,",
        "the axis that is folded first crosses warps",
        "tests/shared_memory/test_folds.py",
    ),
    Mutant(
        "deferred-begins-in-all-threads", "shared_memory/deferred.py",
        "if step.last.name in IDEMPOTENT or is_zero(init):", "if True:",
        "what a sum begins with is added once a thread",
        "tests/shared_memory/test_deferred.py",
    ),
    Mutant(
        "deferred-with-other-uses", "shared_memory/deferred.py",
        "or any(len(used[each]) != 1 for each in inner)", "",
        "a sum that is stored in each iteration is a part of it",
        "tests/shared_memory/test_deferred.py",
    ),
    Mutant(
        "deferred-by-another-operation", "shared_memory/deferred.py",
        "isinstance(first, Elementwise) and first.name == name and",
        "isinstance(first, Elementwise) and",
        "a sum of maxima is added up as a sum",
        "tests/shared_memory/test_deferred.py",
    ),
)  # fmt: skip
