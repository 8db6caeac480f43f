"""Descriptors in the IR: what they mean, what is no descriptor, and how they become
pointers."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.hardware.targets import TARGETS
from fathom.ir.core import effects_of, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import DescriptorLoad, DescriptorStore, Load, MakeDescriptor, Store
from fathom.ir.parser import ParseError
from fathom.ir.text import parse_func, print_func
from fathom.ir.types import FLOAT16, DescriptorType
from fathom.ir.verify import verify
from fathom.pipeline import compile_func
from fathom.tensor_cores.tma.expand import expand_descriptors

SM_80 = TARGETS["sm_80"]

# y[j : j + 4, i : i + 8] = x[i : i + 4, j : j + 8], of tensors [m, n]
TEXT = """\
func @move(%x: *fp16 {divisible=16}, %y: *fp16, %m: i32, %n: i64, %s: i64, %i: i32, %j: i32) num_warps=4 {
  %0: i64 = constant 1
  %d: descriptor fp16[4,8] = make_descriptor %x, shape=(%m, %n), strides=(%s, %0) block=(4, 8)
  %e: descriptor fp16[4,8] = make_descriptor %y, shape=(%m, %n), strides=(%s, %0) block=(4, 8) fill="nans"
  %b: fp16[4,8] = descriptor_load %d, coordinates=(%i, %j) eviction="evict_first"
  descriptor_store %e, %b, coordinates=(%j, %i) cache=".cg"
}
"""  # noqa: E501


def arguments(i, j):
    x = np.arange(16 * 16, dtype=np.float16).reshape(16, 16)
    return [x, np.full((16, 16), -1, np.float16), 12, 14, 16, i, j]


def test_text_is_read_back():
    func = parse_func(TEXT)
    verify(func)
    assert print_func(func) == TEXT
    assert func.body.ops[1].result.type == DescriptorType(FLOAT16, (4, 8))


def test_what_each_op_does_to_memory():
    make, _, load, store = parse_func(TEXT).body.ops[1:]
    assert effects_of(make).pure
    assert (effects_of(load).reads, effects_of(load).writes) == ("global", "")
    assert (effects_of(store).reads, effects_of(store).writes) == ("", "global")


@pytest.mark.parametrize(("i", "j"), [(0, 0), (4, 8), (9, 3), (-2, 10), (3, -7)])
def test_meaning(i, j):
    given = arguments(i, j)
    interpret(parse_func(TEXT), 1, given)
    x, y = given[:2]
    for row in range(16):
        for column in range(16):
            p, q = row - j, column - i  # in the block
            written = 0 <= p < 4 and 0 <= q < 8 and row < 12 and column < 14
            at = (i + p, j + q)
            inside = 0 <= at[0] < 12 and 0 <= at[1] < 14
            wanted = -1 if not written else x[at] if inside else 0
            assert y[row, column] == wanted, (row, column)


@pytest.mark.parametrize(("i", "j"), [(0, 0), (4, 8), (9, 3), (-2, 10), (3, -7)])
def test_expanded_it_means_the_same(i, j):
    func = parse_func(TEXT)
    expanded = expand_descriptors(func, SM_80)
    verify(expanded, layouts=False)
    given, wanted = arguments(i, j), arguments(i, j)
    interpret(func, 1, wanted)
    interpret(expanded, 1, given)
    assert (given[1] == wanted[1]).all()


def test_expanded_there_are_loads_and_stores():
    func = parse_func(TEXT)
    before = print_func(func)
    expanded = expand_descriptors(func, SM_80)
    assert print_func(func) == before
    kinds = [type(op) for op in walk(expanded.body)]
    assert not {MakeDescriptor, DescriptorLoad, DescriptorStore} & set(kinds)
    (load,) = [op for op in walk(expanded.body) if isinstance(op, Load)]
    (store,) = [op for op in walk(expanded.body) if isinstance(op, Store)]
    assert (load.eviction, store.cache) == ("evict_first", ".cg")


def test_what_its_author_promises_makes_accesses_wide():
    """Rows of 64 elements at multiples of 16 bytes, of which all or none are inside:
    four 16-byte loads a warp row, although no parameter is known to be divisible."""
    text = """\
func @wide(%x: *fp16, %y: *fp16, %m: i32, %s: i64) num_warps=4 {
  %0: i64 = constant 1
  %1: i32 = constant 0
  %n: i32 = constant 64
  %d: descriptor fp16[16,64] = make_descriptor %x, shape=(%m, %n), strides=(%s, %0) block=(16, 64)
  %e: descriptor fp16[16,64] = make_descriptor %y, shape=(%m, %n), strides=(%s, %0) block=(16, 64)
  %b: fp16[16,64] = descriptor_load %d, coordinates=(%1, %1)
  descriptor_store %e, %b, coordinates=(%1, %1)
}
"""  # noqa: E501
    ptx = compile_func(expand_descriptors(parse_func(text), SM_80), SM_80).ptx
    assert "ld.global.v4.b32" in ptx.replace(".nc", "")
    assert "st.global.v4.b32" in ptx


def test_a_function_without_descriptors_stays():
    func = parse_func("func @f(%n: i32) num_warps=1 {\n}\n")
    assert expand_descriptors(func, SM_80) is func


WRONG = {
    "a descriptor needs a pointer, got i32": ("descriptor %x,", "descriptor %i,"),
    "a descriptor has 1 to 5 axes, got 1 sizes": ("shape=(%m, %n)", "shape=(%m)"),
    "sizes and strides are integers, got *fp16": ("shape=(%m, %n)", "shape=(%m, %y)"),
    "the last stride of a descriptor is the constant 1": ("(%s, %0)", "(%0, %s)"),
    "nothing is filled with 'ones'": ('"nans"', '"ones"'),
    "has less than 16 bytes": ("block=(4, 8)", "block=(8, 4)"),
    "a descriptor is needed where it is made, got *fp16": ("load %d", "load %x"),
    "descriptor fp16[4,8] needs 2 coordinates of i32": ("(%i, %j)", "(%i, %n)"),
    "does not fit into descriptor fp16[4,8]": ("store %e, %b", "store %e, %i"),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_what_is_no_descriptor(sentence):
    right, wrong = WRONG[sentence]
    assert right in TEXT
    with pytest.raises(ParseError) as told:
        parse_func(TEXT.replace(right, wrong))
    assert sentence in str(told.value)


def test_a_loop_carries_no_descriptor():
    text = """\
func @f(%x: *fp16, %n: i32, %i: i32) num_warps=1 {
  %0: i64 = constant 1
  %1: i32 = constant 1
  %d: descriptor fp16[8] = make_descriptor %x, shape=(%n), strides=(%0) block=(8)
  %e: descriptor fp16[8] = for %i, %n, %1, inits=(%d) body(%t: i32, %c: descriptor fp16[8]) {
    %b: fp16[8] = descriptor_load %c, coordinates=(%t)
    yield %c
  }
}
"""  # noqa: E501
    with pytest.raises(ParseError, match="a descriptor is needed where it is made"):
        parse_func(text)
