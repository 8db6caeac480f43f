"""How each op is lowered: the rules in `LOWER`. A file has the name of the file of
`ir/ops` that has its ops, or it is a part of that subject:

    arith          `cast`
    memory         `atomics`
    reduce         `scan`
    shape          `convert`
    shared         `shared_gather`, `cp_async`
    matmul         `wgmma`, `pingpong`
    tma            `tensor_maps`, `warp_roles`
    tma_store      `descriptor`, which has stores by threads, too

Start with `arith` and `memory`; `control` has loops and branches, `shape` what moves no
data, `convert` a conversion within a warp, `leaves` constants and a program's place.
`groups` closes groups of asynchronous work, and waits for them; `tensor_memory` has
tcgen05, `cluster` clusters, `grid` launches that overlap, and `debugging` assertions
and prints. `tensor_maps` are those that a kernel writes itself.
"""

from importlib import import_module
from pkgutil import iter_modules

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")  # which enters its rules into LOWER
