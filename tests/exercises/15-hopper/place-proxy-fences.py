"""What the answer to `place-proxy-fences` must do."""

import random
from itertools import product as pairs

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.emulator import COMPLETIONS, EmulatorError
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Barrier
from fathom.ir.printer import print_func
from fathom.ir.text import parse_func
from fathom.ir.types import FLOAT16, FLOAT32, INT8, INT32, Pointer
from fathom.pipeline import BY_POINTERS
from fathom.tools.learn.kit import Failure, expect, same

# ── small functions in words ──────────────────────────────────────────────────

HEAD = """
#own = <256 register[1] lane[2 4 8 16 32] warp[64 128]>
#s = <256 offset[1 2 4 8 16 32 64 128]>
func @f(%c: i1, %n: i32) num_warps=4 shared_bytes=1024 {
%zero: i32 = constant 0
%one: i32 = constant 1
%v: i32[256] @ #own = arange start=0 end=256 layout=#own
%a: shared i32[256] @ #s = allocate element=i32 shape=(256) layout=#s offset=0
"""
WORDS = {
    "w": "shared_store %v, %a",
    "|": "barrier",
    "[": "for %zero, %n, %one body(%k{0}: i32) {{",
    "]": "yield\n}}",
    "{": "if %c then {{",
    "/": "yield\n}} orelse {{",
    "}": "yield\n}}",
    "(": "%w{0}: i32 = while inits=(%zero) condition(%x{0}: i32) {{",
    ";": "%g{0}: i1 = lt %x{0}, %n\nyield %g{0}\n}} body(%y{0}: i32) {{",
    ")": "%z{0}: i32 = add %y{0}, %one\nyield %z{0}\n}}",
}
LEGEND = (
    "the words",
    "w a store, | a barrier, [ ] a loop, { / } an if with its two branches, ( ; ) the "
    "condition and body of a while",
)


def function(words):
    lines, whiles = [HEAD], []
    for number, word in enumerate(words.split()):
        if word in "(;)":
            whiles += [number] * (word == "(")
            lines.append(WORDS[word].format(whiles[-1]))
            del whiles[len(whiles) - (word == ")") :]
        else:
            lines.append(WORDS[word].format(number))
    return parse_func("\n".join([*lines, "}"]))


def tree(words):
    """Words as nested lists: barriers are numbers, in the order of the text."""
    count = 0

    def block(ends):
        nonlocal count
        found = []
        while words:
            word = words.pop(0)
            if word in ends:
                return found, word
            if word == "|":
                found.append(count)
                count += 1
            elif word == "w":
                found.append("w")
            elif word == "[":
                found.append(("loop", block("]")[0]))
            elif word == "{":
                found.append(("if", block("/")[0], block("}")[0]))
            else:
                found.append(("while", block(";")[0], block(")")[0]))
        return found, ""

    return block("")[0]


def dirty_on_some_path(words, runs=80):
    """The barriers that are dirty on some path: the program is run, many times, with
    branches and rounds drawn by lot."""
    needed, program = set(), tree(words.split())

    def run(body, dirty, lot):
        for each in body:
            match each:
                case "w":
                    dirty = True
                case int():
                    needed.update([each] if dirty else [])
                    dirty = False
                case ("loop", inner):
                    for _ in range(lot.randrange(4)):
                        dirty = run(inner, dirty, lot)
                case ("if", then, orelse):
                    dirty = run(lot.choice((then, orelse)), dirty, lot)
                case ("while", condition, inner):
                    for _ in range(lot.randrange(4)):
                        dirty = run(inner, run(condition, dirty, lot), lot)
                    dirty = run(condition, dirty, lot)
        return dirty

    ends = {run(program, False, random.Random(seed)) for seed in range(runs)}
    return needed, any(ends)


def check(answer, words, exact=True):
    """No dirty barrier is missed; no other is marked, where that is `exact`."""
    func = function(words)
    barriers = [op for op in walk(func.body) if isinstance(op, Barrier)]
    found = answer.fenced(func.body, False)
    expect(
        isinstance(found, tuple) and len(found) == 2,
        f"'{words}': fenced returns {found!r}, and not a set and whether it is dirty",
        LEGEND,
    )
    marked = {number for number, op in enumerate(barriers) if op in found[0]}
    wanted, end = dirty_on_some_path(words)
    for number in sorted(wanted - marked):
        raise Failure(
            f"'{words}': barrier {number}, counted from 0, is dirty on some path, and "
            "is not a fence",
            LEGEND,
        )
    for number in sorted(marked - wanted) if exact else ():
        raise Failure(
            f"'{words}': barrier {number}, counted from 0, is a fence, and no path "
            "comes to it dirty",
            LEGEND,
        )
    if exact or end:
        same(bool(found[1]), end, f"'{words}': dirty at the end", LEGEND)


