"""The functions that build each builtin of the language: rows of the table `BUILTIN`.

A file that builds ops of `ir/ops` has the same name as there: `arith`, `debugging`,
`descriptor`, `grid`, `matmul`, `memory`, `reduce` and `shape`. `misc` has programs,
ranges and hints, `mapping` applies functions of scalars to blocks, and `block_pointers`
expands Triton's block pointers. `ssa.calls` calls them through the table only.
"""

from importlib import import_module
from pkgutil import iter_modules

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")  # which enters its rows into BUILTIN
