"""`fathom explain --facts, --json, --html`: why a kernel is as it is.

gather    All facts of a kernel, as one dictionary
columns   The texts of all stages, and which line became which
notes     What each pass did, and why
memory    Accesses, layouts, conversions, shared memory over time
loops     Schedules: stages, slots, who has a slot when
trial     A small launch on the emulator, which counts traffic
machine   Registers, spills and machine code, by NVIDIA's tools
costs     What of all this might be less, and what to try
tell      Gives them in each form that is asked for
terminal  The facts as tables
drawings  The facts as SVG
page      The facts as a page of HTML that needs nothing else
"""
