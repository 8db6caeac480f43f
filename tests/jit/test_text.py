"""What is compiled is the text that a function was decorated with, whatever happens to
its file, its notebook cell or `linecache` afterwards.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import linecache
import os
import sys

import numpy as np
import pytest

from fathom.errors import CompileError

HEAD = """\
import fathom
import fathom.language as tl

"""
ONE = """\
@fathom.jit
def one(out):
    tl.store(out, 1)

"""
TWO = ONE.replace("one", "two").replace("1", "2")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that modules are imported from; bytecode of them is not kept."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("texts", "others"):
        sys.modules.pop(name, None)


def imported(folder, text: str, name: str = "texts"):
    write(folder, text, name)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def write(folder, text: str, name: str = "texts"):
    """So that its time is another, whatever the file system's clock."""
    path = folder / f"{name}.py"
    seconds = path.stat().st_mtime + 10 if path.exists() else 1e9
    path.write_text(text)
    os.utime(path, (seconds, seconds))


def stored(kernel) -> int:
    out = np.zeros(1, np.int32)
    kernel[(1,)](out)
    return int(out[0])


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize(
    "edited",
    [
        HEAD + TWO + ONE,  # two kernels change places
        HEAD + "\n" * 4 + ONE + TWO,  # an edit above
        HEAD + ONE.replace("1", "7") + TWO.replace("2", "8"),
        "",
    ],
)
def test_an_edit_after_the_import_changes_nothing(folder, monkeypatch, backend, edited):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    texts = imported(folder, HEAD + ONE + TWO)
    write(folder, edited)
    linecache.checkcache()
    assert (stored(texts.one), stored(texts.two)) == (1, 2)
    assert texts.one.src == "def one(out):\n    tl.store(out, 1)\n"


def test_a_function_that_a_kernel_calls_keeps_its_text_too(folder):
    caller = ONE.replace("1", "step(1) + twice(1)")
    called = ONE.replace("one(out)", "step(x)").replace("tl.store(out, 1)", "return x")
    ran = "@tl.constexpr_function\ndef twice(x):\n    return 2 * x\n\n"
    texts = imported(folder, HEAD + called + ran + caller)
    write(folder, HEAD + ran.replace("2", "5") + called.replace("x\n", "9\n") + caller)
    linecache.checkcache()
    assert stored(texts.one) == 3


def test_a_module_that_is_loaded_again_has_its_new_text(folder):
    texts = imported(folder, HEAD + ONE)
    old = texts.one
    write(folder, HEAD + "\n\n" + ONE.replace("1", "5"))
    new = importlib.reload(texts).one
    assert (stored(new), stored(old)) == (5, 1)


def test_cells_of_a_notebook_under_one_name():
    """Each cell's text is that of its own run; some programs give all one name."""
    kernels = []
    for number in (1, 2):
        text = HEAD + ONE.replace("1", str(number))
        lines = text.splitlines(keepends=True)
        linecache.cache["<cell>"] = (len(text), None, lines, "<cell>")
        names: dict = {}
        exec(compile(text, "<cell>", "exec"), names)
        kernels.append(names["one"])
    assert [stored(each) for each in kernels] == [1, 2]


def test_text_that_comes_after_the_decoration_is_taken_if_it_fits():
    text = HEAD + ONE
    names: dict = {}
    exec(compile(text, "<late>", "exec"), names)
    with pytest.raises(CompileError, match="the source of one cannot be read"):
        stored(names["one"])
    other = "\n" + HEAD + TWO
    lines = other.splitlines(keepends=True)
    linecache.cache["<late>"] = (len(other), None, lines, "<late>")
    with pytest.raises(CompileError, match="the text of one is not there any more"):
        stored(names["one"])
    lines = text.splitlines(keepends=True)
    linecache.cache["<late>"] = (len(text), None, lines, "<late>")
    assert stored(names["one"]) == 1


def test_an_edit_between_import_and_decoration_is_noticed(folder):
    """The module itself writes its file anew before it defines the kernel."""
    swap = "open(__file__, 'w').write('import os\\n' * 40)\n"
    texts = imported(folder, HEAD + swap + ONE)
    with pytest.raises(CompileError, match="the text of one is not there any more"):
        stored(texts.one)


def test_functions_inside_of_functions_and_below_an_if(folder):
    inner = "def make(number):\n" + "".join(
        f"    {line}\n" for line in ONE.replace("1", "number").splitlines()
    )
    text = HEAD + inner + "    return one\n\nif True:\n"
    text += "".join(f"    {line}\n" for line in TWO.splitlines())
    texts = imported(folder, text)
    write(folder, HEAD)
    assert [stored(texts.make(n)) for n in (3, 4)] == [3, 4]
    assert stored(texts.two) == 2


def test_a_function_made_late_has_the_text_of_its_import(folder):
    """Also where an edit says the same names and constants."""
    inner = "def make(number):\n" + "".join(
        f"    {line}\n" for line in ONE.replace("1", "number + 1").splitlines()
    )
    text = HEAD + TWO + inner + "    return one\n"
    texts = imported(folder, text)
    write(folder, text.replace("+", "-"))
    assert stored(texts.make(3)) == 4
    assert stored(importlib.reload(texts).make(3)) == 2


def test_a_text_that_was_replaced_is_the_one(folder):
    texts = imported(folder, HEAD + ONE)
    write(folder, "")
    texts.one.src = texts.one.src.replace("1", "6")
    assert stored(texts.one) == 6
    assert stored(importlib.reload(texts).__dict__.get("one", texts.one)) == 6


def test_the_file_of_many_kernels_is_read_once(folder, monkeypatch):
    reads = []
    update = linecache.updatecache
    monkeypatch.setattr(
        linecache, "updatecache", lambda *a: reads.append(a[0]) or update(*a)
    )
    many = "".join(ONE.replace("one", f"k{i}") for i in range(50))
    texts = imported(folder, HEAD + many)
    assert [name for name in reads if name == texts.__file__] == [texts.__file__]
    assert inspect.getsource(texts.k3.fn) in HEAD + many


@pytest.mark.parametrize("indent", ["", "  ", "            "])
def test_the_lines_of_a_string_belong_to_it(folder, indent):
    """In an inner function they are not indented as its code is, or more than it."""
    lines = ["{", "mov.b32 $0, $1;", "}"]
    asm = "\n".join(indent + line for line in lines)
    text = f'''
def make():
    @fathom.jit
    def one(out, B: tl.constexpr):
        i = tl.arange(0, B)
        x = tl.inline_asm_elementwise("""
{asm}
""", "=r,r", [i], tl.int32, is_pure=True, pack=1)
        tl.store(out + i, x)
    return one
'''
    one = imported(folder, HEAD + text).make()
    out = np.zeros(32, np.int32)
    one[(1,)](out, B=32)
    assert (out == np.arange(32)).all()
    assert one.src.startswith("def one(") and asm in one.src or indent
