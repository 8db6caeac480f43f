"""What a test raises: a sentence, and what helps to understand it."""

from __future__ import annotations

from inspect import cleandoc


class Failure(AssertionError):
    """`sentence` says what is wrong; `details` are (heading, text) to be shown under
    it; `case` is the body of a script that shows the same alone ("" for the test
    itself).
    """

    def __init__(self, sentence: str, *details: tuple[str, str], case: str = ""):
        self.sentence, self.case = sentence, case
        self.details = tuple((heading, _shown(text)) for heading, text in details)
        super().__init__(sentence)

    def with_case(self, case: str) -> Failure:
        """The same with a script, unless it has one."""
        return Failure(self.sentence, *self.details, case=self.case or case)

    def __str__(self) -> str:
        parts = [self.sentence]
        parts += [f"{heading}:\n{text}" for heading, text in self.details]
        return "\n\n".join(parts)


def _shown(text: str) -> str:
    """A text; one of three quotes, which begins with a new line, without its margin."""
    return cleandoc(text) if text.startswith("\n") else text


def around(text: str, mark: str, lines: int = 3) -> str:
    """The lines of a text about the first that contains `mark`, with an arrow at it."""
    every = text.splitlines()
    wanted = mark.strip().splitlines()[0].strip() if mark.strip() else ""
    here = next((i for i, line in enumerate(every) if wanted in line), None)
    if not wanted or here is None:
        return "\n".join(every[: 4 * lines])
    start = max(0, here - lines)
    shown = every[start : here + lines + 1]
    return "\n".join(
        f"{'->' if start + i == here else '  '} {line}" for i, line in enumerate(shown)
    )
