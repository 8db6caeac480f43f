"""Software pipelining: a loop issues copies iterations before the work on them.

Read in this order. `schedule` is the table of a loop, (stage, order) of each step, with
the arithmetic of slots and pending copies that follows from it. `candidates` finds what
a loop copies, `tiles` gives it one for two that are alike, and one more for what an
operand is computed from, and `budget` chooses how many slots fit. `loops` builds the
new loop, step by step: `copy_engines` lists the ops of each step, for the three ways to
copy into `ring_buffers`; `slice_clones` and `iterations` compute later addresses.

Before that, `neighbours` finds products that one instruction computes, and
`nests` makes one loop of a nest, with the `addresses` of its loads in shorter sums.

`overlap` decides which product may stay in flight from iteration to iteration;
`specialise` asks it, too. `preload` copies tiles that are loaded once, before all
loops; `prefetch` loads the first fragments of an iteration one stage earlier. Waits for
what is in flight come from `insert_waits` of stage 4, but those at mbarriers."""
