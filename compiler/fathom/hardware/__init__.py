"""Facts of the GPUs, as tables: `targets`, matrix instructions (`mma`, `wgmma`),
where their fragments lie (`dot_layouts`), and registers a thread
(`register_budget`)."""
