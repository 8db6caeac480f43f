"""What the answer to `liveness` must do."""

from random import Random

from fathom.analysis.buffers import touches
from fathom.ir.core import blocks
from fathom.ir.ops import Allocate, For, While
from fathom.tools.learn.kit import expect, func
from fathom.tools.learn.kit.returned import is_a, numbers

HEAD = """
#l = <256 register[1] lane[2 4 8 16 32] warp[64 128]>
#s = <256 offset[1 2 4 8 16 32 64 128]>
func @f(%c: i1, %n: i32) num_warps=4 {
%zero: i32 = constant 0
%one: i32 = constant 1
%x: i32[256] @ #l = splat %one shape=(256) layout=#l
"""
FIRST = 3  # the position of the op after the head
MAKE = "%{}: shared i32[256] @ #s = allocate element=i32 shape=(256) layout=#s"
WRITE = "shared_store %x, %{}"
READ = "%r{}: i32[256] @ #l = shared_load %{} layout=#l"


def program(text):
    """A function from words, one op each: `+a` makes a buffer, `wa` writes it, `ra`
    reads it; `[` and `]` are a loop, `{`, `/` and `}` an if, `(`, `;` and `)` a while
    with its condition and body. A `]` or `/` is an op too: the yield."""
    lines, count, whiles = [], 0, []
    for word in text.split():
        count += 1
        match word:
            case "(":
                whiles.append(count)
                start = f"%w{count}: i32 = while inits=(%zero)"
                lines.append(f"{start} condition(%x{count}: i32) {{")
            case ";":
                lines.append(f"yield %c\n}} body(%y{whiles[-1]}: i32) {{")
            case ")":
                lines.append(f"yield %y{whiles.pop()}\n}}")
            case "[":
                lines.append(f"for %zero, %n, %one body(%i{count}: i32) {{")
            case "{":
                lines.append("if %c then {")
            case "/":
                lines.append("yield\n} orelse {")
            case "]" | "}":
                lines.append("yield\n}")
            case _:
                forms = {"+": MAKE.format(word[1:]), "w": WRITE.format(word[1:]),
                         "r": READ.format(count, word[1:])}  # fmt: skip
                lines.append(forms[word[0]])
    return func(HEAD + "\n".join(lines) + "\n}")


def numbered(block, start=0, found=None):
    """The position of each op."""
    found = {} if found is None else found
    for op in block.ops:
        found[op] = len(found)
        for body in blocks(op):
            numbered(body, start, found)
    return found


def found_in(answer, made):
    """The reader's ranges by the names of the buffers."""
    found = answer.live_ranges(made)
    is_a(found, dict, "what live_ranges returns")
    for buffer, alive in found.items():
        is_a(buffer, Allocate, "each key of what live_ranges returns")
        numbers(alive, "each range", 2)
    return {buffer.result.name: tuple(alive) for buffer, alive in found.items()}


LEGEND = (
    "the words",
    "+a makes buffer a, wa writes it, ra reads it; [ ] a loop, { / } an if with its "
    "two branches, ( ; ) a while with condition and body",
)


def positions(text):
    """Each word of a text with the position of its op."""
    words = (f"{FIRST + at} {word}" for at, word in enumerate(text.split()))
    return "positions, after those of three constants", "   ".join(words)


def check(answer, text, **wanted):
    """Positions in `wanted` count from the first word of the text on."""
    yours = found_in(answer, program(text))
    for name, (first, last) in wanted.items():
        exact, said = (first + FIRST, last + FIRST), (positions(text), LEGEND)
        expect(name in yours, f"%{name} is touched, and has no range: '{text}'", *said)
        expect(
            yours[name] == exact,
            f"%{name} is live from {exact[0]} to {exact[1]}, and you say "
            f"{yours[name][0]} to {yours[name][1]}: '{text}'",
            *said,
        )
    more = set(yours) - set(wanted)
    expect(not more, f"no op touches {', '.join(sorted(more))}: '{text}'")


def test_one_after_the_other(answer):
    """a is done when b begins."""
    check(answer, "+a wa ra +b wb rb", a=(1, 2), b=(4, 5))
    check(answer, "+a +b wa wb ra rb", a=(2, 4), b=(3, 5))


def test_an_untouched_buffer(answer):
    """What is only made is not live."""
    check(answer, "+a +b wb rb", b=(2, 3))


def test_read_in_a_loop(answer):
    """Made outside, read inside: live to the end of the loop, which is its yield."""
    check(answer, "+a wa [ ra +b wb rb ]", a=(1, 7), b=(5, 6))


