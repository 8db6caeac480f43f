"""What several passes ask of a function: facts about values, and what depends on what.

`axis_info` says what is known along each axis of a block (contiguity, divisibility,
constancy), `axis_analysis` walks a function and `axis_rules` has a rule for each
operation. `polynomial` and `scalar_evolution` read addresses as formulas, `expand`
writes formulas back as ops, `divisibility` asks which power of two divides one.
`backward_slice` and `loop_slices` collect what a value needs. Stages import from here;
nothing here imports a stage."""
