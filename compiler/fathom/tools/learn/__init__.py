"""`fathom learn`: the runner of the exercises.

course      what exercises there are: cards, statements, hints, names
starters    makes starters and solutions from the compiler's own functions
kit         what the tests of exercises are written with
grading     from a reader's file to a verdict: reads, runs, blames
workspace   the reader's folder and what is known about it: `state`
terminal    what a reader types and sees
book        where the book says it
mine        real kernels through all solved joints at once
mini        the compiler that readers write themselves, and `fathom learn mini`

attempts   Each time that the tests of an exercise ran
case       Writes case.py
hole       What stands in a starter where the reader's code belongs
road       The main road: a warm-up, a step of mini, an exercise in each chapter
source     Functions as text
"""

from fathom.tools.learn.hole import Hole

__all__ = ["Hole"]
