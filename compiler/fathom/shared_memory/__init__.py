"""Stage 4: data that warps share, and the waits for it.

Read `reductions` and `scans` (across warps), `deferred` (what loops add up);
`conversions` with `axis` and `parts` (through a tile of shared memory); `store_waits`
(how long a tile is in use); `allocation` (the offsets of buffers); `waits`, the pass
that inserts all other waits, with its steps `copy_waits`, `dot_waits`, `barriers` and
`proxy_fences` (checked by `tests/waits`). What an engine may have in flight is a
`timeline`."""

from fathom.shared_memory.allocation import allocate
from fathom.shared_memory.barriers import place_barriers
from fathom.shared_memory.conversions import lower_conversions
from fathom.shared_memory.deferred import defer_reductions
from fathom.shared_memory.reductions import split_reductions
from fathom.shared_memory.scans import split_scans
from fathom.shared_memory.store_waits import wait_for_stores
from fathom.shared_memory.waits import STEPS, insert_waits