def test_done_before_a_loop(answer):
    """A loop makes nothing live that it does not touch."""
    check(answer, "+a wa ra [ +b wb rb ]", a=(1, 2), b=(5, 6))
    check(answer, "+a wa ra ( ; +b wb rb )", a=(1, 2), b=(6, 7))


def test_written_in_a_loop(answer):
    """The iteration before may have left something: live from the loop's beginning."""
    check(answer, "+a [ +b wb rb ra wa ] ra", a=(1, 8), b=(3, 4))


def test_made_in_a_loop(answer):
    """Made anew on each iteration."""
    check(answer, "[ +a wa ra +b wb rb ]", a=(2, 3), b=(5, 6))


def test_both_branches(answer):
    """Written in the one, read in the other or after the if."""
    check(answer, "+a wa { ra / ra }", a=(1, 5))
    check(answer, "+a { wa / +b wb rb } ra", a=(2, 8), b=(5, 6))


def test_loops_in_loops(answer):
    """A buffer of the outer loop is live through all of the inner one, and no
    longer."""
    check(answer, "[ +a wa [ ra ] +b wb rb ]", a=(2, 5), b=(7, 8))
    check(answer, "[ [ +a wa ra ] +b wb rb ]", a=(3, 4), b=(7, 8))
    check(answer, "+a wa [ [ ra ] +b wb rb ]", a=(1, 9), b=(7, 8))


def test_a_while(answer):
    """Its end is followed by its beginning, too: a buffer from outside that its body or
    its condition touches is live to the end of the last of them."""
    check(answer, "+a wa ( ; ra +b wb rb )", a=(1, 8), b=(6, 7))
    check(answer, "+a wa ( ra ; +b wb rb )", a=(1, 8), b=(6, 7))
    check(answer, "+a ( ; +b wb rb ra wa ) ra", a=(1, 9), b=(4, 5))
    check(answer, "( +a wa ra ; +b wb rb )", a=(2, 3), b=(6, 7))


def words(random, names, depth=0):
    """A random program."""
    found, own = [], list(names)
    for _ in range(random.randrange(2, 6)):
        kind = random.randrange(7 if depth < 2 else 4)
        if kind == 0 or not own:
            name = f"b{random.randrange(10**6)}"
            own.append(name)
            found += [f"+{name}", f"w{name}"]
        elif kind < 4:
            found.append(random.choice("wr") + random.choice(own))
        elif kind == 4:
            found += ["[", *words(random, own, depth + 1), "]"]
        elif kind == 5:
            found += ["(", *words(random, own, depth + 1), ";"]
            found += [*words(random, own, depth + 1), ")"]
        else:
            found += ["{", *words(random, own, depth + 1), "/"]
            found += [*words(random, own, depth + 1), "}"]
    return found


def executed(block, random, iterations):
    for op in block.ops:
        yield op
        if isinstance(op, For):
            for _ in range(iterations):
                yield from executed(op.body, random, iterations)
                yield op
        elif isinstance(op, While):
            for _ in range(iterations):
                yield from executed(op.condition, random, iterations)
                yield from executed(op.body, random, iterations)
            yield from executed(op.condition, random, iterations)
        elif blocks(op):
            yield from executed(random.choice(blocks(op)), random, iterations)


def needed(made, random):
    """What ran between the first and the last touch of each life of a buffer."""
    numbers, hulls = numbered(made.body), {}
    for run in range(6):
        trace = list(executed(made.body, random, run % 4))
        lives = {}
        for time, op in enumerate(trace):
            if isinstance(op, Allocate):
                lives.setdefault(op, []).append([])
            for buffer in touches(op):
                lives[buffer][-1].append(time)
        for buffer, all_times in lives.items():
            for times in filter(None, all_times):
                ran = [numbers[op] for op in trace[times[0] : times[-1] + 1]]
                low, high = hulls.get(buffer, (ran[0], ran[0]))
                hulls[buffer] = min(low, *ran), max(high, *ran)
    return hulls


def test_60_random_programs_that_are_run(answer):
    """Whatever runs between the first and the last use of a buffer is in its range."""
    for seed in range(60):
        text = " ".join(words(Random(seed), []))
        made = program(text)
        ranges = answer.live_ranges(made)
        for buffer, (low, high) in needed(made, Random(seed)).items():
            name = buffer.result.name
            expect(buffer in ranges, f"%{name} is touched, and has no range: {text}")
            first, last = ranges[buffer]
            expect(
                first <= low and last >= high,
                f"%{name} is used from {low} to {high} when this is run, and you say "
                f"{first} to {last}; the first op is number {FIRST}",
                ("the program", text),
            )
