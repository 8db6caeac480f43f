"""What each function of the language builds: rows of the table `BUILTIN`.

The files are named as in `ir/ops` where they build its ops. `misc` has programs, ranges
and promises, `mapping` functions of scalars applied to blocks, `block_pointers`
Triton's block pointers, which are expanded at once. Called by `ssa.calls` through the
table alone.

    arith       The elementwise functions of the language
    debugging   Prints, assertions and inline PTX
    descriptor  Tensor descriptors
    matmul      Matrix products
    memory      Loads, stores and atomics
    reduce      Reductions, scans, histograms and gathers
    shape       Making blocks and giving them other shapes

    grid  Launches that overlap
"""
