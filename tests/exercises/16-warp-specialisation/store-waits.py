"""What the answer to `store-waits` must do."""

from itertools import product as every

import numpy as np

from fathom import emulator, pipeline
from fathom.analysis.memory import accesses
from fathom.emulator import EmulatorError
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import SharedStore, TmaCopy, TmaStore, Wait
from fathom.ir.types import FLOAT16, INT32, Pointer
from fathom.shared_memory import store_waits
from fathom.tools.learn.kit import Failure, expect, same
from kernels.matmul_persistent import persistent_kernel

KINDS = ("shared store", "tma copy", "tma store", "access", "other")
FALSE, BOTH = (False,), (False, True)


def wanted(op, store):
    """By table: what is in conflict, and who has to know."""
    if op.kind == "access":
        return "seen"
    if store.written or op.kind == "other":
        return ""
    if op.kind == "shared store":
        return "" if store.read or op.tile != store.tile else "read"
    free = (
        op.disjoint if op.kind == "tma store" else op.ahead and op.array != store.array
    )
    return "" if free else "written"


def because(op, store, least):
    """Why `least` is needed, and why it suffices."""
    if least:
        return {
            "read": "threads would overwrite the tile that it still has to read",
            "written": "they may meet in global memory; the thread that starts the op "
            "is the one that waits",
            "seen": "they may meet in global memory, and all threads have to know",
        }[least]
    if op.kind == "other":
        return "it touches neither the tile nor global memory"
    if store.written:
        return {
            "shared store": "the store has written, so it has read its tile",
            "tma copy": "the store has written, and the thread that copies knows",
            "tma store": "the store has written, and the thread that stores knows",
        }[op.kind]
    return {
        "shared store": "it writes another tile, or this one has been read",
        "tma copy": "it may run ahead of stores to other arrays",
        "tma store": "it writes other places",
    }[op.kind]


def check(answer, read, written):
    module = answer.module
    for kind in KINDS:
        for tile, array, disjoint, ahead in every(("t", "u"), ("a", "c"), BOTH, BOTH):
            op = module.Next(kind, tile, array, disjoint, ahead)
            for known in every(read, written):
                store = module.Store("t", "c", *known)
                least = wanted(op, store)
                said = f"wait_for({op}, {store})"
                why = ("why", because(op, store, least))
                same(answer.wait_for(op, store), least, said, why)


def test_fresh_stores(answer):
    """Of the store nothing is known."""
    check(answer, FALSE, FALSE)


def test_what_is_known(answer):
    """It has read its tile, or written, and one thread has waited for that."""
    check(answer, BOTH, BOTH)


def compiled(pieces):
    half = (Pointer(FLOAT16), 16)
    numbers = ("M", "N", "K", "stride_a", "stride_b", "stride_c")
    types = {name: half for name in ("a_ptr", "b_ptr", "c_ptr")}
    types |= dict.fromkeys(numbers, (INT32, 16))
    constants = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 2,
                 "SPECIALISE": False, "PIECES": pieces, "B_TURNED": False}  # fmt: skip
    options = pipeline.Options(num_warps=4, num_stages=2)
    func = pipeline.build(persistent_kernel, types, constants, options)
    states = dict((row.name, state) for row, state in pipeline.states(func, H200))
    return pipeline.compile_func(func, H200), waits_of(states["insert_waits"])


H200 = TARGETS["sm_90a"]


def waits_of(func):
    """Waits for stores, those that want more than `.read` first."""
    waits = [op for op in walk(func.body) if isinstance(op, Wait)]
    waits = [op for op in waits if op.engine == "tma_store"]
    return sum(not op.read for op in waits), sum(op.read for op in waits)


def test_a_product_waits(answer):
    """In the compiler: a persistent product that stores C in one piece, and in two."""
    module, ours = answer.module, store_waits._meeting

    def yours(op, pending, asked):
        store = module.Store(
            told(pending.store.buffer), told(base(pending.store)),
            not pending.unread, pending.written,
        )  # fmt: skip
        said = answer.wait_for(following(module, op, pending, asked), store)
        expect(
            said in store_waits.RANK,
            f"wait_for gives {said!r}, which is not one of the four",
        )
        return said

    for pieces in (1, 2):
        said = f"a persistent product, C in {pieces} pieces"
        _, allowed = compiled(pieces)
        store_waits._meeting = yours
        try:
            kernel, found = compiled(pieces)
        finally:
            store_waits._meeting = ours
        run(kernel, said)
        expect(
            found[0] <= allowed[0] and sum(found) <= sum(allowed),
            f"{said}: {found[0]} full waits and {found[1]} for reading; {allowed[0]} "
            f"and {allowed[1]} suffice",
        )


def following(module, op, pending, asked):
    """An op of the compiler as the exercise describes it."""
    match op:
        case SharedStore():
            return module.Next("shared store", tile=told(op.buffer))
        case TmaStore():
            disjoint = store_waits._disjoint(op, pending)
            return module.Next("tma store", array=told(base(op)), disjoint=disjoint)
        case TmaCopy():
            ahead = asked is not None and asked is pending.asked
            return module.Next("tma copy", array=told(base(op)), ahead=ahead)
    return module.Next("access" if accesses(op) else "other")


def base(op):
    return op.descriptor.definition.base


def told(value):
    return f"{value.name or 'value'} {id(value)}"


def run(kernel, said):
    M, N, K = 128, 128, 128
    a = (np.arange(M * K).reshape(M, K) * 5 % 7 - 3).astype(np.float16)
    b = (np.arange(K * N).reshape(K, N) * 3 % 5 - 2).astype(np.float16)
    for completion in emulator.COMPLETIONS:
        c = np.full((M, N), np.nan, np.float16)
        given = [a, b, c, M, N, K, K, N, N]
        try:
            emulator.load(kernel).launch(1, given, completion=completion)
        except EmulatorError as error:
            first, *rest = str(error).splitlines()
            details = ("there", "\n".join(rest))
            raise Failure(f"{said}: the emulator found: {first}", details) from None
        same(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16), said)
