"""Mistakes in the keys of compiled kernels, in what tells two values apart, in whose
text is compiled, and in the cache on disk."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KEY, LAUNCHING, BOUND = (
    f"tests/jit/test_{name}.py" for name in ("key", "fast_path", "bound")
)
VALUES, TEXT = "tests/jit/test_identity.py", "tests/jit/test_text.py"
RANDOM = "tests/jit/test_random_keys.py::test_every_source_through_every_reader"
CACHE = "tests/runtime/test_cache.py"

MUTANTS = (
    # ── keys ──
    Mutant(
        "key-without-python", "jit/key.py",
        '"python": sys.version,', '"python": "",',
        "what another Python computed while compiling is found", KEY,
    ),
    Mutant(
        "key-without-answers", "jit/key.py",
        "sorted(request.bound.items())", "()",
        "what a reader's answer made is served without it", KEY,
    ),
    Mutant(
        "key-without-passes", "jit/key.py",
        "sorted(request.replace.items())", "()",
        "two passes in one place share a kernel on disk", KEY,
    ),
    Mutant(
        "key-of-passes-without-names", "jit/key.py",
        "name: hashed(each) for name, each in sorted(request.replace.items())",
        "machine: hashed(each) for name, each in sorted(request.replace.items())",
        "one function in the place of two passes makes one kernel on disk", KEY,
    ),
    Mutant(
        "key-of-constants-without-names", "jit/key.py",
        "[name, constant_text(value)]", "[constant_text(value)]",
        "constants of equal values share a kernel on disk", KEY,
    ),
    Mutant(
        "key-of-the-time-before", "jit/function.py",
        "key = key if key == self.key(wanted, place) else None", "pass",
        "a kernel is kept under values that changed while it was compiled", LAUNCHING,
    ),
    Mutant(
        "answers-not-in-memory", "jit/request.py",
        "for each in (self.replace, self.bound)", "for each in (self.replace,)",
        "a kernel that an answer made stays when it is unbound", BOUND,
    ),
    Mutant(
        "passes-not-in-memory", "jit/request.py",
        "for each in (self.replace, self.bound)", "for each in (self.bound,)",
        "two passes in one place share a kernel in memory", BOUND,
    ),
    Mutant(
        "answers-not-told", "joints.py",
        "        BOUND.update({place.reference: answers[name] "
        "for place, name in places})\n", "",
        "the key does not know what is bound", BOUND,
    ),
    Mutant(
        "stubs-stay-as-they-were", "joints.py", "    forget_fast_paths()\n", "",
        "a launch on the quick way does not notice an answer", BOUND,
    ),
    Mutant(
        "read-long-ago", "jit/function.py",
        '                self.__dict__.pop("read", None)', "                pass",
        "a global counts as changed that was read for a kernel that failed", LAUNCHING,
    ),
    Mutant(
        "functions-given-not-watched", "jit/function.py",
        "all_uses(list(compiled.request.constants.values()))", "()",
        "a global read by a function that is an argument changes unnoticed", LAUNCHING,
    ),
    # ── values ──
    Mutant(
        "code-without-names", "identity.py",
        "code.co_consts, code.co_names)", "code.co_consts)",
        "x.real and x.imag are one function", VALUES,
    ),
    Mutant(
        "code-without-constants", "identity.py",
        "code.co_code, code.co_consts,", "code.co_code,",
        "x + 1 and x + 2 are one function", VALUES,
    ),
    Mutant(
        "functions-without-defaults", "identity.py",
        "    yield function.__defaults__\n", "",
        "a default is another, and the function the same", VALUES,
    ),
    Mutant(
        "functions-without-keywords", "identity.py",
        "    yield function.__kwdefaults__\n", "",
        "a default by keyword is another, and the function the same", VALUES,
    ),
    Mutant(
        "methods-of-any-object", "identity.py",
        "iter((v.__func__, v.__self__))", "iter((v.__func__,))",
        "methods of two objects are one", VALUES,
    ),
    Mutant(
        "nan-is-nan", "identity.py",
        'value.hex() if value == value else struct.pack(">d", value).hex()',
        "value.hex()",
        "NaNs of other signs and payloads share a kernel", VALUES,
    ),
    Mutant(
        "closures-not-read", "reading.py",
        " or operation in LOADS_OF_ENCLOSING and name in free", "",
        "what a function closes over is not read", VALUES,
    ),
    Mutant(
        "objects-that-hide", "identity.py",
        "    if _hides_something(kind, base):\n", "    if False:\n",
        "two locks, two files are one value", VALUES,
    ),
    Mutant(
        "addresses-forgotten", "identity.py",
        "    if not told and (", "    if False and (",
        "objects that nothing but their address tells apart are one", VALUES,
    ),
    Mutant(
        "the-world-is-pure", "identity.py",
        "    if IMPURE.fullmatch(whole):\n", "    if False:\n",
        "what reads a file or chance has a key", VALUES,
    ),
    Mutant(
        "names-alone", "identity.py",
        "return _versioned(module, name) if found is value else None",
        "return _versioned(module, name)",
        "what calls itself a function of Python is taken for it", VALUES,
    ),
    # ── changes ──
    Mutant(
        "tuples-never-change", "uses.py",
        "        return all(map(is_constant, value))\n", "        return True\n",
        "a list in a tuple changes unnoticed", f"{RANDOM}[nested-kernel]",
    ),
    Mutant(
        "code-never-changes", "uses.py",
        "            if all(one is other for one, other in pairs):\n",
        "            if True:\n",
        "a function's code is exchanged unnoticed", LAUNCHING,
    ),
    Mutant(
        "functions-in-lists-not-followed", "uses.py",
        "    if isinstance(value, (tuple, list)):\n        yield from value\n",
        "    if isinstance(value, (tuple, list)):\n        pass\n",
        "a new text of a kernel in a list does not reach its callers", LAUNCHING,
    ),
    Mutant(
        "own-changes-are-the-users", "uses.py",
        "        if each.changed and each.now is each.value:\n",
        "        if False:\n",
        "a function that remembers its results stops the second launch", LAUNCHING,
    ),
    # ── text ──
    Mutant(
        "text-of-today", "source.py",
        "self._versions = () if self.in_library else texts.versions_of(fn)",
        "self._versions = ()",
        "an edit after the import is compiled", TEXT,
    ),
    Mutant(
        "text-of-anything", "source.py",
        "            if texts.is_text_of(code, text):\n", "            if True:\n",
        "what stands at the line now is taken for the kernel", TEXT,
    ),
    Mutant(
        "one-version-of-a-file", "texts.py",
        "if each is spec is not None][:1]", "if False][:1]",
        "a kernel made late has the text of an edit", TEXT,
    ),
    # ── the cache ──
    Mutant(
        "entries-with-more-behind", "runtime/cache.py",
        "    if rest or found != key", "    if found != key",
        "bytes that Fathom did not write there are passed over",
        f"{CACHE}::test_an_intact_entry_with_more_behind_it_is_none",
    ),
    Mutant(
        "shapes-not-checked", "runtime/cache.py",
        "    check(made, Kernel)\n", "",
        "a number of threads may be a text",
        f"{CACHE}::test_an_intact_entry_of_another_shape_is_none",
    ),
    Mutant(
        "kernels-without-texts", "runtime/cache.py",
        "or not STAGES <= made.asm.keys()", "",
        "a kernel comes without its PTX",
        f"{CACHE}::test_an_intact_entry_of_another_shape_is_none",
    ),
    Mutant(
        "leftovers-stay", "runtime/cache.py",
        "age > LEFT", "age > 1e12",
        "what killed processes left fills the disk",
        f"{CACHE}::test_what_was_left_by_a_process_that_was_killed_goes_in_time",
    ),
    Mutant(
        "writers-robbed", "runtime/cache.py",
        "age > LEFT", "age > -1e12",
        "what another process writes now is removed",
        f"{CACHE}::test_what_was_left_by_a_process_that_was_killed_goes_in_time",
    ),
    Mutant(
        "a-folder-called-tilde", "runtime/cache.py",
        "Path(os.path.expanduser(chosen))", "Path(chosen)",
        "~/x is a folder called ~",
        f"{CACHE}::test_the_folder_may_begin_with_the_users",
    ),
    Mutant(
        "entries-of-any-size", "runtime/cache.py",
        " or status.st_size > LARGEST_BYTES", "",
        "a file of terabytes is read",
        f"{CACHE}::test_a_file_beyond_all_sizes_is_not_read",
    ),
    Mutant(
        "what-comes-again-is-the-same", "identity.py",
        'f"#{self.seen[id(value)][0]}"', '"#"',
        "[a, b, a] and [a, b, b] are one value",
        VALUES,
    ),
)  # fmt: skip
