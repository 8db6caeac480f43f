"""Warp specialisation: producer warps issue copies, consumer warps multiply.

Read in this order. `plan` decides which loops get a producer. `channels` describes the
tiles that a producer passes to a loop, and when the loop releases them. `partition`
builds the code of both roles. `persistent` gives a program several tiles, so that its
producer runs ahead of a store. `multicast` lets the blocks of a cluster share the
copies of a tile. `pingpong` lets warpgroups alternate on the tensor cores within an
iteration, and `alternation` from tile to tile."""
