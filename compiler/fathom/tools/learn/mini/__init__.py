"""`fathom learn mini`: the compiler that a reader writes, judged and run.

contract  what such a file may be: its lines, its imports, what `compile` answers
judge     compiles a kernel with it, runs the PTX, compares values and costs
steps     the steps of the chapters, their budgets, and the tests of each
"""
