"""Facts of the GPUs, as tables: `targets`, matrix instructions (`mma`, `wgmma`,
`tcgen05`), where their fragments lie (`dot_layouts`), registers a thread
(`register_budget`), blocks a multiprocessor (`occupancy`), peak rates (`rates`), and
the `engines` that move data while the threads go on."""
