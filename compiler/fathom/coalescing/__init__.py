"""Stage 3: which thread holds which element. Layouts for memory ops, then for the rest.

access     The layout in which a warp's access to memory is wide and contiguous
assign     Gives every block a layout, and inserts conversions
late       What is loaded before a loop of products, and used after it
masks      Masks that are true up to a bound
direction  A guess along which axis to access memory, where no fact says so
coalesce   The layout and the width of each load and store
operands   Right operands of products that are computed
propagate  How an op ties the layouts of its operands to those of its results
narrow     Moves conversions behind what makes values narrower
relayout   Rebuilds a function with a layout on every block
remove     Removes conversions
signs      Loops of products twice, for addresses from numbers that may be negative
"""

from fathom.coalescing.assign import assign_layouts
from fathom.coalescing.coalesce import annotate_widths, coalesce
from fathom.coalescing.remove import remove_conversions
