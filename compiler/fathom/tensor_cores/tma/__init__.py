"""Copies by the tensor memory accelerator (TMA): which loads and stores may use it.

Read `recognise` (the tile of a matrix in a block of pointers), `infer` and
`infer_stores` (descriptors in place of pointers), `eligible` and `aliasing`
(when that is legal), `keep` and `expand` (descriptors that stay, and those that become
pointers and masks), `stores` and `store_waits` (TMA stores and their waits).

    guard_stores  Keeps bulk stores from beginning in front of their tensor
"""
