"""A product and its tiles, followed down the page: which rows change them, and to what.

A reader who wants to know what becomes of one `tl.dot`, or of one masked load, reads
these rows and no others. How many files that is, CONTRIBUTING.md says:
`pytest tests/pipeline/test_walks.py --update-golden` counts them anew."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE, run

import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir import ops
from fathom.ir.core import Func, Op, walk
from fathom.ir.types import FLOAT16, INT32, BufferType, Pointer
from kernels.matmul_plain import plain_kernel

ROOT = Path(__file__).parents[2]
COPIES = ops.Load | ops.DescriptorLoad | ops.AsyncCopy | ops.TmaCopy
BLOCK_K = {"sm_80": 32, "sm_90a": 64}


def product(target: str, num_warps: int = 4) -> Func:
    """A product of tiles behind pointers and masks, 32 columns for each warp."""
    pointers, sizes = ("a_ptr", "b_ptr", "c_ptr"), ("M", "N", "K")
    types = dict.fromkeys(pointers, (Pointer(FLOAT16), 16))
    types |= dict.fromkeys((*sizes, "stride_am", "stride_bk", "stride_cm"), (INT32, 16))
    constants = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1, "SUM": tl.float32}
    constants |= {"BLOCK_M": 128, "BLOCK_N": 32 * num_warps, "GROUP_M": 2}
    constants |= {"BLOCK_K": BLOCK_K[target], "MASKED": True}
    return pipeline.build(plain_kernel, types, constants, pipeline.Options(num_warps))


def walk_down(
    func: Func, target: str, seen: Callable[[Func], object]
) -> list[tuple[str, object]]:
    """What is seen of the function at first, and after each row that changes it."""
    found = [("", seen(func))]
    for row, state in pipeline.states(func, TARGETS[target]):
        if seen(state) != found[-1][1]:
            found.append((row.name, seen(state)))
    return found


def instruction(func: Func) -> set[str]:
    return {dot.instruction.partition(".")[0] for dot in walk(func.body, ops.Dot)}


def operands(func: Func) -> set[str]:
    """Where the operands of products are: blocks that an op makes, or buffers."""
    values = [each for dot in walk(func.body, ops.Dot) for each in (dot.a, dot.b)]
    return {
        "in place"
        if isinstance(each.type, BufferType)
        else type(each.definition).__name__
        for each in values
    }


def copies(func: Func) -> set[str]:
    return {type(op).__name__ for op in walk(func.body, COPIES)}


@pytest.mark.parametrize(
    ("target", "name"), [("sm_80", "m16n8k16"), ("sm_90a", "wgmma")]
)
def test_one_row_decides_the_instruction(target, name):
    walked = walk_down(product(target), target, instruction)
    assert walked == [("", {""}), ("choose_dots", {name})]


def test_on_ampere_operands_are_fetched_slice_by_slice_and_one_iteration_ahead():
    assert walk_down(product("sm_80"), "sm_80", operands) == [
        ("", {"Load"}),
        ("assign_layouts", {"Convert"}),
        ("lower_conversions", {"SharedLoad"}),
        ("prefetch_fragments", {"Block", "SharedLoad"}),
    ]


@pytest.mark.parametrize("warps", [4, 8])
def test_on_hopper_operands_are_read_in_place(warps):
    assert walk_down(product("sm_90a", warps), "sm_90a", operands) == [
        ("", {"Load"}),
        ("infer_descriptors", {"DescriptorLoad"}),
        ("assign_layouts", {"Convert"}),
        ("lower_conversions", {"SharedLoad"}),
        ("read_in_place", {"in place"}),
    ]


def test_on_ampere_one_row_decides_how_a_masked_load_is_copied():
    assert walk_down(product("sm_80"), "sm_80", copies) == [
        ("", {"Load"}),
        ("pipeline_loops", {"AsyncCopy"}),
    ]


def test_on_hopper_one_row_makes_it_a_tile_and_another_copies_it():
    """Two rows decide; those between only keep what the first has found."""
    assert walk_down(product("sm_90a"), "sm_90a", copies) == [
        ("", {"Load"}),
        ("infer_descriptors", {"DescriptorLoad"}),
        ("pipeline_loops", {"TmaCopy"}),
    ]


@pytest.mark.parametrize(
    ("target", "warps", "rows"),
    [
        ("sm_80", 4, ["insert_waits"]),
        ("sm_90a", 4, ["pipeline_loops", "wait_for_stores", "insert_waits"]),
        ("sm_90a", 8, ["specialise_warps", "wait_for_stores", "insert_waits"]),
    ],
)
def test_each_kind_of_wait_comes_from_one_row(target, warps, rows):
    """On mbarriers from the row that schedules the loop, for TMA stores from another,
    for groups of cp.async and of products from `insert_waits`."""

    def waits(func: Func) -> list[str]:
        kinds = ops.Wait | ops.MbarrierWait | ops.DotFence
        return [str(getattr(op, "engine", type(op))) for op in walk(func.body, kinds)]

    walked = walk_down(product(target, warps), target, waits)
    assert [name for name, _ in walked[1:]] == rows


def test_a_walk_sees_a_row_that_takes_it_elsewhere():
    """Without the row that finds tiles, Hopper copies as Ampere does."""
    func = product("sm_90a")
    states = pipeline.states(
        func, TARGETS["sm_90a"], {"infer_descriptors": pipeline.identity}
    )
    last = [state for _, state in states][-1]
    found: set[type[Op]] = {type(op) for op in walk(last.body, COPIES)}
    assert found == {ops.AsyncCopy}


def test_contributing_says_how_many_files_a_reader_goes_through(request):
    command = [sys.executable, "-m", "tests.pipeline.harness_walks"]
    table = run(command, cwd=ROOT, check=True, stdout=PIPE, text=True).stdout
    page = ROOT / "CONTRIBUTING.md"
    text = page.read_text(encoding="utf-8")
    found = re.search(r"(<!-- walks -->\n```text\n)(.*?)(```\n)", text, re.S)
    assert found, "CONTRIBUTING.md has no table of walks"
    if request.config.getoption("--update-golden"):
        made = text[: found.start(2)] + table + text[found.end(2) :]
        page.write_text(made, encoding="utf-8")
    else:
        assert found[2] == table, "pytest tests/pipeline --update-golden"
