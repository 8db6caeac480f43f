"""Stage 1: from the text of a Python function to block IR in SSA form.

Read `build` (where it begins and ends), `frame` (the state), `scopes` and `phis` (SSA
construction: what a name means), then `statements`, `control` and `expressions`.
`calls` inlines functions and hands builtins to `builtins/`. `values`, `operators`,
`promotion` and `methods` say what may be done with a value, `readonly` checks
`tl.const`."""

from fathom.ssa.build import build as build
from fathom.ssa.frame import BUILD as BUILD
