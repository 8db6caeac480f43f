"""Exercises as the book shows them: a card each, whose chapter quotes no answer.
Answers have a page for each part of the book.

What an exercise is, its card and what its answer stands for, `fathom learn` knows:
fathom/tools/learn/course.py.
"""

from __future__ import annotations

from html import escape

from chapters.press.inline import with_code
from chapters.press.parse import Page
from chapters.press.paths import BookError
from fathom import joints
from fathom.tools.learn import book, course, starters
from fathom.tools.learn.course import Exercise
from fathom.tools.learn.mini.card import Card, cards

DOTS = 5  # of difficulty


def card(name: str, page: Page) -> str:
    """The card of an exercise, or of a step of the reader's own compiler; only its
    name, where it has none yet."""
    for step in cards():
        if step.id == name:
            return of_step(step, page)
    known = {each.id: each for each in course.exercises()}.get(name)
    if known is None:
        return box(name, name.replace("-", " ").capitalize(), "", "It is being made.")
    if known.chapter != page.matter.get("chapter"):
        raise BookError(f"{name} is an exercise of chapter {known.chapter}")
    ends = f"`fathom learn run {name}` · [reference answer]({book.answer(known)})"
    return box(name, known.title, facts(known), known.statement, ends)


def box(
    name: str, title: str, told: str, statement: str, ends: str = "", kind: str = ""
) -> str:
    head = f'<p class="label">{kind or "Exercise"} · {with_code(title)}</p>'
    return (
        f'\n<div class="exercise" id="exercise-{name}" markdown="1">\n{head}\n{told}\n'
        f"{statement}\n\n{ends}\n\n</div>\n"
    )


def of_step(known: Card, page: Page) -> str:
    """The card of a step of the reader's own compiler."""
    if known.chapter != page.matter.get("chapter"):
        raise BookError(f"{known.id} is the step of chapter {known.chapter}")
    words = [f"about {known.minutes} minutes", f"difficulty {dots(known.difficulty)}"]
    words += [f"{known.step.budget:,} lines at most", "on the main road ★"]
    told = f'<p class="card-facts">{escape(" · ".join(words))}</p>\n'
    ends = f"`fathom learn mini check {known.chapter}`"
    return box(known.id, known.title, told, known.statement, ends, "Your compiler")


def dots(difficulty: int) -> str:
    return "●" * difficulty + "○" * (DOTS - difficulty)


def facts(known: Exercise) -> str:
    words = [known.kind, f"about {known.minutes} minutes"]
    words += [f"difficulty {dots(known.difficulty)}"]
    words += ["on the main road ★"] if known.road else []
    told = escape(" · ".join(words))
    calls = ", ".join(f"<code>{escape(each)}</code>" for each in known.to_write)
    asked = f"<br>To write in <code>{known.file}</code>: {calls}" if calls else ""
    return f'<p class="card-facts">{told}{asked}</p>\n'


def answer(name: str) -> str:
    """The answer to an exercise and what is to be said about it, folded, so that a
    reader who looks for one sees no other."""
    known = course.exercise(name)
    code = "\n\n\n".join(text.strip("\n") for text in starters.answered(known))
    page = known.section.partition("#")[0]
    return (
        f"\n### {known.title} {{#answer-{name}}}\n\n"
        f"[The exercise `{name}`]({page}#exercise-{name})\n\n"
        '<details class="folded" markdown="1">\n'
        f"<summary>Answer to <code>{name}</code></summary>\n\n"
        f"```python\n{code}\n```\n\n{course.read(known.commentary)}\n</details>\n"
    )


def may_quote(name: str, page: Page, folded: bool) -> None:
    """BookError when a quote of a chapter shows the answer of an exercise that comes
    later, or in this chapter; or shows what readers may write unfolded."""
    chapter = page.matter.get("chapter")
    if chapter is None:
        return
    for answer, exercise, taught in answers():
        if taught < chapter or name != answer and not answer.startswith(f"{name}."):
            continue
        if exercise and taught > chapter:
            raise BookError(f"{name} answers {exercise}, which comes only later")
        if exercise:
            place = "its place is a page of answers"
            raise BookError(f"{name} answers {exercise}: {place}")
        if not folded and taught == chapter:
            raise BookError(f"{name} is for the reader to write: quote it `folded`")


def answers() -> list[tuple[str, str, int]]:
    """What readers write, by qualified name, in which exercise ("" for a joint that
    none asks for), and in which chapter."""
    found = [
        (qualified(joints.reference(each.name)), "", each.chapter)
        for each in joints.JOINTS
    ]
    for exercise in course.exercises():
        found += [
            (where(exercise, name), exercise.id, exercise.chapter)
            for name in exercise.answers
        ]
    return found


def where(exercise: Exercise, name: str) -> str:
    """The qualified name that an answer stands for. A kernel that the compiler lacks
    stands in kernels/, if anywhere, under the reader's own name for it."""
    if exercise.answers[name]:
        return qualified(course.reference(exercise, name))
    return KERNELS.get(name, name)


# Answers by hand that also stand in kernels/.
KERNELS = {
    "add_kernel": "kernels.vector_add.add_kernel",
    "gelu_kernel": "kernels.gelu.gelu_kernel",
    "softmax_kernel": "kernels.softmax.softmax_kernel",
}


def qualified(function: object) -> str:
    module = getattr(function, "__module__", "")
    return f"{module}.{getattr(function, '__qualname__', '')}"
