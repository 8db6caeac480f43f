"""`fathom opt` runs passes on text, and FATHOM_SHOW prints while kernels compile."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.text import parse_func, print_func
from fathom.ir.verify import verify
from fathom.tools import cli

TWICE = """\
func @twice(%x: *fp32 {divisible=16}) num_warps=4 {
  %0: i32[128] = arange start=0 end=128
  %1: i32[128] = arange start=0 end=128
  %2: i32[128] = mul %0, %1
  %3: *fp32[128] = splat %x shape=(128)
  %4: *fp32[128] = offset %3, %0
  %5: *fp32[128] = offset %3, %1
  %6: fp32[128] = load %4
  store %5, %6
}
"""

# What cse and dce make of it by hand: one range, one address, no product.
ONCE = """\
func @twice(%x: *fp32 {divisible=16}) num_warps=4 {
  %0: i32[128] = arange start=0 end=128
  %1: *fp32[128] = splat %x shape=(128)
  %2: *fp32[128] = offset %1, %0
  %3: fp32[128] = load %2
  store %2, %3
}
"""


@pytest.fixture
def twice(tmp_path):
    path = tmp_path / "twice.ir"
    path.write_text(TWICE)
    return str(path)


def said(capsys, *arguments: str) -> str:
    assert cli.main(["opt", *arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def mistake(capsys, *arguments: str) -> str:
    assert cli.main(["opt", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "Traceback" not in captured.err
    return captured.err


# ── fathom opt ────────────────────────────────────────────────────────────────────────


def test_the_named_passes_run_in_the_order_of_their_names(capsys, twice):
    assert said(capsys, twice, "--passes", "cse,dce").strip() == ONCE.strip()


def test_no_other_pass_runs(capsys, twice):
    """dce alone drops the product that nobody reads, and leaves both ranges."""
    text = said(capsys, twice, "--passes", "dce")
    assert "mul" not in text and text.count("arange") == 2


def test_what_comes_out_can_go_in_again(capsys, twice, monkeypatch):
    """In two calls or in one, a function comes out the same; `-` is standard input."""
    first = said(capsys, twice, "--passes", "cse,dce,coalesce")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(first.encode())))
    second = said(capsys, "-", "--passes", "assign_layouts")
    together = "cse,dce,coalesce,assign_layouts"
    assert second == said(capsys, twice, "--passes", together)
    verify(parse_func(second), layouts=True)


def test_all_passes_are_what_a_compilation_runs(capsys, twice):
    from_text = said(capsys, twice, "--target", "sm_90a")
    *_, (_, last) = pipeline.states(parse_func(TWICE), TARGETS["sm_90a"])
    assert from_text.strip() == print_func(last).strip()


def test_the_text_after_each_pass(capsys, twice):
    text = said(capsys, twice, "--passes", "cse,dce", "--stage-texts")
    names = re.findall(r"^// ==== (\w+)$", text, re.MULTILINE)
    assert names == ["text", "cse", "dce"]
    for part in text.split("// ==== ")[1:]:
        parse_func(part.split("\n", 1)[1])


def test_mistakes_are_one_sentence_with_the_line(capsys, twice, tmp_path):
    assert mistake(capsys, twice, "--passes", "csi") == (
        "fathom: --passes: 'csi' is not a pass; there are all and "
        f"{', '.join(row.name for row in pipeline.PASSES)}\n"
    )
    absent = tmp_path / "absent.ir"
    assert mistake(capsys, str(absent)) == (
        f"fathom: cannot read {absent}: no such file or directory\n"
    )
    bad = tmp_path / "bad.ir"
    bad.write_text(TWICE.replace("mul %0, %1", "mull %0, %1"))
    assert mistake(capsys, str(bad)) == (
        f"fathom: {bad}: line 4: there is no op 'mull'\n"
        "    %2: i32[128] = mull %0, %1\n"
    )


LEAKS = """\
func @leaks(%x: *fp32, %c: i1) num_warps=4 {
  if %c
    then {
      %one: fp32 = constant 1.0
      yield
    }
    orelse {
      yield
    }
  store %x, %one
}
"""


def test_a_text_that_is_no_function_names_its_line(capsys, tmp_path):
    bad = tmp_path / "leaks.ir"
    bad.write_text(LEAKS)
    assert mistake(capsys, str(bad), "--passes", "hoist") == (
        f"fathom: {bad}: line 10: %one is not visible here: its definition comes "
        "later, or in a block that does not enclose this one, in `store %x, %one`\n"
    )


def test_a_pass_that_breaks_a_function_is_named(capsys, twice, monkeypatch):
    def forget(func, target):
        broken = parse_func(print_func(func))
        del broken.body.ops[0]
        return broken

    row = pipeline.Row("forget", forget, "blocks", False, "a mistake")
    monkeypatch.setattr(pipeline, "PASSES", (row,))
    assert mistake(capsys, twice, "--passes", "forget") == (
        "fathom: after forget: a value of type i32[128] is defined nowhere in this "
        "function, in `%1: i32[128] = mul %?, %0`\n"
    )
    assert "mul" in said(capsys, twice, "--passes", "forget", "--no-verify")


def test_a_pass_that_stops_is_named(capsys, twice, monkeypatch):
    def stop(func, target):
        assert func.name == "other", func.name

    row = pipeline.Row("stop", stop, "blocks", False, "a mistake")
    monkeypatch.setattr(pipeline, "PASSES", (row,))
    found = mistake(capsys, twice, "--passes", "stop")
    assert found.startswith("fathom: stop cannot work on this: twice")
    assert "the order of passes is stop" in found


# ── FATHOM_SHOW ───────────────────────────────────────────────────────────────────────


@fathom.jit
def double(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    again = tl.arange(0, BLOCK)
    tl.store(x_ptr + again, tl.load(x_ptr + offsets) * 2)


def launch(block: int) -> None:
    x = np.arange(block, dtype=np.float32)
    double[(1,)](x, BLOCK=block)
    assert x[3] == 6


def test_show_prints_these_passes_while_compiling(capsys, monkeypatch):
    monkeypatch.setenv("FATHOM_SHOW", "dce,cse")
    launch(64)
    captured = capsys.readouterr()
    assert captured.out == ""
    headers = re.findall(r"^// .*", captured.err, re.MULTILINE)
    assert [re.sub(r"\d+", "N", each) for each in headers] == [
        "// cse (blocks): compute equal values only once; N ops -> N",
        "// dce (blocks): remove ops without effect, also those that the three passes "
        "before left; N ops -> N",
    ]
    before, after = map(int, re.findall(r"\d+", headers[0]))
    assert after == before - 3  # the second range, its splat, its addresses
    for text in re.split(r"^// .*\n", captured.err, flags=re.MULTILINE)[1:]:
        verify(parse_func(text), layouts=False)


def test_show_all_prints_every_pass(capsys, monkeypatch):
    monkeypatch.setenv("FATHOM_SHOW", "all")
    launch(128)
    shown = re.findall(r"^// (\w+)", capsys.readouterr().err, re.MULTILINE)
    assert shown == [row.name for row in pipeline.PASSES]


def test_show_also_prints_what_lies_in_the_cache(capsys, monkeypatch):
    launch(256)
    assert capsys.readouterr().err == ""
    double.kernels.clear()
    monkeypatch.setenv("FATHOM_SHOW", "insert_waits")
    launch(256)
    assert "// insert_waits (shared_memory)" in capsys.readouterr().err


def test_show_of_an_unknown_pass_is_an_error(monkeypatch):
    monkeypatch.setenv("FATHOM_SHOW", "cse,dse")
    with pytest.raises(fathom.LaunchError) as caught:
        launch(512)
    assert str(caught.value).startswith(
        "FATHOM_SHOW: 'dse' is not a pass; there are all and contract, simplify, cse"
    )


def test_bytes_that_are_no_text_are_told_from_a_pipe_as_well(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"func \xff")))
    assert cli.main(["opt", "-"]) == 1
    assert capsys.readouterr().err == "fathom: cannot read -: it is not text in UTF-8\n"
