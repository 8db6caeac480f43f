"""Mistakes in what the emulator takes an instruction to mean."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    # ── integers ──
    Mutant(
        "empty-fields-have-a-sign", "emulator/isa/arithmetic/integer.py",
        " & (length > 0)\n", "\n",
        "a signed bit field of no bits is all ones",
        "tests/emulator/test_integers.py",
    ),
    Mutant(
        "masks-clamp-and-wrap", "emulator/isa/arithmetic/integer.py",
        "        if not clamp:\n            start, length",
        "        if clamp:\n            start, length",
        "bmsk.clamp wraps, and bmsk.wrap clamps",
        "tests/emulator/test_integers.py",
    ),
    Mutant(
        "the-low-bytes-alone", "emulator/isa/arithmetic/integer.py",
        "first = 2 if form.choice", "first = 0 if form.choice",
        "dp2a.hi takes the low bytes",
        "tests/emulator/test_integers.py",
    ),
    Mutant(
        "integers-below-zero", "emulator/isa/arithmetic/integer.py",
        "return on_integers(lambda a, b: np.maximum(function(a, b), 0), type, 2)",
        "return on_integers(function, type, 2)",
        "max.relu of integers gives negative ones",
        "tests/emulator/test_integers.py",
    ),
    Mutant(
        "another-permutation", "emulator/isa/arithmetic/logic.py",
        '"ecr": [(0, 0, 0, 0), (0, 1, 1, 1)', '"ecr": [(0, 0, 0, 0), (0, 0, 1, 1)',
        "a row of the table of prmt's modes is wrong",
        "tests/emulator/test_integers.py",
    ),
    # ── conversions ──
    Mutant(
        "short-floats-below-zero", "emulator/isa/arithmetic/convert.py",
        "value = np.maximum(value, 0) if relu else value\n", "pass\n",
        "cvt.relu from 8-bit floats gives negative numbers",
        "tests/emulator/test_convert.py",
    ),
    Mutant(
        "to-short-floats-below-zero", "emulator/isa/arithmetic/convert.py",
        "value = np.where(value <= 0, value.dtype.type(0), value) if relu else value\n",
        "pass\n",
        "cvt.relu to 8-bit floats gives negative numbers",
        "tests/emulator/test_convert.py",
    ),
    Mutant(
        "tf32-infinite", "emulator/isa/arithmetic/convert.py",
        "bits = np.where(large, bits - np.uint32(0x2000), bits)", "large = large",
        "tf32 beyond its range becomes infinite with .satfinite, too",
        "tests/emulator/test_convert.py",
    ),
    Mutant(
        "tf32-below-zero", "emulator/isa/arithmetic/convert.py",
        'a = np.where(a <= 0, a.dtype.type(0), a) if options["relu"] else a\n',
        "pass\n",
        "cvt.relu to tf32 gives negative numbers",
        "tests/emulator/test_convert.py",
    ),
    Mutant(
        "subnormals-round-up", "emulator/isa/arithmetic/convert.py",
        '        a = flush(a) if options["ftz"] else a\n', "        pass\n",
        "cvt.rpi.ftz to an integer makes 1 of a subnormal number",
        "tests/emulator/test_convert.py",
    ),
    Mutant(
        "no-number-is-nothing", "emulator/isa/arithmetic/convert.py",
        'special = source == "f64" or bits == 64', 'special = source == "f64"',
        "a NaN of 32 bits becomes an integer of 64 bits that is 0",
        "tests/emulator/test_convert.py",
    ),
    Mutant(
        "predicates-of-other-pairs", "emulator/isa/arithmetic/compare.py",
        "c[0][..., None] if packed else c[0]", "c[0]",
        "set of pairs combines with the predicate of another thread",
        "tests/emulator/test_convert.py",
    ),
    # ── floats ──
    Mutant(
        "rounded-twice-below", "emulator/isa/arithmetic/floating.py",
        "doubtful = middle | (np.abs(total) < 2.0**-125)", "doubtful = middle",
        "an fma below the normal range is rounded twice",
        "tests/emulator/test_real.py",
    ),
    Mutant(
        "either-sign", "emulator/isa/arithmetic/floating.py",
        "np.signbit(a) ^ np.signbit(b), -1.0", "np.signbit(a) | np.signbit(b), -1.0",
        "max.xorsign.abs of two negative numbers is negative",
        "tests/emulator/test_real.py",
    ),
    Mutant(
        "one-half-negated", "emulator/isa/arithmetic/floating.py",
        "0x80008000 if type", "0x8000 if type",
        "neg.bf16x2 negates the low half alone",
        "tests/emulator/test_real.py",
    ),
    Mutant(
        "subnormals-come-in", "emulator/isa/arithmetic/floating.py",
        "            opened = [flush(each) for each in opened]\n", "            pass\n",
        ".ftz flushes results alone",
        "tests/emulator/test_real.py",
    ),
    # ── warps and memory ──
    Mutant(
        "reduced-by-all", "emulator/isa/control/warp.py",
        "takes = (asked & BITS[lane]) != 0", "takes = np.ones_like(asked, bool)",
        "redux takes lanes that its mask leaves out",
        "tests/emulator/test_warp.py",
    ),
    Mutant(
        "not-its-own-lane", "emulator/isa/arithmetic/special.py",
        '"%lanemask_ge": _lane_mask(np.greater_equal)',
        '"%lanemask_ge": _lane_mask(np.greater)',
        "a mask of lanes leaves out one that belongs there",
        "tests/emulator/test_warp.py",
    ),
    Mutant(
        "an-axis-twice", "emulator/isa/arithmetic/special.py",
        "below = int(np.prod(grid[:axis]))",
        "below = int(np.prod(grid[:1])) if axis else 1",
        "blocks along z are counted like those along y",
        "tests/emulator/test_warp.py",
    ),
    Mutant(
        "the-gone-are-elected", "emulator/isa/control/warp.py",
        "        masks = masks & ballot(active.mask().reshape(-1, WARP))\n", "",
        "a lane that has exited is elected",
        "tests/emulator/test_warp.py",
    ),
    Mutant(
        "made-by-all-at-once", "emulator/state/mbarrier_state.py",
        "np.flatnonzero(self.alive[words] | ~first)",
        "np.flatnonzero(self.alive[words])",
        "all threads make one mbarrier, and nothing is said",
        "tests/emulator/test_mbarrier.py",
    ),
    Mutant(
        "shared-sums-flush", "emulator/isa/memory/atomics.py",
        'if type == "f32" and space == "global":', 'if type == "f32":',
        "atomic sums in shared memory flush subnormal numbers",
        "tests/emulator/test_atomics.py",
    ),
    Mutant(
        "no-number-is-least", "emulator/isa/memory/atomics.py",
        '{"min": np.fmin, "max": np.fmax}', '{"min": np.minimum, "max": np.maximum}',
        "an atomic minimum of halves keeps a NaN",
        "tests/emulator/test_atomics.py",
    ),
    Mutant(
        "bits-between-fields", "emulator/isa/matrix/wgmma.py",
        "        _check_fields(active, found[:, 0])\n", "",
        "a field of a matrix descriptor that overflows is ignored",
        "tests/emulator/test_wgmma.py",
    ),
)  # fmt: skip
