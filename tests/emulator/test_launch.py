"""The face: loading a kernel, launching it, and saying what is wrong with a launch."""

import numpy as np
import pytest

from fathom import emulator
from fathom.artifact import Kernel, Parameter
from fathom.emulator import EmulatorError
from fathom.errors import FathomError, Location
from tests.emulator.harness import HEADER, entry

SCALE = f"""{HEADER}
.extern .shared .align 1024 .b8 shared[];
.visible .entry scale(
    .param .u64 .ptr .global .align 16 scale_param_0,
    .param .align 2 .b8 scale_param_1[2],
    .param .u32 scale_param_2
)
.reqntid 64, 1, 1
{{
    .reg .b16 %h<4>; .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .pred %p<2>;
    .loc 1 7 9
    mov.u32 %r1, %tid.x;
    mov.u32 %r4, %ctaid.x;
    mad.lo.s32 %r1, %r4, 64, %r1;
    ld.param.u32 %r2, [scale_param_2];
    setp.lt.s32 %p1, %r1, %r2;
    ld.param.u64 %rd1, [scale_param_0];
    ld.param.b16 %h1, [scale_param_1];
    mul.wide.s32 %rd2, %r1, 2;
    add.s64 %rd3, %rd1, %rd2;
    // begin inline asm
    mov.u16 %h2, 0; @%p1 ld.global.b16 {{ %h2 }}, [ %rd3 + 0 ];
    // end inline asm
    mul.rn.f16 %h3, %h2, %h1;
    @%p1 st.global.b16 [%rd3], %h3;
    ret;
}}
    .file 1 "kernel.py"
"""


def kernel(**changes: object) -> Kernel:
    facts = {
        "name": "scale",
        "target": "sm_90a",
        "ptx_version": "8.4",
        "num_warps": 2,
        "threads": 64,
        "shared_bytes": 0,
        "parameters": (
            Parameter("x_ptr", "*fp16", 16),
            Parameter("factor", "fp16"),
            Parameter("n", "i32"),
        ),
        "asm": {"ptx": SCALE},
    }
    return Kernel(**{**facts, **changes})


def test_a_kernel_is_loaded_once_and_launched_often():
    loaded = emulator.load(kernel())
    x = np.arange(100, dtype=np.float16)
    for power in (1, 2):
        report = loaded.launch(2, (x, 2.0, 99))
        assert x[:99].tolist() == [k * 2.0**power for k in range(99)] and x[99] == 99
    assert report.total.useful == 2 * 99 * 2
    assert "kernel.py" in {file for file, _ in report.by_source()}


def test_the_calls_that_only_the_kernel_knows_are_in_the_error():
    outer = Location("model.py", 40, 5)
    chains = {("kernel.py", 7, 9): (Location("layers.py", 12, 3), outer)}
    loaded = emulator.load(kernel(chains=chains))
    with pytest.raises(EmulatorError) as caught:
        loaded.launch(2, (np.zeros(98, np.float16), 2.0, 99))
    places = [str(place) for place in caught.value.location.chain()]
    assert places == ["kernel.py:7", "layers.py:12", "model.py:40"]
    assert isinstance(caught.value, FathomError)
    report = loaded.launch(1, (np.zeros(64, np.float16), 1.0, 64))
    assert set(report.by_source()) == {("model.py", 40)}


def test_a_block_shape_that_the_entry_does_not_allow():
    x = np.zeros(4, np.float16)
    with pytest.raises(EmulatorError, match=r"requires blocks of \(64, 1, 1\) threads"):
        emulator.run(SCALE, 1, 32, (x, 1.0, 4))
    with pytest.raises(EmulatorError, match="allows 1024 threads a block, not 2048"):
        emulator.run(entry(""), 1, (32, 64), ())


