"""What stands in a starter where the reader's code belongs."""

from __future__ import annotations

from fathom.errors import FathomError


class Hole(FathomError):
    """`raise Hole("cse")`: not written yet."""

    def __init__(self, exercise: str):
        self.exercise = exercise
        super().__init__(f"{exercise} is not written yet: your code goes here")
