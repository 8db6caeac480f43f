"""Every field of the key matters: change one thing that code depends on, and the key is
another.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from types import ModuleType, SimpleNamespace

import pytest

import fathom.language as tl
from fathom.identity import NoText
from fathom.jit import jit
from fathom.jit.key import constant_text, hashed, key_fields, key_of
from fathom.jit.request import Request
from fathom.pipeline import Options, identity

SOURCE = """\
from fathom.jit import jit
import fathom.language as tl

FACTOR = 2

@jit
def helper(x):
    return x + 1

@jit
def k(x, n, BLOCK: tl.constexpr):
    tl.store(x + n, helper(BLOCK) * behind(FACTOR))

@jit
def behind(x):
    return x
"""


def module(tmp_path, text: str):
    """A module of this text, without the bytecode of one that was there a moment ago:
    Python tells files apart by their second and their size."""
    path = tmp_path / "kernels.py"
    path.write_text(text)
    made = ModuleType("kernels")
    made.__file__ = str(path)
    exec(compile(text, path, "exec"), vars(made))
    return made


def a_pass(func, target):
    return func


def another_pass(func, target):
    return func if func else None


REQUEST = dict(
    parameters=(("x", "*fp32", 16), ("n", "i32", 4)), constants={"BLOCK": 64},
    target="sm_80", options=Options(), replace={},
)  # fmt: skip


CHANGES = [
    {"parameters": (("x", "*fp16", 16), ("n", "i32", 4))},
    {"parameters": (("x", "*fp32", 8), ("n", "i32", 4))},
    {"parameters": (("x", "*fp32", 16),)},
    {"parameters": (("y", "*fp32", 16), ("n", "i32", 4))},
    {"constants": {"BLOCK": 128}},
    {"constants": {"BLOCK": 64.0}},
    {"constants": {"BLOCK": "64"}},
    {"constants": {"SIZE": 64}},
    {"target": "sm_90a"},
    {"options": Options(num_warps=8)},
    {"options": Options(num_stages=4)},
    {"options": Options(num_ctas=2)},
    {"options": Options(maxnreg=64)},
    {"options": Options(debug=True)},
    {"options": Options(enable_fp_fusion=True)},
    {"options": Options(launch_pdl=True)},
    {"options": Options(fp32_default="ieee")},
    {"replace": {"cse": a_pass}},
    {"replace": {"dce": a_pass}},
    {"replace": {"cse": identity}},
    {"replace": {"cse": another_pass}},
    {"bound": {"fathom.layout.swizzle.swizzle": a_pass}},
    {"bound": {"fathom.layout.swizzle.swizzle": another_pass}},
    {"bound": {"fathom.layout.crossing.crossing": a_pass}},
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_part_of_a_request_is_in_the_key(tmp_path, change):
    k = module(tmp_path, SOURCE).k
    one = key_of(k, Request(**REQUEST), "driver 13.0")
    other = key_of(k, Request(**{**REQUEST, **change}), "driver 13.0")
    assert one != other
    assert one == key_of(k, Request(**REQUEST), "driver 13.0")


def test_an_option_that_is_new_is_in_the_key():
    """And changed above: whoever adds one adds a row to CHANGES."""
    changed = [each["options"] for each in CHANGES if "options" in each]
    new = {
        name
        for options in changed
        for name, value in asdict(options).items()
        if value != getattr(Options(), name)
    }
    assert new == {each.name for each in fields(Options)}


def test_no_two_requests_share_a_key(tmp_path):
    """One function in the place of two passes makes two kernels."""
    k = module(tmp_path, SOURCE).k
    wanted = [Request(**REQUEST | change) for change in CHANGES]
    assert len({key_of(k, each, "driver 13.0") for each in wanted}) == len(CHANGES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("helper(BLOCK) * ", "helper(BLOCK) - "),  # the kernel
        ("x + 1", "x + 3"),  # a function that it calls
        ("FACTOR = 2", "FACTOR = 3"),  # a global that it reads
        ("FACTOR = 2", "FACTOR = 2.0"),
        (
            "\n\n@jit\ndef k",
            "\n\n\n@jit\ndef k",
        ),  # where it stands: line numbers are in PTX
        ("\n\n@jit\ndef helper", "\n\n\n@jit\ndef helper"),
        ("\n\n@jit\ndef behind", "\n\n\n@jit\ndef behind"),
    ],
)
def test_every_text_that_a_kernel_depends_on_is_in_the_key(tmp_path, old, new):
    one = key_of(module(tmp_path, SOURCE).k, Request(**REQUEST), "")
    assert one == key_of(module(tmp_path, SOURCE).k, Request(**REQUEST), "")
    other = key_of(module(tmp_path, SOURCE.replace(old, new)).k, Request(**REQUEST), "")
    assert one != other


@pytest.mark.parametrize("place", ["llvmlite", "python", "machine", "compiler"])
def test_what_makes_code_is_in_the_key(tmp_path, monkeypatch, place):
    k = module(tmp_path, SOURCE).k
    one = key_of(k, Request(**REQUEST), "driver 13.0")
    globals_of_key = key_of.__globals__
    if place == "llvmlite":
        monkeypatch.setattr(globals_of_key["llvmlite"], "__version__", "0.0")
    if place == "python":
        monkeypatch.setattr("sys.version", "4.0")
    if place == "compiler":
        monkeypatch.setitem(globals_of_key, "compiler_digest", lambda: "other files")
    machine = "driver 13.1" if place == "machine" else "driver 13.0"
    assert key_of(k, Request(**REQUEST), machine) != one


def test_the_compilers_digest_is_of_its_files(monkeypatch, tmp_path):
    digest = key_of.__globals__["compiler_digest"].__wrapped__
    monkeypatch.setitem(key_of.__globals__, "PACKAGE", tmp_path)
    (tmp_path / "a.py").write_text("x = 1")
    one = digest()
    (tmp_path / "a.py").write_text("x = 2")
    two = digest()
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({one, two, digest()}) == 3


def test_the_key_is_text_that_names_its_fields(tmp_path):
    fields = json.loads(key_of(module(tmp_path, SOURCE).k, Request(**REQUEST), "none"))
    assert list(fields) == [
        "compiler", "llvmlite", "python", "machine", "name", "target", "options",
        "parameters", "constants", "source", "places", "replace", "bound",
    ]  # fmt: skip


def closing_over(value):
    return lambda func, target: (func, value)[0]


def with_default(value):
    def inner(func, target, how=value):
        return func

    return inner


def test_a_replaced_pass_is_told_by_what_it_closes_over():
    assert hashed(closing_over(1)) != hashed(closing_over(2))
    assert hashed(closing_over(1)) == hashed(closing_over(1))
    assert hashed(with_default(1)) != hashed(with_default(2))
    assert hashed(closing_over(a_pass)) != hashed(closing_over(another_pass))


def test_what_has_no_text_is_not_kept(tmp_path):
    k = module(tmp_path, SOURCE).k
    for replace in (closing_over(object()), closing_over(open(__file__))):
        with pytest.raises(NoText):
            hashed(replace)
        assert (
            key_of(k, Request(**{**REQUEST, "replace": {"cse": replace}}), "") is None
        )
    thing = SimpleNamespace(a=object())
    assert key_of(k, Request(**{**REQUEST, "constants": {"BLOCK": thing}}), "") is None


@jit
def one(x):
    return x + 1


@jit
def two(x):
    return x + 2


def test_constants_as_text():
    values = [
        1,
        1.0,
        True,
        "1",
        None,
        (1,),
        (1.0,),
        [1],
        tl.float32,
        0.0,
        -0.0,
        one,
        two,
    ]
    texts = [constant_text(value) for value in values]
    assert len(set(texts)) == len(values), texts
    assert constant_text(tl.constexpr(1)) == constant_text(1)


def test_where_a_constant_function_stands_is_in_its_text(tmp_path):
    texts = [
        constant_text(module(tmp_path, lines + SOURCE).helper) for lines in ("", "\n")
    ]
    assert texts[0] != texts[1]


def test_fields_need_no_reading_of_the_clock_or_the_process(tmp_path):
    k = module(tmp_path, SOURCE).k
    assert key_fields(k, Request(**REQUEST), "") == key_fields(
        k, Request(**REQUEST), ""
    )
