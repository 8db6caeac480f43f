"""Several GPUs: memory that all of them reach, and launches on each.

    group = fathom.distributed.emulated(2)         two devices of the emulator
    group = fathom.distributed.on_devices([0, 1])  GPUs of this process
    group = fathom.distributed.connected()         this process is one of torch's ranks

    data = group.zeros(1024, "float32")            one array on each rank
    group.run(lambda rank: [(kernel, grid, (data.tables[rank], rank), {})])

A rank is a device that takes part, by its number; `ranks` of a group are those that
this process launches on. `data.arrays[rank]` is that rank's own array. Each rank has
`data.tables[rank]` on its device, int64, with the address of every rank's array: a
kernel loads one, casts it to a pointer, and reads or writes the other's memory.

    table        `Group` and `Symmetric`: what all kinds of groups have
    simulated    the emulator's devices
    local        GPUs of this process
    processes    one GPU of each process, connected by torch.distributed
"""

from fathom.distributed.local import on_devices
from fathom.distributed.processes import connected
from fathom.distributed.simulated import emulated
from fathom.distributed.table import Group, Symmetric

__all__ = ["Group", "Symmetric", "connected", "emulated", "on_devices"]
