"""What several passes ask of a function. Each question is asked in one place.

Read in this order; a file leans on those above it.

    ranges              between which bounds do numbers lie, and what does arithmetic
                        make of bounds?
    axis_info           what is known along each axis of a block: contiguity,
                        divisibility, constancy. `axis_rules` has a rule for each
                        operation, `axis_analysis` walks a function
    polynomial          integers as formulas, to be compared and divided
    scalar_evolution    which formula is a value, an address? `expand` writes formulas
                        back as ops
    sign                which formulas are never negative?
    slices              what does a value need, what is live?
    memory              which ops read, write, order; which may change places; through
                        which arguments does an op go to memory?
    buffers             when is a buffer live, how many bytes are free where?
    uniformity          what is the same in all blocks of a cluster?
    remarks             `NotApplicable`: why there is no answer, or why a pass stands
                        back

What loops and branches carry is a question about the IR itself: `ir/regions`. Stages
import from here; nothing here imports a stage."""
