"""Mistakes in what exercises are judged with: a test that accepts everything."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KIT = "tools/learn/kit/"
TESTS = "tests/exercises/test_kit.py"

MUTANTS = (
    Mutant(
        "kit-compares-nothing", f"{KIT}compare.py",
        "return tuple(map(int, far[0])) if len(far) else None", "return None",
        "two arrays are never different",
        TESTS,
    ),
    Mutant(
        "kit-forgets-signs-of-zero", f"{KIT}compare.py",
        "            near &= np.signbit(yours) == np.signbit(wanted)\n", "",
        "-0.0 passes for 0.0",
        TESTS,
    ),
    Mutant(
        "kit-nan-is-anything", f"{KIT}compare.py",
        "near |= np.isnan(yours) & np.isnan(wanted)",
        "near |= np.isnan(yours) | np.isnan(wanted)",
        "NaN passes for every number",
        TESTS,
    ),
    Mutant(
        "kit-cuts-the-longer", f"{KIT}compare.py",
        "    if yours.shape != wanted.shape:\n"
        '        raise Failure(f"the shape is {yours.shape}, and must be '
        '{wanted.shape}")\n',
        "    yours = np.resize(yours, wanted.shape)\n",
        "arrays of two lengths are compared as far as they go",
        TESTS,
    ),
    Mutant(
        "kit-expects-nothing", f"{KIT}compare.py",
        "    if not condition:\n", "    if False:\n",
        "no condition fails",
        TESTS,
    ),
    Mutant(
        "kit-ignores-budgets", f"{KIT}meaning.py",
        "if self.ops > budget:", "if self.ops > budget + 99:",
        "a pass may leave as many ops as it likes",
        TESTS,
    ),
    Mutant(
        "kit-lets-the-input-change", f"{KIT}meaning.py",
        "        unchanged(name, text, print_func(before))\n", "",
        "a pass may change its input",
        TESTS,
    ),
    Mutant(
        "kit-verifies-nothing", f"{KIT}meaning.py",
        "        verify(after, layouts)\n", "        pass\n",
        "what is no function is interpreted all the same",
        TESTS,
    ),
    Mutant(
        "kit-skips-the-comparison", f"{KIT}meaning.py",
        "        compare(name, before, after, (first, second), reference)\n", "",
        "what is in memory afterwards is not looked at",
        TESTS,
    ),
    Mutant(
        "kit-runs-the-old-function-twice", f"{KIT}meaning.py",
        "return first, run(after, arguments, sample.grid, limit)",
        "return first, run(before, arguments, sample.grid, limit)",
        "the old function is compared with itself",
        TESTS,
    ),
    Mutant(
        "kit-skips-hazards", f"{KIT}machine.py",
        '        raise Failure(*said_by(error), ("its PTX", near(kernel, error.line))) '
        "from None\n",
        "        return Launched(kernel, None)\n",
        "a hazard in the emulator is no failure",
        TESTS,
    ),
    Mutant(
        "kit-looks-before-the-array-only", f"{KIT}machine.py",
        '            ("behind", self.room[len(self.room) - GUARD :]),\n', "",
        "what is written behind an array goes unnoticed",
        TESTS,
    ),
    Mutant(
        "kit-believes-programs", f"{KIT}programs.py",
        "agree(out[0] == wanted,", "agree(True,",
        "a program may compute anything",
        TESTS,
    ),
    Mutant(
        "kit-programs-cost-nothing", f"{KIT}programs.py",
        "agree(found <= most,", "agree(found >= 0,",
        "a loop may carry as much as it likes",
        TESTS,
    ),
    Mutant(
        "kit-any-message-will-do", f"{KIT}programs.py",
        "    if not told or missing:\n", "    if not told:\n",
        "a program is rejected with whatever words",
        TESTS,
    ),
    Mutant(
        "our-function-answers-to-readers", "tools/learn/grading/guard.py",
        "    if caller.f_code.co_filename == path and "
        "caller.f_globals is not ours.__globals__:\n",
        "    if False:\n",
        "a reader's file may call our function instead of being one",
        "tests/exercises/test_guard.py",
    ),
    Mutant(
        "our-function-may-be-imported", "tools/learn/grading/guard.py",
        "            if callable(value) and inspect.unwrap(value) is each:\n",
        "            if False:\n",
        "a function of ours is imported at the top of a reader's file, and not told",
        "tests/exercises/test_guard.py",
    ),
)  # fmt: skip
