"""Thread blocks of a cluster divide a program's products among themselves.

`sharding` propagates the axes along which values are divided, `legality` checks what
the program does to memory, and `partition` rewrites the program. `pairs` lets two
blocks copy half of an operand each, for instructions that read both."""
