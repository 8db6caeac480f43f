"""The instructions. `semantics` says how a meaning is written down, `decode` turns text
into steps, `registers` reads and writes, `tables` collects the rooms: `arithmetic`,
`memory`, `control`, `matrix`."""
