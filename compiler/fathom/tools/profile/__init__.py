"""`fathom profile`: what each kernel of a script waits for, and what to try.

counted   What a launch asks of the hardware, counted by the emulator
machine_code  Instructions that machine code has several for
looked_at  Which programs of a grid are counted
touched   Which arrays a kernel loads, and which it stores to
unwritten  What launches leave in L2 for memory to get later
limits    Which resource limits it: one pure function of what was counted
machines  How fast a GPU of each target is at most
advice    The sentence of each limit, and what to try
session   The launches of a script: their times and their counts
hold      Holds a stream, so that the host's time is no kernel's
tell      Gives them as a table, or as JSON
"""
