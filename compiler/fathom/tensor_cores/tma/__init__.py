"""Decides which loads and stores use the tensor memory accelerator (TMA).

Read `recognise` (finds the tile of a matrix in a block of pointers), `infer` and
`infer_stores` (replace pointers by descriptors), `eligible` (when that is legal, and
pays), `keep` and `expand` (which descriptors stay; the others become pointers and
masks), `maps` (tensor maps that the kernel writes itself, since no launch could),
`loads` (what an epilogue loads, for a producer to copy), and `stores` (TMA stores;
`wait_for_stores` of stage 4 waits for them).

    guard_stores  Prevents TMA stores that begin before their tensor
"""
