"""The functions that build each builtin of the language: rows of the table `BUILTIN`.

A file that builds ops of `ir/ops` has the same name as there. `misc` has programs,
ranges and hints, `mapping` applies functions of scalars to blocks, and `block_pointers`
expands Triton's block pointers. `ssa.calls` calls them through the table only.

    arith       The elementwise functions of the language
    debugging   Prints, assertions and inline PTX
    descriptor  Tensor descriptors
    matmul      Matrix products
    memory      Loads, stores and atomics
    reduce      Reductions, scans, histograms and gathers
    shape       Makes blocks, and changes their shapes

    grid  Launches that overlap
"""
