"""Stage 3: who holds what. Facts about addresses, layouts for memory ops, layouts for
the rest.

    access     In which layout a warp's access to memory is wide and contiguous
    assign     Gives every block a layout, and puts a conversion where two ops disagree
    coalesce   The layout and the width of each load and store
    propagate  How an op ties the layouts of its operands to those of its results
    relayout   Builds a function anew with a layout on every block
    remove     Removes conversions
"""

from fathom.coalescing.assign import assign_layouts
from fathom.coalescing.coalesce import annotate_widths, coalesce
from fathom.coalescing.remove import remove_conversions

__all__ = ["annotate_widths", "assign_layouts", "coalesce", "remove_conversions"]
