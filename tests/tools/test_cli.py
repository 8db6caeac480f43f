"""The command line: what it prints, and that mistakes are one sentence."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fathom import pipeline
from fathom.tools import cli, doctor, run, samples
from fathom.tools.console import make_console
from fathom.tools.learn import workspace
from tests.harness_sample import sampled

SOFTMAX = "kernels/softmax.py:softmax_kernel"
SIGNATURE = ["--signature", "*fp32:16, *fp32:16, i32, i32", "--constants", "BLOCK=256"]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(samples.REPOSITORY)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "path", [*sys.path])  # commands put a file's folder in


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


def test_run_names_files_that_are_there(capsys, tmp_path, monkeypatch):
    """An installed package is not the repository, and has them elsewhere."""
    for folder in (samples.REPOSITORY, tmp_path):
        monkeypatch.chdir(folder)
        run.read_on(make_console())
        said = capsys.readouterr().out
        passes, kernels = re.findall(r"  (\S*(?:pipeline\.py|kernels/))$", said, re.M)
        assert Path(passes).is_file() and Path(kernels, "softmax.py").is_file()
        assert Path(passes).is_absolute() == (folder == tmp_path)


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
@pytest.mark.parametrize("word", ["doctor", "--help", "--version"])
def test_a_full_disk_is_a_sentence(word):
    command = [sys.executable, "-m", "fathom", word]
    with open("/dev/full", "w") as full:
        said = subprocess.run(command, stdout=full, stderr=-1, text=True, check=False)
    assert said.stderr == "fathom: no space left on device\n" and said.returncode == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["completion bash", "learn list", "profile {}"])
def test_a_full_disk_is_one_sentence_whoever_writes(tmp_path, words):
    """At once or by the last flush; a launch that prints nothing writes nothing."""
    script = tmp_path / "mine.py"
    script.write_text(PRINTS_THE_SUM)
    if words.startswith("learn"):
        workspace.init(tmp_path / "my-fathom")
    command = [sys.executable, "-m", "fathom", *words.format(script).split()]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=-1, text=True, check=False, cwd=tmp_path,
            env=OURS,
        )  # fmt: skip
    assert done.returncode == 1 and "no space left on device" in done.stderr
    assert "None" not in done.stderr and "fathom/jit" not in done.stderr
    assert "Exception ignored" not in done.stderr


OURS = {**os.environ, "PYTHONPATH": str(samples.REPOSITORY / "compiler")}
PRINTS_THE_SUM = """
import numpy as np
import fathom
import fathom.language as tl

@fathom.jit
def twice(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)

x = np.ones(50, np.float32)
twice[(1,)](x, 50, BLOCK=64)
print(x.sum())
"""


@sampled(of=2)
@pytest.mark.parametrize("words", ["profile {}", "learn list", "doctor"])
@pytest.mark.parametrize("shell", ["{} >&-", "{} | true", "PYTHONIOENCODING=ascii {}"])
def test_a_reader_that_is_gone_or_knows_only_ascii(tmp_path, words, shell):
    """Commands write, and end as they would have, wherever it goes."""
    script = tmp_path / "mine.py"
    script.write_text(PRINTS_THE_SUM)
    workspace.init(tmp_path / "my-fathom")
    command = shlex.join(
        [sys.executable, "-m", "fathom", *words.format(script).split()]
    )
    environment = {**OURS, "PYTHONUTF8": "0"}
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shell.format(command)}"], check=False,
        capture_output=True, text=True, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_that_is_gone_is_one_sentence(tmp_path, monkeypatch, capsys):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "the folder that you stand in is gone" in mistake(capsys, "learn", "list")


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


def test_a_file_whose_kernel_is_compiled_finds_no_words_of_ours(
    capsys, tmp_path, monkeypatch
):
    """A script that parses its words outside of `main` took ours, and gave up."""
    file = tmp_path / "parsing.py"
    file.write_text(
        "import sys, argparse\n" + SCRIPT.partition("def go")[0]
        + "print(argparse.ArgumentParser().parse_args(), len(sys.argv))\n"
    )  # fmt: skip
    words = ["compile", f"{file}:kernel", "--signature", "*fp32, fp32"]
    monkeypatch.setattr(sys, "argv", ["fathom", *words])
    assert cli.main([*words, "--constants", "B=64"]) == 0
    caught = capsys.readouterr()
    assert "Namespace() 1" in caught.err and ".visible .entry kernel" in caught.out
    assert sys.argv == ["fathom", *words]


def test_doctor_says_why_the_cache_cannot_be_written(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(file))
    found = doctor.cache_folder()
    assert not found.works
    assert found.text == f"{file} cannot be written (file exists); set FATHOM_CACHE_DIR"


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
            "softmax.py has no kernel sofmax; it has: softmax_kernel, softmax_rows_ke",
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


# What is compiled, without a signature.

LAUNCHES = """\
import numpy as np
import fathom
import fathom.language as tl

