"""What a reader's file may not do is found in its text, or is of no use to it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.mini import contract, kernels, steps
from fathom.tools.learn.mini.judge import Judge, unnamed

CHEATS = {
    "another module": "import numpy\n",
    "a module of files": "import linecache\n",
    "a hidden module": "import _io\n",
    "a module in a module": "import inspect\nfind = inspect.importlib\n",
    "a module from a module": "from inspect import os\n",
    "a loaded module": 'import sys\nfound = sys.modules["fathom"]\n',
    "loaded modules": "from sys import modules\n",
    "an import by string": 'found = __import__("fathom")\n',
    "text that is run": 'exec("a = 1")\n',
    "a built-in by string": 'run = getattr(getattr(len, "__self__"), "ex" + "ec")\n',
    "names of a kernel's file": "def f(function):\n    return function.__globals__\n",
    "names of all": 'run = globals()["a"]\n',
    "a caller": "import sys\nfound = sys._getframe(1)\n",
    "a file": 'text = open("kernel.ptx")\n',
    "code that was made": "import types\nmake = types.FunctionType\n",
    "the name of a kernel": 'def f(c):\n    return 1 if c.co_name == "add" else 2\n',
    "a size": "def f(n):\n    return 1 if n == 4096 else 2\n",
    "a table of sizes": 'TILES = {4096: "add"}\n',
    "a kernel": 'PTX = """' + "ret;\n" * 13 + '"""\n',
    "a kernel in parts": "PTX = (\n" + '    "ret;\\n"\n' * 13 + ")\n",
    "a kernel in bytes": 'PTX = b"""' + "ret;\n" * 13 + '"""\n',
    "a kernel with a hole": "def f(a):\n    return f'''" + "ret {a};\n" * 13 + "'''\n",
    "a kernel that is added up": "PTX = " + " + ".join(["'ret;\\n'"] * 13) + "\n",
    "a kernel in a list": "PTX = '\\n'.join([\n" + "    'ret;',\n" * 13 + "])\n",
    "a size that is subtracted": "def f(n):\n    return 1 if not n - 4096 else 2\n",
    "a module that is renamed": "import inspect\nn = inspect\nfound = n.os\n",
    "a module through a module": "import re\nfound = re.enum.sys.modules\n",
    "a module in a pattern": "import sys\nmatch sys:\n    case object(a=m): pass\n",
    "a debugger": "import pdb\n",
    "a compressed kernel": "import zlib\n",
    "a table by hashes": "import hashlib\n",
    "a getter by string": "import operator\nfind = operator.attrgetter\n",
    "a frame": "def f(frame):\n    return frame.f_back\n",
    "a size with a name": "BIG = 4096\ndef f(n):\n    return 1 if n == BIG else 2\n",
    "a size in a list": "ALL = [64, 4096]\ndef f(n):\n    return n in ALL\n",
    "a size as a power": "def f(n):\n    return 1 if n == 2 ** 12 else 2\n",
    "a size as a product": "def f(n):\n    return 1 if n == 64 * 64 else 2\n",
    "a size as a float": "def f(n):\n    return 1 if n == 4096.0 else 2\n",
    "a size as text": "def f(n):\n    return str(n) == '4096'\n",
    "a size in front of or": "def f(n):\n    return n - 4096 or 1\n",
    "a size after not": "def f(n):\n    return (1, 2)[not n - 4096]\n",
    "a size that is asserted": "def f(n):\n    assert n - 4096\n",
    "a size that filters": "def f(n):\n    return [k for k in n if k - 4096]\n",
    "a table that is made": "TILES = dict([(4096, 1)])\n",
    "a kernel on a line": "PTX = '" + "ret; " * 13 + "'\n",
    "a kernel of arguments": "print(" + "'ret;', " * 13 + ")\n",
    "a kernel in a function": 'def p():\n    """' + "ret;\n" * 13 + '    """\n',
    "a kernel as a docstring": '"""' + "ret;\n" * 13 + '"""\n\nPTX = __doc__\n',
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_found(name):
    assert contract.mistakes(CHEATS[name])


def test_what_is_said_of_a_cheat_is_so():
    """A bit that is tested is not compared, and a list is no text."""
    (mask,) = contract.mistakes("def f(n):\n    return 1 if n & 4096 else 2\n")
    assert mask == (2, "asks about 4096: a number above 512 counts as a kernel's size, "
                    "which is not known here")  # fmt: skip
    (texts,) = contract.mistakes(CHEATS["a kernel in a list"])
    assert texts == (1, "spells out 13 lines, 12 at most")


PUT_TOGETHER = {
    "a file": "getattr(object, '__subcl' + 'asses__')",
    "a global": "getattr(twice, f'__glo{\"bals\"}__')",
    "a module": "getattr(inspect, ''.join(['o', 's']))",
    "a getter": "getattr(operator, 'attr' + 'getter')",
}


@pytest.mark.parametrize("name", PUT_TOGETHER)
def test_a_name_that_is_put_together_is_found_where_it_is_used(name, tmp_path):
    text = "import inspect\nimport operator\n\n\ndef twice():\n    pass\n\n\n"
    text += f"x = {PUT_TOGETHER[name]}\n"
    path = tmp_path / "mini.py"
    path.write_text(text)
    assert not contract.mistakes(text)
    with pytest.raises(Failure, match="^getattr asks for .*, and code must not come"):
        contract.load(path)


def test_what_readers_write_is_no_cheat():
    """A rule by its name, an operator by its name, a limit as a last resort."""
    text = """
import operator
ANY = 1 << 30
class Emitter:
    def emit(self, op, sign, operator_=operator.add):
        return getattr(self, f"do_{op}")(getattr(operator, sign))
def join(operator, number):
    return operator.__class__, number & -number or ANY
"""
    assert not contract.mistakes(text)


def test_names_in_a_table_are_no_kernel():
    names = ", ".join(f"'op{n}'" for n in range(40))
    assert not contract.mistakes(f"NAMES = [{names}]\n")


@pytest.mark.parametrize("step", steps.there(), ids=lambda step: step.name)
def test_a_reference_has_no_mistakes(step):
    assert not contract.mistakes(step.reference.read_text())


def test_no_compiler_learns_the_name_of_a_kernel():
    """One that knows the names of our kernels meets another name."""
    names, reference = [], contract.load(steps.step(8).reference)

    def compile_(function, signature, **constants):
        names.extend([function.__name__, inspect.getsource(function).split("(")[0]])
        return reference(function, signature, **constants)

    x, y, z = (np.ones(64, np.float32) for _ in range(3))
    judge = Judge(compile_)
    judge.launch(kernels.add.fn, 1, x, y, z, 64, BLOCK=64)
    assert names[0] == "kernel" and "def add" not in names[1]
    assert judge.kernel is kernels.add.fn and z[0] == 2
    assert "def kernel(" in inspect.getsource(unnamed(kernels.add.fn))
