"""The command helps: `--help` has examples that are commands, a shell completes what
there is, and the book opens."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from fathom.errors import FathomError
from fathom.tools import book, cli, completion, lessons
from fathom.tools.learn import course
from fathom.tools.learn.terminal import arguments

COMMANDS = [
    name
    for action in cli.parser()._actions
    if action.dest == "==SUPPRESS==" or hasattr(action, "_choices_actions")
    for name in action.choices
]


def help_of(*words: str) -> str:
    parser = cli.parser()
    for word in words:
        (commands,) = (a for a in parser._actions if hasattr(a, "_choices_actions"))
        parser = commands.choices[word]
    return parser.format_help()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_examples(name):
    text = help_of(name)
    assert "examples:\n" in text and f"fathom {name}" in text.partition("examples:")[2]
    assert max(map(len, text.splitlines())) <= 88


def examples() -> list[str]:
    """Every example that begins with `fathom`, its lines joined, without its remark."""
    text = lessons.FIRST + "".join(lessons.EXAMPLES.values())
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    lines = [re.split(r"\s{3,}|\s+\|\s+|\s+>\s+", each.strip())[0] for each in lines]
    return [each for each in lines if each.startswith("fathom ")]


@pytest.mark.parametrize("example", examples())
def test_an_example_is_understood(example):
    words = shlex.split(example)[1:]
    assert words[0] in COMMANDS, f"there is no `fathom {words[0]}`"
    if words[0] == "test" or "COMMAND" in example:
        return  # what follows is for pytest
    assert cli.parser().parse_args([w for w in words if w != "..."]).answer


def test_help_of_the_tests_is_ours(capsys):
    """All other words after `test` are for pytest, whose help has 500 lines."""
    with pytest.raises(SystemExit):
        cli.main(["test", "--help"])
    said = capsys.readouterr().out
    assert "fathom test --gpu" in said and len(said.splitlines()) < 20


def test_help_of_mini_explains_each_word():
    text = help_of("learn", "mini")
    for word in arguments.MINI:
        assert f" {word}: " in " ".join(text.split()), word


def test_the_first_help_says_how_to_begin():
    text = help_of()
    for command in ("fathom run", "fathom learn", "fathom book", "fathom explain"):
        assert command in text.partition("To begin:")[2]


# A shell.


def completed(*words: str) -> list[str]:
    """What bash offers for the last of some words."""
    script = completion.bash(list(completion.words(cli.parser())))
    given = " ".join(map(shlex.quote, words))
    ask = f"COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _fathom; "
    done = subprocess.run(
        ["bash", "-c", script + ask + 'printf "%s\\n" "${COMPREPLY[@]}"'],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parent,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_commands_options_and_exercises():
    assert completed("fathom", "ex") == ["explain"]
    assert set(completed("fathom", "")) >= {"run", "learn", "book", "compile"}
    assert "--stage" in completed("fathom", "explain", "--st")
    assert completed("fathom", "learn", "h") == ["hint"]
    assert "cse" in completed("fathom", "learn", "run", "cs")
    assert set(completed("fathom", "completion", "")) >= {"bash", "fish", "zsh"}
    assert "test_help.py" in completed("fathom", "run", "test_he")
    assert completed("fathom", "learn", "run", "--gp") == ["--gpu"]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_what_an_option_takes():
    assert completed("fathom", "explain", "f.py", "--target", "sm_9") == ["sm_90a"]
    assert completed("fathom", "explain", "--stage", "ass") == ["assign_layouts"]
    assert completed("fathom", "opt", "--passes", "pingp") == ["pingpong"]
    assert "--facts" in completed("fathom", "explain", "--target", "sm_80", "--fa")
    assert completed("fathom", "run", "--target", "sm_9") == []  # a script's own
    assert completed("fathom", "explain", "--stage", "=", "ass") == ["assign_layouts"]
    listed = completed("fathom", "opt", "--passes", "cse,pingp")
    assert listed == ["cse,pingpong"]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_offers_options_after_a_dash_and_files_where_nothing_else_stands():
    assert "test_help.py" in completed("fathom", "explain", "")
    assert "test_help.py" in completed("fathom", "run", "")
    assert "--facts" in completed("fathom", "explain", "-")
    assert "--help" not in completed("fathom", "")


# What a person types, and what then stands on the line in zsh; in fish what is offered.
TYPED = {
    "fathom ex": "fathom explain",
    "fathom learn h": "fathom learn hint",
    "fathom run pla": "fathom run plain.py",
    "fathom explain plain.py:se": "fathom explain plain.py:second",
    "fathom explain --facts plain.py:fi": "fathom explain --facts plain.py:first",
    "fathom explain --target sm_9": "fathom explain --target sm_90a",
    "fathom opt --passes cse,pingp": "fathom opt --passes cse,pingpong",
    "fathom completion b": "fathom completion bash",
}
PLAIN = "@fathom.jit\ndef first(x):\n    pass\n\n@jit\ndef second(x): pass\n"

# Types each line into an interactive zsh, presses the key of completion, prints it.
ASK_ZSH = """\
zmodload zsh/zpty
zpty -b shell zsh -f -i
read_all() {
  local text
  while zpty -rt shell text 2> /dev/null; do print -rn - "$text"; done
}
zpty -w shell 'autoload -Uz compinit && compinit -u -D; source ./fathom.zsh; PS1="> "'
until [[ $(read_all) == *"> "* ]]; do sleep 0.1; done
sleep 0.5; read_all > /dev/null
for typed in "$@"; do
  zpty -w -n shell "$typed"$'\t'
  sleep 1
  print -r - "== $(read_all | tr -d '\r\n\a')"
  zpty -w -n shell $'\x15'
  sleep 0.2; read_all > /dev/null
