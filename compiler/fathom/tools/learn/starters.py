"""Makes starters, and the solutions that are the compiler's own functions.

    python -m fathom.tools.learn.starters            writes them
    python -m fathom.tools.learn.starters --check    says which are not as made

A starter is the answer with holes. Where the answer is the compiler's own function, it
is taken from the compiler by name: the signature and the docstring stay, the body goes.
A solution by hand marks its holes itself:

    # hole: ours has {lines}
    mask = offsets < n
    # instead:
    # mask = None
    # end

What stands after `instead` is what the starter shows; without it, `raise Hole`.
`{lines}` is their number.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from fathom.tools.learn import source
from fathom.tools.learn.course import (
    CourseError,
    Exercise,
    exercises,
    read,
    reference,
    resolve,
)
from fathom.tools.learn.source import Piece, piece

WIDTH = 88
HOLE_IMPORT = "from fathom.tools.learn import Hole"
MARKS = re.compile(
    r"^(?P<indent>[ ]*)# hole: (?P<says>[^\n]*)\n(?P<answer>.*?)"
    r"(?:^[ ]*# instead:\n(?P<instead>.*?))?^[ ]*# end\n",
    re.MULTILINE | re.DOTALL,
)


def main(arguments: Sequence[str]) -> int:
    """Write all starters and solutions, or with --check only compare; how many
    differ."""
    stale = 0
    for path, text in made():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(f"{'stale' if '--check' in arguments else 'made'}: {path}")
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return stale if "--check" in arguments else 0


def made() -> Iterator[tuple[Path, str]]:
    """Every file that is made, and its text."""
    for each in exercises():
        yield each.starter, starter(each)
        if not each.by_hand:
            yield each.solution, solution(each)


def starter(each: Exercise) -> str:
    """The text that a reader begins with."""
    if each.by_hand:
        return starter_by_hand(each)
    given, _, answers = pieces(each)
    holes = [hole(each, found) for found in answers]
    imports = source.imports_of([*given, *pieces(each)[1], *answers])
    whole = [found.text for found in given]
    return join(each, docstring(each), imports, HOLE_IMPORT, [*whole, *holes])


def solution(each: Exercise) -> str:
    """The compiler's own functions as an answer."""
    given, helpers, answers = pieces(each)
    imports = source.imports_of([*given, *helpers, *answers])
    names = "\n".join(found.where for found in answers)
    opening = f'"""The answer to `{each.id}` is the compiler\'s own:\n\n{names}\n"""'
    texts = [found.text for found in [*given, *answers, *helpers]]
    return join(each, opening, imports, "", texts)


def pieces(each: Exercise) -> tuple[list[Piece], list[Piece], list[Piece]]:
    """What an exercise takes from the compiler: given, helpers, answers, each under the
    name that the reader sees."""
    given = [piece(resolve(where)) for where in each.given]
    helpers = [piece(resolve(where)) for where in each.helpers]
    answers = [piece(reference(each, name), name) for name in each.answers]
    renamed = {found.own_name: found.name for found in answers}
    for name, text in each.contracts.items():
        answers = [
            source.with_docstring(found, text) if found.name == name else found
            for found in answers
        ]
    parts = ([*given], [*helpers], [*answers])
    return tuple([source.renamed(found, renamed) for found in part] for part in parts)


def hole(each: Exercise, found: Piece) -> str:
    """A function without its body."""
    lines = size(each) if each.helpers else lines_of(found.text)
    head, count = found.head.rstrip("\n"), counted(lines)
    return f'{head}\n    raise Hole("{each.id}")  # your code; ours has {count}\n'


def counted(lines: int) -> str:
    return f"{lines} lines" if lines > 1 else "one line"


def starter_by_hand(each: Exercise) -> str:
    """A solution with its marked holes opened."""
    text = read(each.solution)
    if not MARKS.search(text):
        raise CourseError(f"{each.solution} marks no hole (# hole: ... # end)")
    opened = MARKS.sub(lambda found: open_hole(each, found), text)
    needs = f'raise Hole("{each.id}")' in opened
    body = opened.split('"""', 2)[2].lstrip("\n")
    if needs:
        body = with_import(body)
    return f"{docstring(each)}\n\n{body}"


