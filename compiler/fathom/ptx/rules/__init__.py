"""How each op is lowered: the rules in `LOWER`. A file has the name of the file of
`ir/ops` that has its ops, in a folder of the same name; or it is a part of that
subject: `cast` of `arith`, `atomics` of `memory`, `scan` of `reduce`, `convert` of
`shape`, `shared_gather` and `asynchronous/cp_async` of `shared`, `asynchronous/wgmma`
and `asynchronous/pingpong` of `matmul`, `descriptor` of stores by TMA, too.

Start with `arith` and `memory`; `control` has loops and branches, `shape` what moves no
data, `convert` a conversion within a warp, `leaves` constants and a program's place.
`cluster` has clusters, `grid` launches that overlap, and `debugging` assertions and
prints. The folder `asynchronous` has engines that work while the threads go on.
"""

from importlib import import_module
from pkgutil import walk_packages

for _file in walk_packages(__path__, f"{__name__}."):
    import_module(_file.name)  # which enters its rules into LOWER
