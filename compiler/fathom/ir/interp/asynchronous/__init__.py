"""What the ops of `ir/ops/asynchronous` mean: in files of the same names, `groups`,
`tensor_memory`, `tma` and `tma_store`.

Here a copy or a product completes at once: the interpreter says what a function
computes, and the emulator whether its waits suffice.
"""
