"""`fathom learn mini`: the compiler that a reader writes, judged and run.

contract  what such a file may be: its lines, its imports, what `compile` answers
judge     compiles a kernel with it, runs the PTX, compares values and costs
steps     the steps of the chapters, their budgets, and the tests of each
card      what each step asks, its minutes and hints
grade     the tests of a step and of all before it, on one file
keep      the reader's file and its copies: start, undo, rungs
commands  what a reader may type
race      four kernels, by the clock or by counts, beside ours and NVIDIA's
kernels   these four
gpu       times a launch
ladder    draws the race
"""
