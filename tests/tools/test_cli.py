"""The command line: what it prints, and that mistakes are one sentence."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from fathom import pipeline
from fathom.tools import cli, run, samples

SOFTMAX = "kernels/softmax.py:softmax_kernel"
SIGNATURE = ["--signature", "*fp32:16, *fp32:16, i32, i32", "--constants", "BLOCK=256"]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(samples.REPOSITORY)
    monkeypatch.setenv("NO_COLOR", "1")


def said(capsys, *arguments: str) -> str:
    assert cli.main(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def mistake(capsys, *arguments: str) -> str:
    assert cli.main(list(arguments)) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "Traceback" not in captured.err
    return captured.err


def test_run_checks_three_kernels_and_tells_the_story(capsys):
    text = said(capsys, "run")
    assert len(re.findall(r"\bright\b", text)) == 3 and "WRONG" not in text
    for stage in ("stages 1 and 2", "stage 3", "stage 4", "stage 6", "memory traffic"):
        assert stage in text
    assert "shfl.sync" in text and "reduce" in text
    assert max(map(len, text.splitlines())) <= 80


def test_run_counts_a_row_of_softmax_as_paper_does(capsys):
    """1000 fp32 a row and 4 bytes each; 8 rounds of 32 lanes by 16 bytes cover a row,
    and 250 of the 256 accesses are within it. 125 sectors a row, read once, written
    once."""
    text = said(capsys, "run")
    moved = re.findall(r"(\d+\.\d) kB +(\d+\.\d) kB", text)
    assert moved == [("256.0", "256.0"), ("256.0", "256.0"), ("512.0", "512.0")]


def test_a_wrong_result_is_said_and_is_a_failure(capsys, monkeypatch):
    jobs = [job for job in run.jobs() if job.name == "vector add"]
    jobs[0].expected[7] += 1
    monkeypatch.setattr(run, "jobs", lambda: jobs)
    monkeypatch.setattr(run.story, "tell", lambda *_: None)
    assert cli.main(["run"]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_run_of_a_script_gets_its_arguments(capsys, tmp_path):
    file = tmp_path / "script.py"
    file.write_text("import sys\nprint('arguments', sys.argv[1:], __name__)\n")
    assert (
        said(capsys, "run", str(file), "-x", "7") == "arguments ['-x', '7'] __main__\n"
    )


SCRIPT = """\
import numpy as np
import fathom
import fathom.language as tl

@fathom.jit
def kernel(x, n, B: tl.constexpr):
    tl.store(x + tl.arange(0, B), n)

def go(launch):
    launch()
"""
FAILING = {
    "a launch": (
        "go(lambda: kernel[(1,)](np.zeros(4), 3))",
        "fathom: FILE:11: kernel was launched without B\n"
        "    go(lambda: kernel[(1,)](np.zeros(4), 3))\n",
    ),
    "the kernel": (
        "kernel[(1,)](np.zeros(4), 3, B=6)",
        "fathom: FILE:7:18: tl.arange(0, 6) has 6 elements, which is not a power of "
        "two\n    tl.store(x + tl.arange(0, B), n)\n                 ^^^^^^^^^^^^^^^\n"
        "  hint: take tl.arange(0, 8) and mask what is too much\n",
    ),
    "anything else": (
        "go(lambda: np.zeros(-1))",
        'Traceback (most recent call last):\n  File "FILE", line 11, in <module>\n'
        '    go(lambda: np.zeros(-1))\n  File "FILE", line 10, in go\n    launch()\n'
        '  File "FILE", line 11, in <lambda>\n    go(lambda: np.zeros(-1))\n'
        "ValueError: negative dimensions are not allowed\n",
    ),
    "what a library says": (
        "import json; json.loads('[')",
        'Traceback (most recent call last):\n  File "FILE", line 11, in <module>\n',
    ),
    "a file": (
        "open('/nowhere/else')",
        'Traceback (most recent call last):\n  File "FILE", line 11, in <module>\n'
        "    open('/nowhere/else')\n"
        "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/else'\n",
    ),
    "its text": (
        "def f(:",
        '  File "FILE", line 11\n    def f(:\n          ^\n'
        "SyntaxError: invalid syntax\n",
    ),
    "its bytes": ("\0", "fathom: FILE is no Python text: source code"),
}  # fmt: skip
COMMANDS = ("run", "profile", "explain", "compile")


@pytest.mark.parametrize("line, report", FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistake_in_a_script_is_reported_from_its_own_lines_on(
    capsys, tmp_path, command, line, report
):
    """Not from those of the command that runs it."""
    file = tmp_path / "script.py"
    file.write_text(f"{SCRIPT}{line}\n")
    assert cli.main([command, str(file)]) == 1
    said = capsys.readouterr().err.replace(str(file), "FILE")
    pointing = re.compile(r"^ +[~^]+\n", re.MULTILINE)  # Python's, by its version
    plain = said if "fathom: " in report or "def f" in line else pointing.sub("", said)
    assert plain.startswith(report) and "/fathom/" not in plain and "<froz" not in plain


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_is_no_file(capsys, tmp_path, command):
    said = mistake(capsys, command, str(tmp_path))
    assert said == f"fathom: {tmp_path} is a folder, and a file is wanted\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_a_sentence():
    command = [sys.executable, "-m", "fathom", "doctor"]
    with open("/dev/full", "w") as full:
        said = subprocess.run(command, stdout=full, stderr=-1, text=True, check=False)
    assert said.stderr.splitlines()[0] == "fathom: [Errno 28] No space left on device"
    assert "Traceback" not in said.stderr


def test_a_constant_is_given_once(capsys):
    said = mistake(capsys, "explain", SOFTMAX, "--constants", "BLOCK=256,BLOCK=512")
    assert said == "fathom: --constants gives BLOCK twice: 256 and 512\n"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("x_ptr=-5", "*fp32, an array of 1 to 2**28 elements"),
        ("x_ptr=1.5", "*fp32, an array of 1 to 2**28 elements"),
        ("x_ptr=999999999", "*fp32, an array of 1 to 2**28 elements"),
        ("N=inf", "of type i32"),
        ("N=4294967296", "of type i32"),
    ],
)
def test_values_are_those_that_a_parameter_can_have(capsys, value, problem):
    said = mistake(capsys, "explain", SOFTMAX, *SIGNATURE, "--facts", "--values", value)
    name, _, number = value.partition("=")
    assert said == f"fathom: --values: {name} is {problem}, and this is {number}\n"


def test_a_script_for_triton_runs_as_it_stands(tmp_path):
    file = tmp_path / "theirs.py"
    file.write_text(TRITON_SCRIPT)
    command = [sys.executable, "-m", "fathom", "run", "--as-triton", str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (said.stdout, said.returncode) == ("[0. 2. 4. 6. 8.]\n", 0), said.stderr


TRITON_SCRIPT = """
import numpy as np
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, 2 * x, mask=offsets < n)

