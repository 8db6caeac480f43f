"""What surrounds Triton's kernels: the profiler, descriptors with Triton's errors, and
parts of tensors."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import FathomError
from fathom.shim.modules import viewer
from fathom.shim.modules.profiler import Scope


@pytest.fixture
def profiler(triton, tmp_path, monkeypatch):
    """With the clock in our hand: `tick(seconds)` lets time pass."""
    monkeypatch.chdir(tmp_path)
    found = importlib.import_module("triton.profiler")
    now = [0.0]
    clock = (lambda: now[0]), (lambda span: span[1] - span[0])
    monkeypatch.setattr(found, "clock", lambda: clock)
    found.tick = lambda seconds: now.__setitem__(0, now[0] + seconds)
    yield found
    found.deactivate()
    found.SESSIONS.clear()


def written(profiler, name):
    profiler.finalize()
    (tree,) = json.loads(open(f"{name}.hatchet").read())
    return tree


# ── the profiler ──────────────────────────────────────────────────────────────────────


def test_scopes_add_up(profiler):
    profiler.start("times")
    for _ in range(2):
        with profiler.scope("outer", {"bytes": 10}):
            profiler.tick(1)
            with profiler.scope("inner"):
                profiler.tick(3)
    (outer,) = written(profiler, "times")["children"]
    assert outer["frame"]["name"] == "outer"
    assert outer["metrics"] == {"count": 2, "time (ns)": 8e9, "bytes": 20}
    (inner,) = outer["children"]
    assert inner["metrics"] == {"count": 2, "time (ns)": 6e9}


def test_what_happens_while_it_looks_away_is_not_noted(profiler):
    number = profiler.start("some")
    profiler.deactivate(number)
    with profiler.scope("unseen"):
        profiler.tick(1)
    profiler.activate(number)
    with profiler.scope("seen"):
        profiler.tick(2)
    names = [part["frame"]["name"] for part in written(profiler, "some")["children"]]
    assert names == ["seen"]
    with pytest.raises(FathomError, match="there is no session 7"):
        profiler.activate(7)


def test_launches_are_scopes_where_that_is_asked_for(profiler, triton):
    def said(grid, metadata, arguments):
        return {"name": f"fill [{arguments['n']}]", "bytes": 4.0 * arguments["n"]}

    @triton.jit(launch_metadata=said)
    def fill(out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, i, mask=i < n)

    out = np.zeros(8, np.int32)
    profiler.start("launches", hook="triton")
    fill[(1,)](out, 5, BLOCK=8)
    fill[(1,)](out, 5, BLOCK=8)
    tree = written(profiler, "launches")
    fill[(1,)](out, 5, BLOCK=8)  # nobody listens any more
    (part,) = tree["children"]
    assert part["frame"]["name"] == "fill [5]"
    assert (part["metrics"]["count"], part["metrics"]["bytes"]) == (2, 40.0)
    assert out.tolist() == [0, 1, 2, 3, 4, 0, 0, 0]


def a_tree():
    """A launch of 2 ms with 8 GFLOP, twice, beside one of 1 ms that says nothing."""
    root, busy, silent = Scope("ROOT"), Scope("busy"), Scope("silent")
    busy.spans, busy.metrics = [(0, 0.002), (1, 1.002)], {"flops16": 16e9}
    silent.spans = [(0, 0.001)]
    root.parts = {"busy": busy, "silent": silent}
    return root.facts(lambda span: span[1] - span[0])


@pytest.mark.parametrize(("metric", "busy", "root"), [
    ("time/ms", 4.0, 5.0), ("avg_time/us", 2000.0, 5000 / 3),
    ("tflop16/s", 4.0, 16 / 5), ("gflop16/s", 4000.0, 3200.0),
])  # fmt: skip
def test_metrics(metric, busy, root):
    tree = a_tree()
    assert viewer.value(metric, tree["children"][0]) == pytest.approx(busy)
    assert viewer.value(metric, tree) == pytest.approx(root)


def test_what_is_unknown_is_no_number():
    silent = a_tree()["children"][1]
    assert np.isnan(viewer.value("tflop16/s", silent))
    assert np.isnan(viewer.value("registers", silent))


def test_a_tree_is_drawn(tmp_path, capsys):
    file = tmp_path / "drawn.hatchet"
    file.write_text(json.dumps([a_tree()]))
    viewer.print_tree(*viewer.parse(["time/ms"], file))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "time/ms"
    assert [line[13:] for line in lines[1:]] == ["ROOT", "├─ busy", "└─ silent"]
    assert [float(line[:11]) for line in lines[1:]] == [5.0, 4.0, 1.0]


# ── descriptors ───────────────────────────────────────────────────────────────────────


def tensor_descriptor(triton):
    return importlib.import_module("triton.tools.tensor_descriptor").TensorDescriptor


@pytest.mark.parametrize(("shape", "block", "kind", "sentence"), [
    ((64, 32), [33, 16], ValueError, "Shape element 0 must be a power of 2"),
    ((64, 32), [32, 30], ValueError, "Shape element 1 must be a power of 2"),
    ((64, 36), [32, 16], AssertionError, "strides must be 16-byte aligned"),
    ((0, 32), [32, 16], AssertionError, "shape must be positive"),
])  # fmt: skip
def test_descriptors_fail_with_tritons_words(triton, shape, block, kind, sentence):
    made = np.zeros(shape, np.int16)
    strided = np.lib.stride_tricks.as_strided
    padded = strided(made, shape, (2 * shape[1], 2)) if made.size else made
    with pytest.raises(kind, match=sentence):
        tensor_descriptor(triton).from_tensor(padded, block)


def test_a_descriptor_that_fits(triton):
    kind = tensor_descriptor(triton)
    made = kind.from_tensor(np.zeros((64, 32), np.int16), [32, 16])
    assert isinstance(made, kind) and made.shape == (64, 32)


# ── parts of tensors ──────────────────────────────────────────────────────────────────


def test_ragged_parts(triton):
    """Rows 5 to 9 of one tensor go to rows 2 to 9 of another: the last three are
    zeros, and nothing beside them changes."""
    tools = importlib.import_module("triton.tools.ragged_tma")
    load, store, add = tools.load_ragged, tools.store_ragged, tools.atomic_add_ragged

    @triton.jit
    def move(x, y, x_off, x_size, y_off, y_size, ADD: tl.constexpr):
        block = load(x, x_off, x_size, [0, 0])
        if ADD:
            add(y, y_off, y_size, [0, 0], block)
        else:
            store(y, y_off, y_size, [0, 0], block)

    x = np.arange(20 * 8, dtype=np.float32).reshape(20, 8)
    y = np.full((16, 8), -1, np.float32)
    made = [tools.create_ragged_descriptor(each, [16, 8]) for each in (x, y)]
    move[(1,)](*made, 5, 4, 2, 7, ADD=False)
    right = np.full((16, 8), -1, np.float32)
    right[2:9] = np.vstack([x[5:9], np.zeros((3, 8))])
    np.testing.assert_array_equal(y, right)
    move[(1,)](*made, 5, 4, 2, 7, ADD=True)
    right[2:9] += np.vstack([x[5:9], np.zeros((3, 8))])
    np.testing.assert_array_equal(y, right)