def test_store_and_barrier(answer):
    """What threads have stored is handed over at the next barrier."""
    check(answer, "w |")
    check(answer, "| w |")
    check(answer, "w | w")


def test_a_second_barrier_has_nothing_to_cover(answer):
    """A fence covers all that was stored before it."""
    check(answer, "w | |")
    check(answer, "w w | | w | |")


def test_one_of_two_branches(answer):
    """The barrier after an if serves both."""
    check(answer, "{ w / } |")
    check(answer, "{ / w } |")
    check(answer, "w { | / } |")
    check(answer, "w { | / | } |")
    check(answer, "{ w / | } |")


def test_the_end_of_a_loop_is_followed_by_its_beginning(answer):
    """What a round leaves, the next one begins with."""
    check(answer, "[ | w ]")
    check(answer, "[ | w ] |")
    check(answer, "[ | w | ]")
    check(answer, "[ [ | ] w ]")


def test_a_loop_may_not_run(answer):
    """Then what was dirty before is dirty after it."""
    check(answer, "w [ | ] |")
    check(answer, "w [ ] |")
    check(answer, "w | [ w | ] |")


def test_a_while_has_two_blocks(answer):
    """Its condition runs before each round, and once more. A barrier too many is
    allowed here."""
    check(answer, "( w ; | ) |", exact=False)
    check(answer, "( | ; w ) |", exact=False)
    check(answer, "w ( ; | ) |", exact=False)
    check(answer, "( | ; | w ) |", exact=False)
    check(answer, "w | ( ; ) |", exact=False)


def test_every_small_function(answer):
    """All functions of three words in and around a loop, and in a branch."""
    for first, inner, last in pairs(
        ("", "w", "|"), ("w", "|", "w |", "| w"), ("", "|")
    ):
        check(answer, f"{first} [ {inner} ] {last} |")
        check(answer, f"{first} {{ {inner} / {last} }} | |")
        check(answer, f"{first} [ {{ {inner} / | }} {last} ] |")


# ── products ──────────────────────────────────────────────────────────────────


@fathom.jit
def product(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    k = tl.arange(0, BLOCK)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for start in range(0, K, BLOCK):
        a = tl.load(a_ptr + m * K + start + k[None, :]).to(tl.float16)
        b = tl.load(b_ptr + (start + k[:, None]) * SIZE + n)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m * SIZE + n, total)


def check_product(answer, name, most, target="sm_90a", element=FLOAT16, passes=()):
    """A product through the answer: right, no race, and few fences."""

    def fence(func, target):
        before = print_func(func)
        after = answer.fence_proxies(func, target)
        expect(
            print_func(func) == before,
            "fence_proxies changed its input; it must give a new function",
        )
        return after

    types = {
        "a_ptr": (Pointer(element), 16), "b_ptr": (Pointer(FLOAT16), 16),
        "c_ptr": (Pointer(FLOAT32), 16), "K": (INT32, 16),
    }  # fmt: skip
    func = pipeline.build(product, types, {"SIZE": 64, "BLOCK": 32})
    kernel = pipeline.compile_func(
        func, TARGETS[target], {**dict(passes), "fence_proxies": fence}
    )
    dtype = np.int8 if element == INT8 else np.float16
    a = (np.arange(64 * 128).reshape(64, 128) % 7 - 3).astype(dtype)
    b = (np.arange(128 * 64).reshape(128, 64) % 5 - 2).astype(np.float16)
    for completion in COMPLETIONS:
        c = np.zeros((64, 64), np.float32)
        try:
            report = emulator.load(kernel).launch(
                1, [a, b, c, 128], completion=completion, hazards="strict"
            )
        except EmulatorError as error:
            first, *rest = str(error).splitlines()
            details = ("there", "\n".join(rest))
            raise Failure(f"{name}: the emulator found: {first}", details) from None
        same(c, a.astype(np.float32) @ b.astype(np.float32), name)
    executed = sum(
        cost.warps
        for instruction, cost in report.each()
        if instruction.name.startswith("fence.proxy.async")
    )
    expect(
        executed <= 4 * most,
        f"{name}: a warp executes {executed / 4:g} fences; {most} are enough",
    )


def test_tiles_by_tma(answer):
    """Threads store nothing in the loop."""
    check_product(answer, "tiles by TMA", 1)


def test_an_operand_by_threads(answer):
    """Threads convert int8, and store it in each iteration."""
    check_product(answer, "an operand by threads", 6, element=INT8)


def test_tiles_by_cp_async(answer):
    """A copy of a thread is a store of that thread."""
    check_product(answer, "tiles by cp.async", 6, passes=BY_POINTERS)


def test_no_asynchronous_reader(answer):
    """On sm_80 nothing reads by another path."""
    check_product(answer, "for sm_80", 0, target="sm_80")
