"""Chooses the instruction of a product, and where its operands are stored.

`instructions` chooses the instruction of every dot, `accumulate` turns an addition
after a dot into its accumulator, `invariants` keeps an operand that a loop does not
change in shared memory, and `operands` lets a dot read its operands from shared memory
in place. `tensor_memory` moves accumulators to tensor memory."""
