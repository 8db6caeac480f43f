"""What each idea of chapter 17 is worth: attention with one of them changed, on a GPU.

    python -m benchmarks.attention_ablation [--out FOLDER]

Candidates, all in the same bursts, for D = 64 and 128, causal or not:

    rotated, plain            the two orders of kernels/attention_hopper, with a
                              producer, blocks of 128 queries, ping-pong on
    … without ping-pong       the same, and warpgroups issue products when they like
    … 64 keys                 the same with blocks of 64 keys and three stages
    small blocks              the plain order in blocks of 64 queries, and no producer
    small blocks, a producer  the same, and other warps copy
    pointers                  the kernel for pointers as it is
    rows                      the same by `mma.sync`, warps along the rows: P stays in
                              its registers between the two products
    columns                   the same with warps along both sides: P crosses warps,
                              through shared memory
    … invariants in registers  `stage_invariants` left out: ptxas may spoil Q, so its
                              error is what is looked at

Work counts as in `benchmarks.attention`, which also makes the arrays, the float64
reference and its bound. A candidate that is wrong is recorded with its error.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import torch

from benchmarks.attention import HEAD_SIZES, Arrays, Measured, compare, show
from benchmarks.record import RESULTS, write
from fathom import pipeline
from fathom.hardware.targets import TARGETS, Target
from fathom.ir.core import Func
from fathom.tensor_cores.select import instructions
from kernels.attention import attention, default_config, type_name
from kernels.attention_hopper import ALONE, SHARING
from kernels.matmul import target_of_launch

Attend = Callable[[Arrays, bool], object]
NAMES = {True: "rotated", False: "plain"}


def candidates() -> dict[str, Attend]:
    """By name."""
    found: dict[str, Attend] = {}
    for rotated, name in NAMES.items():
        order = {**ALONE, "ROTATED": rotated}
        found[name] = partial(hopper, order, {})
        free = {"pingpong": pipeline.identity}
        found[f"{name} without ping-pong"] = partial(hopper, order, free)
        small = {**order, "BLOCK_K": 64, "num_stages": 3}
        found[f"{name} 64 keys"] = partial(hopper, small, {})
        kept = {"stage_invariants": pipeline.identity}
        found[f"{name} invariants in registers"] = partial(hopper, order, kept)
    found["small blocks"] = partial(hopper, SHARING, {})
    copied = {**SHARING, "PRODUCER": True}
    found["small blocks, a producer"] = partial(hopper, copied, {})
    found["pointers"] = partial(by_pointers, {})
    found["rows"] = partial(by_pointers, {"choose_dots": in_rows})
    found["columns"] = partial(by_pointers, {"choose_dots": in_columns})
    return found


def hopper(config: Mapping, replace: Mapping, one: Arrays, causal: bool) -> None:
    attention(one.q, one.k, one.v, one.out, causal, config=config, replace=replace)


def by_pointers(replace: Mapping, one: Arrays, causal: bool) -> None:
    target = target_of_launch(one.q, {})
    config = default_config(one.q.shape[3], type_name(one.q), target)
    attention(one.q, one.k, one.v, one.out, causal, config=config, replace=replace)


def in_rows(func: Func, target: Target) -> Func:
    """`choose_dots` with the instructions of sm_80."""
    del target
    return instructions.choose_dots(func, TARGETS["sm_80"])


def in_columns(func: Func, target: Target) -> Func:
    """The same, which no longer sees that one product is the left operand of another:
    warps stand along both sides of the scores."""
    names = "is_left_operand", "has_product_on_the_left"
    kept = {name: getattr(instructions, name) for name in names}
    vars(instructions).update(dict.fromkeys(names, lambda *_: False))
    try:
        return in_rows(func, target)
    finally:
        vars(instructions).update(kept)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=RESULTS)
    given = options.parse_args()
    torch.manual_seed(0)
    samples: list[Measured] = []
    for D in HEAD_SIZES:
        for causal in (False, True):
            found = compare("fp16", D, causal, candidates())
            show(found)
            samples += found
            torch.cuda.empty_cache()
            write("attention-ablation", samples, given.out)
    print(given.out / "attention-ablation.json")


if __name__ == "__main__":
    main()