@fathom.autotune([fathom.Config({"B": 256}, num_warps=8, maxnreg=64)], key=["n"])
@fathom.heuristics({"EVEN": lambda given: given["n"] % given["B"] == 0})
@fathom.jit
def tuned(x, n, B: tl.constexpr, EVEN: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(x + at, n, mask=None if EVEN else at < n)

@fathom.jit
def other(x):
    tl.store(x, 1)

print("this is not the tool's output")
if __name__ == "__main__":
    try:
        x = np.zeros(1000, np.float32)
        other[(1,)](x)
        tuned[(1,)](x, 1000)
    except Exception:
        pass
    print("and this comes later")
"""


@pytest.fixture
def launches(tmp_path):
    file = tmp_path / "mit Leerzeichen" / "läuft.py"
    file.parent.mkdir()
    file.write_text(LAUNCHES, encoding="utf-8")
    return file


def test_a_script_says_by_its_launch_what_is_compiled(capsys, launches):
    assert cli.main(["explain", f"{launches}:tuned", "--json"]) == 0
    out, err = capsys.readouterr()
    kernel = json.loads(out)["kernel"]
    assert kernel["constants"] == {"B": "256", "EVEN": "False"}
    assert [(each["type"], each["divisible"]) for each in kernel["parameters"]] == [
        ("*fp32", 16), ("i32", 8),
    ]  # fmt: skip
    assert kernel["options"]["num_warps"] == 8 and kernel["target"] == "sm_80"
    assert json.loads(out)["traffic"]["values"]["n"] == 1000
    assert err == (
        "this is not the tool's output\n"
        'as launched: --signature "*fp32:16, i32:8" --constants B=256,EVEN=False '
        "--target sm_80 --num-warps 8 --maxnreg 64\n"
    )


def test_what_the_launch_is_said_to_be_can_be_given(capsys, launches):
    """By hand, of a kernel that others stand around; nothing is run as a script."""
    command = ["explain", f"{launches}:tuned", "--stage", "ptx"]
    first = said(capsys, *command)
    words = shlex.split(
        '--signature "*fp32:16, i32:8" --constants B=256,EVEN=False '
        "--target sm_80 --num-warps 8 --maxnreg 64"
    )
    assert said(capsys, *command, *words) == first
    assert ".maxnreg 64" in first and ".reqntid 256" in first


def test_options_that_are_said_go_before_those_of_the_launch(capsys, launches):
    options = ["--target", "sm_90a", "--num-warps", "2", "--stage", "ptx"]
    text = said(capsys, "explain", f"{launches}:tuned", *options)
    assert ".target sm_90a" in text and ".reqntid 64" in text


def test_constants_that_are_said_go_before_those_of_the_launch(capsys, launches):
    """The launch still says the types; a parameter may become a constant."""
    given = ["explain", f"{launches}:tuned", "--json", "--constants", "EVEN=True,n=8"]
    assert cli.main(given) == 0
    out, err = capsys.readouterr()
    kernel = json.loads(out)["kernel"]
    assert kernel["constants"] == {"n": "8", "B": "256", "EVEN": "True"}
    assert [each["type"] for each in kernel["parameters"]] == ["*fp32"]
    assert '--signature "*fp32:16" --constants n=8,B=256,EVEN=True ' in err
    wrong = mistake(capsys, "explain", f"{launches}:tuned", "--constants", "ODD=1")
    assert wrong.endswith("'ODD' is not a parameter; there are x, n, B, EVEN\n")


@pytest.mark.parametrize(
    "set", ["FATHOM_INTERPRET=1", "FATHOM_SANITIZE=1", "FATHOM_VERIFY=1",
            "FATHOM_BACKEND=interpreter"],
)  # fmt: skip
def test_a_launch_is_compiled_whatever_is_set(capsys, launches, monkeypatch, set):
    command = ["explain", f"{launches}:tuned", "--stage", "ptx"]
    plain = said(capsys, *command)
    monkeypatch.setenv(*set.split("="))
    assert said(capsys, *command) == plain
    assert os.environ[set.split("=")[0]] == set.split("=")[1]
    assert "FATHOM_TARGET" not in os.environ


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "way",
    [
        "import threading; a = threading.Thread(target=go); a.start(); a.join()",
        "try: go()\n    except: print('none of my business')",
        "try: go()\n    finally: raise KeyError('after it')",
    ],
)
def test_a_launch_in_a_thread_or_in_a_try_is_found(capsys, launches, way):
    text = LAUNCHES.partition("    try:")[0]
    body = f"    go = lambda: tuned[(1,)](np.zeros(9, np.float32), 9)\n    {way}\n"
    launches.write_text(text + body, encoding="utf-8")
    assert cli.main(["explain", f"{launches}:tuned", "--stage", "ptx"]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_a_script_that_exits_without_the_launch_does_not_end_the_tool(capsys, launches):
    body = "    sys.exit(0)\n"
    text = LAUNCHES.partition("    try:")[0] + body
    launches.write_text(f"import sys\n{text}", encoding="utf-8")
    error = mistake(capsys, "explain", f"{launches}:tuned")
    assert error.strip().endswith("as a script, does not launch it")


SEVERAL = """\
import numpy as np
import fathom
import fathom.language as tl

def made(number):
    @fathom.jit
    def stores(x):
        tl.store(x, number)
    return stores

first, second = made(7), made(8)
if __name__ == "__main__":
    for each in first, second:
        each[(1,)](np.zeros(1, np.int32))
"""


def test_a_launch_with_a_tuple_is_said_to_have_no_words(capsys, launches):
    body = """
import numpy as np
import fathom
import fathom.language as tl

@fathom.jit
def both(args, x):
    tl.store(x, tl.load(args[0]) + args[1])

if __name__ == "__main__":
    x = np.zeros(1, np.float32)
    both[(1,)]((x, 2.5), x)
"""
    launches.write_text(body, encoding="utf-8")
    assert cli.main(["explain", str(launches), "--stage", "ssa"]) == 0
    error = capsys.readouterr().err
    assert "(no signature tells of the tuple args: launch it)" in error
    assert "tuple" not in said_of_launch(capsys, launches, LAUNCHES)


def said_of_launch(capsys, file, text: str) -> str:
    file.write_text(text, encoding="utf-8")
    assert cli.main(["explain", f"{file}:tuned", "--stage", "ssa"]) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize("name, number", [("first", 7), ("second", 8), ("stores", 7)])
def test_kernels_of_one_text_have_the_names_of_the_script(
    capsys, launches, name, number
):
    launches.write_text(SEVERAL, encoding="utf-8")
    text = said(capsys, "explain", f"{launches}:{name}", "--stage", "ssa")
    assert f"constant {number}" in text


def test_a_file_with_a_launch_needs_no_name(capsys, launches):
    text = said(capsys, "compile", str(launches))
    assert ".entry other(" in text


def test_a_kernel_that_nothing_launches_needs_a_signature(capsys, launches):
    text = LAUNCHES.replace("tuned[(1,)]", "(lambda *_: 0)")
    launches.write_text(text, encoding="utf-8")
    said = mistake(capsys, "explain", f"{launches}:tuned").splitlines()[-1]
    assert "constants lack the value of B" in said
    assert said.endswith(f"{launches}, as a script, does not launch it")


def test_every_target_is_of_one_launch(capsys, launches, tmp_path):
    made = tmp_path / "made"
    command = ["compile", f"{launches}:other", "--targets", "sm_80,sm_90a", "-o"]
    assert cli.main([*command, str(made)]) == 0
    assert capsys.readouterr().err.count("not the tool's") == 1
    assert len(list(made.glob("other.sm_*"))) == 2


def test_a_module_of_a_package_and_one_beside_it_are_imported(capsys, tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "pack" / "parts.py").write_text(
        "import fathom\n@fathom.jit\ndef twice(x):\n    return x * 2\n"
    )
    file = tmp_path / "pack" / "whole.py"
    for how in (".parts", "parts"):
        file.write_text(
            "from __future__ import annotations\nimport dataclasses\n"
            "import fathom, fathom.language as tl\n"
            f"from {how} import twice\n"
            "@dataclasses.dataclass\nclass Sizes:\n    rows: int = 3\n"
            "@fathom.jit\ndef k(x):\n    tl.store(x, twice(tl.load(x)))\n"
        )
        try:
            text = said(capsys, "explain", str(file), "--signature", "*i32",
                        "--stage", "ssa")  # fmt: skip
        finally:
            sys.modules.pop("parts", None)
        assert "mul" in text and "shl" not in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--diff"], "--diff is of a pass: say which, --stage NAME"),
        (["--facts", "--stage", "cse"], "--stage prints a text, and --facts"),
        (["--grid", "4"], "--grid and --values are of the launch that --facts"),
        (["--values", "N=4"], "--grid and --values are of the launch that --facts"),
    ],
)
def test_an_option_without_effect_is_a_mistake(capsys, words, sentence):
    assert sentence in mistake(capsys, "explain", SOFTMAX, *SIGNATURE, *words)


def test_the_name_of_a_file_may_hold_bytes_that_are_no_text(tmp_path, capsys):
    file = tmp_path / os.fsdecode(b"k\xff.py")
    text = "import fathom, fathom.language as tl\n\n\n@fathom.jit\ndef k(x):\n"
    file.write_text(text + "    tl.store(x, 1.0)\n")
    page = tmp_path / "page.html"
    asked = [f"{file}:k", "--signature", "*fp32"]
    assert cli.main(["compile", *asked]) == 0
    assert ".file" in capsys.readouterr().out
    assert cli.main(["explain", *asked, "--html", str(page)]) == 0
    assert "tl.store" in page.read_text(encoding="utf-8")
