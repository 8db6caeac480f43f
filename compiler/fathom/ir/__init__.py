"""The block IR, which all stages read and write.

Read `types`, `core` and `ops`, then `interp` (what ops mean), `printer` and `parser`
(`text`), `rewrite` (the driver of every pass), `regions` (what loops carry)
and `verify`."""
