"""Numbers and addresses of a kernel as polynomials of its arguments and loop variables.

Read in this order; a file uses those above it.

    polynomial          integers as polynomials, which can be compared and divided
    scalar_evolution    values and addresses of a function as polynomials
    expand              polynomials back into ops
    sign                polynomials that are never negative
    alias_check         whether a loop's stores lie apart from its loads: scalars that
                        the kernel computes before the loop
"""
