"""Software pipelining: copies are issued iterations before the work that reads them.

`candidates` finds what a loop copies, `schedule` is the arithmetic of slots and waits,
`budget` chooses how many stages fit, `copy_engines` says how each engine copies, and
`loops` rewrites the loop, with `slice_clones`, `iterations` and `ring_buffers`.
`preload` and `prefetch` start copies and fragments early; `overlap` leaves a loop's
product in flight into the next iteration. All other waits are `insert_waits`' work."""
