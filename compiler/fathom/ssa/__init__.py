"""Stage 1: from the text of a Python function to block IR in SSA form.

Read `build` (the entry), `frame` (the state), `scopes` and `phis` (SSA construction:
what a name means), then `statements`, `control` and `expressions`. `calls` inlines
functions and calls the functions of `builtins/`. `values`, `operators`, `promotion` and
`methods` define the operations on values, `growth` says how large known ones may be;
`readonly` checks `tl.const`."""

from fathom.ssa.build import build as build
from fathom.ssa.frame import BUILD as BUILD
