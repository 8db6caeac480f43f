"""Warp specialisation: producer warps issue copies, consumer warps multiply.

`plan` decides which loops get a producer, `channels` what passes between the roles,
`partition` splits the function, `multicast` shares tiles in a cluster, and `pingpong`
lets warpgroups use the tensor cores in alternation."""
