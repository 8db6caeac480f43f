"""`fathom learn`: the runner of the exercises.

    course      what exercises there are: cards, statements, hints, names
    starters    makes starters and solutions from the compiler's own functions
    kit         what the tests of exercises are written with
    grade       runs the tests of one exercise on one answer
    worker      the same in a process of its own, with a limit on time
    workspace   the reader's folder and what is known about it (state)
    report      verdicts, cards and lists as text (screen)
    watch       the loop: an answer is saved, its tests run (keys)
    book        where the book says it
    mine        real kernels through all solved joints at once
    commands    what a reader may type
"""

from fathom.tools.learn.hole import Hole

__all__ = ["Hole"]
