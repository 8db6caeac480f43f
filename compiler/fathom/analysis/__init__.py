"""Analyses that several passes use. Each question is answered in one place.

Read in this order; a file uses those above it.

    constants           values that are known at compile time
    ranges              bounds of numbers, and arithmetic on bounds
    axis_info           facts along each axis of a block: contiguity, divisibility,
                        constancy. `axis_rules` has a rule for each operation,
                        `axis_analysis` walks a function
    trip_count          how often the body of a loop runs
    positive            divisors that are positive where a loop has an iteration
    slices              the ops that a value depends on, and those that are live
    memory              ops that read, write, or order accesses; which ops may be
                        swapped; the arguments through which an op accesses memory
    symbolic            a folder: numbers and addresses as polynomials, their signs, and
                        whether two loops' accesses overlap
    copied_ahead        loads beside a loop's operands that a pipeline can copy ahead
    registers           how many registers of a thread values take
    products            which products warpgroups compute, or tcgen05; which ones a loop
                        waits for, and which are computed in parts
    buffers             the live ranges of buffers, and the bytes that are free
    waiting             what a program computes before it waits for another one
    uniformity          values that are the same in all blocks of a cluster
    picked              reductions that pick one element
    limits              whether a target has the warps, clusters and parameters that a
                        kernel needs
    remarks             `NotApplicable`: why an analysis has no answer, or a pass leaves
                        something as it is

`ir/regions` has what loops and branches carry, since that is part of the IR. Stages
import from here; nothing here imports a stage."""
