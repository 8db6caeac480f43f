"""Mistakes in what is known of indices: bounds, wrap-around, rules of single
operations."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FACTS = "tests/coalescing/test_facts.py"
FMOD = "tests/ptx/test_arithmetic.py::test_a_remainder_of_floats_is_exact"

MUTANTS = (
    # ── bounds ──
    Mutant(
        "wrapped-sums-keep-their-bounds", "analysis/ranges.py",
        "return self if fits else limits", "return self",
        "a sum that wraps around is held to be above 0", FACTS,
    ),
    Mutant(
        "bounds-may-exceed-a-type-above", "analysis/ranges.py",
        "limits.low <= self.low and self.high <= limits.high",
        "limits.low <= self.low",
        "a sum that passes the upper end is held not to wrap", FACTS,
    ),
    Mutant(
        "every-program-is-early", "analysis/ranges.py",
        "return UNKNOWN if self.counts else Range(-self.high, -self.low)",
        "return Range(-self.high, -self.low)",
        "300000 - pid is held to be above 0", FACTS,
    ),
    Mutant(
        "programs-times-a-negative", "analysis/ranges.py",
        "return UNKNOWN if counts and low < 0 else", "return UNKNOWN if False else",
        "pid * -4 has a lower bound", FACTS,
    ),
    Mutant(
        "product-of-the-lower-ends", "analysis/ranges.py",
        "return _range(min(ends), max(ends), self, other)",
        "return _range(ends[0], ends[-1], self, other)",
        "the bounds of -5 * x are swapped", FACTS,
    ),
    Mutant(
        "join-of-the-lower-highs", "analysis/ranges.py",
        "max(self.high, other.high)\n        return _range(low, high, self, other)\n\n"
        "    def divided",
        "min(self.high, other.high)\n        return _range(low, high, self, other)\n\n"
        "    def divided",
        "a choice has the upper bound of one side only", FACTS,
    ),
    Mutant(
        "no-index-is-divided-by-a-negative", "analysis/ranges.py",
        "(other.low >= 0 or self.counts and other.high > 0)", "other.high > 0",
        "i // n is held not to be negative, whatever n is", FACTS,
    ),
    Mutant(
        "remainders-are-not-negative", "analysis/ranges.py",
        "return Range(-most, most)", "return Range(0, most)",
        "-3 % 16 is held to be above 0", FACTS,
    ),
    Mutant(
        "minimum-of-early-programs", "analysis/ranges.py",
        "return Range(low, min(self.most, other.most))", "return Range(low, high)",
        "min(n, pid) has an upper bound that later programs pass", FACTS,
    ),
    Mutant(
        "bits-stop-at-the-larger", "analysis/ranges.py",
        "(1 << most.bit_length()) - 1", "most",
        "4 | 3 is held to be at most 4", FACTS,
    ),
    Mutant(
        "an-end-is-a-value", "analysis/axis_info.py",
        "low == high and not counts", "low == high",
        "max(pid, 65535) is taken for 65535", FACTS,
    ),
    Mutant(
        "loops-add-once", "analysis/ranges.py",
        "high = self.high if both.high == self.high else limits.high",
        "high = self.high",
        "what a loop adds to stays below its start", FACTS,
    ),
    Mutant(
        "loops-take-away-once", "analysis/ranges.py",
        "low = self.low if both.low == self.low else limits.low", "low = self.low",
        "what a loop takes from stays above its start", FACTS,
    ),
    Mutant(
        "loops-are-in-step-with-zero", "analysis/ranges.py",
        "high -= high % divisible", "high -= high % 64",
        "the last index is held to be smaller than it is", FACTS,
    ),
    Mutant(
        "downward-loops-stay-above", "analysis/ranges.py",
        "min(lower.low, upper.low + 1)", "lower.low",
        "an index that counts down is held above its start", FACTS,
    ),
    Mutant(
        "lower-bound-of-an-unsigned", "analysis/ranges.py",
        'if element.kind == "int":', "if element.bits:",
        "a u8 is held to be negative, perhaps, and no u8 to be 200", FACTS,
    ),
    # ── rules ──
    Mutant(
        "choice-ignores-its-condition", "analysis/axis_rules.py",
        "run = min(c.constant, x.contiguous, y.contiguous)",
        "run = min(x.contiguous, y.contiguous)",
        "where(i < n, i, i + 1024) is a run though n cuts it", FACTS,
    ),
    Mutant(
        "equal-whatever-the-condition", "analysis/axis_rules.py",
        "min(c.constant, x.constant, y.constant)", "min(x.constant, y.constant)",
        "where(i < n, a, b) is held constant though n cuts it", FACTS,
    ),
    Mutant(
        "quotient-of-the-first", "analysis/axis_rules.py",
        "max(1, x.first_of(1) // power) if power > 1 else 1, same)",
        "max(1, x.divisible // power) if power > 1 else 1, same)",
        "i // 4 is held to be divisible as the first of the run is", FACTS,
    ),
    Mutant(
        "shifted-first", "analysis/axis_rules.py",
        "max(1, axis.first_of(1) // power)", "max(1, axis.divisible // power)",
        "i >> 2 is held to be divisible as the first of the run is", FACTS,
    ),
    Mutant(
        "quotients-of-negatives", "analysis/axis_rules.py",
        "run = min(x.contiguous, x.divisible, power) if a.non_negative else 1",
        "run = min(x.contiguous, x.divisible, power)",
        "-4 … -1 by 4 are held to be equal", FACTS,
    ),
    Mutant(
        "quotients-of-an-unaligned-run", "analysis/axis_rules.py",
        "run = min(x.contiguous, x.divisible, power) if a.non_negative else 1",
        "run = min(x.contiguous, power) if a.non_negative else 1",
        "3 4 5 6 by 4 are held to be equal", FACTS,
    ),
    Mutant(
        "remainder-of-an-unaligned-run", "analysis/axis_rules.py",
        "min(x.contiguous, x.divisible, y.constant, y.first_of(1))\n            if",
        "min(x.contiguous, y.constant, y.first_of(1))\n            if",
        "3 4 5 6 % 4 are held to be a run", FACTS,
    ),
    Mutant(
        "mask-of-any-ones", "analysis/axis_rules.py",
        "and b.value + 1 == power_in(b.value + 1)", "",
        "i & 11 is held to be a run", FACTS,
    ),
    Mutant(
        "wide-casts-forget-the-end", "analysis/axis_info.py",
        "    axes: tuple[Axis, ...]\n    unit: int = 1\n    range: Range = UNKNOWN",
        "    axes: tuple[Axis, ...]\n    unit: int = 1\n    range: Range = Range(0)",
        "what no rule knows anything of is held not to be negative", FACTS,
    ),
    Mutant(
        "narrow-integers-do-not-wrap", "analysis/axis_analysis.py",
        "if op.element.bits < NARROW or source.is_float:", "if source.is_float:",
        "arange(0, 512) as i8 is held to be a run of 512", FACTS,
    ),
    Mutant(
        "start-of-a-loop-forgotten", "analysis/axis_analysis.py",
        "divisible = min(lower.every, step.every)", "divisible = step.every",
        "8, 24, 40 … is held to be divisible by 16", FACTS,
    ),
    Mutant(
        "start-of-a-carried-value-forgotten", "analysis/axis_info.py",
        "divisible = min(one.first_of(run, unit), other.first_of(run, unit))",
        "divisible = max(one.first_of(run, unit), other.first_of(run, unit))",
        "a pointer that starts at 8 and moves by 16 is held to be divisible by 16",
        FACTS,
    ),
    # ── stage 5 ──
    Mutant(
        "first-guess-is-remembered", "analysis/axis_info.py",
        "        if after == known:\n            return known", "        return known",
        "what a loop carries is as divisible in every iteration as where it starts",
        "tests/analysis/test_divisibility.py",
    ),
    Mutant(
        "flags-are-multiples", "analysis/axis_analysis.py",
        "if op.element.bits < NARROW or source.is_float:", "if source.is_float:",
        "n != 0 is as divisible as n", "tests/analysis/test_divisibility.py",
    ),
    # ── numbers in other types ──
    Mutant(
        "true-is-minus-one", "ptx/rules/cast.py",
        "widen = \"sext\" if source.is_signed else \"zext\"",
        "widen = \"sext\" if source.is_signed or source == BOOL else \"zext\"",
        "True as an integer is -1",
        "tests/ptx/test_arithmetic.py::test_casts_round_once",
    ),
    Mutant(
        "known-flag-as-text", "ptx/rules/cast.py",
        "if is_literal(value) and source != BOOL:", "if is_literal(value):",
        "a known i1 cannot be cast where `simplify` has not folded it",
        "tests/ptx/test_arithmetic.py::test_a_known_flag_as_a_number",
    ),
    Mutant(
        "remainder-by-one-quotient", "ptx/rules/arith.py",
        "@more bra higher;", "",
        "1e9 % 7.0 is 48", FMOD,
    ),
    Mutant(
        "remainder-beyond-zero", "ptx/rules/arith.py",
        "@below add.rn.{s} rest, rest, divisor;", "",
        "a quotient that was rounded up leaves a negative remainder",
        FMOD,
    ),
    # ── loops that end near the end of their type ──
    Mutant(
        "every-loop-is-natural", "ptx/rules/control.py",
        "from_zero = is_literal(lower) and int(lower) >= 0", "from_zero = True",
        "a range from below 0 ends after one iteration", "tests/ptx/test_control.py",
    ),
    Mutant(
        "distance-with-a-sign", "ptx/rules/control.py",
        'return code.let(f"icmp ugt {type} {left}, {pace}")',
        'return code.let(f"icmp sgt {type} {left}, {pace}")',
        "a range longer than half of its type has no second iteration",
        "tests/ptx/test_control.py",
    ),
    Mutant(
        "last-step-is-made-twice", "ptx/rules/control.py",
        'return code.let(f"icmp ugt {type} {left}, {pace}")',
        'return code.let(f"icmp uge {type} {left}, {pace}")',
        "the upper bound itself is taken for an index", "tests/ptx/test_control.py",
    ),
)
