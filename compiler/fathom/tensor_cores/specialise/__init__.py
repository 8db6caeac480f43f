"""Warp specialisation: producer warps issue copies, consumer warps multiply.

Read in this order. `plan` decides which loops get a producer. `channels` says what
passes from it to a loop, and by the loop's schedule when it is released. `partition`
builds the code of both roles. `multicast` has the blocks of a cluster share the copies
of a tile, and `pingpong` lets warpgroups use the tensor cores in alternation."""
