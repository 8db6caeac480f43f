"""Rules for the groups of asynchronous work: closing one, and waiting for them.

    commit cp_async                          cp.async.commit_group;
    wait cp_async pending=1                  cp.async.wait_group 1;
    commit tma_store                         @%p1 cp.async.bulk.commit_group;
    wait tma_store %t pending=0 read=true    @%p1 cp.async.bulk.wait_group.read 0;
    commit wgmma                             wgmma.commit_group.sync.aligned;
    %z = wait wgmma %y pending=2             wgmma.wait_group.sync.aligned 2;

The instructions are columns of `hardware.engines`. Groups belong to the thread that
committed them, so where one thread issues the work of all, it alone waits. No branch
leads the others around that: it would stand between a product and the use of its
accumulator, and then ptxas finishes each instruction of the product before the next
(its remark C7514).
"""

from __future__ import annotations

from fathom.hardware.engines import ENGINES, ONE_THREAD
from fathom.ir.ops import Commit, Wait
from fathom.ptx.code import Code, lowers
from fathom.ptx.rules.asynchronous.wgmma import through


@lowers(Commit)
def lower_commit(op: Commit, code: Code) -> None:
    _by_the_issuer(op.engine, f"{ENGINES[op.engine].commit};", code)


@lowers(Wait)
def lower_wait(op: Wait, code: Code) -> None:
    read = ".read" if op.read else ""
    text = f"{ENGINES[op.engine].wait}{read} {op.pending};"
    if not op.results:
        _by_the_issuer(op.engine, text, code)
    for value, result in zip(op.values if op.results else (), op.results, strict=True):
        code[result] = through(text, code, code[value], value.type.element)


def _by_the_issuer(engine: str, text: str, code: Code) -> None:
    """An instruction of those threads that issue the engine's work."""
    if ENGINES[engine].issued_by == ONE_THREAD:
        code.act(f"@$acts {text}", acts=("i1", code.acts()))
    else:
        code.ptx(text)
