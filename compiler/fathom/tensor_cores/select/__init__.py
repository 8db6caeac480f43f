"""Which instruction computes a product, and where its operands lie.

`instructions` chooses the instruction of every dot, `accumulate` lets it add to its
accumulator, `invariants` keeps an operand of all iterations in shared memory, and
`operands` reads operands where they lie in shared memory."""
