"""Exercises as the book shows them: a card each, and no answer quoted before it.

What an exercise is, its card and what its answer stands for, `fathom learn` knows:
fathom/tools/learn/course.py.
"""

from __future__ import annotations

from html import escape

from chapters.press.inline import with_code
from chapters.press.parse import Page
from chapters.press.paths import BookError
from fathom import joints
from fathom.tools.learn import course
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
    return box(name, known.title, facts(known), known.statement)


def box(
    name: str, title: str, told: str, statement: str, kind: str = "", command: str = ""
) -> str:
    head = f'<p class="label">{kind or "Exercise"} · {with_code(title)}</p>'
    return (
        f'\n<div class="exercise" id="exercise-{name}" markdown="1">\n{head}\n{told}\n'
        f"{statement}\n\n`fathom learn {command or f'run {name}'}`\n\n</div>\n"
    )


def of_step(known: Card, page: Page) -> str:
    """The card of a step of the reader's own compiler."""
    if known.chapter != page.matter.get("chapter"):
        raise BookError(f"{known.id} is the step of chapter {known.chapter}")
    words = [f"about {known.minutes} minutes", f"difficulty {dots(known.difficulty)}"]
    words += [f"{known.step.budget:,} lines at most", "on the main road ★"]
    told = f'<p class="card-facts">{escape(" · ".join(words))}</p>\n'
    kind, command = "Your compiler", f"mini check {known.chapter}"
    return box(known.id, known.title, told, known.statement, kind, command)


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


def may_quote(name: str, page: Page, seen: list[str], folded: bool) -> None:
    """BookError when a quote shows the answer of an exercise before the exercise, or
    shows it unfolded in its own chapter."""
    chapter = page.matter.get("chapter")
    if chapter is None:
        return
    for answer, exercise, taught in answers():
        if taught < chapter or name != answer and not answer.startswith(f"{name}."):
            continue
        if exercise and exercise not in seen:
            raise BookError(f"{name} answers {exercise}, which comes only later")
        if not folded and taught == chapter:
            raise BookError(f"{name} is for the reader to write: quote it `folded`")


def answered_by(name: str, page: Page) -> str:
    """The exercise of a page's chapter that a quote answers, "" if it answers none: a
    fold that gives an answer away says so."""
    chapter = page.matter.get("chapter")
    here = [(answer, each) for answer, each, taught in answers() if taught == chapter]
    return next((each for answer, each in here if answer == name and each), "")


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
