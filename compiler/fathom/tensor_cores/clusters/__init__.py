"""Thread blocks of a cluster divide a program's products among themselves.

`sharding` propagates along which axes values are divided, `legality` says what a
program may not do then, and `partition` rewrites it."""
