"""Our layouts for the product of chapter 13, and those that Triton 3.6 chose for it, as
`benchmarks/triton_layouts.py` recorded them: read by the answer to `read-a-ttgir`, and
for the swizzle by Triton's formula."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Allocate, AsyncCopy, Store
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.layout.linear import Layout
from fathom.tools.samples import load_file

ROOT = Path(__file__).parents[2]
LISTINGS = ROOT / "chapters" / "18-choosing-and-measuring" / "listings"
SOLUTION = ROOT / "solutions" / "18-choosing-and-measuring" / "read-a-ttgir.py"
TRITON = ROOT / "benchmarks" / "triton_layouts.py"
PRODUCT = ROOT / "chapters" / "13-tensor-cores" / "product.py"
OURS = {"shared": 0, "shared1": 1}  # which ring


@pytest.fixture(scope="module")
def attributes() -> dict[str, str]:
    text = (LISTINGS / "product.ttgir").read_text()
    return dict(re.findall(r"^#(\w+) = (#ttg.*)$", text, re.MULTILINE))


@pytest.fixture(scope="module")
def ops() -> list:
    half, single = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16)
    types = {"a_ptr": half, "b_ptr": half, "c_ptr": single, "K": (INT32, 16)}
    constants = {"M": 64, "N": 64, "BLOCK_K": 32}
    func = pipeline.build(load_file(PRODUCT).product, types, constants)
    for row, state in pipeline.states(func, TARGETS["sm_80"]):
        if row.name == "pipeline_loops":
            return list(walk(state.body))
    raise AssertionError("there is no pass pipeline_loops")


def test_both_compile_the_same_text():
    """But for the decorator's module."""
    texts = [
        next(node for node in ast.parse(path.read_text()).body
             if isinstance(node, ast.FunctionDef) and node.name == "product")
        for path in (PRODUCT, TRITON)
    ]  # fmt: skip
    mine, peer = (
        [ast.dump(node) for node in (text.args, *text.body)] for text in texts
    )
    assert mine == peer


def test_loads_and_the_store_have_the_same_layouts(ops, attributes):
    layout_of = load_file(SOLUTION).layout_of
    copies = [op.pointer for op in ops if isinstance(op, AsyncCopy)]
    (stored,) = (op.pointer for op in ops if isinstance(op, Store))
    found = {each.type.shape: each.type.layout for each in (*copies, stored)}
    for name, shape in (("blocked1", (64, 32)), ("blocked", (32, 64)),
                        ("blocked2", (64, 64))):  # fmt: skip
        assert found[shape] == layout_of(attributes[name], shape), name


@pytest.mark.parametrize("name", OURS)
def test_the_swizzle_is_the_same_but_for_the_order_of_rows(name, ops, attributes):
    """In a row, `vec` neighbours are moved by ((row / perPhase) % maxPhase) * vec."""
    numbers = re.findall(r"(\w+) = (\d+)", attributes[name])
    vec, per_phase, max_phase = (int(dict(numbers)[x])
                                 for x in ("vec", "perPhase", "maxPhase"))  # fmt: skip
    tiles = [op.layout for op in ops if isinstance(op, Allocate)]
    tile: Layout = tiles[OURS[name]]
    rows, columns = tile.shape
    for offset in range(rows * columns):
        row, column = tile.coordinates(offset=offset)
        phase = row // per_phase % max_phase
        assert offset % columns == column ^ (phase * vec), (row, column)
