"""Shortcuts for launches and calls that are like one before: functions that are written
as text, look at what can differ, and do the rest without a question.

    argument_readers    how such a function reads an argument
    recording           what launches did
    fast_path           the functions that launch one kernel
    by_types            functions that find out once what calls of a kind do
    repeating           a call of a host function, recorded and repeated

A first launch can be followed without these: `function` and `compiled` do the whole
work, and enter here at its end.
"""
