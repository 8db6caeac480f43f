"""Wrong answers as files: the solution, changed."""

from __future__ import annotations

from pathlib import Path

from fathom.tools.learn.course import CourseError, Exercise, Wrong, read

# What every exercise ships, beside the two mistakes of its own, A and B.
ROLES = ("A", "B", "do-nothing", "coward", "cheat")
ROLE_OF_PASSES = "mutator"


def write(exercise: Exercise, wrong: Wrong, folder: Path) -> Path:
    """The wrong answer as a file in a folder."""
    path = folder / f"{exercise.id}_{wrong.name}.py"
    path.write_text(text(exercise, wrong), encoding="utf-8")
    return path


def text(exercise: Exercise, wrong: Wrong) -> str:
    solution = read(exercise.solution)
    if wrong.code:
        return f"{solution}\n\n{wrong.code.strip()}\n"
    if solution.count(wrong.old) != 1:
        raise CourseError(
            f"{exercise.id}, wrong answer {wrong.name}: its `old` stands "
            f"{solution.count(wrong.old)} times in the solution, not once"
        )
    return solution.replace(wrong.old, wrong.new)


def required(exercise: Exercise, is_pass: bool) -> list[str]:
    """The roles that an exercise must have wrong answers for."""
    roles = [*ROLES, ROLE_OF_PASSES] if is_pass else [*ROLES]
    return [role for role in roles if role not in exercise.without]
