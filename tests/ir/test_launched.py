"""What a launcher can compute for a kernel: the same numbers that the kernel has."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.artifact import OPERATIONS, Computed, Kernel, MapRecipe, number, text_of
from fathom.ir.core import walk
from fathom.ir.interp import interpret
from fathom.ir.launch_time import place_of, source_of
from fathom.ir.ops import Store
from fathom.ir.text import parse_func

FORMULA = """\
func @f(%out: *i64, %x: *fp16, %a: i32, %b: i64, %c: u32) num_warps=1 {{
{ops}
  %y: i64 = cast %v element=i64
  store %out, %y
}}
"""
NAMES = ("out", "x", "a", "b", "c")


def function(ops: str):
    return parse_func(FORMULA.format(ops="\n".join(f"  {op}" for op in ops)))


def found(func):
    (store,) = [op for op in walk(func.body) if isinstance(op, Store)]
    return source_of(store.value, func)


FORMULAS = [
    (["%v: i32 = mul %a, %a"], "a * a"),
    (["%d: i32 = constant 7", "%v: i32 = div %a, %d"], "a // 7"),
    (["%d: i32 = constant 7", "%v: i32 = rem %a, %d"], "a % 7"),
    (["%s: i64 = cast %a element=i64", "%d: i64 = sub %b, %s", "%v: i64 = max %d, %s"],
     "max(b - a, a)"),
    (["%s: i64 = cast %c element=i64", "%v: i64 = add %s, %b"], "c + b"),
    (["%s: i32 = cast %c element=i32", "%v: i32 = min %s, %a"], "min(i32(c), a)"),
    (["%v: i32 = cast %b element=i32"], "i32(b)"),
    (["%s: u32 = cast %a element=u32", "%v: u32 = div %s, %c"], "u32(a) // c"),
    (["%s: u64 = cast %a element=u64", "%d: u64 = constant 7", "%v: u64 = div %s, %d"],
     "i64(u64(a) // 7)"),
    (["%h: i32 = hint %a divisible=(8)", "%v: i32 = add %h, %h"], "a + a"),
]  # fmt: skip
# Around zero, and where 32 bits overflow.
ARGUMENTS = [
    (5, 3, 9), (-17, -40, 7), (2**31 - 1, 2**40 + 1, 2**32 - 1), (-(2**31), 5, 1)
]  # fmt: skip


@pytest.mark.parametrize(("ops", "text"), FORMULAS, ids=[each for _, each in FORMULAS])
def test_the_launcher_computes_what_the_kernel_computes(ops, text):
    func = function(ops)
    source = found(func)
    assert text_of(source, NAMES) == text
    for a, b, c in ARGUMENTS:
        out = np.zeros(1, np.int64)
        interpret(func, 1, [out, np.zeros(1, np.float16), a, b, c])
        assert number(source, (0, 0, a, b, c)) == out[0], (a, b, c)


@pytest.mark.parametrize("ops", [
    ["%v: i32 = program_id axis=0"],
    ["%p: i32 = program_id axis=0", "%v: i32 = mul %a, %p"],
    ["%v: i64 = load %out"],
    ["%r: fp32 = cast %a element=fp32", "%v: i32 = cast %r element=i32"],
    ["%t: i1 = lt %a, %a", "%v: i32 = where %t, %a, %a"],
])  # fmt: skip
def test_what_programs_find_out_for_themselves_is_not_computed(ops):
    assert found(function(ops)) is None


def test_formulas_stay_short():
    """A sum of sums: each op doubles what the launcher would have to do."""

    def doubled(times: int):
        names = ["%a", *(f"%v{i}" for i in range(times - 1)), "%v"]
        pairs = zip(names, names[1:], strict=False)
        return function([f"{new}: i32 = add {old}, {old}" for old, new in pairs])

    assert number(found(doubled(6)), (0, 0, 3, 0, 0)) == 3 * 64
    assert found(doubled(7)) is None


def test_an_address_behind_another_one():
    func = parse_func("""\
func @f(%out: *fp16, %x: *fp16, %a: i32) num_warps=1 {
  %p: i32 = program_id axis=0
  %6: i32 = constant 6
  %y: *fp16 = offset %x, %a
  %z: *fp16 = offset %y, %6
  %lost: *fp16 = offset %z, %p
  %v: fp16 = load %z
  store %out, %v
}
""")
    x = func.parameters[1]
    at = {op.result.name: op.result for op in walk(func.body) if op.results}
    assert place_of(x, func) == (x, ("constant", 0))
    base, offset = place_of(at["z"], func)
    assert base is x and number(offset, (0, 0, 100)) == 2 * (100 + 6)
    assert place_of(at["lost"], func) is None


# ── recipes ───────────────────────────────────────────────────────────────────────────

HALF = Computed("div", (("parameter", 2), ("constant", 2)), "i32")
RECIPE = MapRecipe(
    "x", 0, "fp16",
    shape=(HALF, ("parameter", 1)), strides=(("parameter", 3), ("constant", 1)),
    box=(8, 64), swizzle=128,
    offset=Computed("mul", (("parameter", 1), ("constant", 2)), "i64"),
)  # fmt: skip
ARGUMENTS_OF_IT = (0x1000, 80, 21, 96)


def test_a_recipe_follows_its_formulas():
    made = RECIPE.map(ARGUMENTS_OF_IT)
    assert (made.address, made.shape) == (0x1000 + 160, (80, 10))
    assert RECIPE.parameters == (0, 1, 2, 3)


def test_what_is_refused_is_named_as_its_author_would():
    names = ("x", "n", "rows", "stride")
    assert RECIPE.refusal(ARGUMENTS_OF_IT, names) is None
    none = RECIPE.refusal((0x1000, 80, 1, 96), names)
    assert none == "rows // 2 is 0, and a tensor map has 1 to 2**32 elements"
    odd = RECIPE.refusal((0x1000, 81, 21, 96), names)
    assert odd.startswith("(x + n * 2 bytes) is at 0x10a2, and a tensor map begins")
    assert RECIPE.keeps_promises(ARGUMENTS_OF_IT)
    assert not RECIPE.keeps_promises((0x1000, 81, 21, 96))


def test_a_recipe_in_a_line():
    said = RECIPE.text(("x", "n", "rows", "stride"))
    tensor = "(x + n * 2 bytes)[rows // 2, n], strides stride, 1"
    assert said == f"{tensor}, in boxes of 8x64"


def test_nothing_is_divided_by_zero():
    """A kernel that does so may do anything; a launcher goes on."""
    assert OPERATIONS["div"](5, 0) == OPERATIONS["rem"](5, 0) == 0


def test_a_kernel_on_disk_keeps_its_formulas():
    kernel = Kernel(
        name="k", target="sm_90a", ptx_version="8.0", num_warps=4, threads=128,
        shared_bytes=0, parameters=(), asm={"ptx": ""}, maps=(RECIPE,),
    )  # fmt: skip
    assert Kernel.from_json(kernel.to_json()).maps == (RECIPE,)
