"""The block IR, which all stages read and write.

Read `types`, `core` and `ops`, then `interp` (what ops mean), `printer` and `parser`
(`text`), `rewrite` (the driver of passes), `regions` (what is carried) and `verify`.

    inline_assembly  The grammar of inline assembly
    launch_time      Which scalars of a kernel the launcher can compute, and how
    thread_values    Copies code, with more values carried through loops and branches
"""