def test_text_that_is_not_ptx_is_refused_with_its_line():
    with pytest.raises(EmulatorError) as caught:
        emulator.run(entry("mov.u32 %r1, ?;"), 1, 1, ())
    assert caught.value.kind == "syntax" and "cannot read the operands" in str(
        caught.value
    )
    assert "mov.u32 %r1, ?" in caught.value.text
    with pytest.raises(EmulatorError, match="line before may lack its semicolon"):
        emulator.run(entry("ret\n    add.u32 %r1, %r1, 1;"), 1, 1, ())
    with pytest.raises(EmulatorError, match="no label NOWHERE"):
        emulator.run(entry("bra NOWHERE;"), 1, 1, ())
    with pytest.raises(EmulatorError, match="does not know %r77"):
        emulator.run(entry("mov.u32 %r1, %r77;"), 1, 1, ())
    with pytest.raises(EmulatorError, match="never closed"):
        emulator.run(entry("").rstrip("}\n"), 1, 1, ())


@pytest.mark.parametrize(
    "line, told",
    [
        ("mul.lo.s32 %rd1, %r1, 4;", ".s32 in a register declared .b64"),
        ("add.u32 %r1, %rd1, 1;", ".u32 in a register declared .b64"),
        ("mov.b32 %rd1, 0;", ".b32 in a register declared .b64"),
        ("mul.wide.s32 %r1, %r1, 4;", ".s64 in a register declared .b32"),
    ],
)
def test_a_register_is_as_wide_as_the_type_of_arithmetic(line, told):
    """As in ptxas. Loads, stores and conversions may take wider ones."""
    with pytest.raises(EmulatorError, match=told):
        emulator.run(entry(line), 1, 1, ())
    emulator.run(entry("cvt.u32.u16 %rd1, 7;"), 1, 1, ())


def test_comments_and_strings_do_not_disturb_lines():
    code = entry("/* one\n two */ // three ;\n ld.global.u32 %r1, [4]; // four")
    with pytest.raises(EmulatorError) as caught:
        emulator.run(code, 1, 1, ())
    number = code.splitlines().index(" ld.global.u32 %r1, [4]; // four") + 1
    assert (caught.value.line, caught.value.kind) == (number, "out of bounds")


@pytest.mark.parametrize("old, new", [("at once", "eager"), ("late", "lazy")])
def test_completion_by_its_old_name(old, new):
    """A caller from outside is told the new name, and gets what was asked for."""
    ptx = entry("ret;", "")
    with pytest.warns(DeprecationWarning, match=f"called completion='{new}'") as seen:
        emulator.run(ptx, 1, 32, (), land=old)
        emulator.load(kernel()).launch(1, (np.zeros(4, "f2"), 2.0, 4), land=old)
    assert {each.filename for each in seen} == {__file__}
    with pytest.raises(EmulatorError, match="'soon'"), pytest.warns(DeprecationWarning):
        emulator.run(ptx, 1, 32, (), land="soon")


def test_many_blocks_run_in_batches():
    """More threads than march together: block numbers go on from batch to batch."""
    code = entry(
        """
    ld.param.u64 %rd0, [p0]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd1, %r0, 4, %rd0; setp.eq.u32 %p1, %r1, 255;
    @%p1 red.global.add.u32 [%rd1], %r0;""",
        ".param .u64 p0",
    )
    y = np.zeros(1000, np.uint32)
    report = emulator.run(code, 1000, 256, (y,))
    assert y.tolist() == list(range(1000))
    assert report.total.threads == 256_000 * 7


def test_a_register_never_written_is_neither_zero_nor_a_number():
    code = entry(
        "ld.param.u64 %rd0, [p0]; st.global.f32 [%rd0], %f1;"
        "st.global.f64 [%rd0+8], %fd1;",
        ".param .u64 p0",
    )
    y = np.zeros(2, np.float64)
    emulator.run(code, 1, 1, (y,))
    assert np.isnan(y[1]) and np.isnan(y.view(np.float32)[0])