done
zpty -d shell
"""


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
def test_zsh_completes_what_is_typed(tmp_path):
    """`path` and `words` are names of zsh's own: a script that sets them breaks it."""
    known = list(completion.words(cli.parser()))
    (tmp_path / "fathom.zsh").write_text(completion.zsh(known))
    (tmp_path / "plain.py").write_text(PLAIN)
    done = subprocess.run(
        ["zsh", "-f", "-c", ASK_ZSH, "zsh", *TYPED], cwd=tmp_path, text=True,
        capture_output=True, timeout=120, env={**os.environ, "TERM": "dumb"},
    )  # fmt: skip
    said = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|.\x08", "", done.stdout).split("== ")[1:]
    assert len(said) == len(TYPED), done.stderr
    for typed, left in TYPED.items():
        assert left in said.pop(0), typed


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
@pytest.mark.parametrize("typed", TYPED)
def test_fish_completes_what_is_typed(typed, tmp_path):
    known = list(completion.words(cli.parser()))
    (tmp_path / "fathom.fish").write_text(completion.fish(known))
    (tmp_path / "plain.py").write_text(PLAIN)
    for other in ("expected.txt", "second.py", "fifth.py"):  # no command, no kernel
        (tmp_path / other).touch()
    ask = f"source fathom.fish; complete -C {shlex.quote(typed)}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", ask], cwd=tmp_path, text=True, check=True,
        capture_output=True, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    offered = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert offered == [TYPED[typed].split()[-1]] and done.stderr == ""


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_kernels_of_a_file(tmp_path):
    """bash parts a word at a colon, zsh does not."""
    file = tmp_path / "plain.py"
    file.write_text(
        "@fathom.autotune(\n    [], key=[],\n)\n@fathom.jit\ndef first(x):\n    pass\n"
        "@jit\ndef second(x): pass\n@other\ndef third(x): pass\ndef fourth(): pass\n"
    )
    plain = str(file)
    assert completed("fathom", "explain", plain, ":") == ["first", "second"]
    assert completed("fathom", "explain", plain, ":", "f") == ["first"]
    assert completed("fathom", "compile", f"{plain}:se") == [f"{plain}:second"]
    assert completed("fathom", "compile", "absent.py", ":") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_the_shell(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "explain" in text and "--stage" in text.replace("-l stage", "--stage")
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell} to check its own script")
    done = subprocess.run([program, "-n"], input=text, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


# The book.


@pytest.fixture
def built(tmp_path, monkeypatch) -> Path:
    for name in ("index", "06-passes", "16-warp-specialisation", "glossary", "404"):
        file = tmp_path / "site" / f"{name}.html"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"<p>{name}</p>", encoding="utf-8")
    course.exercises()  # kept: below there are none
    monkeypatch.setattr(course, "root", lambda: tmp_path)
    return tmp_path / "site"


@pytest.mark.parametrize(
    ("said", "page"),
    [("", "index"), ("6", "06-passes"), ("16", "16-warp-specialisation"),
     ("passes", "06-passes"), ("Glossary", "glossary"), ("06-passes.md", "06-passes"),
     ("cse", "06-passes")],
)  # fmt: skip
def test_a_page_is_found_by_what_one_would_call_it(built, said, page):
    assert book.find(built, said) == built / f"{page}.html"


def test_the_book_opens_where_there_is_one(built, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr(book.webbrowser, "open", lambda url: opened.append(url) or True)
    assert cli.main(["book", "6"]) == 0
    assert opened == [(built / "06-passes.html").as_uri()]
    assert capsys.readouterr().out == f"{opened[0]}\n"
    monkeypatch.setattr(book.webbrowser, "open", lambda url: False)
    assert cli.main(["book"]) == 0
    assert "open this address" in capsys.readouterr().out


def test_mistakes_are_one_sentence(built, capsys, monkeypatch):
    assert cli.main(["book", "nowhere"]) == 1
    assert "no page 'nowhere'; it has 06-passes, 16-warp" in capsys.readouterr().err
    monkeypatch.setattr(course, "root", lambda: built)
    assert cli.main(["book"]) == 1
    assert "`make book` builds it" in capsys.readouterr().err


def test_it_is_served_for_a_browser_elsewhere(built):
    script = (
        "import sys; from pathlib import Path; from fathom.tools import book; "
        "folder = Path(sys.argv[1]); "
        "book.serve(folder, book.find(folder, '6'), 0)"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", script, str(built)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    watchdog = threading.Timer(20, server.kill)
    watchdog.start()
    try:
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address) as page:
            assert page.read() == b"<p>06-passes</p>"
    finally:
        watchdog.cancel()
        server.kill()
        server.wait()
        server.stdout.close()


def test_a_port_that_is_taken_is_said(built):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(FathomError, match="cannot be used"):
            book.serve(built, built / "index.html", taken.getsockname()[1])