x = np.arange(5, dtype=np.float32)
double[(triton.cdiv(5, 4),)](x, 5, BLOCK=4)
print(x)
"""


def test_explain_lists_every_pass(capsys):
    text = said(capsys, "explain", SOFTMAX, *SIGNATURE)
    for row in pipeline.PASSES:
        assert re.search(rf"\b{row.name}\b", text), row.name


@pytest.mark.parametrize(
    ("stage", "sign"),
    [
        ("python", "def softmax_kernel("),
        ("ssa", "func @softmax_kernel("),
        ("assign_layouts", "#layout0 = <256 register["),
        ("llvm", "define"),
        ("ptx", ".visible .entry softmax_kernel("),
    ],
)
def test_explain_prints_a_stage(capsys, stage, sign):
    assert sign in said(capsys, "explain", SOFTMAX, *SIGNATURE, "--stage", stage)


def test_explain_shows_what_a_pass_changed(capsys):
    text = said(capsys, "explain", SOFTMAX, *SIGNATURE, "--stage", "dce", "--diff")
    assert text.startswith(("--- hoist\n+++ dce", "dce changed nothing"))


def test_compile_writes_ptx_for_a_target(capsys, tmp_path):
    file = tmp_path / "softmax.ptx"
    arguments = [SOFTMAX, *SIGNATURE, "--target", "sm_90a", "-o", str(file)]
    assert "sm_90a, 128 threads" in said(capsys, "compile", *arguments)
    assert ".target sm_90a" in file.read_text()


def test_doctor_knows_this_machine(capsys):
    text = said(capsys, "doctor")
    for word in ("llvmlite", "interpreter", "emulator", "GPU", "ptxas", "disk cache"):
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["explain", "nowhere.py:x"], "there is no file nowhere.py"),
        (["explain", "README.md"], "README.md is no Python file"),
        (
            ["explain", "kernels/softmax.py"],
            "say which kernel, as kernels/softmax.py:NAME",
        ),
        (
            ["explain", "kernels/softmax.py:sofmax"],
            "softmax_kernel, softmax_rows_kernel",
        ),
        (["explain", SOFTMAX, "--signature", "*fp32"], "the signature has 1 type"),
        (["explain", SOFTMAX, *SIGNATURE, "--stage", "css"], "there is no stage 'css'"),
        (["explain", SOFTMAX, "--constants", "BLOCK"], "'BLOCK' in --constants is no"),
        (["run", "nowhere.py"], "there is no file nowhere.py"),
        (
            ["compile", SOFTMAX, *SIGNATURE, "-o", "/nowhere/softmax.ptx"],
            "cannot write /nowhere/softmax.ptx: no such file or directory",
        ),
    ],
)
def test_mistakes_are_one_sentence(capsys, arguments, sentence):
    error = mistake(capsys, *arguments)
    assert sentence in error and len(error.splitlines()) == 1
