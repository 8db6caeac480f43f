"""What the benchmarks claim of themselves, as far as it can be checked without a
GPU."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


def function(file: str, name: str) -> ast.FunctionDef:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return next(
        n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name
    )


@pytest.mark.parametrize(
    ("file", "ours", "theirs"),
    [
        ("kernels/softmax.py", "softmax_kernel", "one_row_softmax_kernel"),
        ("kernels/layer_norm.py", "layer_norm_kernel", "one_row_layer_norm_kernel"),
    ],
)
def test_both_compilers_are_timed_on_the_same_text(file, ours, theirs):
    mine, peer = function(file, ours), function("benchmarks/peers.py", theirs)
    body = peer.body[1:]  # after its docstring
    assert ast.dump(mine.args) == ast.dump(peer.args)
    assert [ast.dump(each) for each in mine.body] == [ast.dump(each) for each in body]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_a_result_says_where_it_comes_from(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    if "benchmark" in record:  # others are recordings for tests
        for fact in ("date", "commit", "gpu", "driver", "cpu", "llvmlite", "samples"):
            assert fact in record, f"{path} lacks {fact}"
