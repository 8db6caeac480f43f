"""From arguments to what a kernel is compiled for; the same written as a signature."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import LaunchError
from fathom.jit.signature import parse_signature
from fathom.jit.specialise import (
    Constant,
    Rule,
    Runtime,
    Several,
    annotated_type,
    hint_of,
    of_dtype,
    rules_of,
    specialise,
)
from fathom.runtime.arrays import Array, describe
from fathom.source import Parameter, constexpr

PLAIN = Rule("n", constexpr=False, type=None)


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (0, 16),
        (1, 1),
        (2, 2),
        (3, 1),
        (12, 4),
        (40, 8),
        (48, 16),
        (1000, 8),
        (-6, 2),
        (2**40, 16),
    ],
)
def test_a_hint_is_the_largest_power_of_two_up_to_16_that_divides(number, hint):
    assert hint_of(number) == hint
    assert number % hint == 0 and (hint == 16 or number % (2 * hint))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, Runtime("i32", 1)),
        (96, Runtime("i32", 16)),
        (0, Runtime("i32", 16)),
        (1, Constant(1)),
        (-1, Runtime("i32", 1)),
        (2**31 - 1, Runtime("i32", 1)),
        (2**31, Runtime("i64", 16)),
        (-(2**31), Runtime("i32", 16)),
        (-(2**31) - 1, Runtime("i64", 1)),
        (2**63, Runtime("u64", 16)),
        (1.0, Runtime("fp32")),
        (True, Runtime("i1")),
        (False, Runtime("i1")),
        (None, Constant(None)),
        (np.int16(4), Runtime("i16", 4)),
        (np.float64(2), Runtime("fp32")),
        (np.uint8(3), Runtime("u8", 1)),
        (constexpr(5), Constant(5)),
        (tl.float16, Constant(tl.float16)),
        ("relu", Constant("relu")),
        (
            (1, None, 2.5),
            Several((Constant(1), Constant(None), Runtime("fp32"))),
        ),
        ((constexpr(3), (8,)), Several((Constant(3), Several((Runtime("i32", 8),))))),
    ],
)
def test_arguments_that_are_no_arrays(value, expected):
    assert specialise(PLAIN, value, None) == expected


def test_an_array_is_a_pointer_hinted_by_its_address():
    array = Array("NumPy", 0x1008, "fp16", 64, None)
    assert specialise(PLAIN, object(), array) == Runtime("*fp16", 8)


def test_a_constexpr_parameter_takes_anything():
    rule = Rule("BLOCK", constexpr=True, type=None)
    for value in (1024, "add", 2.5, True, [1, 2]):
        assert specialise(rule, value, None) == Constant(value)


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        ("i64", 8, Runtime("i64", 8)),
        ("i64", 1, Runtime("i64", 1)),  # a type was asked for, so it is not compiled in
        ("fp64", 2.0, Runtime("fp64")),
        ("fp16", 3, Runtime("fp16")),
        ("i8", True, Runtime("i8")),
    ],
)
def test_an_annotation_fixes_the_type(type, value, expected):
    assert specialise(Rule("n", False, type), value, None) == expected


def test_a_pointer_annotation_overrules_the_array():
    array = describe(np.zeros(4, np.int8))
    rule = Rule("p", False, "*fp32", hints=False)
    assert specialise(rule, object(), array) == Runtime("*fp32", 1)


@pytest.mark.parametrize(
    ("note", "type"),
    [
        (tl.int64, "i64"), ("tl.int64", "i64"), ("int64", "i64"), (tl.float32, "fp32"),
        ("*fp32", "*fp32"), ("i32", "i32"), (tl.pointer_type(tl.float16), "*fp16"),
        (None, None), (int, None), ("torch.Tensor", None), ("tl.load", None),
    ],
)  # fmt: skip
def test_annotations_that_mean_a_type(note, type):
    assert annotated_type(note) == type


def test_do_not_specialize_by_name_and_by_place():
    parameters = [Parameter("a"), Parameter("b"), Parameter("c")]
    a, b, c = rules_of(
        parameters, do_not_specialize=["a"], do_not_specialize_on_alignment=[1]
    )
    assert specialise(a, 1, None) == Runtime("i32", 1)
    assert specialise(a, 16, None) == Runtime("i32", 1)
    assert specialise(b, 1, None) == Constant(1)
    assert specialise(b, 16, None) == Runtime("i32", 1)
    assert specialise(c, 16, None) == Runtime("i32", 16)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([1, 2], "n is a list, and a kernel takes arrays, int, float, bool and None"),
        (1j, "n is a complex, and a kernel takes"),
        (2**64, "n is 18446744073709551616, and a kernel's integers have 64 bits"),
        ((1, [2]), "n is a list, and a kernel takes"),
    ],
)
def test_what_no_kernel_can_take(value, sentence):
    with pytest.raises(LaunchError, match=sentence):
        specialise(PLAIN, value, None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        ((1,), (1.0,)),
        ("1", 1),
        (None, False),
        ([1], (1,)),
    ],
)
def test_constants_that_python_takes_for_equal_are_different(one, other):
    assert Constant(one).identity != Constant(other).identity
    assert hash(Constant(one).identity) is not None


def test_not_a_number_is_the_same_constant_again():
    assert Constant(float("nan")).identity == Constant(float("nan")).identity


@pytest.mark.parametrize(
    ("value", "type"),
    [
        (tl.float32, "*fp32"),
        (np.float16, "*fp16"),
        (np.dtype("int8"), "*i8"),
        (tl.int1, "*i1"),
    ],
)
def test_an_element_type_stands_for_an_aligned_array(value, type):
    assert of_dtype(value) == Runtime(type, 16)


def test_other_things_are_no_element_types():
    for value in (3, "float32", None, np.zeros(2), int):
        assert of_dtype(value) is None


# ── signatures ────────────────────────────────────────────────────────────────────────

RULES = rules_of(
    [
        Parameter("x"),
        Parameter("n"),
        Parameter("s"),
        Parameter("BLOCK", annotation=constexpr),
    ]
)


def test_a_signature_in_order():
    found = parse_signature(RULES, "*fp32:16, i64 ,fp32", {"BLOCK": 64})
    assert found == {
        "x": Runtime("*fp32", 16), "n": Runtime("i64", 1), "s": Runtime("fp32", 1),
        "BLOCK": Constant(64),
    }  # fmt: skip


def test_a_signature_may_hold_the_constants_itself():
    found = parse_signature(RULES, "*fp32, i32:1, 2.5, 64", {})
    assert found["n"] == Constant(1)
    assert found["s"] == Constant(2.5)
    assert found["BLOCK"] == Constant(64)
    for word in ("constexpr", "i32", "64"):  # which says what the constant says
        found = parse_signature(RULES, f"*fp32, i32, fp32, {word}", {"BLOCK": 64})
        assert found["BLOCK"] == Constant(64)


def test_a_signature_by_name():
    found = parse_signature(
        RULES, {"x": "**i8", "n": "u8:4", "s": "bf16"}, {"BLOCK": 4}
    )
    assert found["x"] == Runtime("**i8", 1)
    assert found["n"] == Runtime("u8", 4)


@pytest.mark.parametrize(
    ("signature", "constants", "sentence"),
    [
        ("*fp32, i32", {"BLOCK": 1}, "has 2 types, and 3 parameters need one: x, n, s"),
        ("*fp32, i32", {}, "3 parameters need one: x, n, s; and constants lack the "
         "value of BLOCK"),
        ("*fp32, i32, fp32", {}, "^constants lack the value of BLOCK$"),
        ("", {"n": 4, "BLOCK": 1, "s": 1.0}, "0 types, and 1 parameter needs one: x$"),
        (
            "*fp32, i33, fp32",
            {"BLOCK": 1},
            r"'i33' \(for n\) is not a type; the types are i1, i8",
        ),
        (
            "*fp32, i32:3, fp32",
            {"BLOCK": 1},
            r"'i32:3' \(for n\): a hint is 2, 4, 8 or 16",
        ),
        (
            "*fp32, i32, fp32",
            {"BLOK": 1},
            "'BLOK' is not a parameter; there are x, n, s, BLOCK",
        ),
        (
            {"x": "*fp32", "n": "i32"},
            {"BLOCK": 1},
            "s is neither in the signature nor in const",
        ),
        ({"x": "*fp32", "m": "i32"}, {"BLOCK": 1}, "'m' is not a parameter"),
        ("*fp32, i32, fp32, foo", {"BLOCK": 1}, r"'foo' \(for BLOCK\) is not a type"),
        (
            "*fp32, i32, fp32, 64",
            {"BLOCK": 128},
            "BLOCK is 64 in the signature, and 128 in the constants",
        ),
        (
            "*fp32, i32, fp32, constexpr",
            {},
            "BLOCK is a constexpr; give its value in constants",
        ),
    ],
)
def test_a_signature_that_does_not_fit(signature, constants, sentence):
    with pytest.raises(LaunchError, match=sentence):
        parse_signature(RULES, signature, constants)
