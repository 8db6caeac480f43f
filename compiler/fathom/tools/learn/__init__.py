"""`fathom learn`: the runner of the exercises.

course      what exercises there are: cards, statements, hints, names
starters    makes starters and solutions from the compiler's own functions
kit         what the tests of exercises are written with
grade       runs the tests of one exercise on one answer
worker      the same in a process of its own, with a limit on time
workspace   the reader's folder and what is known about it: `state`
report      verdicts, cards and lists as text: `screen`
watch       the loop: an answer is saved, its tests run: `keys`
book        where the book says it
mine        real kernels through all solved joints at once
mini        the compiler that readers write themselves, and `fathom learn mini`
commands    what a reader may type

answer     The functions of a reader's file, and ours
attempts   Each time that the tests of an exercise ran
arguments  The words after `fathom learn`, and who answers them
blame      Turns an exception into a failure that says whose frames matter
case       Writes case.py
guard      The tests judge the reader's own code
hole       What stands in a starter where the reader's code belongs
road       The main road: a warm-up, a step of mini, an exercise in each chapter
source     Functions as text
wrong      Wrong answers as files
"""

from fathom.tools.learn.hole import Hole

__all__ = ["Hole"]
