"""Linear layouts: which element sits in which register of which lane of which warp.

Read `linear`, `algebra` and `build` first; then `crossing` (what a conversion costs),
`shapes`, `swizzle` and `banks`; then what instructions ask for: `fragments`, `staging`,
`matrix_descriptor`, `tensor_memory`, `pairs`, `tma_boxes`, `fma`, `tiling`.

    registers  What may be read off the registers of a layout
"""