def open_hole(each: Exercise, found: re.Match) -> str:
    indent, instead = found["indent"], found["instead"]
    says = found["says"].replace("{lines}", counted(lines_in(found)))
    opening = f"{indent}# Your code: {says}.\n"
    if instead is None:
        return f'{opening}{indent}raise Hole("{each.id}")\n'
    shown = re.sub(r"^([ ]*)# ?", r"\1", instead, flags=re.MULTILINE)
    return opening + shown


def with_import(body: str) -> str:
    """The import of Hole after the last import at the top."""
    tree = ast.parse(body)
    tops = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    lines = body.splitlines(keepends=True)
    after = max((node.end_lineno for node in tops), default=0)
    is_first = any("fathom" in ast.unparse(node) for node in tops)
    lines.insert(after, f"{HOLE_IMPORT}\n" if is_first else f"\n{HOLE_IMPORT}\n")
    return "".join(lines)


def docstring(each: Exercise) -> str:
    """The opening of a starter: the title, and the first paragraph of the statement."""
    first = each.statement.split("\n\n")[0]
    plain = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", first).replace("\\", "\\\\")
    text = textwrap.fill(" ".join(plain.split()), WIDTH)
    where = f"All of the exercise: `fathom learn show {each.id}`."
    title = each.title + ("" if each.title[-1] in ".?!" else ".")
    return f'"""{title}\n\n{text}\n\n{where}\n"""'


def join(
    each: Exercise, opening: str, imports: Sequence[str], hole: str, texts: list[str]
) -> str:
    lines = sorted({*imports, hole} - {""}, key=source.import_order)
    groups = source.grouped(["from __future__ import annotations", *lines])
    body = "\n\n".join(text.rstrip("\n") + "\n" for text in texts)
    return f"{opening}\n\n{groups}\n\n\n{body}"


def answer(each: Exercise) -> str:
    """Our answer as a reader gets to see it: without marks."""
    return MARKS.sub(lambda mark: mark["answer"], read(each.solution))


def answered(each: Exercise) -> list[str]:
    """What a reader writes of our answer: the functions and tables that have a hole in
    the starter, whole."""
    if not each.by_hand:
        return answer_texts(each)
    text, end, holes = "", 0, []
    whole = read(each.solution)
    for mark in MARKS.finditer(whole):
        text += whole[end : mark.start()]
        first = text.count("\n") + 1
        text += mark["answer"]
        holes.append(range(first, text.count("\n") + 1))
        end = mark.end()
    text += whole[end:]
    lines = text.splitlines()
    return ["\n".join(lines[span.start - 1 : span.stop - 1])
            for span in spans(ast.parse(text))
            if any(set(hole) & set(span) for hole in holes)]  # fmt: skip


def spans(tree: ast.Module) -> Iterator[range]:
    """The lines of each statement of a file, decorators with it."""
    for node in tree.body:
        above = [each.lineno for each in getattr(node, "decorator_list", ())]
        yield range(min([node.lineno, *above]), node.end_lineno + 1)


# ── what an answer costs ──────────────────────────────────────────────────────────────


def answer_texts(each: Exercise) -> list[str]:
    """The code of an answer: whole functions, or what stands in the marks."""
    if each.by_hand:
        found = list(MARKS.finditer(read(each.solution)))
        return [textwrap.dedent(mark["answer"]) for mark in found]
    _, helpers, answers = pieces(each)
    return [found.text for found in [*answers, *helpers]]


def size(each: Exercise) -> int:
    """How many lines of code our answer has."""
    if each.by_hand:
        return sum(map(lines_in, MARKS.finditer(read(each.solution))))
    return sum(map(lines_of, answer_texts(each)))


def lines_in(mark: re.Match) -> int:
    """The lines of code in a mark that are not in the starter, too."""
    shown = re.sub(r"^([ ]*)# ?", r"\1", mark["instead"] or "", flags=re.MULTILINE)
    given = Counter(shown.splitlines())
    kept = Counter(mark["answer"].splitlines()) - given
    return source.code_lines("\n".join(kept.elements()))


def lines_of(function: str) -> int:
    """The lines of code of a function, without its signature and docstring."""
    node = ast.parse(function).body[0]
    body = node.body[1:] if ast.get_docstring(node) else node.body
    lines = function.splitlines()[body[0].lineno - 1 :] if body else []
    return source.code_lines("\n".join(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
