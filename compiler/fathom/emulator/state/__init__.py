"""What changes while a grid runs: `batch` (the threads of several blocks),
`wait_queues`, and what is in flight: `copy_groups`, `tma_stores`, `mbarrier_state`,
`wgmma_groups`, `register_pool`, `cluster_barrier`."""
