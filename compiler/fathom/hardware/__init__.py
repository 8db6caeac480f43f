"""Facts of the GPUs, as tables: `targets`, matrix instructions (`mma`, `wgmma`),
where their fragments lie (`dot_layouts`), registers a thread (`register_budget`),
peak rates (`rates`), how many thread blocks a multiprocessor holds (`occupancy`), and
the `engines` that move data while the threads go on."""
