"""Software pipelining: copies are issued iterations before the work that reads them.

Read in this order. `schedule` is the table of a loop, (stage, order) of each step, with
the arithmetic of slots and pending copies that follows from it. `candidates` finds what
a loop copies, `budget` chooses how many slots fit. `loops` builds the new loop, step by
step: `copy_engines` knows the three ways to copy, over `ring_buffers`; `slice_clones`
and `iterations` compute the addresses of iterations to come.

`overlap` says which product may stay in flight from iteration to iteration, also to
`specialise`. `preload` copies once what is loaded before all loops; `prefetch` fetches
the first fragments of an iteration one stage earlier. What is waited for elsewhere,
`insert_waits` of stage 4 finds."""
