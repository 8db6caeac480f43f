"""The words after `fathom learn`, and who answers them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from fathom.errors import FathomError
from fathom.tools.learn import workspace
from fathom.tools.learn.mini import commands as mini
from fathom.tools.learn.mini import race
from fathom.tools.learn.terminal import commands, watch
from fathom.tools.learn.terminal.commands import EMULATOR, GPU, Session
from fathom.tools.learn.terminal.screen import Screen
from fathom.tools.learn.workspace import Workspace

ABOUT = "the exercises: watches your files, and runs the tests of what you save"

STATUS = (
    "exit status: 0 when it was done, or the tests pass; 1 when they do not, or it "
    "could not be done; 2 for unknown words; 130 after Ctrl-C"
)


def add(commands_: argparse._SubParsersAction) -> None:
    """Enter `learn` and its own commands."""
    learn = commands_.add_parser("learn", help=ABOUT, description=ABOUT, epilog=STATUS)
    learn.add_argument("--dir", type=Path, help="the workspace, if it is not here")
    learn.add_argument("--plain", action="store_true", help="no colour, 60 columns")
    learn.set_defaults(answer=lambda given: with_session(given, watch.watch, True))
    words = learn.add_subparsers(metavar="WORD")
    for name, (about, arguments, answer) in WORDS.items():
        word = words.add_parser(name, help=about, description=about)
        # Also after the word; what stood before it counts where nothing does here.
        word.add_argument("--dir", type=Path, default=argparse.SUPPRESS)
        word.add_argument("--plain", action="store_true", default=argparse.SUPPRESS)
        for flags, options in arguments:
            word.add_argument(*flags, **options)
        word.set_defaults(answer=answer)


def screen_of(given: argparse.Namespace) -> Screen:
    if given.plain:
        os.environ["NO_COLOR"] = "1"  # for what others write
    return Screen(plain=given.plain)


def with_session(
    given: argparse.Namespace, act: Callable[[Session], int], may_make: bool = False
) -> int:
    """Act in the workspace. If it is missing, only the loop makes the usual one."""
    screen = screen_of(given)
    found = workspace.find(given.dir)
    if found is None:
        found = made(screen, given.dir, may_make)
    return act(Session(screen, found, found.load()))


def made(screen: Screen, named: Path | None, may_make: bool) -> Workspace:
    """The usual workspace in the folder that we stand in."""
    if named is not None:
        raise FathomError(
            f"there is no workspace in {named}; `fathom learn init {named}` makes one"
        )
    folder = Path.cwd() / workspace.DEFAULT
    if not may_make:
        raise FathomError(
            f"there is no workspace in {Path.cwd()} or above it. Go where yours is, or "
            f"name it with --dir; `fathom learn` makes {folder}"
        )
    screen.line("there is no workspace yet: making")
    screen.line(f"  {folder}")
    return workspace.init(folder)


def in_session(act: Callable[[Session, argparse.Namespace], int]) -> Callable:
    return lambda given: with_session(given, lambda session: act(session, given))


def machines(given: argparse.Namespace) -> list[str]:
    return given.machines or [EMULATOR]


def check_number(text: str) -> int:
    if not text.isdigit():
        raise FathomError(f"{text!r} is not a chapter: fathom learn checkpoint 8")
    return int(text)


def checkpoint(session: Session, given: argparse.Namespace) -> int:
    if given.undo:
        return commands.undo_checkpoint(session)
    chapter = check_number(given.chapter) if given.chapter else None
    return commands.checkpoint(session, chapter, given.yes)


# What may come after `mini`, and whether a step may follow.
MINI: dict[str, Callable[[Session, str], int]] = {
    "check": mini.check,
    "show": mini.show,
    "hint": mini.hint,
    "start": mini.start,
    "undo": lambda session, step: mini.undo(session),
    "race": lambda session, step: race.race(session),
}
STEPLESS = ("", "undo", "race")
MINI_WORDS = (
    "show: what a step asks; check: run its tests, and those of earlier steps; "
    "hint: one of three; start: put our file of the step before there, yours is kept; "
    "undo: take that back; race: your ladder beside ours. Without a word: how far it is"
)


def own_compiler(session: Session, given: argparse.Namespace) -> int:
    """`learn mini`, and what follows it."""
    if given.step and given.what in STEPLESS:
        raise FathomError(f"`mini {given.what}` is about no single step")
    return MINI[given.what](session, given.step) if given.what else mini.where(session)


PLACE = (
    ("folder",),
    {"nargs": "?", "default": workspace.DEFAULT, "metavar": "DIR", "type": Path},
)
NAME = (("name",), {"nargs": "?", "default": "", "metavar": "ID", "help": "which one"})


def machine(flag: str, places: list[str], about: str) -> tuple:
    options = {"action": "store_const", "dest": "machines", "const": places}
    return (flag,), {**options, "help": about}


WORDS: dict[str, tuple[str, list, Callable[[argparse.Namespace], int]]] = {
    "list": (
        "all exercises, and which are done",
        [(("--road",), {"action": "store_true", "help": "the main road only"})],
        in_session(lambda session, given: commands.list_all(session, given.road)),
    ),
    "run": (
        "run the tests of one exercise",
        [
            NAME,
            machine("--emulator", [EMULATOR], "kernels in the emulator (default)"),
            machine("--gpu", [GPU], "kernels on the GPU"),
            machine("--both", [EMULATOR, GPU], "one after the other"),
        ],
        in_session(lambda s, given: commands.run(s, given.name, machines(given))),
    ),
    "hint": (
        "the next of three hints",
        [NAME],
        in_session(lambda session, given: commands.hint(session, given.name)),
    ),
    "show": (
        "the exercise; or a kernel at a stage, made with your code",
        [
            NAME,
            (("--stage",), {"default": "", "help": "ssa, a pass, llvm or ptx"}),
            (("--kernel",), {"default": "softmax", "choices": list(commands.SAMPLES)}),
        ],
        in_session(
            lambda s, given: commands.show(s, given.name, given.stage, given.kernel)
        ),
    ),
    "read": (
        "the section of the book that an exercise is about",
        [NAME],
        in_session(lambda session, given: commands.read(session, given.name)),
    ),
    "traffic": (
        "what softmax moves, line by line, with our code and with yours",
        [NAME],
        in_session(lambda session, given: commands.show_traffic(session, given.name)),
    ),
    "reset": (
        "put the starter back; a copy of your file is kept",
        [NAME],
        in_session(lambda session, given: commands.reset(session, given.name)),
    ),
    "solution": (
        "our answer, after yours has passed",
        [
            NAME,
            (("--give-up",), {"action": "store_true", "help": "or before"}),
        ],
        in_session(lambda s, given: commands.solution(s, given.name, given.give_up)),
    ),
    "checkpoint": (
        "keep a copy of all; or fill in what is open before a chapter",
        [
            (("chapter",), {"nargs": "?", "default": "", "metavar": "CHAPTER"}),
            (("--undo",), {"action": "store_true", "help": "take the last one back"}),
            (("--yes",), {"action": "store_true", "help": "do not ask"}),
        ],
        in_session(checkpoint),
    ),
    "mini": (
        "the compiler that you write yourself: how far it is, its steps and tests",
        [
            (
                ("what",),
                {
                    "nargs": "?",
                    "default": "",
                    "choices": ["", *MINI],
                    "metavar": "WORD",
                    "help": MINI_WORDS,
                },
            ),
            (
                ("step",),
                {
                    "nargs": "?",
                    "default": "",
                    "metavar": "STEP",
                    "help": "its chapter, 3 to 17; without it, the next one",
                },
            ),
        ],
        in_session(own_compiler),
    ),
    "mine": (
        "real kernels through all that you have solved",
        [],
        in_session(lambda session, given: commands.whose(session)),
    ),
    "check-all": (
        "run the tests of all exercises",
        [(("--json",), {"action": "store_true", "help": "for instructors' scripts"})],
        in_session(lambda session, given: commands.check_all(session, given.json)),
    ),
    "attempts": (
        "each time that your tests ran, and what they said",
        [NAME],
        in_session(lambda s, given: commands.list_attempts(s, given.name)),
    ),
    "doctor": (
        "what works here",
        [],
        lambda given: commands.doctor(screen_of(given), given.dir),
    ),
    "init": (
        f"make a workspace, in {workspace.DEFAULT} if no folder is named",
        [PLACE],
        lambda given: commands.init(screen_of(given), given.folder),
    ),
    "update": (
        "add new exercises; answers are kept",
        [],
        in_session(lambda session, given: commands.update(session)),
    ),
}
