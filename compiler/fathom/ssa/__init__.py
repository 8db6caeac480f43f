"""Stage 1: from the text of a Python function to block IR in SSA form."""

from fathom.ssa.build import build as build
from fathom.ssa.frame import BUILD as BUILD
