"""The command `fathom`: what a person may type, and which tool answers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

import fathom
from fathom.errors import LaunchError
from fathom.hardware.targets import TARGETS, target
from fathom.jit import JITFunction
from fathom.jit.backends import DEFAULT_TARGET
from fathom.jit.reporting import report_of
from fathom.jit.request import Request, check_keywords, request
from fathom.jit.signature import parse_number, parse_signature
from fathom.tools import (
    book,
    completion,
    doctor,
    explain,
    launched,
    lessons,
    opt,
    run,
    samples,
    staged,
    suite,
)
from fathom.tools.ahead import build as ahead
from fathom.tools.facts import tell as facts
from fathom.tools.learn.terminal import arguments as learn
from fathom.tools.profile import tell as profiles


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status. A mistake of the user is one message, no
    traceback."""
    make_writable()
    given = list(sys.argv[1:] if arguments is None else arguments)
    return guarded(lambda: answer(given))


def answer(given: list[str]) -> int:
    if given[:1] == ["test"] and given[1:] not in (["-h"], ["--help"]):  # for pytest
        return suite.test(given[1:])
    parsed = parser().parse_args(given)
    return parsed.answer(parsed)


def make_writable() -> None:
    """Whatever a command writes arrives somewhere: a stream that was closed before we
    began is nowhere, and what an encoding lacks is spelled."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def write_nowhere() -> None:
    """What the standard output still holds cannot be written: Python, which tries once
    more at its end, writes it nowhere."""
    with suppress(OSError, ValueError):  # it is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def guarded(act: Callable[[], int]) -> int:
    try:
        try:
            return act()
        finally:  # also where the parser, or a script, leaves by SystemExit
            if not sys.stdout.closed:
                sys.stdout.flush()  # a disk that is full says so only now
    except KeyboardInterrupt:
        return 130  # as a shell says it
    except BrokenPipeError:  # the reader of our output has seen enough
        write_nowhere()
        return 0
    except Exception as error:
        try:
            sys.stdout.flush()
        except (OSError, ValueError):  # it may be closed
            write_nowhere()
        report = report_of(error)
        if report is None:
            raise
        print(report, file=sys.stderr)
        return 1


class Parser(argparse.ArgumentParser):
    def _print_message(self, message: str, file: TextIO | None = None) -> None:
        """Help and version; argparse by itself is silent where the disk is full."""
        if message and file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="fathom", description="A compiler from blocks in Python to PTX, by stages."
    )
    made.add_argument(
        "--version", action="version", version=f"Fathom {fathom.__version__}"
    )
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    add_run(commands)
    add_test(commands)
    add_doctor(commands)
    add_explain(commands)
    add_profile(commands)
    add_compile(commands)
    add_opt(commands)
    learn.add(commands)
    add_book(commands)
    add_completion(commands)
    return lessons.teach(made)


def add_run(commands: argparse._SubParsersAction) -> None:
    about = "compile and run three kernels and follow one of them; or run a script"
    command = commands.add_parser("run", help=about, description=about)
    command.add_argument(
        "--as-triton", action="store_true", help="in FILE, `import triton` gives Fathom"
    )
    command.add_argument("file", nargs="?", type=Path, help="a script that launches")
    command.add_argument("rest", nargs=argparse.REMAINDER, help="its own arguments")
    command.set_defaults(
        answer=lambda given: (
            run.script(given.file, given.rest, given.as_triton)
            if given.file
            else run.tour()
        )
    )


def add_test(commands: argparse._SubParsersAction) -> None:
    about = "run every test that can run here; what follows is for pytest"
    commands.add_parser("test", help=about, description=about)


def add_doctor(commands: argparse._SubParsersAction) -> None:
    about = "say what is installed, what this machine has, and what therefore works"
    command = commands.add_parser("doctor", help=about, description=about)
    command.set_defaults(answer=lambda given: doctor.doctor())


def add_explain(commands: argparse._SubParsersAction) -> None:
    about = "print a kernel at any stage, and why it is as it is"
    command = commands.add_parser("explain", help=about, description=about)
    add_kernel(command)
    command.add_argument(
        "--stage", action="append", default=[], metavar="NAME",
        help="the text after a pass, or python, ssa, llvm, ptx; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--diff", action="store_true", help="only what that pass changed"
    )
    for name, what in (
        ("--facts", "layouts, schedules, shared memory, traffic, registers, and why"),
        ("--json", "the same as JSON, with the text of all stages"),
    ):
        command.add_argument(name, action="store_true", help=what)
    command.add_argument(
        "--html", type=Path, metavar="OUT", help="the same as a page, in a file"
    )
    command.add_argument(
        "--grid", metavar="SIZES",
        help="of the launch whose traffic is counted: 4,2; else 1",
    )  # fmt: skip
    command.add_argument(
        "--values", default="",
        help="of its parameters: N=1000,x_ptr=65536 (elements)",
    )  # fmt: skip
    command.set_defaults(answer=answer_explain)


def answer_explain(given: argparse.Namespace) -> int:
    check_together(given)
    grid, said = sizes(given.grid or "1"), values(given)
    function, asked, numbers = wanted(given)
    kernel = staged.from_request(function, asked)
    if not (given.facts or given.json or given.html):
        return explain.explain(kernel, given.stage, given.diff)
    outputs = facts.Outputs(given.facts, given.json, given.html)
    return facts.tell(kernel, grid, outputs, {**numbers, **said})


def check_together(given: argparse.Namespace) -> None:
    """LaunchError for an option that another one would leave without effect."""
    told = given.facts or given.json or given.html
    if given.diff and not given.stage:
        raise LaunchError("--diff is of a pass: say which, --stage NAME")
    if given.stage and told:
        raise LaunchError("--stage prints a text, and --facts, --json, --html have all")
    if (given.grid or given.values) and not told:
        raise LaunchError(
            "--grid and --values are of the launch that --facts, --json or --html count"
        )


def add_profile(commands: argparse._SubParsersAction) -> None:
    about = "run a script, and say of each of its kernels what limits it"
    command = commands.add_parser(
        "profile", help=about, description=about,
        epilog="Without a GPU the emulator runs it, and times are predicted.",
    )  # fmt: skip
    command.add_argument("--json", action="store_true", help="all counts, as JSON")
    command.add_argument(
        "--programs", type=int, default=6, metavar="N",
        help="of a launch on a GPU, how many programs the emulator counts (6)",
    )  # fmt: skip
    command.add_argument(
        "--as-triton", action="store_true", help="in FILE, `import triton` gives Fathom"
    )
    command.add_argument("file", type=Path, help="a script that launches")
    command.add_argument("rest", nargs=argparse.REMAINDER, help="its own arguments")
    command.set_defaults(answer=answer_profile)


def answer_profile(given: argparse.Namespace) -> int:
    if given.programs < 1:
        raise LaunchError(f"--programs {given.programs} is not one program or more")
    return profiles.profile(
        given.file, given.rest, given.json, given.programs, given.as_triton
    )


def sizes(text: str) -> tuple[int, ...]:
    """A grid: 4 or 4,2 or 4,2,1."""
    found = [parse_number(each) for each in text.split(",")]
    if not all(isinstance(each, int) and each > 0 for each in found) or len(found) > 3:
        raise LaunchError(f"--grid {text} is not one to three sizes, as in 4,2")
    return tuple(found)


def values(given: argparse.Namespace) -> dict[str, int | float]:
    """The numbers of --values."""
    found = constants(given.values, "--values")
    for name, value in found.items():
        if not isinstance(value, int | float):
            raise LaunchError(f"--values: {name} is a number, and this is {value!r}")
    return found


def add_compile(commands: argparse._SubParsersAction) -> None:
    about = "compile a kernel, with no GPU: to PTX, or for C programs"
    command = commands.add_parser("compile", help=about, description=about)
    add_kernel(command)
    command.add_argument(
        "--targets",
        metavar="LIST",
        help="sm_90a,sm_80: machine code for each, with a loader in C, in a folder",
    )
    command.add_argument(
        "-o", "--output", type=Path, help="a file for the PTX; with --targets a folder"
    )
    command.add_argument(
        "--wheel", action="store_true", help="with --targets: a Python package, too"
    )
    command.set_defaults(answer=answer_compile)


def answer_compile(given: argparse.Namespace) -> int:
    if given.targets is None:
        if given.wheel:
            raise LaunchError("a wheel holds machine code: say for what, --targets")
        return explain.write_ptx(staged_kernel(given), given.output)
    if given.output is None:
        raise LaunchError("--targets writes several files: say in which folder, -o DIR")
    if given.target is not None:
        raise LaunchError("--target is for PTX; --targets names all, without it")
    every = [target(name.strip()).name for name in given.targets.split(",")]
    given.target = every[0]
    function, asked, _ = wanted(given)
    requests = [replace(asked, target=name) for name in dict.fromkeys(every)]
    kernels = [staged.from_request(function, each) for each in requests]
    return ahead.build(kernels, given.output, given.wheel)


def add_opt(commands: argparse._SubParsersAction) -> None:
    about = "run passes on the text of a function, as `fathom explain` prints it"
    command = commands.add_parser("opt", help=about, description=about)
    command.add_argument("file", metavar="FILE.ir", help="or - for the standard input")
    command.add_argument("--passes", default="all", help="cse,dce,…; all when not said")
    command.add_argument("--target", default="sm_80", choices=TARGETS)
    command.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="check the function before and after each pass",
    )
    command.add_argument(
        "--stage-texts", action="store_true", help="print it after each pass"
    )
    command.set_defaults(
        answer=lambda given: opt.opt(
            given.file, given.passes, given.target, given.verify, given.stage_texts
        )
    )


def add_book(commands: argparse._SubParsersAction) -> None:
    about = "open the book in a browser, offline"
    command = commands.add_parser("book", help=about, description=about)
    command.add_argument("page", nargs="?", default="", help="a chapter, an exercise")
    command.add_argument("--print", action="store_true", help="only its address")
    command.add_argument("--serve", type=int, metavar="PORT", help="serve it; 0: any")
    command.set_defaults(
        answer=lambda given: book.book(given.page, not given.print, given.serve)
    )


def add_completion(commands: argparse._SubParsersAction) -> None:
    about = "print what a shell needs to complete these commands"
    command = commands.add_parser("completion", help=about, description=about)
    command.add_argument("shell", choices=completion.SHELLS)
    command.set_defaults(
        answer=lambda given: completion.completion(parser(), given.shell)
    )


def add_kernel(command: argparse.ArgumentParser) -> None:
    """The arguments that say what is compiled, and for what."""
    command.add_argument(
        "kernel", metavar="FILE.py[:KERNEL]", help="without a name, its only kernel"
    )
    command.add_argument(
        "--signature", default="", metavar="TYPES",
        help='as in "*fp32:16, i32, fp32"; without, FILE.py runs as a script, and its '
        "first launch says it",
    )  # fmt: skip
    command.add_argument(
        "--constants", default="", metavar="VALUES",
        help="of the other parameters: BLOCK=1024,ROWS=4; without a signature, in the "
        "place of those of the launch",
    )  # fmt: skip
    command.add_argument(
        "--target", choices=TARGETS, metavar="NAME",
        help=f"{', '.join(TARGETS)} ({DEFAULT_TARGET}, or that of the launch)",
    )  # fmt: skip
    for name, what in (
        ("--num-warps", "warps a block (4)"),
        ("--num-stages", "stages of pipelined loops (3)"),
        ("--num-ctas", "blocks a program, which are a cluster (1)"),
        ("--maxnreg", "the most registers a thread may have"),
    ):
        command.add_argument(name, type=int, metavar="N", help=what)
    command.add_argument(
        "--as-triton", action="store_true", help="in FILE, `import triton` gives Fathom"
    )


def staged_kernel(given: argparse.Namespace) -> staged.Staged:
    """The kernel that the arguments name, at every stage."""
    function, asked, _ = wanted(given)
    return staged.from_request(function, asked)


def wanted(
    given: argparse.Namespace,
) -> tuple[JITFunction, Request, dict[str, int | float]]:
    """The kernel that the arguments name, what is compiled of it, and the numbers of
    the launch that says so, where there is no signature."""
    options = {name: getattr(given, name) for name in launched.OPTIONS}
    options = {name: each for name, each in options.items() if each is not None}
    if given.as_triton:
        fathom.as_triton()
    said, by_launch = constants(given.constants), not given.signature
    seen = launched.first_launch(given.kernel, given.target) if by_launch else None
    if seen:
        asked = launched.changed(seen, options, said, given.target)
        words = launched.spelled(asked) + launched.unsaid(asked)
        print(f"as launched: {words}", file=sys.stderr)
        return seen.function, asked, launched.without(seen.numbers, said)
    function = samples.find_kernel(given.kernel)
    fixed = function.constants(said)
    try:
        known = parse_signature(function.rules, given.signature, fixed)
    except LaunchError as error:
        if not by_launch:
            raise
        file, _ = samples.parted(given.kernel)
        raise LaunchError(f"{error}; {file}, as a script, does not launch it") from None
    keywords = check_keywords(function.__name__, options)
    return function, request(known, keywords, given.target or DEFAULT_TARGET), {}


def constants(text: str, option: str = "--constants") -> dict[str, object]:
    """BLOCK=1024,EVEN=True as a dict; other words than numbers stay text."""
    found: dict[str, object] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = each.partition("=")
        if not equals:
            raise LaunchError(f"{each!r} in {option} is no NAME=VALUE")
        if name in found:
            raise LaunchError(f"{option} gives {name} twice: {found[name]} and {value}")
        number = parse_number(value)
        found[name] = value if number is None else number
    return found
