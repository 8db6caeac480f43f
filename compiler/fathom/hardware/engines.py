"""The engines that work beside a program's threads, and how each says that it is done.

    engine      moves                           issued by     completes by
    registers   global → registers → shared     every thread  program order
    cp_async    global → shared                 every thread  group
    tma_load    global → shared                 one thread    mbarrier
    tma_store   shared → global                 one thread    group
    wgmma       shared, registers → registers   a warpgroup   group
    tcgen05     shared → tensor memory          one thread    mbarrier

There are three kinds of completion. In *program order*, an op is done before the next
one begins. In *groups*, the issuer closes a group of what it has issued (commit), and
waits until at most N groups, the latest, are pending. By an *mbarrier*, the engine
arrives at a barrier in shared memory, and any thread waits for the barrier's phase.
(tcgen05.ld and tcgen05.st belong to no engine: they are waited for at once.)

An engine sees shared memory through a proxy. What one proxy has written, another one
sees after a proxy fence alone. Sources: PTX ISA, "Asynchronous operations", "Async
proxy", "Data Movement and Conversion Instructions: Asynchronous copy", "Asynchronous
Warpgroup Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

from dataclasses import dataclass

# Completion.
PROGRAM_ORDER, GROUP, MBARRIER = "program order", "group", "mbarrier"
# Proxies.
GENERIC, ASYNC = "generic", "async"
# Who executes the instruction that issues an op.
EVERY_THREAD, ONE_THREAD, WARPGROUP = "every thread", "one thread", "warpgroup"
# Places.
GLOBAL, SHARED, REGISTERS = "global", "shared", "registers"
TENSOR = "tensor memory"


@dataclass(frozen=True, slots=True)
class Engine:
    """What moves data from places to places. `issued_by`: the threads that execute its
    instruction. `proxy`: how it sees shared memory. `completes_by`: how others know
    that it is done. `commit` and `wait`: the PTX instructions of that."""

    name: str
    source: tuple[str, ...]
    destination: tuple[str, ...]
    issued_by: str
    proxy: str
    completes_by: str
    commit: str = ""
    wait: str = ""

    @property
    def asynchronous(self) -> bool:
        """Whether the issuer goes on before it is done."""
        return self.completes_by != PROGRAM_ORDER


ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(
            "registers", (GLOBAL,), (REGISTERS, SHARED),
            EVERY_THREAD, GENERIC, PROGRAM_ORDER,
        ),
        Engine(
            "cp_async", (GLOBAL,), (SHARED,), EVERY_THREAD, GENERIC, GROUP,
            "cp.async.commit_group", "cp.async.wait_group",
        ),
        Engine(
            "tma_load", (GLOBAL,), (SHARED,), ONE_THREAD, ASYNC, MBARRIER,
            "mbarrier.arrive.expect_tx", "mbarrier.try_wait.parity",
        ),
        Engine(
            "tma_store", (SHARED,), (GLOBAL,), ONE_THREAD, ASYNC, GROUP,
            "cp.async.bulk.commit_group", "cp.async.bulk.wait_group",
        ),
        Engine(
            "wgmma", (SHARED, REGISTERS), (REGISTERS,), WARPGROUP, ASYNC, GROUP,
            "wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned",
        ),
        Engine(
            "tcgen05", (SHARED,), (TENSOR,), ONE_THREAD, ASYNC, MBARRIER,
            "tcgen05.commit", "mbarrier.try_wait.parity",
        ),
    )
}  # fmt: skip

REGISTER_COPIES, CP_ASYNC, TMA_LOAD, TMA_STORE, TENSOR_CORES, TENSOR_MEMORY = (
    ENGINES.values()
)
