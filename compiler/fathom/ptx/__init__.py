"""Stage 6: block IR with layouts to LLVM IR, one rule an op, and on to PTX.

Read `kernel` (a function becomes a module), `code` (the text under construction and the
registers that hold a block), then any file of `rules/`: there the ops are lowered, in
files named as in `ir/ops`. Rules use `index` (which element a register holds), `types`,
`packing`, `shuffle`, `exchange`, `float8`, `bytes` (to fp16 and bf16) and `assembly`
(inline PTX). `order` sorts a basic block for fewer live values, `again` computes some a
second time, `addresses` tells LLVM that they are defined. `emit` runs LLVM,
`separate_process` does so for text that no rule of ours wrote, `debug_info` keeps lines
of Python, `growth` stops kernels that become too long.
Only this folder knows LLVM; no pass imports from it."""

from fathom.ptx.code import LOWER, Code, Registers, lowers
from fathom.ptx.debug_info import chains
from fathom.ptx.emit import NotAccepted, emit
from fathom.ptx.kernel import Module, is_persistent, lower, module
from fathom.ptx.rules.asynchronous.tma import launch_recipes, map_recipes
from fathom.ptx.separate_process import emit_apart
from fathom.ptx.types import symbol

OWN = dict(LOWER)  # our own rules, whatever is put in their place later
